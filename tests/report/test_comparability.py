"""Comparability: settings that must be equal, settings that can differ, and the text of differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from bench.journal import RunState
from bench.plan.job_record import ModelNames
from bench.report.comparison.comparability import Comparability, check_comparability, value_text
from bench.report.comparison.compare import compare_sides
from bench.report.comparison.comparison_targets import ComparisonTarget, sides_of
from bench.report.comparison.sides import Side
from tests.small_journal import RECORD, Job, made, measuring, record

VALUES: Mapping[str, float] = {f"q{at}": float(at % 2) for at in range(10)}
LISTED = {
    "benchmark", "benchmark_version", "dataset", "items", "k", "context_budget", "track", "answer_prompt",
    "answering_model", "judge_model", "judge_prompt", "metric_definition", "sample_seed",
}  # fmt: skip


async def sides(workspace: Path, *jobs: Job, state: RunState = RunState.COMPLETE) -> list[Side]:
    await made(workspace, "r", list(jobs), state=state)
    found = [
        await sides_of(workspace, [ComparisonTarget(run="r", provider="", job=job.record.key)], benchmark=None)
        for job in jobs
    ]
    return [group[0][0] for group in found]


async def checked(workspace: Path, *jobs: Job, metrics: tuple[str, ...] = ("accuracy",)) -> Comparability:
    a, b = await sides(workspace, *jobs)
    return check_comparability(a, b, metrics=metrics)


def job(provider: str, **changes: object) -> Job:
    return Job(record=record(provider, **changes), values=VALUES)


async def test_each_setting_that_affects_scores_is_checked(tmp_path: Path) -> None:
    found = await checked(tmp_path, job("x"), job("y"))
    assert {check.name for check in found.checks if check.affects_results} >= LISTED - {"judge_prompt"}
    assert found.ok and {check.name for check in found.by_design} == {"provider"}


async def test_prompts_are_compared_only_if_a_model_reads_them(tmp_path: Path) -> None:
    other = {"answer.default": "b" * 64, "judge.default": "i" * 64}
    silent = ModelNames(embedding=None, answering=None, judge=None)
    found = await checked(tmp_path / "1", job("x", models=silent), job("y", models=silent, prompts=other))
    assert found.ok
    judged = ModelNames(embedding=None, answering="acme/m1", judge="acme/j")
    found = await checked(tmp_path / "2", job("x", models=judged), job("y", models=judged, prompts=other))
    assert [check.name for check in found.differences] == ["answer_prompt", "judge_prompt"]


async def test_metric_definitions_are_compared_only_for_shown_metrics(tmp_path: Path) -> None:
    changes = measuring("accuracy", "mrr")
    metrics = changes["metrics"]
    assert isinstance(metrics, tuple)
    newer = (metrics[0], replace(metrics[1], definition="mrr/2"))
    jobs = job("x", **changes), job("y", **{**changes, "metrics": newer})
    assert (await checked(tmp_path / "1", *jobs)).ok
    (difference,) = (await checked(tmp_path / "2", *jobs, metrics=("accuracy", "mrr"))).differences
    assert difference.text == "metric definition: A has mrr=mrr/1, B has mrr=mrr/2"


async def test_different_answering_models_are_comparable_only_if_both_targets_name_them(tmp_path: Path) -> None:
    jobs = [
        job("x", key=f"job-{model}", models=ModelNames(embedding=None, answering=model, judge=None))
        for model in ("acme/m1", "acme/m2")
    ]
    a, b = await sides(tmp_path, *jobs)
    assert [check.name for check in check_comparability(a, b, metrics=()).differences] == ["answering_model"]
    named = [replace(side, named_model=True) for side in (a, b)]
    assert check_comparability(*named, metrics=()).ok
    elsewhere = replace(named[1], record=replace(named[1].record, provider="z"))
    assert not check_comparability(named[0], elsewhere, metrics=()).ok


async def test_retrieval_metrics_by_turn_and_by_session_are_not_compared(tmp_path: Path) -> None:
    changes = measuring("accuracy", "mrr")
    more = {"mrr": VALUES}
    jobs = [replace(job(p, level=level, **changes), more=more) for p, level in (("x", "turn"), ("y", "session"))]
    pair = compare_sides([await sides(tmp_path / "1", *jobs)]).comparisons[0]
    assert {row.metric for row in pair.rows} == {"accuracy"}
    assert pair.notes == ("not compared, because A counts evidence by turn, B by session: mrr",)
    assert pair.comparability.ok and "evidence_level" in {check.name for check in pair.comparability.by_design}
    silent = ModelNames(embedding=None, answering=None, judge=None)
    jobs = [replace(one, record=replace(one.record, models=silent)) for one in jobs]
    refused = compare_sides([await sides(tmp_path / "2", *jobs)], force=True).comparisons[0]
    assert "evidence_level" in {check.name for check in refused.comparability.differences}


@pytest.mark.parametrize("state", [RunState.PAUSED, RunState.STOPPED])
async def test_a_run_that_has_not_ended_is_a_difference_with_state_and_count(tmp_path: Path, state: RunState) -> None:
    a, b = await sides(tmp_path, job("x"), job("y"), state=state)
    (difference,) = check_comparability(a, b, metrics=()).differences
    assert difference.text.startswith(f"complete: A has {state}, 10 of 10 items")


def test_value_text_is_short() -> None:
    assert [value_text(one) for one in (None, True, 3, {"n": 2, "sha256": "ab"}, {})] == [
        "none", "yes", "3", "n=2, sha256=ab", "(none)",
    ]  # fmt: skip
    assert RECORD.k == 10
