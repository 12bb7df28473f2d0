"""Phases of an item: stored phases are not repeated, and a failure affects only its item."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.engine import Outcome
from bench.journal import Journal, RunState
from bench.model import State
from tests.engine.scripted_store import ScriptedStore
from tests.small_world import World

FLAGS: dict[str, object] = {
    "providers": "scripted", "run_id": "r", "isolation": "off", "max_error_rate": 1, "cleanup": "never",
}  # fmt: skip


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Six items of one corpus."""
    return World.make(tmp_path, corpora=1, items=6)


async def run(world: World, **flags: object) -> Outcome:
    return await world.run(**{**FLAGS, **flags})


def rows(world: World) -> dict[tuple[str, str], int]:
    """(owner, outcome) -> number of phase rows."""
    found = world.query(
        "r", "select o.name, p.outcome, count(*) from phase p join owner o on o.id = p.owner group by o.name, p.outcome"
    )
    return {(owner, outcome): count for owner, outcome, count in found}


async def test_a_run_in_separate_phases_repeats_no_phase(world: World) -> None:
    store = ScriptedStore.install(world)
    seen = []
    for phases in ("ingest", "ingest,index", "search", "answer", "evaluate"):
        flags = {"answering_model": "builtin/extractive", "phases": phases}
        outcome = await (run(world, **flags) if phases == "ingest" else world.resume("r", **flags))
        seen.append((outcome.status, len(store.calls("search")), sum(outcome.jobs[0].states.values())))
    assert seen == [
        (RunState.PARTIAL, 0, 0), (RunState.PARTIAL, 0, 0), (RunState.PARTIAL, 6, 0), (RunState.PARTIAL, 6, 0),
        (RunState.COMPLETE, 6, 6),
    ]  # fmt: skip
    answers = "facts/scripted|builtin/extractive"
    assert rows(world) == {("facts/scripted", "ok"): 6, (answers, "ok"): 6, (f"{answers}|none", "ok"): 6}
    assert len(store.calls("ingest")) == 3


async def test_evaluating_stored_searches_makes_no_provider_call(world: World) -> None:
    store = ScriptedStore.install(world)
    await run(world, phases="search")
    store.forget_calls()
    assert (await world.resume("r", phases="evaluate")).jobs[0].states == {State.MEASURED: 6}
    assert store.calls() == []


async def test_a_failed_search_makes_its_item_an_error_in_each_job(world: World) -> None:
    store = ScriptedStore.install(world)
    world.variables["MEMORYBENCH_SCRIPT"] = str(world.write("script.jsonl", '{"match": ".", "reply": "nothing"}\n'))
    store.fails("search", at=2, error="Rejected")
    outcome = await run(world, answering_model=["builtin/extractive", "builtin/scripted"], concurrency=1)
    first, second = outcome.jobs
    assert first.states == {State.CORRECT: 5, State.ERROR: 1}
    assert second.states == {State.INCORRECT: 5, State.ERROR: 1}
    store.heal()
    store.forget_calls()
    first, second = (await world.resume("r")).jobs
    assert (first.states, second.states) == ({State.CORRECT: 6}, {State.INCORRECT: 6})
    assert len(store.calls("search")) == 1


async def test_each_epoch_is_searched_answered_and_scored(world: World) -> None:
    store = ScriptedStore.install(world)
    store.fails("search", at=7, error="Rejected")
    outcome = await run(world, epochs=2, answering_model="builtin/extractive", concurrency=1)
    assert (outcome.jobs[0].planned, outcome.jobs[0].states) == (6, {State.CORRECT: 6}), "counted in items"
    store.heal()
    assert (await world.resume("r")).jobs[0].states == {State.CORRECT: 6}
    assert len(store.calls("search")) == 13
    good = "select epoch, count(distinct unit) from phase where phase = 3 and outcome = 'ok' group by epoch"
    assert world.query("r", good) == [(1, 6), (2, 6)]


async def test_a_quota_error_stops_the_job_and_leaves_other_items_pending(world: World) -> None:
    store = ScriptedStore.install(world)
    store.fails("search", at=1, error="QuotaError")
    outcome = await run(world, concurrency=1)
    assert (outcome.status, outcome.exit_code, outcome.jobs[0].stopped) == (RunState.STOPPED, 3, "planned fault")
    assert outcome.jobs[0].states == {State.MEASURED: 1, State.ERROR: 1}
    assert outcome.jobs[0].pending == 4
    assert outcome.resume == "bench run --resume r"
    store.heal()
    assert (await world.resume("r")).jobs[0].states == {State.MEASURED: 6}


async def test_each_resume_tries_failed_items_again(world: World) -> None:
    store = ScriptedStore.install(world)
    store.fails("search", at=None, error="Rejected")
    await run(world)
    for _ in range(2):
        assert (await world.resume("r")).jobs[0].states == {State.ERROR: 6}
    assert len(store.calls("search")) == 18
    attempts = world.query("r", "select max(attempt), count(*) from phase where phase = 3")
    assert attempts == [(3, 18)]


async def test_a_search_with_dropped_texts_makes_the_answer_an_error(tmp_path: Path) -> None:
    world = World.make(tmp_path, corpora=1, items=2)
    path = world.workspace / "datasets/facts.jsonl"
    path.write_text(path.read_text().replace("opens with", "opens with " + "x" * 2000))
    ScriptedStore.install(world)
    first = await run(world, phases="search", answering_model="builtin/extractive")
    async with Journal.resume(first.folder) as journal:
        await journal.drop_payloads()
    outcome = await world.resume("r", phases="answer,evaluate")
    assert outcome.jobs[0].states == {State.ERROR: 2}
    assert world.query("r", "select distinct text from message") == [
        ("the texts of this search are no longer in the journal",)
    ]
    assert {kind for (kind,) in world.query("r", "select outcome from phase where phase = 5")} == {"dropped"}


@pytest.mark.parametrize("width", [1, 3, 50])
async def test_each_item_is_processed_once_at_any_concurrency(tmp_path: Path, width: int) -> None:
    world = World.make(tmp_path, corpora=4, items=6)
    store = ScriptedStore.install(world)
    outcome = await run(world, concurrency=width, answering_model="builtin/extractive")
    assert outcome.jobs[0].states == {State.CORRECT: 24}
    asked = [call["text"] for call in store.calls("search")]
    assert len(asked) == len(set(asked)) == 24
    assert len(store.calls("ingest")) == 12


async def test_namespaces_are_cleared_once_all_their_items_have_a_result(tmp_path: Path) -> None:
    world = World.make(tmp_path, corpora=3, items=2)
    store = ScriptedStore.install(world)
    store.fails("search", at=2, error="Rejected")
    await run(world, cleanup="corpus", concurrency=1, ingest_concurrency=1)
    assert len(store.held) == 1, "the one with the error"
    store.heal()
    store.forget_calls()
    assert (await world.resume("r")).jobs[0].states == {State.MEASURED: 6}
    assert store.held == {}
    assert (len(store.calls("ingest")), len(store.calls("search")), len(store.calls("clear"))) == (0, 1, 1)
