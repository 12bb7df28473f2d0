"""A small memory service that records every request and gives the responses of a test.

Example::

    async with recorder({"POST /search": {"results": []}}) as service:
        ...
        service.seen[0].json, service.seen[0].headers["Authorization"]

An answer is a JSON tree (status 200), a pair (status, tree), a ``web.Response`` factory, or a list of these that is
used one by one; the last one is repeated.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    """percent-encoded, without the query"""
    query: list[tuple[str, str]]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> object:
        return json.loads(self.body)

    @property
    def call(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(slots=True)
class Service:
    """The running service."""

    url: str
    answers: dict[str, object]
    seen: list[Seen] = field(default_factory=list)

    def calls(self) -> list[str]:
        return [one.call for one in self.seen]

    def of(self, call: str) -> list[Seen]:
        return [one for one in self.seen if one.call == call]


@asynccontextmanager
async def recorder(answers: Mapping[str, object] | None = None) -> AsyncIterator[Service]:
    """Run the service; unknown calls are answered with 200 and an empty object."""
    service = Service("", dict(answers or {}))

    async def handle(request: web.Request) -> web.StreamResponse:
        seen = Seen(
            method=request.method,
            path=request.rel_url.raw_path,
            query=[(name, value) for name, value in request.query.items()],
            headers=request.headers.copy(),
            body=await request.read(),
        )
        service.seen.append(seen)
        return respond(service.answers, seen)

    app = web.Application(client_max_size=64 * 2**20)
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    service.url = f"http://127.0.0.1:{port}"
    try:
        yield service
    finally:
        await runner.cleanup()


def respond(answers: dict[str, object], seen: Seen) -> web.Response:
    answer = answers.get(seen.call, {})
    if isinstance(answer, list):
        answer = answer.pop(0) if len(answer) > 1 else answer[0]
    if callable(answer):
        made: Callable[[Seen], object] = answer
        answer = made(seen)
    if isinstance(answer, web.Response):
        return answer
    status, tree = answer if isinstance(answer, tuple) else (200, answer)
    return web.Response(status=status, text=json.dumps(tree), content_type="application/json")
