"""Base of every fake memory service: a real HTTP server with a key, strict fields, and one-time faults.

A fake is a class with routes; it defines state and the shapes of responses and errors::

    class Acme(Fake):
        auth = Key("Authorization", "Bearer ")

        def routes(self):
            return {"POST /search": self.search}

        async def search(self, call):
            body = call.body(table(query=text(), limit=optional(whole(most=100))))
            return 200, {"results": [...]}

    async with Acme().running() as acme:
        acme.play("POST /search", busy("1"))           # the next search is answered 429 with Retry-After
        acme.url, acme.seen[-1].json
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import ClassVar, Self, TypeVar

from aiohttp import web

from tests.fakes.fields import Check, Fault
from tests.fakes.shelf import Shelf

SECRET = "sk-fake-0123456789abcdef"
"""the one key that every fake accepts"""

Reply = tuple[int, object]
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Key:
    """The header of the key; ``optional`` services also respond without one."""

    header: str
    prefix: str = ""
    optional: bool = False

    def holds(self, headers: Mapping[str, str]) -> bool:
        given = headers.get(self.header)
        if given is None:
            return self.optional
        return given == self.prefix + SECRET


class Refusal(Exception):
    """A refusal of the service: its status and its body."""

    def __init__(self, status: int, body: object) -> None:
        super().__init__(f"{status} {body}")
        self.status = status
        self.body = body


@dataclass(frozen=True, kw_only=True)
class Called:
    """One request as it arrived, with the part of the path that a route leaves open."""

    fake: Fake
    method: str
    path: str
    parts: tuple[str, ...]
    query: dict[str, list[str]]
    headers: Mapping[str, str]
    raw: bytes

    @property
    def json(self) -> object:
        try:
            return json.loads(self.raw)
        except ValueError:
            raise self.fake.refused([Fault("json", ("body",), "")], None) from None

    def body(self, check: Check) -> dict[str, object]:
        """Return the checked body; raise the refusal of the service if a field is missing, unknown or wrong."""
        tree = self.json
        faults = list(check(tree, ("body",)))
        if faults:
            raise self.fake.refused(faults, tree)
        assert isinstance(tree, dict)
        return tree

    def ask(self, check: Check) -> dict[str, object]:
        """Return the checked query parameters; numbers are read as numbers."""
        tree = {name: _read(values) for name, values in self.query.items()}
        faults = list(check(tree, ("query",)))
        if faults:
            raise self.fake.refused(faults, tree)
        return tree


def _read(values: list[str]) -> object:
    if len(values) > 1:
        return list(values)
    return int(values[0]) if re.fullmatch(r"-?\d+", values[0]) else values[0]


Route = Callable[[Called], Awaitable[Reply]]
Fault_ = Callable[[web.Request, Callable[[], Awaitable[web.Response]]], Awaitable[web.StreamResponse]]
"""a fault gets the request and what the service would have answered"""


class Fake(ABC):
    """One running fake."""

    background = True
    """adds are processed after they were answered"""
    auth: Key | None = None
    variables: ClassVar[Mapping[str, str]] = {}
    """environment of a config for this fake; ``URL`` is replaced by its address, ``KEY`` by its key"""

    def __init__(self) -> None:
        self.url = ""
        self.seen: list[Called] = []
        self.faults: dict[str, list[Fault_]] = {}
        self.shelf = Shelf()

    def environment(self) -> dict[str, str]:
        """Return the variables of a config for this fake."""
        return {name: {"URL": self.url, "KEY": SECRET}.get(value, value) for name, value in self.variables.items()}

    @abstractmethod
    def routes(self) -> Mapping[str, Route]:
        """``METHOD /path/{open}/part`` -> what answers it."""

    def refused(self, faults: list[Fault], tree: object) -> Refusal:
        """Return the response to invalid fields; by default that of FastAPI."""
        detail = [
            {"type": one.fastapi, "loc": list(one.place), "msg": one.message, "input": one.value} for one in faults
        ]
        return Refusal(422, {"detail": detail})

    def unauthorized(self) -> Refusal:
        """Return the response to a wrong key."""
        return Refusal(401, {"detail": "Invalid API key."})

    def unknown(self) -> Refusal:
        """Return the response to an unknown path."""
        return Refusal(404, {"detail": "Not Found"})

    def play(self, route: str, *faults: Fault_) -> None:
        """Let the next calls of a route fail, one after the other."""
        self.faults.setdefault(route, []).extend(faults)

    def calls(self, method: str, path: str) -> list[Called]:
        """Return the requests of a path (a regular expression)."""
        return [one for one in self.seen if one.method == method and re.fullmatch(path, one.path)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Serve on the loopback interface until the block ends."""
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        name, route, parts = self._route(request)

        async def work() -> web.Response:
            call = Called(
                fake=self,
                method=request.method,
                path=request.path,
                parts=parts,
                query={key: request.query.getall(key) for key in request.query},
                headers=request.headers.copy(),
                raw=raw,
            )
            self.seen.append(call)
            try:
                if self.auth is not None and not self.auth.holds(request.headers):
                    raise self.unauthorized()
                status, tree = await (route(call) if route else self._none(request))
            except Refusal as refusal:
                status, tree = refusal.status, refusal.body
            return answer(status, tree)

        waiting = self.faults.get(name)
        return await (waiting.pop(0)(request, work) if waiting else work())

    async def _none(self, request: web.Request) -> Reply:
        """Return the response to an unknown path or method."""
        known = [name.partition(" ")[2] for name in self.routes()]
        if any(_match(pattern, request.path) is not None for pattern in known):
            return 405, {"detail": "Method Not Allowed"}
        raise self.unknown()

    def _route(self, request: web.Request) -> tuple[str, Route | None, tuple[str, ...]]:
        for name, route in self.routes().items():
            method, _, pattern = name.partition(" ")
            parts = _match(pattern, request.path) if method == request.method else None
            if parts is not None:
                return name, route, parts
        return "", None, ()


def _match(pattern: str, path: str) -> tuple[str, ...] | None:
    pieces = re.split(r"\{\w+\}", pattern)
    found = re.fullmatch("([^/]+)".join(map(re.escape, pieces)), path)
    return found.groups() if found else None


def answer(status: int, tree: object, headers: Mapping[str, str] | None = None) -> web.Response:
    """A JSON answer."""
    return web.Response(status=status, text=json.dumps(tree), content_type="application/json", headers=headers)


# ------------------------------------------------------------------ faults


def responds(status: int, body: object = None, **headers: str) -> Fault_:
    """Return a fault that responds with this status and does not process the request."""

    async def fault(request: web.Request, work: object) -> web.Response:
        return answer(status, body or {"error": "fault"}, {name.replace("_", "-"): v for name, v in headers.items()})

    return fault


def busy(retry_after: str) -> Fault_:
    """429 with Retry-After: seconds or an HTTP date."""
    return responds(429, {"error": "slow down"}, Retry_After=retry_after)


async def torn(request: web.Request, work: Callable[[], Awaitable[web.Response]]) -> web.Response:
    """Process the request, but send half of the JSON."""
    whole_ = (await work()).text or ""
    return web.Response(text=whole_[: len(whole_) // 2], content_type="application/json")


def stalled(seconds: float) -> Fault_:
    """Process the request, but send no response."""

    async def fault(request: web.Request, work: Callable[[], Awaitable[web.Response]]) -> web.Response:
        done = await work()
        await asyncio.sleep(seconds)
        return done

    return fault


async def lost(request: web.Request, work: Callable[[], Awaitable[web.Response]]) -> web.Response:
    """Process the request, then reset the connection before the response."""
    done = await work()
    assert request.transport is not None
    request.transport.abort()
    return done


# ------------------------------------------------------------------ search


def words(content: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", content.lower()))


def alike(query: str, content: str) -> float:
    """Cosine of word counts: 1 for the same text, 0 without a common word."""
    asked, held = words(query), words(content)
    dot = sum(count * held[word] for word, count in asked.items())
    size = math.sqrt(sum(n * n for n in asked.values()) * sum(n * n for n in held.values()))
    return dot / size if size else 0.0


def cosine(asked: Iterable[float], held: Iterable[float]) -> float:
    """Cosine of two vectors."""
    a, b = list(asked), list(held)
    size = math.sqrt(sum(x * x for x in a) * sum(x * x for x in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / size if size else 0.0


def best(rows: Iterable[Row], score: Callable[[Row], float], k: int) -> list[tuple[float, Row]]:
    """The k rows of the highest score above 0; ties keep their order."""
    scored = [(score(row), row) for row in rows]
    return sorted((pair for pair in scored if pair[0] > 0), key=lambda pair: -pair[0])[:k]
