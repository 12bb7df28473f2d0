"""Fold rules: expected results, and invalid results of plug-in classes."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import stats
from bench.errors import ConfigError, EvaluatorFailed
from bench.metrics import FoldRow, Measure, fold, open_metrics
from bench.metrics.aggregation import (
    MEAN,
    FoldResult,
    FoldRule,
    Macro,
    Mean,
    MeanWithPercentiles,
    Percentile,
    PerCorrect,
    PerSecond,
    PluginAggregate,
    Sample,
    Total,
    quotient,
    scale_interval,
)
from bench.metrics.fold import value as value_of_row
from bench.metrics.protocol import Metric
from bench.metrics.registry import from_plugin, registry
from bench.model import Interval, Row
from bench.stats import Tally
from tests.laws import examples
from tests.rows import each_row


def sample(*values: float, **more: object) -> Sample:
    return Sample(values=Tally.of(values), **more)  # type: ignore[arg-type]


@each_row(
    ("rule", "given_sample", "value", "value_failures_as_zero", "note"),
    [
        (MEAN, sample(), None, None, ""),
        (MEAN, sample(n_failed=3), None, 0.0, ""),
        (MEAN, sample(1.0, 0.0, 1.0), 2 / 3, 2 / 3, ""),
        (MEAN, sample(1.0, 0.0, 1.0, n_failed=1), 2 / 3, 0.5, ""),
        (Mean(1000, failures_as_zero=False), sample(1000.0, 3000.0, n_failed=9), 2.0, None, ""),
        (
            Percentile(50),
            sample(3.0, 1.0, 2.0, n_failed=9),
            2.0,
            None,
            "n < 200: the interval only describes these items",
        ),
        (Percentile(50, 1000), sample(3000.0), 3.0, None, ""),
        (Percentile(99), sample(1.0), 1.0, None, "with n < 100, p99 is the maximum"),
        (Percentile(99), sample(), None, None, ""),
        (MeanWithPercentiles(1000), sample(), None, None, ""),
        (MeanWithPercentiles(1000), sample(1000.0, 2000.0, 6000.0), 3.0, None, "p50 2, p90 6, p95 6, p99 6, max 6"),
        (Total(), sample(), None, None, ""),
        (Total(), sample(0.1, 0.2), 0.1 + 0.2, None, ""),
        (Total(), sample(1.0, failed_values=Tally.of([0.25]), corpus_values=[0.5]), 1.75, None, ""),
        (Total(), sample(corpus_values=[0.5]), 0.5, None, ""),
        (Total(), sample(failed_values=Tally.of([0.5])), 0.5, None, ""),
        (PerCorrect(), sample(1.0, 2.0, n_correct=2), 1.5, None, ""),
        (PerCorrect(), sample(1.0, corpus_values=[2.0], n_correct=1), 3.0, None, ""),
        (PerCorrect(), sample(1.0), None, None, "no item is correct"),
        (PerCorrect(), sample(n_correct=2), None, None, ""),
        (PerSecond(), sample(30.0, 10.0, wall_us=2_000_000), 20.0, None, ""),
        (PerSecond(), sample(30.0, wall_us=3_000_000, concurrency=4), 10.0, None, "at ingest concurrency 4"),
        (PerSecond(), sample(30.0), None, None, ""),
        (PerSecond(), sample(wall_us=5), None, None, ""),
        (PluginAggregate(max), sample(), None, None, ""),
        (PluginAggregate(max), sample(2.0, 7.0), 7.0, None, ""),
    ],
)
def test_each_fold_rule_has_its_expected_result(
    rule: FoldRule, given_sample: Sample, value: object, value_failures_as_zero: object, note: str
) -> None:
    found = rule.fold(given_sample)
    assert (found.value, found.value_failures_as_zero, found.note) == (value, value_failures_as_zero, note)


def test_Macro_averages_the_values_of_the_groups() -> None:
    groups = {
        "a": sample(1.0, 1.0, 0.0, 0.0),
        "b": sample(1.0, n_failed=1),
        "c": sample(n_failed=2),
        "d": sample(),
    }
    found = Macro("kind").fold(Sample(values=Tally.of([1.0, 1.0, 0.0, 0.0, 1.0]), groups=groups))
    assert (found.value, found.value_failures_as_zero) == ((0.5 + 1) / 2, (0.5 + 0.5 + 0) / 3)
    assert found.interval is not None and found.interval.method == "macro_t"
    assert (Macro("kind").name, Macro("kind").dimension) == ("macro:kind", "kind")
    assert Macro("kind").fold(Sample(values=Tally.of([]))) == FoldResult(value=None)


@each_row(
    ("rule", "name"),
    [
        (MEAN, "mean"),
        (Mean(1000), "mean"),
        (Percentile(50), "other"),
        (MeanWithPercentiles(), "other"),
        (Total(), "other"),
        (PerCorrect(), "other"),
        (PerSecond(), "other"),
        (PluginAggregate(max), "other"),
    ],
)
def test_a_fold_rule_names_whether_it_is_a_mean(rule: FoldRule, name: str) -> None:
    assert (rule.name, rule.dimension) == (name, None)


@given(values=st.lists(st.floats(0, 1), min_size=1, max_size=20), failed=st.integers(0, 9))
def test_value_failures_as_zero_is_at_most_the_value(values: list[float], failed: int) -> None:
    found = MEAN.fold(sample(*values, n_failed=failed))
    assert found.value is not None and found.value_failures_as_zero is not None
    assert found.value_failures_as_zero <= found.value + 1e-15
    assert (found.value_failures_as_zero == found.value) == (failed == 0 or found.value == 0)


@settings(max_examples=examples(20))
@given(values=st.lists(st.integers(1, 10**9), min_size=1, max_size=20))
def test_percentiles_in_milliseconds_are_those_in_microseconds_divided_by_1000(values: list[int]) -> None:
    plain, shown = (Percentile(90, scale).fold(sample(*map(float, values))) for scale in (1, 1000))
    assert plain.value is not None and shown.value == plain.value / 1000
    assert shown.interval == scale_interval(plain.interval, 1000)


AMOUNTS = ("cost_per_query", "tokens_context", "latency_mean", "latency", "answer_length")


@each_row("name", AMOUNTS)
@each_row("value", [0.0, 1.0, 0.0025])
def test_an_amount_that_never_varies_has_no_interval(name: str, value: float) -> None:
    rows = [FoldRow(f"q{n}", f"c{n % 3}", 1, "correct", (), (value,)) for n in range(9)]
    (metric,) = open_metrics([name], k=5, folder=Path())
    for clustered in (True, False):
        assert fold([metric], rows, clustered=clustered)[name].interval is None
        assert fold([metric], [*rows, rows[0]._replace(values=(5.0,))], clustered=clustered)[name].interval is not None


def test_scale_interval_divides_both_ends() -> None:
    found = Interval(low=1000.0, high=3000.0, level=0.9, method="t")
    assert scale_interval(found, 1000) == Interval(low=1.0, high=3.0, level=0.9, method="t")
    assert scale_interval(found, 1) is found
    assert scale_interval(None, 1000) is None


def test_quotient_of_0_items_is_None() -> None:
    assert (quotient(3.0, 0), quotient(3.0, 2), quotient(0.0, 2)) == (None, 1.5, 0.0)


@pytest.mark.parametrize("n", [199, 200])
def test_a_percentile_of_fewer_than_200_values_is_noted_as_descriptive(n: int) -> None:
    found = Percentile(50).fold(sample(*(float(i) for i in range(n))))
    assert found.note == ("n < 200: the interval only describes these items" if n < 200 else "")
    assert found.interval is not None


def test_a_percentile_without_interval_has_no_note() -> None:
    found = Percentile(50).fold(sample(5.0, 5.0, 5.0))
    assert (found.value, found.interval, found.note) == (5.0, None, "")


def test_a_percentile_of_many_values_uses_a_cluster_order_statistic() -> None:
    n = stats.ORDER_STATISTIC_FROM + 1
    values, clusters = [float(i) for i in range(n)], [i % 7 for i in range(n)]
    found = Percentile(50).fold(Sample(values=Tally.of(values, clusters)))
    assert found.interval is not None and found.interval.method == "cluster_order_statistic"
    assert found.interval == stats.percentile_interval(values, 50, clusters)
    one = Percentile(50).fold(Sample(values=Tally.of(values, [0] * n)))
    assert one.interval is not None and one.interval.method == "order_statistic" and one.note
    few = Percentile(50).fold(Sample(values=Tally.of(values[:700], clusters[:700])))
    assert few.interval is not None and few.interval.method == "cluster_bootstrap_percentile"


# ------------------------------------------------------------------------------------ plug-in classes


def raising(error: Exception) -> Callable[[Sequence[float]], float]:
    def aggregate(values: Sequence[float]) -> float:
        raise error

    return aggregate


@each_row(
    ("aggregate", "value", "note"),
    [
        (lambda values: None, None, ""),
        (lambda values: 3, 3.0, ""),
        (lambda values: math.nan, None, "the metric's aggregate returned nan, expected a finite number"),
        (lambda values: math.inf, None, "the metric's aggregate returned inf, expected a finite number"),
        (lambda values: "high", None, "the metric's aggregate returned 'high', expected a finite number"),
        (lambda values: values[99], None, "the metric's aggregate failed: IndexError: list index out of range"),
        (
            raising(ZeroDivisionError("by nothing")),
            None,
            "the metric's aggregate failed: ZeroDivisionError: by nothing",
        ),
        (raising(ValueError("no")), None, "the metric's aggregate failed: ValueError: no"),
        (raising(TypeError("no")), None, "the metric's aggregate failed: TypeError: no"),
    ],
)
def test_an_aggregate_without_a_finite_result_gives_None_and_a_note(
    aggregate: Callable[[Sequence[float]], float | None], value: float | None, note: str
) -> None:
    found = PluginAggregate(aggregate).fold(sample(1.0, 2.0))
    assert (found.value, found.note) == (value, note)


def test_an_aggregate_sees_only_scored_values_in_order() -> None:
    seen: list[Sequence[float]] = []

    class Watching:
        name, definition = "watching", "watching/1"

        def score(self, row: Row) -> float | None: ...

        def aggregate(self, values: Sequence[float]) -> float:
            seen.append(list(values))
            return float(len(values))

    metric = from_plugin(Watching, {}, label="x")
    states = ("correct", "incorrect", "error", "correct")
    rows = [
        FoldRow(f"q{i}", "c", 1, s, (), (v,))
        for i, (s, v) in enumerate(zip(states, (3.0, 1.0, 9.0, None), strict=True))
    ]
    found = fold([metric], rows)["watching"]
    assert seen == [[1.0, 3.0]]
    assert (found.value, found.n, found.n_excluded, found.n_failed) == (2.0, 2, 1, 1)
    assert metric.aggregation == "other"


class Minimal:
    name, definition = "Minimal-Metric@5", "minimal/1"

    def score(self, row: Row) -> object:
        return row.returned_scores[0] if row.returned_scores else None


class Whole:
    name, definition, category, unit = "whole", "whole/2", "cost", "USD"
    lower_is_better, params = True, {"bonus": 1}

    def score(self, row: Row) -> float:
        return 1.0


def test_missing_attributes_of_a_metric_class_have_defaults() -> None:
    found = from_plugin(Minimal, {}, label="x")
    assert (found.name, found.definition, found.category) == ("minimal_metric_at_5", "minimal/1", "custom")
    assert (found.unit, found.lower_is_better, found.params, found.scope) == (None, False, {}, "item")
    assert (found.aggregation, found.evaluators, found.explained_by_rows) == ("mean", (), False)
    assert not isinstance(Minimal(), Metric)


def test_attributes_of_a_metric_class_are_used() -> None:
    found = from_plugin(Whole(), {}, label="x", name="other", breakdown=("speaker",))
    assert (found.name, found.definition, found.category) == ("other", "whole/2", "cost")
    assert (found.unit, found.lower_is_better, found.params) == ("USD", True, {"bonus": 1})
    assert found.breakdown == ("speaker",)
    assert found.arithmetic.fold == Mean(shares=False)
    assert isinstance(Whole(), Metric)


@each_row(
    ("given_value", "text"),
    [
        (math.nan, "metric x returned nan for item q7"),
        (-math.inf, "metric x returned -inf for item q7"),
        (1.1e100, "metric x returned 1.1e+100 for item q7"),
        ("high", "metric x returned 'high' for item q7"),
        ([1.0], "metric x returned [1.0] for item q7"),
    ],
)
def test_a_score_that_is_not_a_finite_number_is_an_EvaluatorFailed_error(given_value: object, text: str) -> None:
    metric = from_plugin(Minimal, {}, label="x")
    row = Row(benchmark="b", corpus="c", item_id="q7", returned_scores=(given_value,))  # type: ignore[arg-type]
    with pytest.raises(EvaluatorFailed) as caught:
        metric.score(row)
    assert str(caught.value) == f"{text}; expected a number from -1e100 to 1e100"


@each_row(("given_value", "expected"), [(1, 1.0), (True, 1.0), (None, None), (-1e100, -1e100), (0.25, 0.25)])
def test_a_valid_score_is_a_float_or_None(given_value: object, expected: float | None) -> None:
    metric = from_plugin(Minimal, {}, label="x")
    row = Row(benchmark="b", corpus="c", item_id="q7", returned_scores=(given_value,))  # type: ignore[arg-type]
    found = metric.score(row)
    assert found == expected and isinstance(found, float | None)


def test_a_built_in_metric_without_a_finite_result_is_an_EvaluatorFailed_error() -> None:
    row = Row(benchmark="b", corpus="c", item_id="q7")
    mrr = registry().measure("mrr")
    for wrong in (math.nan, math.inf, 1e101):
        broken = replace(mrr, arithmetic=replace(mrr.arithmetic, of_row=lambda _, wrong=wrong: wrong))
        with pytest.raises(EvaluatorFailed) as caught:
            value_of_row(broken, row)
        assert str(caught.value) == f"metric mrr returned {wrong} for item q7; expected a number from -1e100 to 1e100"


def test_a_metric_class_may_define_score_inputs(tmp_path: Path) -> None:
    class Plain:
        name, definition = "plain", "plain/1"

        def score(self, row: Row) -> float | None: ...

        def score_inputs(self, **inputs: object) -> float:
            return float(len(inputs))

    metric = from_plugin(Plain, {}, label="x")
    assert metric.arithmetic.of_inputs is not None
    assert metric.arithmetic.of_inputs(a=1, b=2) == 2.0


def test_a_metric_file_is_imported_again_only_if_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "counted.py"
    source = "class C:\n  name, definition = 'c', 'c/1'\n  def score(self, row): return {}.0\n"
    found: list[Measure] = []
    for number in (1, 1, 2):
        path.write_text(source.format(number), encoding="utf-8")
        os.utime(path, (1e9, 1e9))  # a copy may keep its time, and bytecode goes by size and time
        found += open_metrics([{"name": "c", "evaluator": "./counted.py:C"}], k=5, folder=tmp_path)
    row = Row(benchmark="b", corpus="c", item_id="i")
    assert [one.score(row) for one in found] == [1.0, 1.0, 2.0]


def test_a_metric_file_that_failed_to_import_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text("from missing_neighbour_xyz import C\n", encoding="utf-8")
    entry = {"name": "c", "evaluator": "./late.py:C"}
    for _ in range(2):
        with pytest.raises(ConfigError, match="ModuleNotFoundError"):
            open_metrics([entry], k=5, folder=tmp_path)
