"""A memory service in its own process that can stop during a request and still has what it stored.

Example::

    with Mortal.born(tmp_path, dies_at=7) as service:     # the process ends at the seventh add
        ...                                               # service.url
        service.wait_dead()
        service.reborn()                                  # the same address, the same memories
        service.requests("add")                           # [{"op": "add", "id": "m1", "job": "j1", ...}, ...]

It supports the part of the API of the fault server that ``tests.small_world.PROVIDER`` uses. Every request is a line
of one file, written before the response; these lines are its store.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

from tests import forked


@dataclass
class Mortal:
    """The process and its file."""

    file: Path
    process: subprocess.Popen[str]
    url: str

    @classmethod
    @contextmanager
    def born(cls, folder: Path, *, dies_at: int, stored: bool = False) -> Iterator[Self]:
        """Start a service that stops at its Nth add; ``stored``: after it stored the memory, before it responds."""
        file = folder / "mortal.jsonl"
        file.touch()
        process, url = start(file, 0, dies_at, stored)
        service = cls(file, process, url)
        try:
            yield service
        finally:
            service.process.kill()
            service.process.communicate()

    def wait_dead(self) -> None:
        """Wait until its process is gone."""
        self.process.communicate(timeout=120)

    def reborn(self) -> None:
        """Start the same service again at the same address; it does not stop again."""
        port = urllib.parse.urlsplit(self.url).port
        assert port is not None
        self.process, self.url = start(self.file, port, 0, False)

    def requests(self, op: str) -> list[dict[str, str]]:
        """Return the requests of one kind in order."""
        return [line for line in lines(self.file) if line["op"] == op]


def start(file: Path, port: int, dies_at: int, stored: bool) -> tuple[subprocess.Popen[str], str]:
    """Start the process and read its address."""
    command = [sys.executable, __file__, str(file), str(port), str(dies_at), str(int(stored))]
    process = forked.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def lines(file: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


class Service(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    file: Path
    dies_at: int
    stored: bool

    def log_message(self, *_: object) -> None:
        """Log nothing: the requests are in the file."""

    def body(self) -> dict[str, str]:
        read: dict[str, str] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return read

    def note(self, op: str, **line: str) -> None:
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"op": op, **line}) + "\n")

    def reply(self, tree: object) -> None:
        raw = json.dumps(tree).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def memories(self, namespace: str) -> list[dict[str, str]]:
        """Return all memories of a namespace that were added since it was last cleared."""
        found: list[dict[str, str]] = []
        for line in lines(self.file):
            if line["op"] == "add" and line["namespace"] == namespace:
                found.append(line)
            elif line["op"] == "clear" and line["namespace"] == namespace:
                found.clear()
        return found

    def do_POST(self) -> None:
        body = self.body()
        if self.path == "/v1/add":
            self.add(body)
            return
        words = set(body["query"].lower().split())
        scores = [(len(words & set(one["content"].lower().split())), one) for one in self.memories(body["namespace"])]
        best = sorted((pair for pair in scores if pair[0]), key=lambda pair: -pair[0])[: int(body["limit"])]
        self.note("search", namespace=body["namespace"])
        self.reply({"results": [{"id": one["id"], "memory": one["content"], "score": score} for score, one in best]})

    def add(self, body: dict[str, str]) -> None:
        number = sum(line["op"] == "add" for line in lines(self.file)) + 1
        dies = number == self.dies_at
        if self.stored or not dies:
            self.note("add", id=body["id"], content=body["content"], namespace=body["namespace"], job=f"job-{number}")
        if dies:
            os._exit(1)
        self.reply({"id": body["id"], "status": "queued", "job_id": f"job-{number}"})

    def do_GET(self) -> None:
        where = urllib.parse.urlsplit(self.path)
        if where.path.startswith("/v1/status/"):
            job = where.path.rpartition("/")[2]
            known = any(line["op"] == "add" and line["job"] == job for line in lines(self.file))
            self.note("status", job=job)
            self.reply({"status": "done" if known else "unknown"})
            return
        (namespace,) = urllib.parse.parse_qs(where.query)["namespace"]
        self.reply({"count": len(self.memories(namespace))})

    def do_DELETE(self) -> None:
        self.note("clear", namespace=urllib.parse.unquote(self.path.rpartition("/")[2]))
        self.reply({})


def main(file: str, port: str, dies_at: str, stored: str) -> None:
    Service.file, Service.dies_at, Service.stored = Path(file), int(dies_at), stored == "1"
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), Service)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
