"""Notes on the load under which latencies were measured, and on intervals of equal sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bench.config.run import RunRequest
from bench.journal import ResumeRow, RunMeta
from bench.report.comparison.compare import compare_sides
from bench.report.comparison.comparison_rows import Comparisons
from bench.report.comparison.comparison_targets import ComparisonTarget, sides_of
from bench.report.comparison.formats import comparison_grids, comparison_json, conclusions
from bench.report.comparison.sides import Side, load_of
from tests.full_journal import AT
from tests.rows import each_row
from tests.small_journal import Job, made, measuring, record

ITEMS = [f"q{at:02d}" for at in range(20)]
CLUSTERS = {name: f"c{at % 4}" for at, name in enumerate(ITEMS)}
TYPES = {name: f"t{at % 2}" for at, name in enumerate(ITEMS)}
RIGHT = {name: float(at % 3 == 0) for at, name in enumerate(ITEMS)}
TIMES = {name: 1000.0 + at for at, name in enumerate(ITEMS)}
SLOWER = {name: 1100.0 + at * at for at, name in enumerate(ITEMS)}


def meta(**flags: object) -> RunMeta:
    operation = RunRequest.combine(None, flags).operation()
    return RunMeta(run_id="r", plan_digest="d", identity={}, extra={"operation": operation})


def resume(**flags: object) -> ResumeRow:
    return ResumeRow(at=AT, data={"operation": RunRequest.combine(None, flags).operation()})


@each_row(
    ("flags", "resumes", "load"),
    [
        ({}, [], {"concurrency": 10}),
        ({"concurrency": "auto", "ingest_concurrency": 3}, [], {"concurrency": "auto", "ingest_concurrency": 3}),
        ({"concurrency": 4}, [resume(concurrency=4)], {"concurrency": 4}),
        ({"concurrency": 4}, [resume(concurrency=2), resume(concurrency=4)], {"concurrency": [4, 2]}),
        ({"rate": ["chroma.search=5/s"]}, [], {"concurrency": 10, "rate": {"search": "5/s"}}),
        ({"rate": ["chroma=5/s"]}, [], {"concurrency": 10, "rate": {"all": "5/s"}}),
        ({"rate": ["chroma@x=5/s"]}, [], {"concurrency": 10, "rate": {"all": "5/s"}}),
        ({"rate": ["openai/m=9/m"]}, [], {"concurrency": 10, "rate": {"openai/m": "9/m"}}),
        ({}, [resume(rate=["chroma=5/s"])], {"concurrency": 10, "rate": [{}, {"all": "5/s"}]}),
    ],
)
def test_the_load_of_a_run_is_its_concurrency_and_rate_limits_of_all_processes(
    flags: Mapping[str, object], resumes: Sequence[ResumeRow], load: Mapping[str, object]
) -> None:
    assert load_of(meta(**flags), resumes, "chroma@x") == load


def test_a_run_without_a_recorded_load_has_none() -> None:
    assert load_of(replace(meta(), extra={}), [], "chroma") == {}


async def sides(workspace: Path, *jobs: Job) -> list[Side]:
    await made(workspace, "r", list(jobs))
    targets = [ComparisonTarget(run="r", provider="", job=one.record.key) for one in jobs]
    return (await sides_of(workspace, targets, benchmark=None))[0]


async def loaded(workspace: Path, a: Mapping[str, object], b: Mapping[str, object], *names: str) -> Comparisons:
    """Compare two jobs under two loads; the first metric name is the headline."""
    changes = measuring(*names)
    more = {"latency_p50": TIMES} if names[0] == "accuracy" else {"accuracy": RIGHT}
    values = [RIGHT, RIGHT] if names[0] == "accuracy" else [TIMES, SLOWER]
    jobs = [Job(record=record(n, **changes), values=v, more=more) for n, v in zip(("x", "y"), values, strict=True)]
    x, y = await sides(workspace, *jobs)
    return compare_sides([[replace(x, load=a), replace(y, load=b)]])


LOADS_DIFFER = (
    "the loads differ, which changes times (concurrency: A has 2, B has 8; rate: A has none, B has search=5/s)"
)
SLOW, FAST = {"concurrency": 2}, {"concurrency": 8, "rate": {"search": "5/s"}}


async def test_different_loads_add_a_note_to_latencies_and_the_sides_stay_comparable(tmp_path: Path) -> None:
    found = await loaded(tmp_path, SLOW, FAST, "accuracy", "latency_p50")
    headline, exploratory = comparison_grids(found)
    assert f"latency_p50: {LOADS_DIFFER}" in exploratory.notes
    assert not any("load" in note or "concurrency" in note for note in headline.notes), "no times are there"
    assert "load" not in conclusions(found)[0]
    (pair,) = comparison_json(found)["comparisons"]  # type: ignore[misc]
    checks = {one["name"]: (one["same"], one["affects_results"]) for one in pair["like_for_like"]["checks"]}
    assert checks["concurrency"] == checks["rate"] == (False, False)


async def test_the_conclusion_about_latencies_mentions_different_loads(tmp_path: Path) -> None:
    found = await loaded(tmp_path, SLOW, FAST, "latency_p50", "accuracy")
    headline, _ = comparison_grids(found)
    assert f"latency_p50: {LOADS_DIFFER}" in headline.notes
    assert LOADS_DIFFER in conclusions(found)[0]


@pytest.mark.parametrize(("a", "b"), [(FAST, FAST), ({}, FAST), ({}, {})])
async def test_equal_or_unknown_loads_add_no_note(
    tmp_path: Path, a: Mapping[str, object], b: Mapping[str, object]
) -> None:
    found = await loaded(tmp_path, a, b, "latency_p50", "accuracy")
    texts = [*conclusions(found), *(note for grid in comparison_grids(found) for note in grid.notes)]
    assert not any("load" in text for text in texts)


# ------------------------------------------------------------------------------ equal sides


async def test_the_interval_of_equal_sides_is_explained(tmp_path: Path) -> None:
    x, y = await sides(tmp_path, *(Job(record=record(name), values=RIGHT, types=TYPES) for name in ("x", "y")))
    found = compare_sides([[x, y]])
    (row,) = found.comparisons[0].headlines
    assert row.found.interval is not None and row.found.interval.method == "wilson_degenerate"
    (text,) = conclusions(found)
    assert text.endswith("p = 1.0000; no item differs: the interval shows what 20 items could have missed.")
    headline, exploratory = comparison_grids(found)
    assert "accuracy: no item differs: the interval shows what 20 items could have missed" in headline.notes
    output = [note for note in exploratory.notes if "have missed" in note]
    assert output == ["accuracy: t0, accuracy: t1: no item differs: the interval shows what 10 items could have missed"]


async def test_a_difference_that_is_equal_in_each_cluster_is_explained_by_clusters(tmp_path: Path) -> None:
    values = {"x": dict.fromkeys(ITEMS, 1.0), "y": dict.fromkeys(ITEMS, 0.0)}
    jobs = [Job(record=record(n, cluster_by="corpus"), values=v, corpora=CLUSTERS) for n, v in values.items()]
    found = compare_sides([await sides(tmp_path, *jobs)])
    assert (
        "accuracy: the difference is the same in each cluster: the interval shows what 4 clusters could have missed"
    ) in comparison_grids(found)[0].notes
