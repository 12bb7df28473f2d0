"""The statistical test of each metric."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.errors import UsageError
from bench.metrics import open_metrics
from bench.report.comparison import paired_tests as rowtests
from bench.report.comparison.compare import compare_sides
from bench.report.comparison.comparison_rows import PairComparison
from bench.report.comparison.comparison_targets import ComparisonTarget, sides_of
from bench.report.comparison.paired_tests import PairedValues, can_be_paired, is_time
from tests.rows import each_row
from tests.small_journal import Job, made, measuring, record

ITEMS = [f"q{at:03d}" for at in range(240)]
Columns = Mapping[str, Mapping[str, float]]


def columns(seed: int, factor: float = 1.0) -> dict[str, dict[str, float]]:
    """Return random values of four metrics; latencies are multiplied by ``factor``."""
    rng = random.Random(seed)
    return {
        "accuracy": {item: float(rng.random() < 0.5) for item in ITEMS},
        "ndcg_at_10": {item: rng.random() for item in ITEMS},
        "latency_p50": {item: float(round(factor * rng.lognormvariate(9, 0.5))) for item in ITEMS},
        "latency_mean": {item: float(round(factor * rng.lognormvariate(9, 0.5))) for item in ITEMS},
    }


async def compared(workspace: Path, a: Columns, b: Columns, *, clusters: int = 0) -> PairComparison:
    names = list(a)
    changes = measuring(*names)
    corpora = {item: f"c{at % clusters}" for at, item in enumerate(ITEMS)} if clusters else {}
    for run, own in (("r1", a), ("r2", b)):
        job = Job(
            record=record(run, cluster_by="corpus" if clusters else None, **changes),
            values=own[names[0]],
            more={name: own[name] for name in names[1:]},
            corpora=corpora,
            types={item: f"t{at % 3}" for at, item in enumerate(ITEMS)},
        )
        await made(workspace, run, [job])
    groups = await sides_of(
        workspace, [ComparisonTarget.parse("r1:r1"), ComparisonTarget.parse("r2:r2")], benchmark=None
    )
    return compare_sides(groups).comparisons[0]


TESTS = {
    0: ("mcnemar_exact", "paired_t", "order_statistic", "paired_t"),
    10: ("cluster_sign_flip", "cluster_sign_flip", "cluster_bootstrap", "cluster_sign_flip"),
    30: ("cluster_t", "cluster_t", "order_statistic", "cluster_t"),
}


@pytest.mark.parametrize("clusters", TESTS)
async def test_each_kind_of_metric_has_its_statistical_test(tmp_path: Path, clusters: int) -> None:
    pair = await compared(tmp_path, columns(1), columns(2, 1.5), clusters=clusters)
    rows = {row.metric: row for row in pair.rows if row.label is None}
    assert tuple(rows[name].found.test for name in columns(1)) == TESTS[clusters]
    assert [row.is_ratio for row in rows.values()] == [False, False, True, True]
    slower = rows["latency_mean"]
    assert slower.found.delta is not None and slower.found.delta == pytest.approx(1 / 1.5 - 1, abs=0.15)
    assert slower.found.b is not None and slower.found.b < 30, "printed in ms, measured in us"


async def test_rows_of_question_types_are_exploratory_and_add_up(tmp_path: Path) -> None:
    pair = await compared(tmp_path, columns(3), columns(4))
    labels = [row for row in pair.rows if row.dimension == "question_type"]
    assert [row.label for row in labels] == ["t0", "t1", "t2"]
    assert sum(row.found.n for row in labels) == pair.headlines[0].found.n == len(ITEMS)
    assert {row.family for row in labels} == {"exploratory"}


def test_only_pairs_with_both_values_count() -> None:
    (accuracy,) = open_metrics(["accuracy"], k=10, folder=Path())
    nan = float("nan")
    pairs = PairedValues.of([1.0, nan, 0.0, 1.0], [0.0, 1.0, nan, 1.0], None, labels_in=lambda _: ["x"] * 4)
    found = rowtests.compare_metric(accuracy, pairs)
    assert (found.n, found.excluded, found.a, found.b) == (2, 2, 1.0, 0.5)


def test_pairs_with_a_time_of_zero_are_excluded_from_ratios() -> None:
    (latency,) = open_metrics(["latency_mean"], k=10, folder=Path())
    pairs = PairedValues.of([2000.0, 0.0, 4000.0], [1000.0, 5.0, 2100.0], None)
    found = rowtests.compare_metric(latency, pairs)
    assert (found.n, found.excluded) == (2, 1)
    assert is_time(latency) and found.delta == pytest.approx(0.95, abs=0.1)


def test_a_macro_mean_weights_each_label_equally() -> None:
    (macro,) = open_metrics(["accuracy_macro"], k=10, folder=Path())
    left, right = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    labels = ["big"] * 4 + ["small"] * 2
    found = rowtests.compare_metric(macro, PairedValues.of(left, right, None, labels_in=lambda _: labels))
    assert found.test == "macro_t" and found.delta == pytest.approx((0.5 + 0.5) / 2)


async def test_a_metric_without_values_per_item_is_noted_and_cannot_be_requested(tmp_path: Path) -> None:
    names = ("accuracy", "cost_total")
    assert [can_be_paired(one) for one in open_metrics(names, k=10, folder=Path())] == [True, False]
    changes = measuring(*names)
    for run in ("r1", "r2"):
        await made(tmp_path, run, [Job(record=record(run, **changes), values=columns(1)["accuracy"])])
    groups = await sides_of(
        tmp_path, [ComparisonTarget.parse("r1:r1"), ComparisonTarget.parse("r2:r2")], benchmark=None
    )
    assert compare_sides(groups).comparisons[0].notes == (
        "not compared, because there is no value per item: cost_total",
    )
    with pytest.raises(UsageError, match="cannot be paired"):
        compare_sides(groups, metrics=["cost_total"])


NAN = float("nan")


def pairs(left: list[float], right: list[float], clusters: list[str] | None = None) -> PairedValues:
    labels = [f"t{at % 2}" for at in range(len(left))]
    return PairedValues.of(left, right, clusters, labels_in=lambda _: labels)


def test_scored_keeps_values_clusters_and_labels_aligned() -> None:
    part = pairs([1.0, 2.0, NAN, 4.0], [5.0, NAN, 7.0, 8.0], ["a", "b", "c", "d"]).scored()
    assert (list(part.left), list(part.right), part.clusters, part.labels_in("x")) == (
        [1.0, 4.0], [5.0, 8.0], ["a", "d"], ["t0", "t1"],
    )  # fmt: skip
    whole = pairs([1.0], [2.0])
    assert whole.scored() is whole and whole.where([False]).clusters is None


@each_row("name", ["accuracy", "latency_p50", "latency_mean", "accuracy_macro"])
@each_row(("left", "right"), [([], []), ([NAN], [NAN]), ([1.0, NAN], [NAN, 1.0])])
def test_a_comparison_without_pairs_has_no_values(name: str, left: list[float], right: list[float]) -> None:
    (measure,) = open_metrics([name], k=10, folder=Path())
    found = rowtests.compare_metric(measure, pairs(left, right))
    assert (found.n, found.excluded, found.delta, found.p, found.interval) == (0, len(left), None, None, None)
    assert (found.wins, found.losses, found.ties) == (0, 0, 0)


def test_times_that_are_all_zero_leave_no_pair() -> None:
    (latency,) = open_metrics(["latency_mean"], k=10, folder=Path())
    found = rowtests.compare_metric(latency, pairs([0.0, 0.0], [5.0, 6.0]))
    assert (found.n, found.excluded, found.delta) == (0, 2, None)


def test_costs_and_tokens_are_compared_by_difference() -> None:
    for name, scale in (("cost_per_query", 1.0), ("tokens_context", 1.0)):
        (measure,) = open_metrics([name], k=10, folder=Path())
        assert not is_time(measure) and can_be_paired(measure)
        found = rowtests.compare_metric(measure, pairs([2.0, 4.0, 6.0], [1.0, 1.0, 2.0]))
        assert found.delta == pytest.approx(8 / 3 / scale) and found.a == pytest.approx(4.0 / scale)


def test_a_single_pair_has_a_difference_but_no_interval() -> None:
    (latency,) = open_metrics(["latency_mean"], k=10, folder=Path())
    found = rowtests.compare_metric(latency, pairs([2000.0], [1000.0]))
    assert found.n == 1 and found.delta == pytest.approx(1.0) and found.interval is None
