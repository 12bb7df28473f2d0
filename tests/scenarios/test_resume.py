"""R: a resume repeats no finished phase, mixes no rows, and retries only errors."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.errors import DataError, IdentityError
from bench.journal import RunState, merge
from bench.model import State
from tests.fakes.mortal import Mortal
from tests.scenarios.left import finished, folder_of, forgetful_in, receipt_of, results_of
from tests.scenarios.program import bench
from tests.small_world import WAITING, World, ended, kill, wait_for

Worlds = Callable[..., World]


async def test_R1_a_killed_resume_repeats_no_finished_item(world_of: Worlds) -> None:
    world = world_of("search:latency:ms=150", corpora=4, items=10)

    def finished() -> set[str]:
        """Return the questions whose search is in the journal."""
        rows = world.query("r1", "select unit from phase where phase = 3 and outcome = 'ok'")
        return {f"What opens the vault {unit.upper().replace('C', 'K').replace('Q', 'x')}?" for (unit,) in rows}

    def searches() -> dict[str, int]:
        return {key: n for key, n in world.keys("search").items() if "What opens" in key}

    first = world.start(providers="faulty", run_id="r1", concurrency=2)
    wait_for(lambda: (world.workspace / "checkpoints/r1/journal.sqlite").exists() and len(finished()) >= 30)
    kill(first)
    known, before = finished(), sum(searches().values())
    second = world.start(resume="r1")
    wait_for(lambda: sum(searches().values()) > before)
    kill(second)
    assert sum(searches().values()) - before <= 3, "it was killed during its first three items"
    known |= finished()
    assert ended(world.start(resume="r1")) == 0
    calls = searches()
    assert len(calls) == 40 and len(known) >= 30
    assert {key: n for key, n in calls.items() if n > 1 and any(one in key for one in known)} == {}
    assert sum(n > 1 for n in calls.values()) <= 2 + 2, "only the items in flight at the two kills are searched again"
    assert set(world.keys("add").values()) == {1}


@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.long)])
async def test_R2_sigkill_in_the_first_second_of_a_resume_loses_no_finished_phase(world_of: Worlds, kills: int) -> None:
    world = world_of("search:latency:ms=300", corpora=20, items=20)
    process = world.start(providers="faulty", run_id="r2", concurrency=2)
    wait_for(lambda: world.calls("search") >= 12)
    kill(process)
    known, began = finished(world, "r2"), time.monotonic()
    process = world.start(resume="r2")
    assert process.stdout is not None and process.stdout.readline().startswith("launched")
    second = max(1.0, 1.3 * (time.monotonic() - began))
    kill(process)
    moments = random.Random(7)
    for _ in range(kills):
        process = world.start(resume="r2")
        time.sleep(moments.uniform(0.0, second))
        kill(process)
        now = finished(world, "r2")
        assert now >= known
        known = now
    ((resumes,),) = world.query("r2", "select count(*) from resume")
    assert 1 <= resumes <= kills + 1, "a process can be killed before it records its resume"
    assert world.query("r2", "pragma integrity_check") == [("ok",)]
    world.heal()
    assert ended(world.start(resume="r2", concurrency=20)) == 0


async def test_R3_a_killed_run_is_interrupted_and_resumes_without_a_flag(world_of: Worlds) -> None:
    world = world_of("search:latency:ms=100", corpora=2, items=8)
    process = world.start(providers="faulty", run_id="r3", concurrency=2)
    wait_for(lambda: world.calls("search") >= 6)
    kill(process)
    (listed,) = json.loads(bench(world.workspace, "list", "runs", "--json", **world.variables).stdout)["runs"]
    assert (listed["run_id"], listed["state"]) == ("r3", "interrupted")
    assert bench(world.workspace, "resume", "r3", **world.variables).returncode == 0
    (listed,) = json.loads(bench(world.workspace, "list", "runs", "--json", **world.variables).stdout)["runs"]
    assert (listed["run_id"], listed["state"]) == ("r3", "complete")


async def test_R4_a_resume_with_a_reordered_dataset_or_another_seed_is_an_identity_error(world_of: Worlds) -> None:
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


async def test_R5_providers_of_a_run_file_in_another_order_keep_their_own_rows(world_of: Worlds) -> None:
    world = world_of("search:status:code=400,calls=4,match=What")
    world.provider("second")
    for name, order in (("first", "[faulty, second]"), ("swapped", "[second, faulty]")):
        world.write(f"configs/runs/{name}.yaml", f"benchmarks: [facts]\nproviders: {order}\nmax_error_rate: 1\n")
    assert bench(world.workspace, "run", "-c", "first", "--run-id", "r5", **world.variables).returncode == 0
    phase_rows = """select o.name, p.phase, p.corpus, p.unit, p.attempt, p.outcome, e.data, e.started_us
        from phase p join owner o on o.id = p.owner join entry e on e.id = p.entry"""
    rows = set(world.query("r5", phase_rows))
    assert bench(world.workspace, "resume", "r5", "-c", "swapped", **world.variables).returncode == 0
    assert rows < set(world.query("r5", phase_rows)), "every row still belongs to its provider; errors were retried"
    shown = json.loads(bench(world.workspace, "results", "r5", "--json", **world.variables).stdout)
    assert {job["provider"]: job["metrics"]["mrr"]["n"] for job in shown["jobs"]} == {"faulty": 8, "second": 8}
    refused = bench(world.workspace, "resume", "r5", "-c", "swapped", "--providers", "second", **world.variables)
    assert refused.returncode == 2, "a plan with fewer providers is another plan"


async def test_R6_two_items_with_equal_questions_both_count_and_a_repeated_id_is_refused(world_of: Worlds) -> None:
    world = world_of(corpora=1, items=4)
    path = world.workspace / "datasets" / "facts.jsonl"
    row = json.loads(path.read_text())
    row["qa"][1]["q"] = row["qa"][0]["q"]
    path.write_text(json.dumps(row) + "\n")
    outcome = await world.run(providers="faulty")
    assert outcome.jobs[0].states == {State.MEASURED: 4}
    shown = json.loads(bench(world.workspace, "results", outcome.run_id, "--json", **world.variables).stdout)
    assert {metric["n"] for metric in shown["jobs"][0]["metrics"].values() if metric["value"] is not None} == {4}
    again = {**row, "id": "c1", "qa": [{**row["qa"][0], "q": "What is new?"}]}
    path.write_text(json.dumps(row) + "\n" + json.dumps(again) + "\n")
    with pytest.raises(DataError) as refused:
        world.plan(providers="faulty")
    assert f'item id "c0q0" occurs twice: {path}:1 and {path}:2' in str(refused.value)
    assert refused.value.exit_code == 2


async def test_R7_a_resume_requests_the_status_of_every_job_of_the_corpus(world_of: Worlds) -> None:
    world = world_of("add:latency:ms=120", corpora=1, items=10, sessions=10)
    world.provider("faulty", extra=WAITING, **{"on_unknown: reset": "on_unknown: probe"})
    process = world.start(providers="faulty", run_id="r7", concurrency=1)
    wait_for(lambda: world.calls("add") >= 7)
    kill(process)
    outcome = await world.resume("r7")
    assert outcome.exit_code == 0
    added = world.keys("add")
    assert len(added) == 10
    assert sum(added.values()) <= 11, "each session is added once; the session in flight at the kill is checked"
    assert len(world.keys("status")) == 10


@pytest.mark.parametrize("stored", [False, True], ids=["before it stored", "after it stored"])
@pytest.mark.parametrize("rule", ["probe", "reset"])
async def test_R7_after_a_provider_died_at_session_7_of_10_a_resume_requests_the_status_of_all_known_jobs(
    tmp_path: Path, rule: str, stored: bool
) -> None:
    with Mortal.born(tmp_path, dies_at=7, stored=stored) as service:
        world = World.make(tmp_path / "w", service.url, corpora=1, items=10, sessions=10)
        world.provider("faulty", extra=WAITING, **{"on_unknown: reset": f"on_unknown: {rule}"})
        outcome = await world.run(providers="faulty", run_id="r7", concurrency=1, max_error_rate=1)
        service.wait_dead()
        assert outcome.jobs[0].states == {State.ERROR: 10}
        assert (len(service.requests("add")), service.requests("status")) == (7 if stored else 6, [])
        service.reborn()
        outcome = await world.resume("r7")
        assert outcome.jobs[0].states == {State.MEASURED: 10}
        (searched,) = {one["namespace"] for one in service.requests("search")}
        added = [one for one in service.requests("add") if one["namespace"] == searched]
        assert len({one["content"] for one in added}) == len(added) == 10, "each session was added once"
        lost = {"job-7"} if stored else set()
        assert {one["job"] for one in service.requests("status")} == {one["job"] for one in added} - lost, (
            "the job id in a lost response is unknown"
        )
        assert len(service.requests("add")) == 10, "stored sessions are not sent again"


async def test_R8_a_store_in_process_memory_is_filled_again_by_a_resume(tmp_path: Path) -> None:
    world = World.make(tmp_path, corpora=2, items=6)
    forgetful_in(world)
    process = world.start(providers="forgetful", run_id="r8", concurrency=1)
    searched = "select count(*) from phase where phase = 3"
    journal = folder_of(world, "r8") / "journal.sqlite"
    wait_for(lambda: journal.exists() and world.query("r8", searched)[0][0] >= 2)
    kill(process)
    assert world.query("r8", "select count(*) from corpus_row where kind = 'ingested'")[0][0] >= 1
    assert ended(world.start(resume="r8")) == 0
    results = await results_of(world, "r8")
    assert [one[3] for one in results] == [State.MEASURED] * 12  # type: ignore[index]
    assert [one for one in results if not one[6]["search"]["returned"]] == []  # type: ignore[index]


async def test_R9_a_late_response_of_a_timed_out_call_changes_nothing(world_of: Worlds) -> None:
    world = world_of("search:late:ms=2500,calls=1,match=What", "search:latency:ms=100", corpora=1, items=14)
    world.provider("faulty", **{"timeout: 2000": "timeout: 1500"})
    outcome = await world.run(providers="faulty", concurrency=1, isolation="off")
    assert outcome.jobs[0].states == {State.MEASURED: 14}
    searched = world.query(
        outcome.run_id, "select unit, count(*) from phase where phase = 3 group by unit, owner, epoch"
    )
    assert len(searched) == 14 and all(n == 1 for _, n in searched)
    calls = [(began, ended) for began, ended, *_ in world.control("timeline?provider=default&endpoint=search")]
    assert calls[-1][0] > calls[0][0] + 2.5, "the late response came during the run"
    ledger = world.query(
        outcome.run_id, "select outcome, count(*) from call where endpoint = 'faulty.search' group by 1"
    )
    assert dict(ledger) == {"ok": 14, "timeout": 1}


async def test_R10_a_used_run_id_is_refused_without_any_request(world_of: Worlds) -> None:
    world = world_of()
    await world.run(providers="faulty", run_id="mine")
    before, content = (
        world.control("stats")["requests"],
        (world.workspace / "checkpoints/mine/journal.sqlite").read_bytes(),
    )
    flags = ["--benchmarks", "facts", "--providers", "faulty", "-k", "3", "--run-id", "mine"]
    refused = bench(world.workspace, "run", *flags, **world.variables)
    assert refused.returncode == 2 and b"mine" in refused.stderr
    assert world.control("stats")["requests"] == before
    assert (world.workspace / "checkpoints/mine/journal.sqlite").read_bytes() == content


@pytest.mark.parametrize("rule", ["reset", "probe"])
async def test_R11_a_batch_with_a_lost_response_is_in_the_searched_namespace_once(world_of: Worlds, rule: str) -> None:
    world = world_of("add:reset:effect=1,calls=1,skip=2", corpora=1, items=6)
    world.provider("faulty", **{"on_unknown: reset": f"on_unknown: {rule}"})
    outcome = await world.run(providers="faulty", cleanup="never")
    assert outcome.exit_code == 0
    held = {
        name: space["count"] for name, space in world.control("namespaces?provider=default").items() if space["count"]
    }
    assert list(held.values()) == [3]


@pytest.mark.parametrize("rule", ["reset", "probe"])
async def test_R11_a_batch_of_a_killed_process_is_in_the_searched_namespace_once(world_of: Worlds, rule: str) -> None:
    world = world_of("add:late:ms=60000,calls=1,skip=1", corpora=1, items=6)
    world.provider("faulty", **{"on_unknown: reset": f"on_unknown: {rule}", "timeout: 2000": "timeout: 90000"})
    process = world.start(providers="faulty", run_id="r11", cleanup="never")
    wait_for(lambda: [space["count"] for space in world.control("namespaces?provider=default").values()] == [2])
    kill(process)
    world.heal()
    outcome = await world.resume("r11", cleanup="never")
    assert outcome.jobs[0].states == {State.MEASURED: 6}
    spaces = world.control("namespaces?provider=default")
    assert [space["count"] for space in spaces.values()] == [3]
    searched = {key.partition("\t")[0] for key in world.keys("search") if "What opens" in key}
    assert [spaces[name]["count"] for name in searched] == [3]


WRONG = "select unit, entry, packed from score where state = 'incorrect' order by unit"


async def test_R12_only_errors_are_tried_again_and_every_attempt_is_kept(world_of: Worlds) -> None:
    """The run was killed before its last items: 30% of its items are incorrect and 10% are errors."""
    faults = "search:status:code=400,match=What opens the vault K0x[12][?]", "search:latency:ms=100"
    world = world_of(*faults, corpora=1, items=20)
    path = world.workspace / "datasets" / "facts.jsonl"
    row = json.loads(path.read_text())
    for wrong in row["qa"][3:9]:
        wrong["a"] = "something else"
    path.write_text(json.dumps(row) + "\n")
    flags = {"answering_model": "builtin/extractive", "max_error_rate": 1, "concurrency": 1}
    process = world.start(providers="faulty", run_id="r12", **flags)
    ends = "select state, count(*) from score group by state"
    journal = folder_of(world, "r12") / "journal.sqlite"
    wait_for(lambda: journal.exists() and sum(n for _, n in world.query("r12", ends)) >= 12)
    kill(process)
    world.heal()
    before = dict(world.query("r12", "select unit, entry from phase where phase = 3 and outcome = 'ok'"))
    wrong_before = world.query("r12", WRONG)
    assert dict(world.query("r12", ends))["incorrect"] == len(wrong_before) == 6
    calls = world.calls("search")
    outcome = await world.resume("r12")
    assert outcome.jobs[0].states == {State.CORRECT: 14, State.INCORRECT: 6}
    assert world.calls("search") - calls == 20 - len(before) + 1, (
        "errors and unfinished items, and one probe after the clear"
    )
    assert before.items() <= dict(world.query("r12", "select unit, entry from phase where phase = 3")).items()
    assert world.query("r12", WRONG) == wrong_before
    ledger = world.query("r12", "select outcome, count(*) from call where endpoint = 'faulty.search' group by outcome")
    assert dict(ledger)["rejected"] == 2
    shown = bench(world.workspace, "export", "r12", "--format", "jsonl", **world.variables)
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    assert sorted(one["attempts"]["search"] for one in rows) == [1] * 18 + [2] * 2
    receipt, items = receipt_of(world, "r12")
    assert {one["itemId"]: one["attempts"] for one in items if one["attempts"] > 1} == {"c0q1": 2, "c0q2": 2}
    assert receipt["counts"]["retries"] == 4, "a search and an evaluation of two items"
    assert len(receipt["run"]["resumes"]) == 1


async def test_R13_two_ranges_run_their_own_items_and_a_finished_run_has_nothing_left_to_do(world_of: Worlds) -> None:
    world = world_of(corpora=10, items=10)
    first = await world.run(providers="faulty", start=1, end=50)
    second = await world.run(providers="faulty", start=51, end=100)
    assert first.status is RunState.PARTIAL and first.exit_code == 0
    assert [outcome.jobs[0].states for outcome in (first, second)] == [{State.MEASURED: 50}] * 2
    assert world.plan(providers="faulty", start=1, end=50).digest == world.plan(providers="faulty").digest
    before = world.calls("search")
    merged = await merge([first.folder, second.folder], world.workspace / "checkpoints/both", run_id="both")
    assert (merged.state, merged.gaps) == (RunState.COMPLETE, ())
    again = await world.resume("both")
    assert (again.exit_code, again.message) == (0, "nothing left to do")
    assert again.jobs[0].states == {State.MEASURED: 100}
    assert world.calls("search") == before
    whole = await world.run(providers="faulty")
    before = world.control("stats")["requests"]
    again = await world.resume(whole.run_id)
    assert (again.exit_code, again.message) == (0, "nothing left to do")
    assert world.control("stats")["requests"] == before


async def test_C7_a_resume_needs_no_flags_and_refuses_flags_that_change_the_plan(world_of: Worlds) -> None:
    world = world_of("search:latency:ms=100")
    world.write("configs/benchmarks/other.yaml", "name: other\nversion: '1'\nextends: facts\n")
    process = world.start(providers="faulty", run_id="c7", k=3, concurrency=1)
    wait_for(lambda: world.calls("search") >= 4)
    kill(process)
    for flags in (["--benchmarks", "other"], ["-k", "4"], ["--providers", "bm25"]):
        refused = bench(world.workspace, "run", "--resume", "c7", *flags, **world.variables)
        assert refused.returncode == 2 and b"error: " in refused.stderr, flags
    assert bench(world.workspace, "resume", "c7", **world.variables).returncode == 0
    assert bench(world.workspace, "resume", "c7", "--concurrency", "1", **world.variables).returncode == 0


async def test_a_run_killed_several_times_has_the_results_of_an_uninterrupted_run(world_of: Worlds) -> None:
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


async def test_a_resume_after_a_kill_during_the_clear_searches_nothing_again(world_of: Worlds) -> None:
    world = world_of("clear:late:ms=5000", corpora=1, items=30)
    process = world.start(providers="faulty", run_id="cleared", concurrency=8)
    wait_for(lambda: world.calls("clear") >= 1)
    kill(process)
    world.heal()
    before = world.calls("search")
    outcome = await world.resume("cleared")
    assert outcome.jobs[0].states == {State.MEASURED: 30}
    assert world.calls("search") == before, "a cleared namespace must not be searched"
