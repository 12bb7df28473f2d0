"""Folding: honest counts, exact sums, no dependence on order, shards or the way rows come in."""

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


@given(rows=rows(), seed=st.integers(0, 5))
def test_order_and_shards_change_no_bit(rows: list[FoldRow], seed: int) -> None:
    mixed = list(rows)
    random.Random(seed).shuffle(mixed)
    cut = len(mixed) // 2
    assert fold(opened(*THREE), rows) == fold(opened(*THREE), mixed[cut:] + mixed[:cut])


@given(rows=rows(), repeats=st.sampled_from([1, 2, 40]), seed=st.integers(0, 5))
def test_rows_one_by_one_and_many_alike_fold_to_the_same(rows: list[FoldRow], repeats: int, seed: int) -> None:
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


def test_numbers_that_are_all_different_fold_as_those_that_are_counted() -> None:
    values = [random.Random(number).random() for number in range(3000)]
    given_rows = [row(i, "correct", (value,), corpus=i // 1000) for i, value in enumerate(values)]
    pool = FoldTable(1)
    for start in range(0, 3000, 100):
        corpora = [str(start // 1000)] * 100
        column = array("d", values[start : start + 100])
        pool.add_group(labels=(("question_type", "a"),), state="correct", corpora=corpora, columns=[column])
    assert fold(opened("mrr"), pool) == fold(opened("mrr"), given_rows)


@given(rows=rows())
def test_every_item_is_counted_once_overall_and_by_label(rows: list[FoldRow]) -> None:
    for found in fold(opened(*THREE), rows).values():
        assert found.n + found.n_excluded + found.n_failed == len(rows)
        assert sum(found.excluded_reasons.values()) == found.n_excluded
        for labels in found.breakdown.values():
            assert sum(m.n for m in labels.values()) == found.n
            assert sum(m.n_excluded for m in labels.values()) == found.n_excluded
            assert sum(m.n_failed for m in labels.values()) == found.n_failed
        assert (found.value is None) == (found.n == 0)


def test_failures_are_no_zeros_but_both_denominators_are_shown() -> None:
    given_rows = [row(0, "correct", (1.0,)), row(1, "incorrect", (0.0,)), row(2, "error", ()), row(3, None, ())]
    found = fold(opened("accuracy"), given_rows)["accuracy"]
    assert (found.value, found.value_failures_as_zero) == (0.5, 0.25)
    assert (found.n, found.n_failed) == (2, 2)


def test_nothing_scored_is_null_with_its_reason() -> None:
    found = fold(opened("ndcg_at_10"), [row(0, "correct", (None,), why="no_source_ids")])["ndcg_at_10"]
    assert (found.value, found.n, found.interval) == (None, 0, None)
    assert found.excluded_reasons == {"no_source_ids": 1}
    assert found.note == "no_source_ids"


def test_measured_items_are_out_of_answer_metrics_and_in_retrieval_metrics() -> None:
    found = fold(opened("accuracy", "hit_at_5"), [row(0, "measured", (None, 1.0))])
    assert (found["accuracy"].n, found["accuracy"].excluded_reasons) == (0, {"measured": 1})
    assert (found["hit_at_5"].n, found["hit_at_5"].value) == (1, 1.0)


def test_an_item_without_the_label_stands_under_none() -> None:
    found = fold(opened("accuracy"), [row(0, "correct", (1.0,), "a"), row(1, "correct", (1.0,), "")])["accuracy"]
    assert set(found.breakdown["question_type"]) == {"a", "(none)"}


def test_a_dimension_that_no_row_has_is_left_out() -> None:
    found = fold(opened("accuracy"), [row(0, "correct", (1.0,), "a")], by=("question_type", "speaker"))["accuracy"]
    assert set(found.breakdown) == {"question_type"}


def test_macro_leaves_labels_without_a_value_out() -> None:
    given_rows = [
        row(0, "correct", (1.0,), "a"),
        row(1, "incorrect", (0.0,), "b"),
        row(2, "correct", (1.0,), "b"),
        row(3, "unscored", (None,), "c"),
    ]
    found = fold(opened("accuracy_macro"), given_rows)["accuracy_macro"]
    assert (found.value, found.n, found.n_excluded) == (0.75, 3, 1)
    assert opened("accuracy_macro")[0].aggregation == "macro:question_type"


def test_a_macro_metric_goes_over_the_dimension_of_its_breakdown() -> None:
    (metric,) = open_metrics([{"name": "accuracy_macro", "breakdown": ["speaker"]}], k=5, folder=Path())
    assert metric.arithmetic.fold == Macro("speaker")


def test_an_interval_counts_conversations_not_questions() -> None:
    given_rows = [row(i, "correct", (float(i % 4 > 0),), corpus=i // 4) for i in range(40)]
    clustered = fold(opened("accuracy"), given_rows)["accuracy"].interval
    plain = fold(opened("accuracy"), given_rows, clustered=False)["accuracy"].interval
    assert clustered is not None and plain is not None
    assert (clustered.method, plain.method) == ("wilson_degenerate", "wilson")


def test_latency_percentiles_are_nearest_ranks_in_milliseconds() -> None:
    given_rows = [row(i, "correct", (1000.0 * (i + 1),)) for i in range(20)]
    found = fold(opened("latency_p95"), given_rows)["latency_p95"]
    assert (found.value, found.unit, found.value_failures_as_zero) == (19.0, "ms", None)


def test_p99_of_few_values_says_that_it_is_the_maximum() -> None:
    found = fold(opened("latency_p99"), [row(i, "correct", (1000.0 * i,)) for i in range(5)])["latency_p99"]
    assert found.value == 4.0
    assert "with n < 100, p99 is the maximum" in found.note


def test_latency_brings_all_percentiles_in_its_note() -> None:
    found = fold(opened("latency"), [row(i, "correct", (1000.0 * (i + 1),)) for i in range(4)])["latency"]
    assert found.value == 2.5
    assert found.note == "p50 2, p90 4, p95 4, p99 4, max 4"


def test_costs_of_failed_items_and_of_ingest_are_in_the_total() -> None:
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


def test_an_unknown_cost_is_counted_and_never_0() -> None:
    known = fold(opened("cost_total"), [row(0, "correct", (0.25,)), row(1, "correct", (None,))])["cost_total"]
    assert (known.value, known.n_unknown) == (0.25, 1)
    assert "at least" in known.note
    unknown = fold(opened("cost_total"), [row(1, "correct", (None,))])["cost_total"]
    assert (unknown.value, unknown.n_unknown) == (None, 1)


def test_cost_per_correct_without_a_correct_item_is_null() -> None:
    found = fold(opened("cost_per_correct"), [row(0, "incorrect", (0.25,))])["cost_per_correct"]
    assert found.value is None


def test_metrics_of_corpora_count_corpora() -> None:
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


def test_repeats_of_an_item_are_reduced_before_items_are_folded() -> None:
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


def test_an_item_fails_only_when_none_of_its_epochs_ended() -> None:
    given_rows = [
        FoldRow("q1", "c", 1, "error", (), ()),
        FoldRow("q1", "c", 2, "correct", (), (1.0,)),
        FoldRow("q2", "c", 1, "error", (), ()),
        FoldRow("q2", "c", 2, None, (), ()),
    ]
    found = fold(opened("accuracy"), given_rows, epochs=2)["accuracy"]
    assert (found.n, found.n_failed, found.value) == (1, 1, 1.0)


def test_pending_items_can_be_counted_without_rows() -> None:
    pool = FoldTable(1)
    pool.add(row(0, "correct", (1.0,)))
    pool.add_pending(3)
    found = fold(opened("accuracy"), pool)["accuracy"]
    assert (found.n, found.n_failed, found.value_failures_as_zero) == (1, 3, 0.25)
