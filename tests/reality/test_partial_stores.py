"""A service that acknowledges more than it can find: the job says how much of what was looked for it found."""

from __future__ import annotations

import pytest
from aiohttp import web

from bench.engine import Outcome
from bench.engine.corpora import isolation as probes
from bench.engine.corpora.cleanup import clear_run
from bench.errors import NotCleared
from bench.journal import Reader
from bench.plan.cost_estimate import estimate
from bench.plan.leftover import leftovers
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
    assert "in 2 of 2 corpora, only 4 of 6 sample memories were found before the first question" in notes


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
    assert "in 6 of 6 corpora, only 8 of 14 " in await notes_of(world, outcome)
    assert stub.calls("search") <= 6 + 6 * 6 + 2 * 2, "each sample once, a missing one twice more"


async def test_memories_kept_in_other_words_are_no_loss(world_on: WorldOn) -> None:
    """Nothing leads from such a hit back to what was sent, so nothing tells whether it was found."""
    stub = MemoryStub()

    def retold(number: int, request: web.Request, body: dict[str, object]) -> web.Response:
        return web.json_response({"results": [{"id": "f1", "memory": "They talked of facts.", "metadata": {}}]})

    world = await world_on(stub, corpora=1, items=3, sessions=3)
    world.provider("faulty", base=QUICK)
    stub.answers = {"search": lambda number, *asked: retold(number, *asked) if number > 1 else None}
    assert "were found" not in await notes_of(world, await world.run(providers="faulty", run_id="r"))


async def test_a_service_that_finds_all_of_it_is_looked_at_a_few_times_a_corpus(world_on: WorldOn) -> None:
    stub = MemoryStub()
    world = await world_on(stub, corpora=2, items=3, sessions=3)
    world.provider("faulty", base=QUICK)
    outcome = await world.run(providers="faulty", run_id="r")
    assert "were found" not in await notes_of(world, outcome)
    assert stub.calls("search") <= 6 + 2 * 5
    planned = {one.endpoint: one.calls for one in estimate(world.plan(providers="faulty")).endpoints}
    assert planned["faulty.search"] == 6 + 2 * (4 + 6)
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


async def test_a_part_in_the_middle_that_is_shown_later_is_waited_for(world_on: WorldOn) -> None:
    """The count is full at once, and the first, the last and the longest memory are found at once."""
    stub = MemoryStub()
    shown = []

    def hiding(number: int, request: web.Request, body: dict[str, object]) -> web.Response:
        hits = stub.usual("search", request, body)["results"]
        assert isinstance(hits, list)
        kept = [hit for hit in hits if "part 4" not in str(hit["memory"]) or number > 12]
        shown.append(number)
        return web.json_response({"results": kept})

    stub.answers = {"search": hiding}
    world = await world_on(stub, corpora=1, items=8, sessions=8)
    world.provider("faulty", base=QUICK, extra=PATIENT)
    notes = await notes_of(world, await world.run(providers="faulty", run_id="r"))
    assert "were found" not in notes and len(shown) > 12 + 8


async def test_a_part_in_the_middle_that_never_comes_is_told(world_on: WorldOn) -> None:
    world = await world_on(dropping(MemoryStub(), "part 4"), corpora=1, items=8, sessions=8)
    world.provider("faulty", base=QUICK, extra=SHORT)
    outcome = await world.run(providers="faulty", run_id="r")
    assert "sample memories were found before the first question" in await notes_of(world, outcome)


@pytest.mark.parametrize("clears", [True, False])
async def test_a_clear_that_does_nothing_is_told_and_left_to_clean(
    world_on: WorldOn, clears: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "CLEARED_LATE_S", (0.0, 0.01))
    stub = MemoryStub() if clears else MemoryStub({"clear": lambda *_: web.json_response({"removed": 3})})
    world = await world_on(stub, corpora=3, items=2, sessions=3)
    world.provider("faulty", base=QUICK)
    outcome = await world.run(providers="faulty", run_id="r", cleanup="run")
    assert outcome.exit_code == 0
    async with Reader.open(world.workspace / "checkpoints" / "r") as reader:
        job = (await fold(reader)).jobs[0]
        left = await leftovers(reader)
    assert job.isolation.not_cleared == (0 if clears else 3) == sum(len(one.attempts) for one in left)
    assert any("a search still finds" in note for note in job.notes) is not clears
    if not clears:
        with pytest.raises(NotCleared, match="a search still finds 3 of its memories") as told:
            await clear_run(world.workspace, world.workspace / "checkpoints/r", world.environment)
        assert "bench clean r" in told.value.hint and "--forget faulty" in told.value.hint
        stub.answers = {}
        assert await clear_run(world.workspace, world.workspace / "checkpoints/r", world.environment) == 3
