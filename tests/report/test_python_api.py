"""``import bench``: plan, run, report and compare as functions."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

import bench
from bench import api
from bench.errors import UsageError
from tests.small_journal import Job, made, record

RIGHT = {f"q{at:02d}": float(at % 5 != 0) for at in range(50)}
WRONG = {item: 1 - value for item, value in RIGHT.items()}


async def two_runs(workspace: Path) -> None:
    await made(workspace, "r1", [Job(record=record("x"), values=RIGHT)])
    await made(workspace, "r2", [Job(record=record("y"), values=WRONG)])


def test_the_package_exports_its_functions() -> None:
    for name in ("plan", "run", "resume", "report", "compare", "frames"):
        assert name in bench.__all__
        assert callable(getattr(bench, name))


def test_report_and_compare_work_without_an_event_loop(tmp_path: Path) -> None:
    anyio.run(two_runs, tmp_path)
    assert api.report("r1", workspace=tmp_path).jobs[0].metrics["accuracy"].value == 0.8
    found = bench.compare("r1:x", "r2:y", workspace=tmp_path)
    assert found.comparisons[0].headlines[0].verdict == "A higher"


async def test_report_and_compare_work_inside_a_running_event_loop(tmp_path: Path) -> None:
    await two_runs(tmp_path)
    assert api.report("r2", workspace=tmp_path).run_id == "r2"
    found = bench.compare("r1:x", "r2:y", metric="accuracy", workspace=tmp_path)
    assert [row.metric for row in found.comparisons[0].rows] == ["accuracy"]


async def test_a_run_started_from_python_can_be_reported_and_compared(tmp_path: Path) -> None:
    plan = api.plan(
        workspace=tmp_path, benchmarks="demo", providers=["random", "oracle"], answering_model="none", limit=20
    )
    outcome = await bench.run(plan)
    assert outcome.exit_code == 0
    by_run = bench.compare(f"{outcome.run_id}:oracle", f"{outcome.run_id}:random", workspace=tmp_path)
    row = by_run.comparisons[0].headlines[0]
    assert row.found.n == api.report(outcome.run_id, workspace=tmp_path).jobs[0].metrics[row.metric].n


async def test_bench_compare_rejects_what_the_command_line_rejects(tmp_path: Path) -> None:
    await two_runs(tmp_path)
    await made(tmp_path, "r3", [Job(record=record("z", k=5), values=RIGHT)])
    for jobs, output in ((("r1:x",), "two sides"), ((), "no sides"), (("r1:x", "r3:z"), "k: A has 10, B has 5")):
        with pytest.raises(UsageError, match=output):
            bench.compare(*jobs, workspace=tmp_path)
    assert bench.compare("r1:x", "r3:z", force=True, workspace=tmp_path).forced
