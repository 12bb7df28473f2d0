"""A chat and embedding endpoint on the loopback interface, for programs that run in this process.

Example::

    with serving(lambda body: completion("Paris")) as stub:
        stub.url, stub.asked
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = Mapping[str, Any] | tuple[int, Mapping[str, Any]] | bytes
"""a body (200), a status and a body, or the bytes of an event stream"""

USAGE = {"prompt_tokens": 200, "completion_tokens": 9, "total_tokens": 209}


@dataclass
class Stub:
    """The requests that the server got, and their paths."""

    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


def completion(
    content: object, finish: str | None = "stop", *, usage: object = USAGE, **message: object
) -> dict[str, Any]:
    """A reply of ``/chat/completions``."""
    return {
        "model": "stub",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
        ],
        "usage": usage,
    }


@contextmanager
def serving(reply: Callable[[dict[str, Any]], Reply]) -> Iterator[Stub]:
    """Answer every POST with the result of ``reply`` for its body."""
    stub = Stub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "{}")
            stub.asked.append(body)
            stub.paths.append(self.path)
            found = reply(body)
            status, tree = found if isinstance(found, tuple) else (200, found)
            data = tree if isinstance(tree, bytes) else json.dumps(tree).encode()
            kind = "text/event-stream" if isinstance(tree, bytes) else "application/json"
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *about: Any) -> None:
            if not isinstance(sys.exception(), ConnectionError):  # a client may close its connection
                super().handle_error(*about)

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    stub.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield stub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def events(*trees: object, done: bool = True) -> bytes:
    """An event stream of chat chunks."""
    text = "".join(f"data: {tree if isinstance(tree, str) else json.dumps(tree)}\n\n" for tree in trees)
    return (text + ("data: [DONE]\n\n" if done else "")).encode()


def delta(content: str, finish: str | None = None) -> dict[str, Any]:
    """One chunk of a streamed reply."""
    return {"model": "stub", "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": finish}]}
