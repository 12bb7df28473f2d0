"""Shared fixtures of the model tests: local endpoints that record their requests."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from bench.model import ChatMessage, Prompt
from tests.local_server import LocalServers


@dataclass
class Endpoint:
    """A model endpoint with a list of responses; the last one is repeated."""

    answers: list[object]
    """a body (200), or (status, body)"""
    bodies: list[Mapping[str, object]] = field(default_factory=list)
    requests: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    """path with query, headers"""
    url: str = ""

    async def handle(self, request: web.Request) -> web.Response:
        self.bodies.append(json.loads(await request.read()))
        self.requests.append((request.path_qs, dict(request.headers)))
        answer = self.answers[min(len(self.bodies), len(self.answers)) - 1]
        status, body = answer if isinstance(answer, tuple) else (200, answer)
        return web.json_response(body, status=status)


@pytest.fixture
async def plays() -> AsyncIterator[Callable[..., object]]:
    """Start an endpoint: ``endpoint = await plays(body, (400, body), ...)``."""
    servers = LocalServers()

    async def start(*answers: object) -> Endpoint:
        endpoint = Endpoint(answers=list(answers))
        endpoint.url = await servers.start(endpoint.handle)
        return endpoint

    yield start
    await servers.close()


@pytest.fixture
def prompt() -> Prompt:
    """Return a short prompt with a question."""
    return Prompt(
        messages=(
            ChatMessage(role="system", content="Be short."),
            ChatMessage(role="user", content="Where does she live?"),
        ),
        seed=7,
    )


@pytest.fixture
def captured(shared: Path) -> Callable[[str], Mapping[str, object]]:
    """Return a function that reads a recorded exchange with a real model server."""

    def read(name: str) -> Mapping[str, object]:
        tree: Mapping[str, object] = json.loads((shared / "captures" / "llama-server" / name).read_text())
        return tree

    return read
