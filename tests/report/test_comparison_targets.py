"""Selection of the jobs of a comparison, and the data of each side."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from bench.errors import UsageError
from bench.plan.job_record import ModelNames
from bench.report.comparison.comparison_targets import ComparisonTarget, newest_targets, parse_targets, sides_of
from bench.report.comparison.sides import Side
from bench.report.summary import rebuild
from tests.small_journal import Job, made, record

VALUES: dict[str, float | None] = {"q1": 1.0, "q2": 0.0, "q3": 1.0}


def job(provider: str, values: dict[str, float | None] | None = None, **changes: object) -> Job:
    return Job(record=record(provider, **changes), values=VALUES if values is None else values)


async def side_of(workspace: Path, target: str) -> Side:
    return (await sides_of(workspace, [ComparisonTarget.parse(target)], benchmark=None))[0][0]


async def runs_of(workspace: Path, *providers: str, benchmark: str = "facts") -> dict[str, str]:
    await rebuild(workspace)
    return {target.provider: target.run for target, _ in await newest_targets(workspace, benchmark, providers)}


async def test_the_newest_run_of_each_provider_is_selected(tmp_path: Path) -> None:
    for run in ("r1", "r2"):
        await made(tmp_path, run, [job("x"), job("y")])
    assert await runs_of(tmp_path, "x", "y") == {"x": "r2", "y": "r2"}


async def test_runs_with_shared_settings_are_preferred_to_newer_ones(tmp_path: Path) -> None:
    await made(tmp_path, "r1", [job("x"), job("y")])
    await made(tmp_path, "r2", [job("x", k=5)])
    assert await runs_of(tmp_path, "x", "y") == {"x": "r1", "y": "r1"}
    await made(tmp_path, "r3", [job("y", prompts={"answer.default": "c" * 64})])
    assert await runs_of(tmp_path, "x", "y") == {"x": "r1", "y": "r1"}


async def test_without_shared_settings_the_newest_run_of_each_provider_is_selected(tmp_path: Path) -> None:
    await made(tmp_path, "r1", [job("x", k=5)])
    await made(tmp_path, "r2", [job("y")])
    assert await runs_of(tmp_path, "x", "y") == {"x": "r1", "y": "r2"}


async def test_invalid_and_unfinished_runs_are_not_selected_by_provider_name(tmp_path: Path) -> None:
    await made(tmp_path, "r1", [job("x"), job("y")])
    await made(tmp_path, "r2", [job("x", {"q1": 1.0, "q2": None, "q3": None})])
    await made(tmp_path, "r3", [Job(record=record("y"), values=VALUES, planned=9)])
    assert await runs_of(tmp_path, "x", "y") == {"x": "r1", "y": "r1"}
    with pytest.raises(UsageError, match="provider z has no complete valid run of facts") as caught:
        await runs_of(tmp_path, "x", "z")
    assert "x, y" in caught.value.hint


async def test_parse_targets_needs_two_targets_or_two_provider_names_but_not_both(tmp_path: Path) -> None:
    for pairs, providers in (((), ()), (("r1:x",), ()), (("r1:x", "r2:y"), ("x", "y")), ((), ("x",))):
        with pytest.raises(UsageError):
            await parse_targets(tmp_path, pairs, benchmark="facts", providers=providers)
    with pytest.raises(UsageError, match="no results yet"):
        await parse_targets(tmp_path, (), benchmark="facts", providers=("x", "y"))


async def test_each_benchmark_of_both_runs_is_compared(tmp_path: Path) -> None:
    def of(provider: str, *benchmarks: str) -> list[Job]:
        return [job(provider, key=f"{provider}-{name}", benchmark=name) for name in benchmarks]

    await made(tmp_path, "r1", of("x", "facts", "tales", "songs"))
    await made(tmp_path, "r2", of("y", "songs", "facts"))
    targets = [ComparisonTarget.parse("r1:x"), ComparisonTarget.parse("r2:y")]
    groups = await sides_of(tmp_path, targets, benchmark=None)
    assert [[side.record.benchmark for side in group] for group in groups] == [["facts"] * 2, ["songs"] * 2]
    (only,) = await sides_of(tmp_path, targets, benchmark="songs")
    assert {side.record.benchmark for side in only} == {"songs"}
    with pytest.raises(UsageError, match="has no job tales x y"):
        await sides_of(tmp_path, targets, benchmark="tales")


async def test_a_model_in_the_target_selects_one_job_and_is_part_of_its_name(tmp_path: Path) -> None:
    models = [ModelNames(embedding=None, answering=name, judge=None) for name in ("acme/m1", "acme/m2:free")]
    await made(tmp_path, "r1", [job("x", key=f"job-{one.answering}", models=one) for one in models])
    side = await side_of(tmp_path, "r1:x:acme/m2:free")
    assert side.name == "x with acme/m2:free (run r1)" and side.system == "x with acme/m2:free"
    with pytest.raises(UsageError, match="several jobs") as caught:
        await side_of(tmp_path, "r1:x")
    assert caught.value.hint == "name the model: r1:x:acme/m1"


# ------------------------------------------------------------------------------ sides


async def test_a_side_has_nan_for_failed_items_and_unknown_metrics(tmp_path: Path) -> None:
    await made(tmp_path, "r1", [job("x", {"q1": 1.0, "q2": None, "q3": 0.0})])
    side = await side_of(tmp_path, "r1:x")
    column = side.column("accuracy")
    assert [column[side.positions[item]] for item in ("q1", "q3")] == [1.0, 0.0]
    assert math.isnan(column[side.positions["q2"]]) and side.states[side.positions["q2"]] == "error"
    assert all(math.isnan(value) for value in side.column("mrr")) and len(side.column("mrr")) == 3
    assert (side.name, side.system) == ("x (run r1)", "x")


async def test_a_side_is_marked_partial_or_invalid(tmp_path: Path) -> None:
    await made(tmp_path, "r1", [Job(record=record("x"), values=VALUES, planned=5), job("y", {"q1": None, "q2": 1.0})])
    partial, invalid = await side_of(tmp_path, "r1:x"), await side_of(tmp_path, "r1:y")
    assert partial.partial and (partial.n_ended, partial.n_planned) == (3, 5)
    assert not invalid.partial and "error" in " ".join(invalid.invalid)


async def test_labels_in_returns_the_label_of_each_item(tmp_path: Path) -> None:
    types = {"q1": "one", "q3": "two"}
    await made(tmp_path, "r1", [Job(record=record("x"), values=VALUES, types=types)])
    side = await side_of(tmp_path, "r1:x")
    assert {item: side.labels_in("question_type")[at] for item, at in side.positions.items()} == {
        **types,
        "q2": "(none)",
    }
