"""Folding: counts, exact sums, and results that do not depend on how rows are added."""

from __future__ import annotations

import math
import random
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.metrics import CorpusFacts, FoldRow, FoldTable, JobFacts, Measure, fold, item_metrics, open_metrics
from bench.metrics.aggregation import Macro

STATES = st.sampled_from(["correct", "incorrect", "abstained", "unscored", "measured", "error", "not_ready", None])
VALUES = st.tuples(*[st.one_of(st.none(), st.floats(0, 1))] * 3)


def opened(*names: str) -> list[Measure]:
    return open_metrics(names, k=10, folder=Path())


def row(number: int, state: str | None, values: tuple[float | None, ...], kind: str = "a", **more: object) -> FoldRow:
    labels = (("question_type", kind),) if kind else ()
    return FoldRow(
        f"q{number}", str(more.get("corpus", number % 3)), 1, state, labels, values, str(more.get("why", ""))
    )


@st.composite
def rows(draw: st.DrawFn) -> list[FoldRow]:
    drawn = draw(st.lists(st.tuples(STATES, VALUES, st.sampled_from(["a", "b", ""])), max_size=30))
    return [row(i, state, values, kind) for i, (state, values, kind) in enumerate(drawn)]


THREE = ("accuracy", "ndcg_at_10", "mrr")


@given(rows=rows(), repeats=st.sampled_from([1, 2, 40]), seed=st.integers(0, 5))
def test_single_rows_and_groups_of_equal_rows_fold_to_the_same_result(
    rows: list[FoldRow], repeats: int, seed: int
) -> None:
    metrics, pool = opened(*THREE), FoldTable(3)
    many = [one._replace(item_id=f"{one.item_id}.{n}") for one in rows for n in range(repeats)]
    kinds: dict[tuple[object, ...], list[FoldRow]] = {}
    for one in many:
        kinds.setdefault((one.labels, one.state, one.corpus if seed % 2 else ""), []).append(one)
    for (labels, state, _), alike in random.Random(seed).sample(sorted(kinds.items(), key=repr), len(kinds)):
        assert isinstance(labels, tuple)
        pool.add_group(
            labels=labels,
            state=None if state is None else str(state),
            corpora=[one.corpus for one in alike],
            columns=[array("d", (math.nan if (v := one.values[m]) is None else v for one in alike)) for m in range(3)],
        )
    assert fold(metrics, pool) == fold(metrics, many)


def test_distinct_values_in_groups_fold_like_single_rows() -> None:
    values = [random.Random(number).random() for number in range(3000)]
    given_rows = [row(i, "correct", (value,), corpus=i // 1000) for i, value in enumerate(values)]
    pool = FoldTable(1)
    for start in range(0, 3000, 100):
        corpora = [str(start // 1000)] * 100
        column = array("d", values[start : start + 100])
        pool.add_group(labels=(("question_type", "a"),), state="correct", corpora=corpora, columns=[column])
    assert fold(opened("mrr"), pool) == fold(opened("mrr"), given_rows)


@given(rows=rows())
def test_each_item_is_counted_once_overall_and_per_label(rows: list[FoldRow]) -> None:
    for found in fold(opened(*THREE), rows).values():
        assert found.n + found.n_excluded + found.n_failed == len(rows)
        assert sum(found.excluded_reasons.values()) == found.n_excluded
        for labels in found.breakdown.values():
            assert sum(m.n for m in labels.values()) == found.n
            assert sum(m.n_excluded for m in labels.values()) == found.n_excluded
            assert sum(m.n_failed for m in labels.values()) == found.n_failed
        assert (found.value is None) == (found.n == 0)


def test_failures_are_excluded_from_value_and_count_0_in_value_failures_as_zero() -> None:
    given_rows = [row(0, "correct", (1.0,)), row(1, "incorrect", (0.0,)), row(2, "error", ()), row(3, None, ())]
    found = fold(opened("accuracy"), given_rows)["accuracy"]
    assert (found.value, found.value_failures_as_zero) == (0.5, 0.25)
    assert (found.n, found.n_failed) == (2, 2)


def test_without_scored_items_the_value_is_None_with_a_reason() -> None:
    found = fold(opened("ndcg_at_10"), [row(0, "correct", (None,), why="no_source_ids")])["ndcg_at_10"]
    assert (found.value, found.n, found.interval) == (None, 0, None)
    assert found.excluded_reasons == {"no_source_ids": 1}
    assert found.note == "no_source_ids"


def test_measured_items_count_in_retrieval_metrics_only() -> None:
    found = fold(opened("accuracy", "hit_at_5"), [row(0, "measured", (None, 1.0))])
    assert (found["accuracy"].n, found["accuracy"].excluded_reasons) == (0, {"measured": 1})
    assert (found["hit_at_5"].n, found["hit_at_5"].value) == (1, 1.0)


def test_an_item_without_the_label_is_listed_under_none() -> None:
    found = fold(opened("accuracy"), [row(0, "correct", (1.0,), "a"), row(1, "correct", (1.0,), "")])["accuracy"]
    assert set(found.breakdown["question_type"]) == {"a", "(none)"}


def test_a_dimension_that_no_row_has_is_omitted() -> None:
    found = fold(opened("accuracy"), [row(0, "correct", (1.0,), "a")], by=("question_type", "speaker"))["accuracy"]
    assert set(found.breakdown) == {"question_type"}


def test_macro_excludes_labels_without_a_value() -> None:
    given_rows = [
        row(0, "correct", (1.0,), "a"),
        row(1, "incorrect", (0.0,), "b"),
        row(2, "correct", (1.0,), "b"),
        row(3, "unscored", (None,), "c"),
    ]
    found = fold(opened("accuracy_macro"), given_rows)["accuracy_macro"]
    assert (found.value, found.n, found.n_excluded) == (0.75, 3, 1)
    assert opened("accuracy_macro")[0].aggregation == "macro:question_type"


def test_a_macro_metric_uses_the_dimension_of_its_breakdown() -> None:
    (metric,) = open_metrics([{"name": "accuracy_macro", "breakdown": ["speaker"]}], k=5, folder=Path())
    assert metric.arithmetic.fold == Macro("speaker")


def test_the_interval_is_clustered_by_corpus() -> None:
    given_rows = [row(i, "correct", (float(i % 4 > 0),), corpus=i // 4) for i in range(40)]
    clustered = fold(opened("accuracy"), given_rows)["accuracy"].interval
    plain = fold(opened("accuracy"), given_rows, clustered=False)["accuracy"].interval
    assert clustered is not None and plain is not None
    assert (clustered.method, plain.method) == ("wilson_degenerate", "wilson")


def test_cost_total_includes_failed_items_and_ingest() -> None:
    job = JobFacts(
        corpora=[CorpusFacts(corpus="c", cost_usd="0.5"), CorpusFacts(corpus="d", priced=False)],
        price_methods={"judge": ("genai-prices 1",)},
    )
    metrics = opened("cost_total", "cost_per_query", "cost_per_correct", "cost_ingest")
    given_rows = [row(0, "correct", (0.25,) * 3), row(1, "error", (0.25,) * 3)]
    found = fold(metrics, given_rows, job=job)
    assert found["cost_total"].value == 1.0
    assert found["cost_per_query"].value == 0.25
    assert found["cost_per_correct"].value == 1.0
    assert found["cost_ingest"].value == 0.5
    assert (found["cost_total"].unit, found["cost_total"].method) == ("USD", "genai-prices 1")


def test_an_unknown_cost_is_counted_as_unknown_and_not_as_0() -> None:
    known = fold(opened("cost_total"), [row(0, "correct", (0.25,)), row(1, "correct", (None,))])["cost_total"]
    assert (known.value, known.n_unknown) == (0.25, 1)
    assert "at least" in known.note
    unknown = fold(opened("cost_total"), [row(1, "correct", (None,))])["cost_total"]
    assert (unknown.value, unknown.n_unknown) == (None, 1)


def test_corpus_metrics_count_corpora() -> None:
    job = JobFacts(
        ingest_wall_us=2_000_000,
        ingest_concurrency=4,
        corpora=[
            CorpusFacts(corpus="a", memories=30, times_us={"searchable": 4_000, "ingest": 1}, tokens=5),
            CorpusFacts(corpus="b", memories=10, times_us={"searchable": 2_000, "ingest": 3}, tokens=None),
            CorpusFacts(corpus="c", failed=True),
        ],
        token_methods={"ingest": ("chars/4", True)},
    )
    metrics = opened("ingest_to_searchable_p50", "ingest_throughput", "tokens_ingest", "ingest_latency_max", "accuracy")
    assert [m.name for m in item_metrics(metrics)] == ["accuracy"]
    found = fold(metrics, [row(0, "correct", (1.0,))], job=job)
    assert (found["ingest_to_searchable_p50"].value, found["ingest_to_searchable_p50"].n_failed) == (2.0, 1)
    assert (found["ingest_throughput"].value, found["ingest_throughput"].note) == (20.0, "at ingest concurrency 4")
    tokens = found["tokens_ingest"]
    assert (tokens.value, tokens.n_unknown, tokens.method, tokens.estimated) == (5.0, 1, "chars/4", True)


def test_repeats_of_an_item_are_reduced_before_folding() -> None:
    values = [("q1", 1, 1.0), ("q1", 2, 0.0), ("q1", 3, 1.0), ("q2", 1, 0.0), ("q2", 2, 0.0), ("q2", 3, 0.0)]
    given_rows = [FoldRow(q, "c", epoch, "correct", (), (v,)) for q, epoch, v in values]
    found = {
        reducer: fold(opened("accuracy"), given_rows, epochs=3, epochs_reducer=reducer)["accuracy"]
        for reducer in ("mean", "mode", "max")
    }
    assert found["mean"].value == pytest.approx(1 / 3)
    assert found["mode"].value == found["max"].value == 0.5
    assert found["mean"].n == 2
    assert found["mean"].spread == pytest.approx((3**-0.5) / 2)


def test_an_item_fails_only_if_all_its_epochs_fail() -> None:
    given_rows = [
        FoldRow("q1", "c", 1, "error", (), ()),
        FoldRow("q1", "c", 2, "correct", (), (1.0,)),
        FoldRow("q2", "c", 1, "error", (), ()),
        FoldRow("q2", "c", 2, None, (), ()),
    ]
    found = fold(opened("accuracy"), given_rows, epochs=2)["accuracy"]
    assert (found.n, found.n_failed, found.value) == (1, 1, 1.0)
