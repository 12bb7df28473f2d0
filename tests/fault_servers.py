"""Fault servers for tests: one that a test has used is reset and kept for the next, because a start takes 50 ms of CPU.

Example::

    servers = FaultServers(script)
    server = servers.take(["search:hang"], [])      # server.url
    servers.give_back(server)
    servers.close()
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests import forked


class FaultServer:
    """One process; with flags of its own it serves one test only."""

    def __init__(self, script: Path, flags: Sequence[str]) -> None:
        command = [sys.executable, str(script), "--parent-watch", *flags]
        self.alone = bool(flags)
        self._process = forked.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = str(json.loads(self._process.stdout.readline())["url"])

    def control(self, path: str, data: object = None) -> Any:
        body = None if data is None else json.dumps(data).encode()
        with urllib.request.urlopen(f"{self.url}/control/{path}", data=body, timeout=120) as answer:
            return json.loads(answer.read())

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=120)
        assert self._process.stdout is not None
        self._process.stdout.close()


class FaultServers:
    """The servers of this process that no test uses now."""

    def __init__(self, script: Path) -> None:
        self._script = script
        self._idle: list[FaultServer] = []

    def take(self, faults: Sequence[str], flags: Sequence[str]) -> FaultServer:
        server = self._idle.pop() if self._idle and not flags else FaultServer(self._script, flags)
        if faults:
            server.control("faults", faults)
        return server

    def give_back(self, server: FaultServer) -> None:
        """Keep the server without its data, counters and faults, or end it if a request is still in flight."""
        try:
            reusable = not server.alone and server.control("stats")["in_flight"] == 0
            if reusable:
                server.control("reset", {})
        except OSError:  # its test has ended it
            reusable = False
        if reusable:
            self._idle.append(server)
        else:
            server.end()

    def close(self) -> None:
        for server in self._idle:
            server.end()
