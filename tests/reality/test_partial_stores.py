"""A service that acknowledges more memories than it finds: a note has the number of found sample memories."""

from __future__ import annotations

import pytest
from aiohttp import web

from bench.engine.corpora import isolation as probes
from bench.engine.corpora.cleanup import clear_run
from bench.errors import NotCleared
from bench.journal import Reader
from bench.plan.cost_estimate import estimate
from bench.plan.leftover_namespaces import leftovers
from bench.report.fold import fold
from tests.reality.conftest import WorldOn, notes_of
from tests.reality.memory_stub import MemoryStub
from tests.small_world import PROVIDER, WAITING

QUICK = PROVIDER.replace("timeout: 2000", "timeout: 60000")
PATIENT = "\nwait: {interval_ms: 5, max_interval_ms: 5, timeout_s: 300}\n"
SHORT = PATIENT.replace("300", "0.1")


def dropping(stub: MemoryStub, text: str) -> MemoryStub:
    """Acknowledge memories that contain a text, and do not store them."""

    def add(number: int, request: web.Request, body: dict[str, object]) -> web.Response | None:
        return web.json_response({"job_id": "kept"}) if text in str(body["content"]) else None

    stub.answers = {**stub.answers, "add": add}
    return stub


@pytest.mark.parametrize("waits", [SHORT, WAITING.replace("timeout_s: 3", "timeout_s: 1")])
async def test_a_service_that_finds_only_some_sample_memories_is_noted_with_counts(
    world_on: WorldOn, waits: str
) -> None:
    stub = dropping(MemoryStub(), "part 2")
    world = await world_on(stub, corpora=2, items=3, sessions=3)
    world.provider("faulty", base=QUICK, extra=waits)
    outcome = await world.run(providers="faulty", run_id="r")
    assert outcome.exit_code == 0
    notes = await notes_of(world, outcome)
    assert "in 2 of 2 corpora, only 4 of 6 sample memories were found before the first question" in notes


async def test_a_slow_index_is_waited_for_and_not_noted_as_a_loss(world_on: WorldOn) -> None:
    """The first memory is found at once, the others after many searches that find nothing new."""
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


async def test_the_wait_for_lost_memories_is_not_repeated_for_each_corpus(world_on: WorldOn) -> None:
    stub = dropping(MemoryStub(), "part 2")
    world = await world_on(stub, corpora=6, items=1, sessions=3)
    world.provider("faulty", base=QUICK, extra=WAITING.replace("50", "60000").replace("_s: 3", "_s: 0.1"))
    outcome = await world.run(providers="faulty", run_id="r", ingest_concurrency=1)
    assert "in 6 of 6 corpora, only 8 of 14 " in await notes_of(world, outcome)
    assert stub.calls("search") <= 6 + 6 * 6 + 2 * 2, "each sample once, a missing one twice more"


async def test_memories_stored_in_other_words_are_not_noted_as_lost(world_on: WorldOn) -> None:
    """Such a hit maps to no sent memory, so it is unknown whether the memory was found."""
    stub = MemoryStub()

    def rewritten(number: int, request: web.Request, body: dict[str, object]) -> web.Response:
        return web.json_response({"results": [{"id": "f1", "memory": "They talked of facts.", "metadata": {}}]})

    world = await world_on(stub, corpora=1, items=3, sessions=3)
    world.provider("faulty", base=QUICK)
    stub.answers = {"search": lambda number, *rest: rewritten(number, *rest) if number > 1 else None}
    assert "were found" not in await notes_of(world, await world.run(providers="faulty", run_id="r"))


async def test_a_complete_store_is_checked_with_few_searches_per_corpus(world_on: WorldOn) -> None:
    stub = MemoryStub()
    world = await world_on(stub, corpora=2, items=3, sessions=3)
    world.provider("faulty", base=QUICK)
    outcome = await world.run(providers="faulty", run_id="r")
    assert "were found" not in await notes_of(world, outcome)
    assert stub.calls("search") <= 6 + 2 * 5
    planned = {one.endpoint: one.calls for one in estimate(world.plan(providers="faulty")).endpoints}
    assert planned["faulty.search"] == 6 + 2 * (4 + 6)
    without_probes = estimate(world.plan(providers="faulty", isolation="off"))
    assert {one.endpoint: one.calls for one in without_probes.endpoints}["faulty.search"] == 6


async def test_a_failed_sample_search_does_not_fail_the_corpus(world_on: WorldOn) -> None:
    stub = MemoryStub()
    refused = {"search": lambda number, *_: web.json_response({}, status=422) if number == 2 else None}
    stub.answers = refused  # the second search is the first one for the other samples
    world = await world_on(stub, corpora=1, items=3, sessions=3)
    world.provider("faulty", base=QUICK)
    outcome = await world.run(providers="faulty", run_id="r")
    assert outcome.exit_code == 0
    assert world.query("r", "select kind, passed from probe order by id") == [("emptiness", 1), ("sentinel", 1)]


async def test_a_memory_in_the_middle_that_appears_later_is_waited_for(world_on: WorldOn) -> None:
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


async def test_a_memory_in_the_middle_that_never_appears_is_noted(world_on: WorldOn) -> None:
    world = await world_on(dropping(MemoryStub(), "part 4"), corpora=1, items=8, sessions=8)
    world.provider("faulty", base=QUICK, extra=SHORT)
    outcome = await world.run(providers="faulty", run_id="r")
    assert "sample memories were found before the first question" in await notes_of(world, outcome)


@pytest.mark.parametrize("clears", [True, False])
async def test_a_clear_without_effect_is_noted_and_left_for_bench_clean(
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
        with pytest.raises(NotCleared, match="a search still finds 3 of its memories") as caught:
            await clear_run(world.workspace, world.workspace / "checkpoints/r", world.environment)
        assert "bench clean r" in caught.value.hint and "--forget faulty" in caught.value.hint
        stub.answers = {}
        assert await clear_run(world.workspace, world.workspace / "checkpoints/r", world.environment) == 3
