"""Reuse of stored work by several models, retry and rescore."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from bench.config.catalog import Catalog
from bench.engine import Outcome, RunScope, execute, failed_items, rescored_plan, resumed_plan
from bench.engine.progress import Progress, SilentObserver
from bench.model import Phase, State
from tests.small_world import World

Worlds = Callable[..., World]


def scripted(world: World) -> World:
    """Let ``builtin/scripted`` reply with one word to all prompts."""
    world.variables["MEMORYBENCH_SCRIPT"] = str(world.write("script.jsonl", '{"match": ".", "reply": "nothing"}\n'))
    return world


async def retry(world: World, run_id: str, **chosen: object) -> Outcome:
    folder, plan = await resumed_plan(
        run_id, catalog=Catalog.load(world.workspace), flags={}, environment=world.environment
    )
    scope = RunScope(item_ids=await failed_items(folder, **chosen))  # type: ignore[arg-type]
    return await execute(plan, environment=world.environment, resume=folder, scope=scope)


async def test_several_answering_models_share_ingest_and_search(world_of: Worlds) -> None:
    world = scripted(world_of(corpora=2, items=5))
    outcome = await world.run(
        providers="faulty", answering_model=["builtin/extractive", "builtin/scripted"], isolation="off"
    )
    assert world.calls("search") == 10
    assert [job.states for job in outcome.jobs] == [{State.CORRECT: 10}, {State.INCORRECT: 10}]


async def test_retry_repeats_only_the_selected_failed_items(world_of: Worlds) -> None:
    world = world_of("search:status:code=400,match=opens the vault K0x[1-3][?]", corpora=2, items=6)
    first = await world.run(providers="faulty", limit=9, max_error_rate=1)
    assert first.jobs[0].states == {State.MEASURED: 6, State.ERROR: 3}
    world.heal()
    before = world.calls("search")
    second = await retry(world, first.run_id, items=["c0q1", "c0q5"])
    assert (second.jobs[0].states, world.calls("search") - before) == ({State.MEASURED: 7, State.ERROR: 2}, 1)
    assert (await retry(world, first.run_id, phase=Phase.ANSWER)).message == "nothing left to do"
    assert (await retry(world, first.run_id)).jobs[0].states == {State.MEASURED: 9}


class Watching(SilentObserver):
    """Records planned and ended items at the launch and at the end."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def launched(self, progress: Progress) -> None:
        self.progress = progress
        self._note()

    def finished(self, outcome: Outcome) -> None:
        self._note()

    def _note(self) -> None:
        self.seen.append((self.progress.planned, self.progress.ended))


async def test_a_rescore_makes_no_provider_call_and_adds_a_generation(world_of: Worlds) -> None:
    world = world_of(corpora=2, items=4)
    outcome = await world.run(providers="faulty", answering_model="builtin/extractive", evaluators="exact-match")
    assert State.CORRECT not in outcome.jobs[0].states
    before = world.control("stats")["requests"]
    path, plan, scope = await rescored_plan(
        outcome.run_id,
        catalog=Catalog.load(world.workspace),
        flags={"evaluators": "contains", "metrics": "accuracy"},
        environment=world.environment,
    )
    watching = Watching()
    again = await execute(plan, environment=world.environment, observer=watching, resume=path, scope=scope)
    assert again.jobs[0].states == {State.CORRECT: 8}
    assert watching.seen == [(8, 0), (8, 8)], "planned and ended items of the rescore"
    assert world.control("stats")["requests"] == before
    assert world.query(outcome.run_id, "select evaluator, count(*) from verdict group by evaluator") == [
        ("contains", 8),
        ("exact-match", 8),
    ]
    assert (await world.resume(outcome.run_id)).message == "nothing left to do"


async def test_a_rescore_includes_each_answered_epoch_of_an_item_with_a_failed_one(world_of: Worlds) -> None:
    world = world_of("search:status:code=400,every=3", corpora=2, items=4)
    outcome = await world.run(
        providers="faulty", answering_model="builtin/extractive", evaluators="exact-match", epochs=3, concurrency=1,
        max_error_rate=1, isolation="off",
    )  # fmt: skip
    before = world.control("stats")["requests"]
    path, plan, scope = await rescored_plan(
        outcome.run_id,
        catalog=Catalog.load(world.workspace),
        flags={"evaluators": "contains", "metrics": "accuracy"},
        environment=world.environment,
    )
    again = await execute(plan, environment=world.environment, resume=path, scope=scope)
    assert again.jobs[0].states == {State.CORRECT: 8}
    assert world.control("stats")["requests"] == before
    assert world.query(outcome.run_id, "select evaluator, count(*) from verdict group by evaluator") == [
        ("contains", 16),
        ("exact-match", 16),
    ]


async def test_a_judge_is_called_once_per_prompt_and_answer(world_of: Worlds) -> None:
    world = world_of(corpora=1, items=4)
    world.variables.update(OPENAI_BASE_URL=f"{world.url}/v1", OPENAI_API_KEY="test-key-of-nobody")
    world.write(
        "configs/benchmarks/judged.yaml",
        "name: judged\nversion: '1'\nextends: facts\nevaluation:\n  method: llm-judge\n"
        "  judgePrompts: {default: 'Is ${response} right? yes or no'}\n",
    )
    first = await world.run(
        benchmarks="judged", providers="faulty", answering_model="builtin/extractive", judge_model="openai/stub-yes"
    )
    paid = [world.calls("chat")]
    for flags in ({"metrics": "hit_at_1 accuracy"}, {}, {"judge_prompt": "Right? ${response}"}, {}):
        path, plan, scope = await rescored_plan(
            first.run_id, catalog=Catalog.load(world.workspace), flags=flags, environment=world.environment
        )
        again = await execute(plan, environment=world.environment, resume=path, scope=scope)
        assert again.jobs[0].states == {State.CORRECT: 4}
        paid.append(world.calls("chat"))
    assert [now - before for before, now in pairwise(paid)] == [0, 0, 4, 0]
    text = "select count(*), count(distinct model), count(distinct raw) from verdict"
    assert world.query(first.run_id, text) == [(20, 1, 1)]


async def test_a_rescore_keeps_errors_and_the_invalid_job(world_of: Worlds) -> None:
    world = scripted(world_of("search:status:code=400,match=opens the vault K0x[1-3][?]", corpora=2, items=6))
    first = await world.run(providers="faulty", limit=9, answering_model="builtin/extractive", evaluators="llm-judge")
    assert (first.jobs[0].states[State.ERROR], first.jobs[0].valid) == (3, False)
    for _ in range(2):
        path, plan, scope = await rescored_plan(
            first.run_id,
            catalog=Catalog.load(world.workspace),
            flags={"judge_model": "builtin/scripted"},
            environment=world.environment,
        )
        again = (await execute(plan, environment=world.environment, resume=path, scope=scope)).jobs[0]
        assert (again.states[State.ERROR], sum(again.states.values()), again.valid) == (3, 9, False)
