"""A service that acknowledges more than it can find: the job says how much of what was looked for it found."""

from __future__ import annotations

import pytest
from aiohttp import web

from bench.engine import Outcome
from bench.journal import Reader
from bench.plan.cost_estimate import estimate
from bench.report.fold import fold
from tests.reality.conftest import WorldOn
from tests.reality.memory_stub import MemoryStub
from tests.small_world import PROVIDER, WAITING, World

QUICK = PROVIDER.replace("timeout: 2000", "timeout: 60000")
PATIENT = "\nwait: {interval_ms: 5, max_interval_ms: 5, timeout_s: 300}\n"
SHORT = PATIENT.replace("300", "0.1")


async def notes_of(world: World, outcome: Outcome) -> str:
    async with Reader.open(world.workspace / "checkpoints" / outcome.run_id) as reader:
        return "\n".join((await fold(reader)).jobs[0].notes)


def dropping(stub: MemoryStub, text: str) -> MemoryStub:
    """Acknowledge what holds a text and never find it."""

    def add(number: int, request: web.Request, body: dict[str, object]) -> web.Response | None:
        return web.json_response({"job_id": "kept"}) if text in str(body["content"]) else None

    stub.answers = {**stub.answers, "add": add}
    return stub


@pytest.mark.parametrize("waits", [SHORT, WAITING.replace("timeout_s: 3", "timeout_s: 0.1")])
async def test_a_service_that_finds_only_a_part_is_told_with_counts(world_on: WorldOn, waits: str) -> None:
    stub = dropping(MemoryStub(), "part 2")
    world = await world_on(stub, corpora=2, items=3, sessions=3)
    world.provider("faulty", base=QUICK, extra=waits)
    outcome = await world.run(providers="faulty", run_id="r")
    assert outcome.exit_code == 0
    notes = await notes_of(world, outcome)
    assert "in 2 of 2 corpora only 2 of 4 memories that were looked for were found before the first question" in notes


async def test_a_slow_index_is_waited_for_and_never_told_as_a_loss(world_on: WorldOn) -> None:
    """The first memory is found at once, the others after many looks that find nothing new."""
    stub = MemoryStub()

    def slow(number: int, request: web.Request, body: dict[str, object]) -> web.Response | None:
        if number > 25:
            return None
        first = [one for kept in stub.spaces.values() for one in kept[:1]]
        hits = [{"id": one["id"], "memory": one["content"], "metadata": one["metadata"]} for one in first]
        return web.json_response({"results": hits})

    stub.answers = {"search": slow}
    world = await world_on(stub, corpora=1, items=3, sessions=3)
    world.provider("faulty", base=QUICK, extra=PATIENT)
    assert "were found" not in await notes_of(world, await world.run(providers="faulty", run_id="r"))


async def test_one_loss_that_was_waited_for_is_not_waited_for_in_each_corpus(world_on: WorldOn) -> None:
    stub = dropping(MemoryStub(), "part 2")
    world = await world_on(stub, corpora=6, items=1, sessions=3)
    world.provider("faulty", base=QUICK, extra=WAITING.replace("50", "60000").replace("_s: 3", "_s: 0.1"))
    outcome = await world.run(providers="faulty", run_id="r", ingest_concurrency=1)
    assert "in 6 of 6 corpora only 6 of 12 " in await notes_of(world, outcome)
    assert stub.calls("search") <= 6 + 6 * 6, "each sample once, a missing one twice more"


async def test_memories_kept_in_other_words_are_no_loss(world_on: WorldOn) -> None:
    """Nothing leads from such a hit back to what was sent, so nothing tells whether it was found."""
    stub = MemoryStub()

    def retold(number: int, request: web.Request, body: dict[str, object]) -> web.Response:
        return web.json_response({"results": [{"id": "f1", "memory": "They talked of facts.", "metadata": {}}]})

    world = await world_on(stub, corpora=1, items=3, sessions=3)
    world.provider("faulty", base=QUICK)
    stub.answers = {"search": lambda number, *asked: retold(number, *asked) if number > 1 else None}
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
