"""Hits whose scores show a worst-first order: noted with their count, and a warning of ``bench doctor``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio.to_thread
import pytest
from aiohttp import web

from tests.reality.conftest import WorldOn, notes_of
from tests.reality.memory_stub import MemoryStub
from tests.small_world import PROVIDER

FIELD = 'scoreField: "$.score"'
DISTANCE = 'score: {field: "$.score", kind: distance}'


def ordered(stub: MemoryStub, *, best_first: bool, distance: bool = False) -> MemoryStub:
    """Answer with scores that all differ, best or worst first, as similarities or distances."""

    def search(_call: int, request: web.Request, body: dict[str, object]) -> web.Response:
        hits: Any = stub.usual("search", request, body)["results"]
        for rank, hit in enumerate(hits):
            hit["score"] = rank + 0.5 if distance else 9.5 - rank
        return web.json_response({"results": hits if best_first else hits[::-1]})

    stub.answers = {"search": search}
    return stub


@pytest.mark.parametrize(
    ("score", "best_first", "distance", "note"),
    [
        (FIELD, True, False, ""),
        (FIELD, False, False, "scores rise with rank in 3 of 3 searches: perhaps the order is worst first"),
        (FIELD, True, True, "scores rise with rank in 3 of 3 searches: perhaps the order is worst first"),
        (DISTANCE, True, True, ""),
        (DISTANCE, False, True, "scores fall with rank in 3 of 3 searches: perhaps the order is worst first"),
        (DISTANCE.replace("}", ", transform: 1-x}"), True, True, ""),
        (DISTANCE.replace("}", ", transform: 1-x}"), False, True, "scores rise with rank in 3 of 3 searches"),
        (DISTANCE.replace("}", ", order: asc}"), False, True, ""),
    ],
)
async def test_hits_ordered_worst_first_are_noted_with_their_count(
    score: str, best_first: bool, distance: bool, note: str, world_on: WorldOn
) -> None:
    world = await world_on(ordered(MemoryStub(), best_first=best_first, distance=distance), corpora=1, items=3)
    world.provider("faulty", base=PROVIDER.replace(FIELD, score).replace("timeout: 2000", "timeout: 60000"))
    notes = await notes_of(world, await world.run(providers="faulty", run_id="r"))
    assert note in notes if note else "with rank" not in notes


@pytest.mark.parametrize("best_first", [True, False])
async def test_doctor_warns_of_hits_ordered_worst_first(
    best_first: bool, world_on: WorldOn, bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = ordered(MemoryStub(), best_first=best_first)
    world = await world_on(stub, corpora=1, items=1)
    monkeypatch.setenv("FAULT_URL", str(world.url))
    found = await anyio.to_thread.run_sync(lambda: bench("doctor", "faulty", "--json", check=None))
    checks = {one["name"]: one for one in json.loads(found.stdout)["checks"]}
    assert checks["found by own text"]["outcome"] == "pass"
    assert ("returns the worst hit first" in checks["found by own text"]["detail"]) is not best_first
