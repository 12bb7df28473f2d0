"""Stored work of a run: failed phases, complete items, and settings that it depends on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.config.catalog import Catalog
from bench.engine import Outcome, execute, failed_items, forked_plan, rescored_plan
from bench.engine.resume import failed_phase, stored_inputs, stored_items
from bench.errors import IdentityError, UsageError
from bench.journal import JournaledPhase, Key, Reader, RunState
from bench.model import Phase, State
from tests.engine.scripted_store import ScriptedStore
from tests.rows import each_row
from tests.small_world import World

FLAGS: dict[str, object] = {
    "providers": "scripted", "run_id": "r", "isolation": "off", "max_error_rate": 1, "cleanup": "never",
    "concurrency": 1, "answering_model": "builtin/extractive",
}  # fmt: skip


ROWS = "select {} from phase p join entry e on e.id = p.entry where p.phase = {} order by 1, 2"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World.make(tmp_path, corpora=2, items=4)


def folder_of(world: World) -> Path:
    return world.workspace / "checkpoints/r"


async def run(world: World, **flags: object) -> Outcome:
    return await world.run(**{**FLAGS, **flags})


async def forked(world: World, start: Phase = Phase.ANSWER, **flags: object) -> Outcome:
    plan, scope = await forked_plan(
        "r", start, catalog=Catalog.load(world.workspace), flags={"run_id": "f", **flags}, environment=world.environment
    )
    return await execute(plan, environment=world.environment, scope=scope)


def ended(**outcomes: str) -> dict[Phase, JournaledPhase]:
    """Return phases of an item with their outcomes."""
    return {
        Phase(name): JournaledPhase(key=Key(owner="o", phase=Phase(name), corpus="c", unit="q"), outcome=outcome)
        for name, outcome in outcomes.items()
    }


@each_row(
    ("phases", "failed"),
    [
        (ended(), Phase.INGEST),
        (ended(evaluate="unavailable"), Phase.INGEST),
        (ended(evaluate="ingest_failed"), Phase.INGEST),
        (ended(evaluate="not_ready"), Phase.INDEX),
        (ended(search="timeout", evaluate="timeout"), Phase.SEARCH),
        (ended(search="not_ready", evaluate="not_ready"), Phase.SEARCH),
        (ended(search="ok", answer="auth", evaluate="auth"), Phase.ANSWER),
        (ended(search="ok", answer="ok", evaluate="evaluator"), Phase.EVALUATE),
        (ended(search="ok", answer="ok", evaluate="ok"), Phase.EVALUATE),
    ],
)
def test_failed_phase_is_the_phase_in_which_an_item_failed(
    phases: Mapping[Phase, JournaledPhase], failed: Phase
) -> None:
    assert failed_phase(phases) is failed


async def test_failed_items_are_selected_by_phase_and_id(world: World) -> None:
    store = ScriptedStore.install(world)
    store.fails("ready", at=0, error="NotReady")
    store.fails("search", at=1, error="Rejected")
    await run(world, ingest_concurrency=1)
    late = {f"c0q{number}" for number in range(4)}
    assert await failed_items(folder_of(world)) == {*late, "c1q1"}
    assert await failed_items(folder_of(world), phase=Phase.INDEX) == late
    assert await failed_items(folder_of(world), phase=Phase.SEARCH) == {"c1q1"}
    assert await failed_items(folder_of(world), phase=Phase.INGEST) == frozenset()
    assert await failed_items(folder_of(world), items=["c0q1", "c1q0", "nobody"]) == {"c0q1"}
    assert await failed_items(folder_of(world), phase=Phase.SEARCH, items=["c0q1"]) == frozenset()


async def test_stored_items_are_items_with_all_epochs(world: World) -> None:
    store = ScriptedStore.install(world)
    store.fails("search", at=2, error="Rejected")
    await run(world, epochs=2, limit=3)
    lost = {call["text"] for call in store.calls("search")[2:3]}
    assert len(lost) == 1
    stored = await stored_items(folder_of(world), Phase.ANSWER)
    assert len(stored) == 2, "one epoch of the third item is missing"
    assert await stored_items(folder_of(world), Phase.EVALUATE) == stored


async def test_a_run_without_answers_has_stored_searches_only(world: World) -> None:
    ScriptedStore.install(world)
    await run(world, phases="search")
    assert len(await stored_items(folder_of(world), Phase.ANSWER)) == 8
    assert await stored_items(folder_of(world), Phase.EVALUATE) == frozenset()


async def test_a_fork_copies_searches_and_makes_no_provider_call(world: World) -> None:
    store = ScriptedStore.install(world)
    first = await run(world)
    store.forget_calls()
    outcome = await forked(world, answering_model="builtin/extractive", context_budget=50_000)
    assert (outcome.run_id, outcome.status, outcome.jobs[0].states) == ("f", RunState.COMPLETE, {State.CORRECT: 8})
    assert store.calls() == []
    search = ROWS.format("p.corpus, p.unit, e.data, e.payloads", 3)
    assert world.query("f", search) == world.query("r", search)
    async with Reader.open(first.folder) as old, Reader.open(outcome.folder) as new:
        assert new.meta.plan_digest != old.meta.plan_digest


async def test_a_fork_from_evaluate_copies_answers(world: World) -> None:
    store = ScriptedStore.install(world)
    await run(world)
    store.forget_calls()
    outcome = await forked(world, Phase.EVALUATE, evaluators="exact-match")
    assert outcome.jobs[0].states == {State.INCORRECT: 8}
    assert store.calls() == []
    answers = ROWS.format("p.corpus, p.unit, json_extract(e.data, '$.answer')", 4)
    assert world.query("f", answers) == world.query("r", answers)


@pytest.mark.parametrize(
    ("flags", "start", "path"),
    [
        ({"k": 3}, Phase.ANSWER, "benchmarks.facts.k"),
        ({"seed": 5}, Phase.ANSWER, "settings.seed"),
        ({"epochs": 2}, Phase.ANSWER, "settings.epochs"),
        ({"limit": 2}, Phase.ANSWER, "settings.selection.limit"),
        ({"context_budget": 70}, Phase.EVALUATE, "benchmarks.facts.context_budget"),
        ({"answer_prompt": "${question}!"}, Phase.EVALUATE, "benchmarks.facts.answer_prompts"),
    ],
)
async def test_a_fork_rejects_changes_of_settings_that_its_rows_depend_on(
    world: World, flags: dict[str, object], start: Phase, path: str
) -> None:
    ScriptedStore.install(world)
    await run(world, phases="search")
    with pytest.raises(IdentityError) as refused:
        await forked(world, start, **flags)
    assert refused.value.message.splitlines()[0] == "the stored results were computed with other settings"
    assert any(name.startswith(path) for name, _, _ in refused.value.changes)
    assert not (world.workspace / "checkpoints/f").exists()


@pytest.mark.parametrize("flags", [{"context_budget": 70}, {"answer_prompt": "${question} ${retrievedContext}"}])
async def test_a_fork_from_answer_accepts_another_prompt_or_budget(world: World, flags: dict[str, object]) -> None:
    ScriptedStore.install(world)
    await run(world, phases="search")
    assert (await forked(world, **flags, phases="search,answer,evaluate")).jobs[0].pending == 0


async def test_a_rescore_with_a_changed_dataset_is_rejected(world: World) -> None:
    ScriptedStore.install(world)
    await run(world)
    path = world.workspace / "datasets/facts.jsonl"
    path.write_text(path.read_text() + "\n")
    with pytest.raises(IdentityError) as refused:
        await rescored_plan("r", catalog=Catalog.load(world.workspace), flags={}, environment=world.environment)
    assert "benchmarks.facts.dataset.sha256" in {name for name, _, _ in refused.value.changes}


async def test_each_rescore_is_a_new_generation(world: World) -> None:
    store = ScriptedStore.install(world)
    await run(world)
    store.forget_calls()
    for generation, evaluator in enumerate(("exact-match", "contains"), start=1):
        folder, plan, scope = await rescored_plan(
            "r", catalog=Catalog.load(world.workspace), flags={"evaluators": evaluator}, environment=world.environment
        )
        assert scope.generation == generation
        outcome = await execute(plan, environment=world.environment, resume=folder, scope=scope)
        state = State.INCORRECT if evaluator == "exact-match" else State.CORRECT
        assert outcome.jobs[0].states == {state: 8}
    assert store.calls() == []
    assert world.query("r", "select generation, count(*) from score group by generation") == [(0, 8), (1, 8), (2, 8)]
    assert world.query("r", "select count(*) from event where kind = 'rescored'") == [(2,)]


async def test_fork_and_rescore_of_an_unknown_run_are_usage_errors(world: World) -> None:
    with pytest.raises(UsageError, match='there is no run "r"'):
        await forked(world)
    with pytest.raises(UsageError, match='there is no run "r"'):
        await rescored_plan("r", catalog=Catalog.load(world.workspace), flags={}, environment=world.environment)


def test_stored_answers_depend_on_more_settings_than_stored_searches() -> None:
    identity = {
        "benchmarks": {"b": {"version": "1", "k": 3, "context_budget": 9, "prompts": {"answer": {"default": "x"}}}},
        "providers": {"p": "digest"}, "settings": {"seed": 1, "metrics": ["mrr"], "selection": {}},
    }  # fmt: skip
    searches, answers = stored_inputs(identity, Phase.ANSWER), stored_inputs(identity, Phase.EVALUATE)
    assert searches["settings"] == {"seed": 1, "epochs": None, "selection": {}}
    assert searches["providers"] == answers["providers"] == {"p": "digest"}
    assert searches["benchmarks"] == {"b": {"version": "1", "config_sha256": None, "dataset": None, "k": 3}}
    assert answers["benchmarks"] == {
        "b": {
            "version": "1", "config_sha256": None, "dataset": None, "k": 3, "context_budget": 9,
            "answer_prompts": {"default": "x"},
        }
    }  # fmt: skip
