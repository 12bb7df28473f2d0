"""A small HTTP server in its own process that counts calls, requests in flight and its own CPU.

It answers every POST with the same small JSON after ``--latency`` milliseconds. First line on stdout: ``{"url": ...,
"pid": ...}``. ``GET /stats`` returns the counters, among them ``starts``: the times of all calls in seconds of the
monotonic clock. ``DELETE /stats`` resets them. ``--faults 0.05`` answers that share of calls (seeded) with 429 and
``Retry-After: 1``, with 503, or by closing the connection; it counts these in ``faults``, each 429 also in ``refused``,
and in ``early`` the calls that were repeated before ``Retry-After`` had passed. ``--chat TEXT`` answers with a whole
chat completion of that text instead. The server is as small as possible, so that a ratio measures the client::

    with stub(latency_ms=50) as url:
        ...
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

ANSWER = json.dumps(
    {
        "results": [{"id": f"m{at}", "memory": "a short fact", "score": 0.5} for at in range(10)],
        "choices": [
            {
                "index": 0,
                "message": {"content": '{"correctness": 1, "faithfulness": 1, "reasoning": "so"}'},
                "finish_reason": "stop",
            }
        ],
        "model": "stub",
        "usage": {"prompt_tokens": 200, "completion_tokens": 10, "total_tokens": 210},
    }
).encode()
"""the same for every call: one body is both a reply of a memory API and of an OpenAI-compatible API"""
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def completion(text: str) -> bytes:
    """Return a chat completion with all fields that strict clients read."""
    message = {"role": "assistant", "content": text}
    tree = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "stub",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 200, "completion_tokens": 10, "total_tokens": 210},
    }
    return json.dumps(tree).encode()


class Counts:
    """The counters of the server."""

    def __init__(self) -> None:
        self.starts: list[float] = []
        self.answered = 0
        self.in_flight = 0
        self.max_in_flight = 0
        self.faults = 0
        self.refused = 0
        self.early = 0
        self.not_before: dict[bytes, float] = {}

    def as_json(self) -> bytes:
        tree = {
            "calls": len(self.starts),
            "answered": self.answered,
            "max_in_flight": self.max_in_flight,
            "cpu_s": time.process_time(),
            "starts": self.starts,
            "faults": self.faults,
            "refused": self.refused,
            "early": self.early,
        }
        return json.dumps(tree).encode()


class Connection(asyncio.Protocol):
    """One keep-alive connection without pipelining."""

    def __init__(self, counts: Counts, latency_s: float, share: float, chance: random.Random, answer: bytes) -> None:
        self.counts, self.latency_s, self.buffer, self.answer = counts, latency_s, b"", answer
        self.share, self.chance = share, chance

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        found = LENGTH.search(self.buffer[:end])
        if len(self.buffer) < end + 4 + (int(found.group(1)) if found else 0):
            return
        head, body, self.buffer = self.buffer[:end], self.buffer[end:], b""
        if head.startswith(b"GET"):
            self.reply(self.counts.as_json())
        elif head.startswith(b"DELETE"):
            self.counts.__init__()  # type: ignore[misc]
            self.reply(b"{}")
        else:
            self.work(body)

    def work(self, body: bytes) -> None:
        counts = self.counts
        counts.starts.append(time.monotonic())
        if self.share and self.fails(body):
            return
        counts.in_flight += 1
        counts.max_in_flight = max(counts.max_in_flight, counts.in_flight)
        if self.latency_s:
            asyncio.get_running_loop().call_later(self.latency_s, self.finish)
        else:
            self.finish()

    def fails(self, body: bytes) -> bool:
        """Answer with a fault if one is due; return True if it was."""
        counts, now = self.counts, time.monotonic()
        counts.early += now < counts.not_before.pop(body, 0.0)
        if self.chance.random() >= self.share:
            return False
        counts.faults += 1
        kind = self.chance.choice(["429", "503", "close"])
        if kind == "429":
            counts.refused += 1
            counts.not_before[body] = now + 1
            self.transport.write(b"HTTP/1.1 429 Slow down\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n")
        elif kind == "503":
            self.transport.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
        else:
            self.transport.close()
        return True

    def finish(self) -> None:
        self.counts.in_flight -= 1
        self.counts.answered += not self.transport.is_closing()
        self.reply(self.answer)

    def reply(self, body: bytes) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.transport.write(head.encode() + body)


async def serve(latency_s: float, share: float, answer: bytes) -> None:
    """Serve until the parent process ends."""
    counts, chance = Counts(), random.Random(20)
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(counts, latency_s, share, chance, answer), "127.0.0.1", 0
    )
    port = server.sockets[0].getsockname()[1]
    print(json.dumps({"url": f"http://127.0.0.1:{port}", "pid": os.getpid()}), flush=True)
    parent = os.getppid()
    while os.getppid() == parent:
        await asyncio.sleep(0.5)


@contextmanager
def stub(*, latency_ms: float = 0.0, faults: float = 0.0, chat: str | None = None) -> Iterator[str]:
    """Run the server as a child process; yield its URL."""
    command = [sys.executable, __file__, "--latency", str(latency_ms), "--faults", str(faults)]
    command += [] if chat is None else ["--chat", chat]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()


def stats(url: str, *, forget: bool = False) -> dict[str, object]:
    """Return the counters of the server; ``forget`` resets them afterwards."""
    with urllib.request.urlopen(f"{url}/stats") as answer:
        seen: dict[str, object] = json.load(answer)
    if forget:
        urllib.request.urlopen(urllib.request.Request(f"{url}/stats", method="DELETE")).close()
    return seen


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.0, metavar="MS")
    parser.add_argument("--faults", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--chat", metavar="TEXT")
    given = parser.parse_args()
    body = ANSWER if given.chat is None else completion(given.chat)
    asyncio.run(serve(given.latency / 1000, given.faults, body))
