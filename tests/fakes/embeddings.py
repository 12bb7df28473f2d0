"""An OpenAI-compatible endpoint: embeddings that are hashed bags of words, and a chat model with given replies."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

from tests.fakes.fields import Fault, Place, many, optional, table, text, whole
from tests.fakes.frame import Called, Fake, Key, Reply, Route, words

SIZE = 64


class Embeddings(Fake):
    """Unit vectors of 64 numbers, or of the requested number."""

    auth = Key("Authorization", "Bearer ")
    variables: ClassVar[Mapping[str, str]] = {"OPENAI_BASE_URL": "URL", "OPENAI_API_KEY": "KEY"}

    def __init__(self, reply: Callable[[str], str] | None = None) -> None:
        super().__init__()
        self.reply = reply or (lambda asked: "no words")

    def routes(self) -> Mapping[str, Route]:
        return {"POST /embeddings": self.embed, "POST /chat/completions": self.chat}

    async def chat(self, call: Called) -> Reply:
        """The reply to the last message; the fields are checked by the tests of models."""
        body = call.json
        assert isinstance(body, dict)
        text = self.reply(body["messages"][-1]["content"])
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        head = {"id": "c1", "object": "chat.completion", "model": body["model"]}
        return 200, {**head, "choices": [choice], "usage": usage}

    async def embed(self, call: Called) -> Reply:
        body = call.body(
            table(
                model=text(),
                input=one_or_many,
                encoding_format=optional(text("float", "base64")),
                dimensions=optional(whole(most=4096)),
            )
        )
        given, size = body["input"], int(str(body.get("dimensions", SIZE)))
        texts = given if isinstance(given, list) else [str(given)]
        form = packed if body.get("encoding_format") == "base64" else list
        data = [
            {"object": "embedding", "index": index, "embedding": form(embedding(one, size))}
            for index, one in enumerate(texts)
        ]
        usage = {"prompt_tokens": sum(len(one.split()) for one in texts), "total_tokens": 0}
        usage["total_tokens"] = usage["prompt_tokens"]
        return 200, {"object": "list", "model": body["model"], "data": data, "usage": usage}


def one_or_many(value: object, place: Place) -> Iterator[Fault]:
    """A text, or a list of them."""
    check = text(empty=False) if isinstance(value, str) else many(text(empty=False), least=1)
    return check(value, place)


def packed(vector: list[float]) -> str:
    """Return little-endian 32-bit floats, as the official clients request them."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def embedding(content: str, size: int = SIZE) -> list[float]:
    """The vector of a text."""
    found = [0.0] * size
    for word, count in words(content).items():
        found[zlib.crc32(word.encode()) % size] += count
    length = math.sqrt(sum(part * part for part in found)) or 1.0
    return [part / length for part in found]
