"""Comparisons of few conversations: decided if possible, otherwise "cannot be decided" and not "no difference"."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.report.comparison.compare import compare_sides
from bench.report.comparison.comparison_rows import Comparisons
from bench.report.comparison.comparison_targets import ComparisonTarget, sides_of
from bench.report.comparison.formats import comparison_json, comparison_markdown
from tests.small_journal import Job, made, measuring, record

METRICS = ("accuracy", "hit_at_5", "hit_at_10", "recall_fraction_at_10", "ndcg_at_10", "mrr", "map", "latency_p95")
TYPES = ("one", "two", "three")


def job(provider: str, found: Callable[[int], float], conversations: int, *, types: int = 3) -> Job:
    """16 questions per conversation; every retrieval metric is 1 where the evidence was found."""
    items = [f"q{at:03d}" for at in range(16 * conversations)]
    column: dict[str, float] = {item: found(at) for at, item in enumerate(items)}
    times = {item: 1000.0 + 37 * at % 91 for at, item in enumerate(items)}
    same = dict.fromkeys(items, 0.5)
    more: Mapping[str, Mapping[str, float]] = {
        name: times if name == "latency_p95" else same if name == "map" else column for name in METRICS[1:]
    }
    return Job(
        record=record(provider, cluster_by="corpus", **measuring(*METRICS)),
        values=same,
        more=more,
        corpora={item: f"c{at // 16}" for at, item in enumerate(items)},
        types={item: TYPES[at % types] for at, item in enumerate(items)},
    )


async def compared(workspace: Path, *jobs: Job) -> Comparisons:
    await made(workspace, "r", list(jobs))
    targets = [ComparisonTarget(run="r", provider="", job=one.record.key) for one in jobs]
    return compare_sides(await sides_of(workspace, targets, benchmark=None))


def good(at: int) -> float:
    return float(at % 4 != 0)


def bad(at: int) -> float:
    return float(at % 13 == 0)


async def test_eight_conversations_are_enough_to_decide_exploratory_rows(tmp_path: Path) -> None:
    found = await compared(tmp_path, job("bm25", good, 8), job("random", bad, 8))
    document: Any = comparison_json(found)
    rows = {row["metric"]: row for row in document["comparisons"][0]["rows"] if row["label"] is None}
    hit = rows["hit_at_10"]
    assert hit["family"] == "exploratory" and hit["test"] == "cluster_sign_flip"
    assert hit["p"] == hit["p_adjusted"] == 2 / 2**8
    assert hit["verdict"] == "exploratory: A higher" and hit["better"] == "a"
    assert rows["map"]["verdict"].startswith("exploratory: no detectable difference")
    assert rows["latency_p95"]["family"] == "percentiles"
    assert document["version"] == 2
    assert document["correction"] == {
        "headline": "holm", "exploratory": "westfall_young_maxt", "percentiles": "holm",
    }  # fmt: skip


@pytest.mark.parametrize(("conversations", "least"), [(2, 0.5), (5, 0.0625)])
async def test_too_few_conversations_cannot_be_decided_and_are_not_called_equal(
    tmp_path: Path, conversations: int, least: float
) -> None:
    found = await compared(tmp_path, job("bm25", good, conversations), job("random", bad, conversations))
    document: Any = comparison_json(found)
    tested = [row for row in document["comparisons"][0]["rows"] if row["test"] == "cluster_sign_flip"]
    assert tested
    for row in tested:
        assert row["p"] >= least and row["mde"] is None and row["better"] is None
        assert row["verdict"].removeprefix("exploratory: ") == f"cannot be decided: {conversations} conversations"
    text = comparison_markdown(found)
    assert f"cannot be decided: {conversations} conversations" in text
    assert "no detectable difference" not in text and "| none |" not in text


async def test_four_items_without_clusters_cannot_be_decided(tmp_path: Path) -> None:
    jobs = [
        Job(record=record(name), values={f"q{at}": value(at) for at in range(4)})
        for name, value in (("x", good), ("y", bad))
    ]
    (row,) = (await compared(tmp_path, *jobs)).comparisons[0].rows
    assert row.verdict == "cannot be decided: 4 items" and row.mde is None


async def test_the_correction_for_several_pairs_can_leave_rows_undecided(tmp_path: Path) -> None:
    jobs = [job(name, side, 6) for name, side in (("x", good), ("y", bad), ("z", bad))]
    rows = [row for one in (await compared(tmp_path, *jobs)).comparisons for row in one.rows_of("exploratory")]
    assert {row.verdict for row in rows if row.metric == "hit_at_5"} == {
        "exploratory: cannot be decided: 6 conversations"
    }


async def test_family_size_counts_only_rows_with_a_p_value(tmp_path: Path) -> None:
    lonely = [job("x", good, 1), job("y", bad, 1)]
    found = await compared(tmp_path, *lonely)
    assert all(row.found.p is None for one in found.comparisons for row in one.rows)
    assert found.family_size == {"headline": 0, "exploratory": 0, "percentiles": 0}
    many = await compared(tmp_path / "many", job("x", good, 8), job("y", bad, 8))
    document: Any = json.loads(json.dumps(comparison_json(many)))
    for family, size in document["family_size"].items():
        rows = [row for row in document["comparisons"][0]["rows"] if row["family"] == family]
        assert size == sum(row["p"] is not None for row in rows)
