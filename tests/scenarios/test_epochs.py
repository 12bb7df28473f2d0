"""A run with epochs: every output counts items, and all outputs agree whether the job is valid."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from bench.engine import Outcome, SilentObserver
from bench.engine.progress import Progress
from bench.journal import RunState
from bench.journal.results_db import ResultsDb
from bench.model import FAILED_STATES, State
from bench.report.status import list_runs, run_status
from bench.report.summary import RESULTS_FILE, rebuild
from tests.scenarios.program import bench
from tests.small_world import World
from tests.web.workspaces import visiting

Worlds = Callable[..., World]

FLAGS: Mapping[str, Any] = {"providers": "faulty", "answering_model": "builtin/extractive", "isolation": "off"}


class KeptProgress(SilentObserver):
    """Keep the live counters."""

    progress: Progress

    def launched(self, progress: Progress) -> None:
        self.progress = progress


def results(world: World, run_id: str) -> dict[str, Any]:
    """The one job of ``results --json``."""
    shown = bench(world.workspace, "results", run_id, "--json", **world.variables)
    assert shown.returncode == 0, shown.stderr
    (job,) = json.loads(shown.stdout)["jobs"]
    return cast("dict[str, Any]", job)


async def job_equal_in_every_output(world: World, outcome: Outcome, live: Progress) -> dict[str, Any]:
    """Return the job of ``results --json``; every other output must have the same counts."""
    job = results(world, outcome.run_id)
    counts, planned = cast("dict[str, int]", job["counts"]), job["n_planned"]
    ended = sum(counts.values())
    failed = sum(counts.get(str(state), 0) for state in FAILED_STATES)
    assert ended + job["n_pending"] == planned
    assert sum(job["error_kinds"].values()) == counts.get("error", 0)
    for name, one in job["metrics"].items():
        assert one["n"] + one["n_excluded"] + one["n_failed"] == planned, name
        assert one["n_failed"] == failed + job["n_pending"], name
        for labels in one["breakdown"].values():
            for part in ("n", "n_excluded", "n_failed"):
                assert sum(label[part] for label in labels.values()) == one[part], (name, part)
    types = job["metrics"]["accuracy"]["breakdown"]["question_type"]
    sizes = {label: one["n"] + one["n_excluded"] + one["n_failed"] for label, one in types.items()}
    assert sizes == {"one": planned // 2, "two": planned // 2}, "pending items have a question type too"
    (job_outcome,) = outcome.jobs
    assert {str(state): count for state, count in job_outcome.states.items()} == counts
    assert (job_outcome.planned, job_outcome.pending, job_outcome.valid) == (planned, job["n_pending"], job["valid"])
    (running,) = live.jobs.values()
    assert (running.planned, running.ended) == (planned, ended)
    status = await run_status(outcome.folder)
    assert (status.total, status.completed, status.failed) == (planned, ended - failed, failed)
    (row,) = await list_runs(world.workspace)
    assert (row["planned"], row["ended"]) == (planned, ended)
    await rebuild(world.workspace)
    async with ResultsDb.open(world.workspace / "results" / RESULTS_FILE) as database:
        (stored,) = await database.runs()
    assert (stored.n_planned, stored.n_scored) == (planned, job["n_scored"])
    async with visiting(world.workspace) as visit:
        page = await visit.document(f"/runs/{outcome.run_id}")
    progress = page["progress"]
    shown = page["results"]["jobs"][0]
    assert {name: shown[name] for name in ("epochs", "n_planned", "n_pending", "counts")} == {
        name: job[name] for name in ("epochs", "n_planned", "n_pending", "counts")
    }
    assert [count for _, count in shown["ends"]][-1:] == [ended][: len(shown["ends"])], (
        "the last point of the pace is the number of ended items"
    )
    assert (progress["planned"], progress["ended"], progress["failed"]) == (planned, ended, failed)
    assert progress["jobs"][0]["counts"] == counts
    return job


async def run(world: World, **flags: object) -> tuple[Outcome, Progress]:
    observer = KeptProgress()
    outcome = await world.run(observer, **FLAGS, **flags)
    return outcome, observer.progress


async def test_a_run_with_epochs_counts_each_item_once(world_of: Worlds) -> None:
    world = world_of(corpora=2, items=4)
    outcome, live = await run(world, epochs=3)
    assert world.calls("search") == 24
    job = await job_equal_in_every_output(world, outcome, live)
    assert (job["epochs"], job["n_planned"], job["counts"], job["n_scored"]) == (3, 8, {"correct": 8}, 8)
    assert job["metrics"]["accuracy"]["spread"] == 0.0
    assert outcome.resume is None


async def test_a_failure_in_one_of_three_repeats_fails_no_item_but_makes_the_job_invalid(world_of: Worlds) -> None:
    world = world_of("search:status:code=400,every=3", corpora=2, items=4)
    outcome, live = await run(world, epochs=3, concurrency=1)
    job = await job_equal_in_every_output(world, outcome, live)
    assert (job["counts"], job["n_failed_repeats"], job["error_kinds"]) == ({"correct": 8}, 8, {})
    assert job["invalid"] == ["8 of 24 repeats of items failed (error or not_ready): above the allowed 2%"]
    assert "8 of 24 repeats failed; an item counts as failed if all of its repeats failed" in job["notes"]
    assert outcome.exit_code == 4
    assert outcome.resume == f"bench run --resume {outcome.run_id}", "eight repeats failed"
    world.heal()
    again = KeptProgress()
    resumed = await world.resume(outcome.run_id, again)
    assert world.calls("search") == 32
    assert resumed.resume is None
    healed = await job_equal_in_every_output(world, resumed, again.progress)
    assert (healed["counts"], healed["n_failed_repeats"], healed["valid"]) == ({"correct": 8}, 0, True)
    assert resumed.exit_code == 0


async def test_an_item_fails_once_if_all_its_repeats_failed(world_of: Worlds) -> None:
    world = world_of("search:status:code=400,match=opens the vault K1x0", corpora=2, items=4)
    outcome, live = await run(world, epochs=3)
    job = await job_equal_in_every_output(world, outcome, live)
    assert (job["counts"], job["error_kinds"]) == ({"correct": 7, "error": 1}, {"rejected": 1})
    assert job["invalid"] == ["3 of 24 repeats of items failed (error or not_ready): above the allowed 2%"]
    assert outcome.exit_code == 4


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_an_item_with_unfinished_repeats_is_pending(world_of: Worlds, concurrency: int) -> None:
    world = world_of("search:latency:ms=150", corpora=2, items=6)
    outcome, live = await run(world, epochs=3, concurrency=concurrency, max_time=1.0)
    assert outcome.status is RunState.STOPPED
    job = await job_equal_in_every_output(world, outcome, live)
    assert job["n_planned"] == 12 and job["n_pending"] > 0
    assert outcome.resume is not None
    world.heal()
    again = KeptProgress()
    resumed = await world.resume(outcome.run_id, again, max_time=60)
    whole = await job_equal_in_every_output(world, resumed, again.progress)
    assert (whole["counts"], whole["n_pending"], resumed.status) == ({"correct": 12}, 0, RunState.COMPLETE)
    assert world.calls("search") <= 36 + concurrency, "items that had ended were not searched again"


def test_a_receipt_has_one_row_per_repeat_and_totals_of_the_rows(world_of: Worlds) -> None:
    """The counts of a receipt are counts of repeats, because a verifier has only the rows."""
    world = world_of("search:status:code=400,every=3", corpora=2, items=4)
    at, variables = world.workspace, {**world.variables, "XDG_CONFIG_HOME": str(world.workspace / "home")}

    def ran(*arguments: str) -> Any:
        done = bench(at, *arguments, **variables)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done

    flags = ("--benchmarks", "facts", "--providers", "faulty", "--answering-model", "builtin/extractive")
    allowed = ("--max-error-rate", "0.5", "--run-id", "r")
    ran("run", *flags, "--isolation", "off", "--epochs", "3", "--concurrency", "1", *allowed)
    ran("keys", "new")
    (receipt,) = json.loads(ran("sign", "r", "--json").stdout)["receipts"]
    assert b"24 planned, each of 8 items 3 times, 8 failed, 0 pending" in ran("verify", receipt["file"]).stdout
    stated = json.loads((at / Path(receipt["file"])).read_text())
    counts = stated["counts"]
    assert (counts["planned"], counts["byState"]["correct"], counts["byState"]["error"]) == (24, 16, 8)
    assert stated["perQuery"]["count"] == 24 and stated["run"]["epochs"] == 3
    assert results(world, "r")["counts"] == {str(State.CORRECT): 8}


async def test_a_resume_with_a_higher_max_error_rate_makes_the_job_valid_in_every_output(world_of: Worlds) -> None:
    world = world_of("search:status:code=400,match=opens the vault K1x0", corpora=2, items=4)
    outcome, live = await run(world, epochs=1)
    assert (await job_equal_in_every_output(world, outcome, live))["valid"] is False
    again = KeptProgress()
    resumed = await world.resume(outcome.run_id, again, max_error_rate=0.5)
    assert (resumed.exit_code, (await job_equal_in_every_output(world, resumed, again.progress))["valid"]) == (0, True)
