"""Properties of comparisons, rankings and tables for any values."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bench.journal import RunState
from bench.journal.results_db import JobSummary, MetricSummary
from bench.metrics import open_metrics
from bench.metrics.fold_input import labels_of
from bench.model import Measurement
from bench.report.comparison import paired_tests as rowtests
from bench.report.comparison.comparability import check_comparability
from bench.report.comparison.compare import compare_sides
from bench.report.comparison.comparison_rows import PairComparison, gate_outcomes
from bench.report.comparison.comparison_targets import _newest_comparable
from bench.report.comparison.formats import comparison_grids, comparison_json
from bench.report.comparison.paired_tests import LEVEL, PairedValues
from bench.report.comparison.sides import Side
from bench.report.fold import IsolationProof, JobReport, Report
from bench.report.leaderboard.formats import board_csv, board_grids, board_json
from bench.report.leaderboard.standings import VIEWS, RankedJob, summary_sentences, tables_of
from bench.report.tables import matrix, overview
from tests.small_journal import measuring, record

NAN = math.nan
(ACCURACY,) = open_metrics(["accuracy"], k=10, folder=Path())
(LATENCY,) = open_metrics(["latency_mean"], k=10, folder=Path())
VALUES = st.lists(st.tuples(*[st.sampled_from([0.0, 0.25, 0.5, 1.0, NAN])] * 2), min_size=1, max_size=14)


def side(name: str, column: Sequence[float], *, clusters: int = 0, types: int = 1) -> Side:
    """Return a side of a comparison with these values."""
    items = [f"q{at:02d}" for at in range(len(column))]
    return Side(
        run_id=f"r-{name}",
        record=replace(record(name, **measuring("accuracy")), cluster_by="corpus" if clusters else None),
        status=RunState.COMPLETE,
        invalid=(),
        n_planned=len(items),
        n_ended=len(items),
        measures={"accuracy": ACCURACY},
        items=items,
        corpora=[f"c{at % clusters}" if clusters else "c" for at in range(len(items))],
        states=["unscored" if value != value else "correct" for value in column],
        labels=[labels_of({"question_type": f"t{at % types}"}) for at in range(len(items))],
        columns={"accuracy": array("d", column)},
    )


def compared(values: Sequence[tuple[float, float]], **more: int) -> PairComparison:
    a, b = ([pair[at] for pair in values] for at in (0, 1))
    return compare_sides([[side("a", a, **more), side("b", b, **more)]]).comparisons[0]


def swapped(values: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(right, left) for left, right in values]


def near(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)


# ------------------------------------------------------------------------------ comparing


@given(values=VALUES, clusters=st.sampled_from([0, 1, 3]), types=st.sampled_from([1, 2]))
def test_swapping_the_sides_only_negates_the_difference(
    values: list[tuple[float, float]], clusters: int, types: int
) -> None:
    one, other = (
        compared(values, clusters=clusters, types=types),
        compared(swapped(values), clusters=clusters, types=types),
    )
    assert len(one.rows) == len(other.rows)
    for row, turned in zip(one.rows, other.rows, strict=True):
        a, b = row.found, turned.found
        assert (row.metric, row.label, row.family, a.n, a.test) == (
            turned.metric,
            turned.label,
            turned.family,
            b.n,
            b.test,
        )
        assert near(a.a, b.b) and near(a.b, b.a) and near(a.p, b.p) and near(row.p_adjusted, turned.p_adjusted)
        assert near(a.delta, None if b.delta is None else -b.delta) and near(a.mde, b.mde)
        assert (a.wins, a.losses, a.ties) == (b.losses, b.wins, b.ties)
        if a.interval is not None and b.interval is not None:
            assert near(a.interval.low, -b.interval.high) and near(a.interval.high, -b.interval.low)
        assert {row.better, turned.better} in ({None}, {"a", "b"})
    assert one.items.flips["a"] == other.items.flips["b"] and one.items.paired == other.items.paired


@given(values=VALUES, types=st.sampled_from([1, 2, 3]))
def test_items_are_paired_once_or_counted_by_side_and_labels_add_up(
    values: list[tuple[float, float]], types: int
) -> None:
    one = compared(values, types=types)
    (headline,) = one.headlines
    both = [(left, right) for left, right in values if left == left and right == right]
    assert one.items.paired == headline.found.n == len(both)
    assert headline.found.wins + headline.found.losses + headline.found.ties == len(both)
    for name, at in (("a", 0), ("b", 1)):
        assert sum(one.items.excluded[name].values()) == sum(pair[at] != pair[at] for pair in values)
    labels = [row for row in one.rows if row.label is not None]
    assert not labels or sum(row.found.n for row in labels) == len(both)
    assert len(one.items.flips["a"]) == headline.found.wins and len(one.items.flips["b"]) == headline.found.losses
    if both:
        mean = math.fsum(left - right for left, right in both) / len(both)
        assert headline.found.delta is not None and math.isclose(headline.found.delta, mean, abs_tol=1e-12)


@given(st.lists(VALUES, min_size=2, max_size=3))
def test_an_adjusted_p_is_never_smaller_and_keeps_the_order_of_its_family(
    many: list[list[tuple[float, float]]],
) -> None:
    groups = [
        [side(f"a{at}", [left for left, _ in values], types=2), side(f"b{at}", [right for _, right in values], types=2)]
        for at, values in enumerate(many)
    ]
    found = compare_sides(groups)
    for family in ("headline", "exploratory"):
        rows = [row for one in found.comparisons for row in one.rows_of(family)]
        assert found.family_size[family] == sum(row.found.p is not None for row in rows)
        known = sorted(
            (row.found.p, row.p_adjusted) for row in rows if row.found.p is not None and row.p_adjusted is not None
        )
        assert all(p <= holm <= 1 for p, holm in known)
        assert family != "headline" or [holm for _, holm in known] == sorted(holm for _, holm in known)
        assert all((row.found.p is None) == (row.p_adjusted is None) for row in rows)


@given(values=VALUES)
def test_a_comparison_is_valid_json_and_its_grids_have_complete_rows(values: list[tuple[float, float]]) -> None:
    import json

    a, b = ([pair[at] for pair in values] for at in (0, 1))
    found = compare_sides([[side("a", a), side("b", b), side("c", a)]])
    assert len(found.comparisons) == 3 and [one.is_against_first for one in found.comparisons] == [True, True, False]
    json.dumps(comparison_json(found), allow_nan=False)
    for grid in comparison_grids(found):
        assert all(len(row) == len(grid.head) for row in grid.rows)
    gates = list(gate_outcomes(found, 100))
    assert len(gates) == 2
    assert not any(gate.missed for gate in gates if not gate.text.startswith("gate failed"))


@given(st.lists(st.tuples(st.floats(1, 1e6), st.floats(1, 1e6)), min_size=2, max_size=20), st.floats(0.5, 20))
def test_latencies_that_all_grow_by_a_factor_change_the_ratio_by_that_factor(
    times: list[tuple[float, float]], factor: float
) -> None:
    left, right = [x for x, _ in times], [y for _, y in times]
    plain = rowtests.compare_metric(LATENCY, PairedValues.of(left, right, None))
    longer = rowtests.compare_metric(LATENCY, PairedValues.of([x * factor for x in left], right, None))
    assert plain.delta is not None and longer.delta is not None
    assert math.isclose((plain.delta + 1) * factor, longer.delta + 1, rel_tol=1e-9)
    assert plain.interval is None or plain.interval.level == LEVEL


@given(
    changes=st.dictionaries(
        st.sampled_from(["k", "context_budget", "seed", "epochs", "level", "track", "provider_type"]), st.integers(1, 3)
    )
)
def test_check_comparability_does_not_depend_on_the_order_of_sides(changes: dict[str, int]) -> None:
    a = side("a", [1.0])
    texts = {
        name: str(value) if name in ("level", "track", "provider_type") else value for name, value in changes.items()
    }
    b = replace(side("b", [1.0]), record=replace(a.record, provider="b", **texts))  # type: ignore[arg-type]
    one, other = check_comparability(a, b, metrics=["accuracy"]), check_comparability(b, a, metrics=["accuracy"])
    assert one.ok is other.ok
    assert [(check.name, check.same, check.a, check.b) for check in one.checks] == [
        (check.name, check.same, check.b, check.a) for check in other.checks
    ]
    assert check_comparability(a, a, metrics=["accuracy"]).ok


# ------------------------------------------------------------------------------ leaderboard

AT = datetime(2026, 1, 1, tzinfo=UTC)


def summary(
    run: str, provider: str, benchmark: str, *, k: int = 10, model: str | None = "m", day: int = 1
) -> JobSummary:
    return JobSummary(
        run_id=run, job=f"{run}-{provider}", benchmark=benchmark, benchmark_version="1", provider=provider,
        embedding_model=None, answering_model=model, judge_model=None, track="uniform", plan_digest="d",
        created_at=AT.replace(day=day), finished_at=AT, state="complete", partial=False, valid=True, n_planned=4,
        n_scored=4, cost_usd=None, report="", data={"k": k, "metrics": ["accuracy"], "lower_is_better": []},
    )  # fmt: skip


def place(provider: str, benchmark: str, k: int, model: str | None, value: float | None) -> RankedJob:
    metric = MetricSummary(
        metric="accuracy", definition="accuracy/1", dimension="", label="", value=value, value_failures_as_zero=value,
        n=0 if value is None else 4, n_excluded=0, n_failed=0, low=None, high=None, level=None, method=None, unit=None,
    )  # fmt: skip
    return RankedJob(job=summary("r", provider, benchmark, k=k, model=model), metrics=(metric,))


PLACES = st.lists(
    st.builds(
        place, st.sampled_from("abc"), st.sampled_from(["facts", "tales"]), st.sampled_from([5, 10]),
        st.sampled_from(["m1", "m2", None]), st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0])),
    ),
    max_size=10,
    unique_by=lambda one: (one.job.provider, one.job.benchmark, one.job.data["k"], one.job.answering_model),
)  # fmt: skip


@given(board=PLACES)
def test_each_view_shows_each_job_once_in_a_table_of_its_settings(board: list[RankedJob]) -> None:
    for view in ("benchmark", "type", "model", "provider"):
        tables = tables_of(board, view)
        shown = [one for table in tables for standing in table.standings for one in standing.places]
        assert sorted(map(id, shown)) == sorted(map(id, board)), view
        for table in tables:
            models = {one.models for standing in table.standings for one in standing.places}
            tasks = {one.task for standing in table.standings for one in standing.places}
            assert len(models) == 1 or view == "model"
            assert tasks == set(table.tasks) and (len(tasks) == 1 or view == "provider")


@given(board=PLACES, view=st.sampled_from(list(VIEWS)))
def test_each_view_has_complete_grids_json_and_csv_ranked_by_value(board: list[RankedJob], view: str) -> None:
    import json

    tables = tables_of(board, view)
    for grid in board_grids(tables, view):
        assert all(len(row) == len(grid.head) for row in grid.rows)
    document = board_json(view, tables)
    json.dumps(document, allow_nan=False)
    assert document["view"] == view
    lines = board_csv(tables).splitlines()
    assert len(lines) == 1 + sum(len(one.places) for table in tables for one in table.standings)
    for table in tables:
        values = [one.value for one in table.standings]
        known = [value for value in values if value is not None]
        assert known == sorted(known, reverse=True)
        assert values[: len(known)] == known, "rows without a value are last"
        assert len(summary_sentences(table)) == (1 if known else 0)


@given(board=PLACES)
def test_overall_shows_only_providers_with_all_benchmarks_and_names_the_others(board: list[RankedJob]) -> None:
    benchmarks = {one.job.benchmark for one in board}
    for table in tables_of(board, "overall"):
        for standing in table.standings:
            assert {one.job.benchmark for one in standing.places} == benchmarks
            values = [one.headline.value for one in standing.places if one.headline and one.headline.value is not None]
            assert len(values) == len(standing.places)
            assert standing.value == pytest.approx(sum(values) / len(values))
        shown = {one.first.job.provider for one in table.standings}
        assert not any(f"{name} is not in this table" in note for name in shown for note in table.notes)


JOBS = st.lists(
    st.builds(
        summary, st.sampled_from(["r1", "r2", "r3"]), st.just("x"), st.just("facts"), k=st.sampled_from([1, 2]),
        model=st.sampled_from(["m1", "m2"]), day=st.integers(1, 9),
    ),
    min_size=1, max_size=5,
)  # fmt: skip


@given(first=JOBS, second=JOBS)
def test_jobs_selected_for_a_comparison_share_settings_if_possible(
    first: list[JobSummary], second: list[JobSummary]
) -> None:
    def settings_of(one: JobSummary) -> tuple[object, object]:
        return one.data["k"], one.answering_model

    a, b = _newest_comparable([first, second])
    assert a in first and b in second
    shared = {settings_of(one) for one in first} & {settings_of(one) for one in second}
    if not shared:
        assert a.created_at == max(one.created_at for one in first)
        return
    assert settings_of(a) == settings_of(b)
    for one, many in ((a, first), (b, second)):
        assert one.created_at == max(other.created_at for other in many if settings_of(other) == settings_of(one))
    oldest = {
        which: min(max(one.created_at for one in many if settings_of(one) == which) for many in (first, second))
        for which in shared
    }
    assert min(a.created_at, b.created_at) == max(oldest.values())


# ------------------------------------------------------------------------------ tables

NAMES = st.text("abc-", min_size=1, max_size=12)


@given(
    providers=st.lists(NAMES, min_size=1, max_size=7, unique=True), types=st.integers(0, 9), width=st.integers(20, 200)
)
def test_overview_and_matrix_show_each_job_once_at_any_width(providers: list[str], types: int, width: int) -> None:
    inner = {
        f"type {at}": Measurement(
            metric="accuracy", definition="accuracy/1", value=0.5, value_failures_as_zero=0.5, n=at
        )
        for at in range(types)
    }
    one = Measurement(
        metric="accuracy", definition="accuracy/1", value=0.5, value_failures_as_zero=0.5, n=types,
        breakdown={"question_type": inner},
    )  # fmt: skip
    jobs = tuple(
        JobReport(
            record=record(name), n_planned=types, counts={}, failed_repeats=0, error_kinds={},
            metrics={"accuracy": one}, spent={},
            isolation=IsolationProof(level="probe"),
        )
        for name in providers
    )  # fmt: skip
    report = Report(run_id="r", status=RunState.COMPLETE, reason="", plan_digest="d", gaps=(), jobs=jobs)
    assume(types > 0)
    (grid,) = overview(report, width=width)
    assert sorted(row[0].removesuffix(" (control)") for row in grid.rows) == sorted(providers)
    assert grid.width <= width or len(grid.head) == 6, "without any type it is as narrow as it can be"
    (whole,) = matrix(report)
    assert sorted(whole.head[1:]) == sorted(providers)
