"""A service that acknowledges more than it can find: the job says how much of what was looked for it found."""

from __future__ import annotations

from aiohttp import web

from bench.engine import Outcome
from bench.journal import Reader
from bench.plan.cost_estimate import estimate
from bench.report.fold import fold
from tests.reality.conftest import WorldOn
from tests.reality.memory_stub import MemoryStub
from tests.small_world import PROVIDER, WAITING, World

QUICK = PROVIDER.replace("timeout: 2000", "timeout: 60000")
WAITS = WAITING.replace("interval_ms: 50", "interval_ms: 10\n  max_interval_ms: 10").replace("_s: 3", "_s: 300")


async def notes_of(world: World, outcome: Outcome) -> str:
    async with Reader.open(world.workspace / "checkpoints" / outcome.run_id) as reader:
        return "\n".join((await fold(reader)).jobs[0].notes)


def dropping(stub: MemoryStub, text: str) -> MemoryStub:
    """Acknowledge what holds a text and never find it."""

    def add(number: int, request: web.Request, body: dict[str, object]) -> web.Response | None:
        return web.json_response({"job_id": "kept"}) if text in str(body["content"]) else None

    stub.answers = {**stub.answers, "add": add}
    return stub


async def test_a_service_that_finds_only_a_part_is_told_with_counts(world_on: WorldOn) -> None:
    stub = dropping(MemoryStub(), "part 2")
    world = await world_on(stub, corpora=2, items=3, sessions=3)
    world.provider("faulty", base=QUICK, extra=WAITS)
    outcome = await world.run(providers="faulty", run_id="r")
    assert outcome.exit_code == 0
    assert "in 2 of 2 corpora only " in await notes_of(world, outcome)
    looked = len(stub.seen["search"]) - 6
    assert looked <= 2 * 4, "each sample once, a missing one once more"


async def test_what_is_indexed_a_little_later_is_waited_for(world_on: WorldOn) -> None:
    stub = MemoryStub()

    def late(number: int, request: web.Request, body: dict[str, object]) -> web.Response | None:
        if number > 2:
            return None
        first = [one for kept in stub.spaces.values() for one in kept[:1]]
        hits = [{"id": one["id"], "memory": one["content"], "metadata": one["metadata"]} for one in first]
        return web.json_response({"results": hits})

    stub.answers = {"search": late}
    world = await world_on(stub, corpora=1, items=3, sessions=3)
    world.provider("faulty", base=QUICK, extra=WAITS)
    assert "were found" not in await notes_of(world, await world.run(providers="faulty", run_id="r"))


async def test_a_service_that_finds_all_of_it_is_looked_at_three_times_a_corpus(world_on: WorldOn) -> None:
    stub = MemoryStub()
    world = await world_on(stub, corpora=2, items=3, sessions=3)
    world.provider("faulty", base=QUICK)
    outcome = await world.run(providers="faulty", run_id="r")
    assert "were found" not in await notes_of(world, outcome)
    assert stub.calls("search") <= 6 + 2 * 3
    planned = {one.endpoint: one.calls for one in estimate(world.plan(providers="faulty")).endpoints}
    assert planned["faulty.search"] == 6 + 2 * 4
    unlooked = estimate(world.plan(providers="faulty", isolation="off"))
    assert {one.endpoint: one.calls for one in unlooked.endpoints}["faulty.search"] == 6


async def test_a_look_that_fails_costs_no_corpus(world_on: WorldOn) -> None:
    stub = MemoryStub()
    refused = {"search": lambda number, *_: web.json_response({}, status=422) if number == 2 else None}
    stub.answers = refused  # the second search is the first look for the rest
    world = await world_on(stub, corpora=1, items=3, sessions=3)
    world.provider("faulty", base=QUICK)
    outcome = await world.run(providers="faulty", run_id="r")
    assert outcome.exit_code == 0
    assert world.query("r", "select kind, passed from probe order by id") == [("emptiness", 1), ("sentinel", 1)]
