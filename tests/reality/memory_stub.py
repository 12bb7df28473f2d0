"""A small memory server whose answers a test can replace: ``MemoryStub(answers={"search": changed})``.

It serves the calls of ``tests.small_world.PROVIDER`` and keeps the bodies of all requests.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from aiohttp import web

Reply = web.StreamResponse | None
Odd = Callable[[int, web.Request, dict[str, object]], Awaitable[Reply] | Reply]
"""call number (from 1), request, parsed body -> a changed response, or None for the usual one"""


@dataclass(slots=True)
class MemoryStub:
    """Memories by namespace, found by common words."""

    answers: Mapping[str, Odd] = field(default_factory=dict)
    """by call: add, search, count, status, clear"""
    spaces: dict[str, list[dict[str, object]]] = field(default_factory=dict)
    seen: dict[str, list[dict[str, object]]] = field(default_factory=dict)
    """the bodies of each call in order"""
    cleared: list[int] = field(default_factory=list)
    """how many memories each clear removed"""

    def calls(self, name: str) -> int:
        return len(self.seen.get(name, ()))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        name = _name(request)
        raw = await request.read()
        body: dict[str, object] = json.loads(raw.partition(b"\n")[0]) if raw[:1] == b"{" else {**request.query}
        self.seen.setdefault(name, []).append(body)
        odd = self.answers.get(name)
        if odd is not None:
            given = odd(self.calls(name), request, body)
            reply = given if given is None or isinstance(given, web.StreamResponse) else await given
            if reply is not None:
                return reply
        return web.json_response(self.usual(name, request, body))

    def usual(self, name: str, request: web.Request, body: Mapping[str, object]) -> dict[str, object]:
        """Return the response of a server without faults."""
        if name == "clear":
            self.cleared.append(len(self.spaces.pop(request.path.rpartition("/")[2], [])))
            return {"removed": self.cleared[-1]}
        kept = self.spaces.setdefault(str(body.get("namespace")), [])
        match name:
            case "add":
                kept.extend([body] if "id" in body else list(body["items"]))  # type: ignore[call-overload]
                return {"job_id": f"j{len(kept)}"}
            case "search":
                return {"results": self.found(kept, str(body["query"]), int(str(body["limit"])))}
            case "status":
                return {"status": "done"}
            case _:
                return {"count": len(kept)}

    def found(self, kept: list[dict[str, object]], query: str, limit: int) -> list[dict[str, object]]:
        words = set(query.lower().replace("?", "").split())
        rated = [(len(words & set(str(one["content"]).lower().split())), one) for one in kept]
        best = sorted((pair for pair in rated if pair[0]), key=lambda pair: -pair[0])[:limit]
        return [
            {"id": one["id"], "memory": one["content"], "score": score, "metadata": one.get("metadata", {})}
            for score, one in best
        ]


def _name(request: web.Request) -> str:
    last = request.path.rstrip("/").rpartition("/")[2]
    if request.method == "DELETE":
        return "clear"
    return {"memories": "count"}.get(last, last) if "/status/" not in request.path else "status"
