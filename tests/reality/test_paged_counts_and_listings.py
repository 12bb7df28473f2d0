"""The first page of a list is neither the number of all memories nor the complete list."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from bench.model import State
from tests.reality.conftest import WorldOn, notes_of
from tests.reality.memory_stub import MemoryStub
from tests.small_world import PROVIDER

PAGE = 10
LISTED = """
setup:
  - name: space
    method: POST
    path: /v1/spaces
    body: {name: $.runTag}
    capture: {space: $.id}
    existing: {method: GET, path: /v1/listing, results: $.spaces, match: {$.name: $.runTag}}
"""
PAGED = LISTED.replace("$.runTag}}", "$.runTag}, page: {cursor: $.next, param: after}}")


def counting(stub: MemoryStub, answer: Any) -> MemoryStub:
    def count(_: int, __: web.Request, body: dict[str, object]) -> web.Response:
        kept = stub.spaces.get(str(body["namespace"]), [])
        return web.json_response(answer(kept))

    stub.answers = {"count": count}
    return stub


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ("$.items", lambda kept: {"items": kept[:PAGE]}),
        ("$", lambda kept: kept[:PAGE]),
        ("$.count", lambda kept: {"count": len(kept[:PAGE]), "items": kept[:PAGE]}),
        ("$.count", lambda kept: {"count": len(kept[:PAGE]), "total": len(kept)}),
        (
            "$.data.n",
            lambda kept: {"data": {"n": len(kept[:PAGE]), "items": kept[:PAGE]}, "has_more": len(kept) > PAGE},
        ),
    ],
)
async def test_the_length_of_a_page_is_not_noted_as_lost_memories(value: str, answer: Any, world_on: WorldOn) -> None:
    stub = counting(MemoryStub(), answer)
    world = await world_on(stub, corpora=1, items=3, sessions=PAGE + 1)
    world.provider("faulty", base=PROVIDER.replace('value: "$.count"', f'value: "{value}"'))
    outcome = await world.run(providers="faulty", run_id="r")
    assert outcome.jobs[0].states == {State.MEASURED: 3} and stub.calls("count") > 1
    assert "the service counts" not in await notes_of(world, "r")


@pytest.mark.parametrize(
    "answer",
    [
        lambda kept: {"count": len(kept[1:])},
        lambda kept: {"count": len(kept[1:]), "total": len(kept[1:]), "items": kept[1:]},
    ],
)
async def test_a_total_smaller_than_the_acknowledged_memories_is_noted(answer: Any, world_on: WorldOn) -> None:
    world = await world_on(counting(MemoryStub(), answer), corpora=1, items=3, sessions=3)
    await world.run(providers="faulty", run_id="r")
    assert "the service counts 2 memories, but it acknowledged 3" in await notes_of(world, "r")


async def test_the_error_of_a_wait_for_a_count_mentions_the_page_if_the_count_is_a_page(world_on: WorldOn) -> None:
    stub = counting(MemoryStub(), lambda kept: {"items": kept[:PAGE]})
    world = await world_on(stub, corpora=1, items=3, sessions=PAGE + 1)
    wait = """
wait:
  request: {method: GET, path: /v1/memories, query: {namespace: $.runTag}}
  scope: namespace
  count_at_least: $.items
  interval_ms: 5
  timeout_s: 0.2
"""
    world.provider("faulty", base=PROVIDER.replace('    response: {ids: "$.job_id"}\n', ""), extra=wait)
    outcome = await world.run(providers="faulty", run_id="r", isolation="off")
    assert outcome.jobs[0].states == {State.NOT_READY: 3}
    ((text,),) = world.query("r", "select distinct text from message where text like '%there%'")
    assert "10 of 11 memories there (perhaps this counts only the first page of a list)" in text


def spaces(stub: MemoryStub, size: int) -> MemoryStub:
    """A service that lists its spaces in pages, the oldest first."""
    known = [{"id": f"s{at}", "name": f"other-{at}"} for at in range(5)]

    def listing(_: int, __: web.Request, body: dict[str, object]) -> web.Response:
        start = int(str(body.get("after", 0)))
        more = start + size < len(known)
        return web.json_response({"spaces": known[start : start + size], "next": start + size if more else None})

    def create(_: int, __: web.Request, body: dict[str, object]) -> web.Response:
        known.append({"id": f"s{len(known)}", "name": body["name"]})
        return web.json_response(known[-1])

    stub.answers = {"listing": listing, "spaces": create}
    return stub


async def test_an_existing_space_is_searched_on_every_page_of_a_listing(world_on: WorldOn) -> None:
    stub = spaces(MemoryStub(), 2)
    world = await world_on(stub, corpora=1, items=2)
    world.provider("faulty", extra=PAGED)
    outcome = await world.run(providers="faulty", run_id="r")
    assert outcome.exit_code == 0
    assert (stub.calls("listing"), stub.calls("spaces")) == (3, 1)


async def test_a_listing_with_unread_pages_is_an_error_and_no_space_is_created(world_on: WorldOn) -> None:
    stub = spaces(MemoryStub(), 2)
    world = await world_on(stub, corpora=1, items=2)
    world.provider("faulty", extra=LISTED)
    outcome = await world.run(providers="faulty", run_id="r")
    assert (outcome.jobs[0].states, stub.calls("spaces")) == ({State.ERROR: 2}, 0)
    ((text,),) = world.query("r", "select distinct text from message where text like '%list is longer%'")
    assert (
        "setup.space.existing.results" in text
        and "none of the first 2 elements matches, but the service reports that the list is longer" in text
    )


async def test_a_page_of_memories_does_not_make_a_batch_count_as_missing(world_on: WorldOn) -> None:
    stub = counting(MemoryStub(), lambda kept: {"items": kept[:PAGE]})

    def loses(number: int, request: web.Request, body: dict[str, object]) -> web.Response | None:
        if number <= PAGE:
            return None
        stub.usual("add", request, body)
        return web.json_response({}, status=503)

    stub.answers = {**stub.answers, "add": loses}
    world = await world_on(stub, corpora=1, items=3, sessions=PAGE + 1)
    world.provider("faulty", base=PROVIDER.replace('value: "$.count"', 'value: "$.items"'))
    outcome = await world.run(providers="faulty", run_id="r", cleanup="never")
    assert outcome.jobs[0].states == {State.MEASURED: 3}
    assert [len(kept) for kept in stub.spaces.values() if kept] == [PAGE + 1]
    assert (stub.calls("add"), stub.cleared) == (PAGE + 1, []), "a search finds what the page does not show"
