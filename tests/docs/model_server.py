"""A small server with the APIs of OpenAI and Anthropic, for pages that name a model.

It answers with the sentence of the prompt that shares most words with its last line, and judges by containment::

    with model_server() as url: ...      # OPENAI_BASE_URL = url + "/v1", ANTHROPIC_BASE_URL = url
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DIMENSIONS = 64


class ModelRequests(BaseHTTPRequestHandler):
    """One POST, one reply."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(self._reply(asked)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _reply(self, asked: dict[str, Any]) -> dict[str, Any]:
        if self.path.endswith("/embeddings"):
            rows = [{"index": i, "embedding": vector(text)} for i, text in enumerate(asked["input"])]
            return {"data": rows, "model": asked["model"], "usage": {"prompt_tokens": 1, "total_tokens": 1}}
        text = reply_to(asked["messages"][-1]["content"])
        if self.path.endswith("/messages"):
            used = {"input_tokens": 20, "output_tokens": 5}
            content = [{"type": "text", "text": text}]
            return {
                "type": "message",
                "model": asked["model"],
                "content": content,
                "stop_reason": "end_turn",
                "usage": used,
            }
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        used = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
        return {"object": "chat.completion", "model": asked["model"], "choices": [choice], "usage": used}

    def log_message(self, *arguments: object) -> None:
        """Silent: the tests read what bench prints."""


def reply_to(prompt: str) -> str:
    """Return a verdict for the prompt of a judge, else a sentence of the prompt."""
    if "<response>" in prompt:
        expected = _between(prompt, "expected_answer").lower()
        response = _between(prompt, "response").lower()
        right = expected in response if expected else False
        if "generous" in prompt:
            right = right or any(word in response for word in expected.split() if len(word) > 3)
        return json.dumps({"correctness": float(right), "faithfulness": 1.0, "reasoning": "compared as text"})
    *context, question = [line for line in re.split(r"[\n.]+", prompt) if line.strip()] or [""]
    words = set(question.lower().split())
    return max(context or [question], key=lambda line: len(words & set(line.lower().split()))).strip()


def vector(text: str) -> list[float]:
    """Return a vector of hashed words."""
    found = [0.0] * DIMENSIONS
    for word in text.lower().split():
        found[hashlib.sha256(word.encode()).digest()[0] % DIMENSIONS] += 1
    return found


def _between(text: str, tag: str) -> str:
    found = re.search(rf"<{tag}>\n?(.*?)\n?</{tag}>", text, re.S)
    return found[1] if found else ""


@contextmanager
def model_server() -> Iterator[str]:
    """Serve on a free port of the loopback interface; yield the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), ModelRequests)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
