"""The dialect of OpenAI and of everything that speaks like it; Azure is the same under other URLs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from bench.errors import MappingError
from bench.model import Prompt
from bench.models.dialect import (
    SCHEMA_NAME,
    Reply,
    Wish,
    as_list,
    as_map,
    error_inside,
    shown,
    text_of,
    text_or_none,
    vector,
)

FINISH: Mapping[object, Literal["stop", "length", "refusal"]] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "refusal",
}


class OpenAI:
    """``/chat/completions`` and ``/embeddings``."""

    def chat_url(self, base_url: str, model: str) -> str:
        return f"{base_url}/chat/completions"

    def embed_url(self, base_url: str, model: str) -> str:
        return f"{base_url}/embeddings"

    def chat_body(self, model: str, prompt: Prompt, wish: Wish) -> dict[str, object]:
        body: dict[str, object] = {
            "model": model,
            "messages": [{"role": message.role, "content": message.content} for message in prompt.messages],
            wish.tokens_name: prompt.max_tokens,
        }
        if wish.temperature:
            body["temperature"] = prompt.temperature
        if wish.seed and prompt.seed is not None:
            body["seed"] = prompt.seed
        if wish.schema and prompt.json_schema is not None:
            schema = {"name": SCHEMA_NAME, "strict": True, "schema": prompt.json_schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body

    def read_chat(self, body: object) -> Reply:
        tree = as_map(body, "chat answer")
        if tree.get("error") and not tree.get("choices"):
            raise error_inside(tree["error"])
        choices = as_list(tree.get("choices"), "chat answer, choices")
        if not choices:
            raise MappingError(f"chat answer: no choice; body: {shown(body)}")
        choice = as_map(choices[0], "chat answer, choices[0]")
        message = as_map(choice.get("message"), "chat answer, choices[0].message")
        refusal = text_or_none(message.get("refusal"))
        return Reply(
            text=text_of(message.get("content")) or refusal or "",
            model=text_or_none(tree.get("model")),
            finish="refusal" if refusal else FINISH.get(choice.get("finish_reason"), "other"),
            fingerprint=text_or_none(tree.get("system_fingerprint")),
        )

    def embed_body(self, model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, object]:
        body: dict[str, object] = {"model": model, "input": list(texts), "encoding_format": "float"}
        if dimensions is not None:
            body["dimensions"] = dimensions
        return body

    def read_vectors(self, body: object) -> list[tuple[float, ...]]:
        tree = as_map(body, "embeddings")
        if tree.get("error") and not tree.get("data"):
            raise error_inside(tree["error"])
        rows = [
            as_map(row, f"embeddings, data[{at}]")
            for at, row in enumerate(as_list(tree.get("data"), "embeddings, data"))
        ]
        by_index = {_index(row, at): row for at, row in enumerate(rows)}
        if sorted(by_index) != list(range(len(rows))):
            raise MappingError(f"embeddings: the indexes are not 0 to {len(rows) - 1}: {shown(sorted(by_index))}")
        return [vector(by_index[at].get("embedding"), f"embeddings, index {at}") for at in range(len(rows))]


@dataclass(frozen=True, slots=True)
class Azure(OpenAI):
    """The model is a deployment, the version of the API a parameter."""

    api_version: str

    def chat_url(self, base_url: str, model: str) -> str:
        return self._url(base_url, model, "chat/completions")

    def embed_url(self, base_url: str, model: str) -> str:
        return self._url(base_url, model, "embeddings")

    def _url(self, base_url: str, model: str, call: str) -> str:
        deployment, version = quote(model, safe=""), quote(self.api_version, safe="")
        return f"{base_url}/openai/deployments/{deployment}/{call}?api-version={version}"


def _index(row: Mapping[str, object], position: int) -> int:
    index = row.get("index", position)
    if isinstance(index, bool) or not isinstance(index, int):
        raise MappingError(f"embeddings: index is no whole number: {shown(index)}")
    return index
