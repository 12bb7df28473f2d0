"""Add, delete, verify: an item must be found before it is deleted, and an interrupted deletion is repeated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.engine import Outcome
from bench.journal import Reader, RunState
from bench.model import State
from bench.report import fold
from tests.engine.scripted_store import ScriptedStore
from tests.small_world import World

ROWS = [
    {"id": "d1", "owner": "o", "content": "The gate code is 7718 now.", "q": "What is the gate code?", "gone": "7718"},
    {"id": "d2", "owner": "o", "content": "The key lies under a pot.", "q": "Where lies the key?", "gone": "a POT"},
]
MANIFEST = {
    "manifest_version": "1",
    "name": "forgetting",
    "version": "1.0.0",
    "data_file": "rows.jsonl",
    "ingestion": {
        "strategy": "add-delete-verify", "add_content_field": "content", "delete_target_field": "id",
        "verify_query_field": "q", "corpus_field": "owner", "phase_delay_ms": 0,
    },
    "query": {"question_field": "q", "expected_answer_field": "gone", "retrieval_limit": 5},
    "evaluation": {
        "protocol": "deletion-check", "verification_query_field": "q", "deleted_content_field": "gone",
        "fuzzy_match": False,
    },
    "metrics": ["correctness"],
    "required_capabilities": ["add_memory", "retrieve_memory", "delete_memory"],
}  # fmt: skip


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(workspace=tmp_path)
    world.write("configs/benchmarks/forgetting/manifest.json", json.dumps(MANIFEST))
    world.write("configs/benchmarks/forgetting/rows.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS))
    return world


async def run(world: World, **flags: object) -> Outcome:
    return await world.run(
        **{"benchmarks": "forgetting", "providers": "scripted", "run_id": "r", "isolation": "off", "concurrency": 1,
           "cleanup": "never", "max_error_rate": 1, **flags}  # type: ignore[arg-type]
    )  # fmt: skip


def calls_of(store: ScriptedStore) -> list[str]:
    """Return the deletions and the texts of the searches in order."""
    return [call.get("text", call["call"]) for call in store.calls("search", "delete")]


async def test_each_memory_is_searched_deleted_and_searched_again(world: World) -> None:
    store = ScriptedStore.install(world)
    outcome = await run(world)
    assert outcome.jobs[0].states == {State.CORRECT: 2}
    gate, key = ROWS[0]["q"], ROWS[1]["q"]
    assert calls_of(store) == [gate, "delete", gate, key, "delete", key]
    assert store.held == {}
    intents = world.query("r", "select scope, data from event where kind = 'delete_intent' order by id")
    assert [(scope, json.loads(data)) for scope, data in intents] == [
        ("forgetting/scripted", {"item": "d1", "attempt": 1}), ("forgetting/scripted", {"item": "d2", "attempt": 1}),
    ]  # fmt: skip


async def test_a_memory_that_is_still_found_after_its_deletion_is_incorrect(world: World) -> None:
    store = ScriptedStore.install(world)
    store.fails("delete", at=1, error="")
    outcome = await run(world)
    assert outcome.jobs[0].states == {State.CORRECT: 1, State.INCORRECT: 1}
    assert list(store.held.values()) == [["The key lies under a pot."]]


async def test_a_memory_that_is_not_found_before_is_not_deleted_and_not_scored(world: World) -> None:
    store = ScriptedStore.install(world)
    store.fails("ingest", at=None, error="")
    outcome = await run(world)
    assert outcome.jobs[0].states == {State.UNSCORED: 2}
    assert store.calls("delete") == []
    assert world.query("r", "select count(*) from event where kind = 'delete_intent'") == [(0,)]
    reason = "select json_extract(e.data, '$.reason') from phase p join entry e on e.id = p.entry where phase = 3"
    reasons = world.query("r", reason)
    assert reasons == [("not_found_before_delete",)] * 2
    async with Reader.open(outcome.folder) as reader:
        (job,) = (await fold(reader)).jobs
    found = job.metrics["correctness"]
    assert (found.value, found.n, found.n_excluded) == (None, 0, 2)


@pytest.mark.parametrize("effect", [True, False])
async def test_a_deletion_without_an_answer_is_repeated_without_the_search_before(world: World, effect: bool) -> None:
    store = ScriptedStore.install(world)
    store.fails("delete", at=0, error="Unavailable", effect=effect)
    assert (await run(world)).jobs[0].states == {State.ERROR: 1, State.CORRECT: 1}
    store.heal()
    store.forget_calls()
    outcome = await world.resume("r")
    assert (outcome.status, outcome.jobs[0].states) == (RunState.COMPLETE, {State.CORRECT: 2})
    assert calls_of(store) == ["delete", ROWS[0]["q"]], "the search before the deletion would no longer find the memory"


async def test_a_failed_verification_deletes_again_on_resume(world: World) -> None:
    store = ScriptedStore.install(world)
    store.fails("search", at=1, error="Unavailable")
    await run(world)
    store.heal()
    store.forget_calls()
    assert (await world.resume("r")).jobs[0].states == {State.CORRECT: 2}
    assert calls_of(store) == ["delete", ROWS[0]["q"]]


async def test_a_failed_search_before_the_deletion_is_repeated_on_resume(world: World) -> None:
    store = ScriptedStore.install(world)
    store.fails("search", at=0, error="Unavailable")
    await run(world)
    store.heal()
    store.forget_calls()
    assert (await world.resume("r")).jobs[0].states == {State.CORRECT: 2}
    assert calls_of(store) == [ROWS[0]["q"], "delete", ROWS[0]["q"]]


async def test_a_corpus_that_was_ingested_again_is_searched_before_the_deletion(world: World) -> None:
    store = ScriptedStore.install(world, durability="process")
    store.fails("delete", at=0, error="Unavailable")
    await run(world)
    store.heal()
    store.forget_calls()
    assert (await world.resume("r")).jobs[0].states == {State.CORRECT: 2}
    assert calls_of(store)[:3] == [ROWS[0]["q"], "delete", ROWS[0]["q"]]


async def test_a_provider_that_cannot_delete_has_unsupported_items_and_a_valid_job(world: World) -> None:
    ScriptedStore.install(world)
    outcome = await run(world, providers=["scripted", "oracle"])
    able, unable = outcome.jobs
    assert outcome.exit_code == 0
    assert (able.states, unable.states) == ({State.CORRECT: 2}, {State.UNSUPPORTED: 2})
    assert unable.skipped == "skipped: forgetting needs delete_memory, oracle does not have it"
    assert unable.valid
