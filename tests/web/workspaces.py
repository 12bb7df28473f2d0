"""Open sites, sessions and services for the tests of the web pages.

Example::

    async with visiting(workspace, runs=True) as visit:
        status, body = await visit.get("/api/v1/runs")
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from bench.settings import Environment
from bench.web.app import OpenSite, Settings, open_site
from tests import forked


@dataclass
class Visit:
    """One open site and an HTTP session."""

    site: OpenSite
    session: aiohttp.ClientSession

    @property
    def token(self) -> dict[str, str]:
        secret = self.site.secret
        return {} if secret is None else {"Authorization": f"Bearer {secret.token}"}

    @property
    def cookie(self) -> dict[str, str]:
        assert self.site.secret is not None
        return {"Cookie": f"{self.site.secret.cookie_name}={self.site.secret.cookie}"}

    async def ask(self, method: str, path: str, **more: Any) -> tuple[int, str, Any]:
        headers = more.pop("headers", self.token)
        address = URL(self.site.url + path, encoded=True)
        async with self.session.request(method, address, headers=headers, allow_redirects=False, **more) as answer:
            return answer.status, await answer.text(), answer.headers

    async def get(self, path: str, **more: Any) -> tuple[int, str]:
        status, text, _ = await self.ask("GET", path, **more)
        return status, text

    async def document(self, path: str) -> Any:
        status, text = await self.get(f"/api/v1{path}")
        assert status == 200, text
        return json.loads(text)


@asynccontextmanager
async def visiting(workspace: Path, *, variables: dict[str, str] | None = None, **more: Any) -> AsyncIterator[Visit]:
    """Open a site on a free port and a session with it."""
    settings = Settings(workspace=workspace, environment=Environment(values=variables or {}), port=0, **more)
    async with open_site(settings) as site, aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield Visit(site, session)


def bench(workspace: Path, *arguments: str) -> None:
    """Execute a command of bench; assert that it exits 0."""
    command = [sys.executable, "-m", "bench", "--workspace", str(workspace), *arguments]
    done = forked.run(command, text=True)
    assert done.returncode == 0, done.stderr


def run_demo(workspace: Path, run_id: str, *more: str) -> None:
    """Execute a small run through the command line."""
    bench(workspace, "-q", "run", "--run-id", run_id, *more)


class ServiceProcess:
    """``bench serve`` in a subprocess, for signals."""

    def __init__(self, workspace: Path, *more: str, command: str = "serve", variables: dict[str, str] | None = None):
        arguments = [sys.executable, "-m", "bench", "--workspace", str(workspace), command, "--port", "0", *more]
        self.process = forked.Popen(
            arguments,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(variables or {})},
        )
        self.workspace = workspace
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.url = line.removeprefix("listening on ").strip()

    @property
    def token(self) -> str:
        return (self.workspace / "checkpoints" / ".token").read_text().strip()

    def call(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/api/v1{path}", data=data, method=method)
        request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as refused:
            with refused:
                return json.loads(refused.read())

    def wait_for(self, run_id: str, state: str, *, ended: int = 0, idle: bool = False, seconds: float = 150) -> Any:
        """Wait for a state and a number of ended items; with ``idle``, also until the service has released the run."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.call("GET", f"/runs/{run_id}")
            progress = found.get("progress", {"ended": 0})
            if found.get("state") == state and progress["ended"] >= ended and not (idle and found["service"]):
                return found
            assert time.monotonic() < deadline, found
            time.sleep(0.1)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        self.process.communicate(timeout=120)
        return self.process.returncode
