"""R: resume repeats nothing that is finished, mixes nothing, and retries errors only."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.errors import DataError, IdentityError, UsageError
from bench.journal import Reader, RunState, merge
from bench.model import State
from tests.fakes.mortal import Mortal
from tests.scenarios.program import bench
from tests.small_world import WAITING, World, ended, kill, wait_for

Worlds = Callable[..., World]


async def results_of(world: World, run_id: str) -> list[object]:
    """Everything deterministic of every item of every job, as a report would see it."""
    from bench.plan.record import read

    found: list[object] = []
    async with Reader.open(world.workspace / "checkpoints" / run_id) as reader:
        for job in read(reader.meta.extra):
            async for one in reader.items(job.chain):
                data = {phase.value: dict(entry.data) for phase, entry in one.phases.items()}
                found.append([job.key, one.item, one.epoch, one.state, dict(one.values), dict(one.labels), data])
    return found


async def test_R1_a_resume_that_dies_repeats_nothing_that_was_finished(world_of: Worlds) -> None:
    world = world_of("search:latency:ms=60", corpora=4, items=10)
    flags = {"providers": "faulty", "run_id": "r1", "concurrency": 2}

    def finished() -> set[str]:
        """The questions whose search is in the journal."""
        rows = world.query("r1", "select unit from phase where phase = 3 and outcome = 'ok'")
        return {f"What opens the vault {unit.upper().replace('C', 'K').replace('Q', 'x')}?" for (unit,) in rows}

    first = world.start(**flags)
    wait_for(lambda: world.calls("search") >= 30)
    kill(first)
    known = finished()
    assert len(known) >= 20
    second = world.start(resume="r1")
    before = world.calls("search")
    wait_for(lambda: world.calls("search") > before)
    kill(second)
    known |= finished()
    third = world.start(resume="r1")
    assert ended(third) == 0
    asked = world.control("keys?provider=default&endpoint=search")
    questions = {key: n for key, n in asked.items() if "What opens" in key}
    assert len(questions) == 40
    assert {key: n for key, n in questions.items() if n > 1 and any(one in key for one in known)} == {}
    assert sum(n > 1 for n in questions.values()) <= 2 * 2 + 2, "only what was in flight may be asked again"


async def test_R2_a_kill_during_the_start_of_a_resume_loses_nothing(world_of: Worlds) -> None:
    world = world_of("search:latency:ms=50", corpora=3, items=8)
    process = world.start(providers="faulty", run_id="r2", concurrency=2)
    wait_for(lambda: world.calls("search") >= 12)
    kill(process)

    def finished() -> int:
        return int(world.query("r2", "select count(*) from phase where outcome = 'ok'")[0][0])

    moments = random.Random(7)
    known = finished()
    for _ in range(5):
        process = world.start(resume="r2")
        time.sleep(moments.uniform(0.05, 1.0))
        kill(process)
        assert finished() >= known
        known = finished()
    assert ended(world.start(resume="r2")) == 0


async def test_R3_a_killed_run_is_interrupted_and_resumes_without_a_flag(world_of: Worlds) -> None:
    world = world_of("search:latency:ms=100", corpora=2, items=8)
    process = world.start(providers="faulty", run_id="r3", concurrency=2)
    wait_for(lambda: world.calls("search") >= 6)
    kill(process)
    async with Reader.open(world.workspace / "checkpoints" / "r3") as reader:
        assert (await reader.status()).state is RunState.INTERRUPTED
    (listed,) = json.loads(bench(world.workspace, "list", "runs", "--json", **world.variables).stdout)["runs"]
    assert (listed["run_id"], listed["state"]) == ("r3", "interrupted")
    outcome = await world.resume("r3")
    assert (outcome.status, outcome.exit_code) == (RunState.COMPLETE, 0)


async def test_R4_a_reordered_dataset_or_another_seed_is_not_the_same_run(world_of: Worlds) -> None:
    world = world_of()
    outcome = await world.run(providers="faulty", limit=4)
    with pytest.raises(IdentityError) as seed:
        await world.resume(outcome.run_id, seed=5)
    assert ("settings.seed", "0", "5") in seed.value.changes
    assert seed.value.exit_code == 2
    path = world.workspace / "datasets" / "facts.jsonl"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    with pytest.raises(IdentityError) as changed:
        await world.resume(outcome.run_id)
    assert "benchmarks.facts.dataset.sha256" in {path for path, _, _ in changed.value.changes}
    assert "benchmarks.facts.dataset.sha256: " in str(changed.value)


async def test_R5_providers_named_in_another_order_keep_their_own_rows(world_of: Worlds) -> None:
    world = world_of("search:status:code=400,calls=4,match=What")
    world.provider("second")
    outcome = await world.run(providers=["faulty", "second"], max_error_rate=1)
    kept = """select o.name, p.phase, p.corpus, p.unit, p.attempt, p.outcome, e.data, e.started_us
        from phase p join owner o on o.id = p.owner join entry e on e.id = p.entry"""
    rows = set(world.query(outcome.run_id, kept))
    resumed = await world.resume(outcome.run_id, providers=["second", "faulty"])
    assert rows < set(world.query(outcome.run_id, kept)), "every row is still its provider's; errors were tried again"
    assert [job.provider for job in resumed.jobs] == ["second", "faulty"]
    assert all(job.states == {State.MEASURED: 8} for job in resumed.jobs)


async def test_R6_two_questions_of_one_text_both_count_and_a_repeated_id_is_refused(world_of: Worlds) -> None:
    world = world_of(corpora=1, items=4)
    path = world.workspace / "datasets" / "facts.jsonl"
    row = json.loads(path.read_text())
    row["qa"][1]["q"] = row["qa"][0]["q"]
    path.write_text(json.dumps(row) + "\n")
    outcome = await world.run(providers="faulty")
    assert outcome.jobs[0].states == {State.MEASURED: 4}
    again = {**row, "id": "c1", "qa": [{**row["qa"][0], "q": "What is new?"}]}
    path.write_text(json.dumps(row) + "\n" + json.dumps(again) + "\n")
    with pytest.raises(DataError) as refused:
        world.plan(providers="faulty")
    assert f'item id "c0q0" twice: {path}:1 and {path}:2' in str(refused.value)
    assert refused.value.exit_code == 2


async def test_R7_the_wait_after_a_resume_asks_for_every_job_of_the_corpus(world_of: Worlds) -> None:
    world = world_of("add:latency:ms=120", corpora=1, items=10, sessions=10)
    world.provider("faulty", extra=WAITING, **{"on_unknown: reset": "on_unknown: probe"})
    process = world.start(providers="faulty", run_id="r7", concurrency=1)
    wait_for(lambda: world.calls("add") >= 7)
    kill(process)
    outcome = await world.resume("r7")
    assert outcome.exit_code == 0
    added = world.keys("add")
    assert len(added) == 10
    assert sum(added.values()) <= 11, "each session is added once; the one in doubt is looked up"
    assert len(world.keys("status")) == 10


@pytest.mark.parametrize("stored", [False, True], ids=["before it stored", "after it stored"])
@pytest.mark.parametrize("rule", ["probe", "reset"])
async def test_R7_a_provider_that_dies_at_session_7_of_10_is_asked_for_the_jobs_of_all_ten(
    tmp_path: Path, rule: str, stored: bool
) -> None:
    with Mortal.born(tmp_path, dies_at=7, stored=stored) as service:
        world = World.make(tmp_path / "w", service.url, corpora=1, items=10, sessions=10)
        world.provider("faulty", extra=WAITING, **{"on_unknown: reset": f"on_unknown: {rule}"})
        outcome = await world.run(providers="faulty", run_id="r7", concurrency=1, max_error_rate=1)
        service.wait_dead()
        assert outcome.jobs[0].states == {State.ERROR: 10}
        assert (len(service.told("add")), service.told("status")) == (7 if stored else 6, [])
        service.reborn()
        outcome = await world.resume("r7")
        assert outcome.jobs[0].states == {State.MEASURED: 10}
        (searched,) = {one["namespace"] for one in service.told("search")}
        added = [one for one in service.told("add") if one["namespace"] == searched]
        assert len({one["content"] for one in added}) == len(added) == 10, "each session was added once"
        unheard = {"job-7"} if stored and rule == "probe" else set()
        assert {one["job"] for one in service.told("status")} == {one["job"] for one in added} - unheard, (
            "the id in an answer that never came is nobody's to ask for"
        )
        assert (len(service.told("add")) == 10) is (rule == "probe"), "what a probe finds is not told anew"


async def test_R8_a_store_in_process_memory_is_filled_again(world_of: Worlds) -> None:
    world = world_of(corpora=2, items=6)
    world.write("configs/providers/forgetful.py", FORGETFUL)
    world.write("configs/providers/forgetful.yaml", "name: forgetful\ntype: local\nadapter: ./forgetful.py:Forgetful\n")
    first = await world.run(providers="forgetful", phases="ingest,index", run_id="r8")
    assert first.status is RunState.PARTIAL
    outcome = await world.resume("r8", phases="ingest,index,search,answer,evaluate")
    assert outcome.jobs[0].states == {State.MEASURED: 12}
    empty = [one for one in await results_of(world, "r8") if not one[6]["search"]["returned"]]  # type: ignore[index]
    assert empty == []


async def test_R9_a_late_answer_of_a_timed_out_call_changes_nothing(world_of: Worlds) -> None:
    world = world_of("search:late:ms=1500,calls=1,match=What", corpora=1, items=3)
    world.provider("faulty", **{"timeout: 2000": "timeout: 500"})
    outcome = await world.run(providers="faulty", concurrency=1, isolation="off")
    assert outcome.jobs[0].states == {State.MEASURED: 3}
    searched = world.query(
        outcome.run_id, "select unit, count(*) from phase where phase = 3 group by unit, owner, epoch"
    )
    assert all(n == 1 for _, n in searched)


async def test_R10_a_used_run_id_is_refused_and_nothing_is_called(world_of: Worlds) -> None:
    world = world_of()
    await world.run(providers="faulty", run_id="mine")
    before, content = (
        world.control("stats")["requests"],
        (world.workspace / "checkpoints/mine/journal.sqlite").read_bytes(),
    )
    with pytest.raises(UsageError, match="mine"):
        await world.run(providers="faulty", run_id="mine", k=3)
    assert world.control("stats")["requests"] == before
    assert (world.workspace / "checkpoints/mine/journal.sqlite").read_bytes() == content


@pytest.mark.parametrize("rule", ["reset", "probe"])
async def test_R11_a_batch_in_doubt_is_in_the_searched_namespace_once(world_of: Worlds, rule: str) -> None:
    world = world_of("add:reset:effect=1,calls=1,skip=2", corpora=1, items=6)
    world.provider("faulty", **{"on_unknown: reset": f"on_unknown: {rule}"})
    outcome = await world.run(providers="faulty", cleanup="never")
    assert outcome.exit_code == 0
    held = {
        name: space["count"] for name, space in world.control("namespaces?provider=default").items() if space["count"]
    }
    assert list(held.values()) == [3]


WRONG = "select unit, entry, packed from score where state = 'incorrect' order by unit"


async def test_R12_only_errors_are_tried_again_and_every_attempt_is_kept(world_of: Worlds) -> None:
    world = world_of("search:status:code=400,match=What opens the vault K0x[12]", corpora=1, items=10)
    path = world.workspace / "datasets" / "facts.jsonl"
    row = json.loads(path.read_text())
    for wrong in row["qa"][3:6]:
        wrong["a"] = "something else"
    path.write_text(json.dumps(row) + "\n")
    outcome = await world.run(providers="faulty", answering_model="builtin/extractive", max_error_rate=1, run_id="r12")
    assert outcome.jobs[0].states == {State.CORRECT: 5, State.INCORRECT: 3, State.ERROR: 2}
    world.heal()
    before, wrong_before = world.calls("search"), world.query("r12", WRONG)
    outcome = await world.resume("r12")
    assert world.calls("search") - before == 2
    assert outcome.jobs[0].states == {State.CORRECT: 7, State.INCORRECT: 3}
    assert world.query("r12", WRONG) == wrong_before
    attempts = world.query("r12", "select unit, max(attempt) from phase where phase = 3 group by unit, owner")
    assert sorted(n for _, n in attempts) == [1] * 8 + [2] * 2
    ledger = world.query("r12", "select outcome, count(*) from call where endpoint = 'faulty.search' group by outcome")
    assert dict(ledger)["rejected"] == 2
    shown = bench(world.workspace, "export", "r12", "--format", "jsonl", **world.variables)
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    assert sorted(one["attempts"]["search"] for one in rows) == [1] * 8 + [2] * 2


async def test_R13_ranges_ask_their_own_items_and_a_finished_run_has_nothing_left(world_of: Worlds) -> None:
    world = world_of(corpora=4, items=5)
    first = await world.run(providers="faulty", start=1, end=10)
    second = await world.run(providers="faulty", start=11, end=20)
    assert first.status is RunState.PARTIAL and first.exit_code == 0
    assert [outcome.jobs[0].states for outcome in (first, second)] == [{State.MEASURED: 10}] * 2
    assert world.plan(providers="faulty", start=1, end=10).digest == world.plan(providers="faulty").digest
    before = world.calls("search")
    merged = await merge([first.folder, second.folder], world.workspace / "checkpoints/both", run_id="both")
    assert (merged.state, merged.gaps) == (RunState.COMPLETE, ())
    again = await world.resume("both")
    assert (again.exit_code, again.message) == (0, "nothing left to do")
    assert again.jobs[0].states == {State.MEASURED: 20}
    assert world.calls("search") == before
    whole = await world.run(providers="faulty")
    before = world.control("stats")["requests"]
    again = await world.resume(whole.run_id)
    assert (again.exit_code, again.message) == (0, "nothing left to do")
    assert world.control("stats")["requests"] == before


async def test_C7_a_resume_needs_no_flag_and_refuses_another_experiment(world_of: Worlds) -> None:
    world = world_of()
    outcome = await world.run(providers="faulty", k=3, concurrency=3)
    again = await world.resume(outcome.run_id)
    assert again.exit_code == 0
    with pytest.raises(IdentityError):
        await world.resume(outcome.run_id, k=4)
    assert (await world.resume(outcome.run_id, concurrency=1)).exit_code == 0


async def test_kill_9_at_any_moment_ends_in_the_same_results(world_of: Worlds) -> None:
    world = world_of("search:latency:ms=20", "add:latency:ms=20", corpora=4, items=6)
    flags = {"providers": "faulty", "answering_model": "builtin/extractive", "concurrency": 4}
    whole = await world.run(**flags, run_id="whole")
    assert whole.exit_code == 0
    moments = random.Random(3)
    process = world.start(**flags, run_id="killed")
    for _ in range(4):
        wait_for(lambda: (world.workspace / "checkpoints/killed/journal.sqlite").exists())
        time.sleep(moments.uniform(0.4, 1.6))
        kill(process)
        process = world.start(resume="killed")
    assert ended(process) == 0
    assert await results_of(world, "killed") == await results_of(world, "whole")


FORGETFUL = '''
from bench.model import Found, Hit, Ingested, Readiness
from bench.providers import Batching, Capabilities, Waiting


class Forgetful:
    """Keeps everything in a dictionary of this process."""

    name, version, durability = "forgetful", "1", "process"
    capabilities, keeps_store, unbounded, on_unknown = Capabilities(), True, False, "reset"
    wait, batching = Waiting(), Batching()

    def __init__(self, config, context):
        self.spaces = {}

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        return None

    async def ingest(self, space, memories):
        self.spaces.setdefault(space.namespace, []).extend(memories)
        return Ingested()

    async def ready(self, space, ingested):
        return Readiness(state="ready")

    async def search(self, space, query):
        words = set(query.text.lower().split())
        kept = [m for m in self.spaces.get(space.namespace, []) if words & set(m.content.lower().split())]
        hits = tuple(Hit(id=m.id, content=m.content, source_ids=(m.id,)) for m in kept[: query.k])
        return Found(hits=hits, requested=query.k, returned=len(kept))

    async def clear(self, space):
        return len(self.spaces.pop(space.namespace, []))
'''


async def test_a_kill_while_a_namespace_is_cleared_finds_every_result_again(world_of: Worlds) -> None:
    world = world_of("clear:late:ms=5000", corpora=1, items=30)
    process = world.start(providers="faulty", run_id="cleared", concurrency=8)
    wait_for(lambda: world.calls("clear") >= 1)
    kill(process)
    world.heal()
    before = world.calls("search")
    outcome = await world.resume("cleared")
    assert outcome.jobs[0].states == {State.MEASURED: 30}
    assert world.calls("search") == before, "an empty namespace must never be asked"
