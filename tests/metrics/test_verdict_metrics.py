"""Metrics of verdicts: expected values per state and verdict, and of plain rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import metrics
from bench.metrics.answers.verdicts import METHODS, JudgedInputs, binary_score, correct_of, value_of, verdict_of
from bench.model import SCORED_STATES, Measurement, Row, State, Verdict
from tests.rows import each_row

ROW = Row(benchmark="b", corpus="c", item_id="i", state=State.CORRECT, prediction="x")


def make_verdict(evaluator: str, value: float | None, correct: bool | None = None, **more: object) -> Verdict:
    return Verdict(evaluator=evaluator, value=value, correct=correct, **more)  # type: ignore[arg-type]


def value(name: str, row: Row, **params: object) -> float | None:
    return metrics.registry().measure(name, params).score(row)


# ------------------------------------------------------------------------------------ which verdict

VERDICTS = (
    make_verdict("exact-match", 0.0, False),
    make_verdict("llm-judge", 0.4, False),
    make_verdict("custom:./a.py:A", 0.5, False),
    make_verdict("llm-judge", 0.9, True),
    make_verdict("custom:./b.py:B", 1.0, True),
)


@each_row(
    ("evaluator", "value"),
    [
        (None, 0.0),
        ("exact-match", 0.0),
        ("llm-judge", 0.9),
        ("custom", 1.0),
        ("custom:./a.py:A", 0.5),
        ("rubric", None),
        ("exact", None),
        ("", None),
    ],
)
def test_verdict_of_returns_the_newest_verdict_of_an_evaluator_or_the_first_of_all(
    evaluator: str | None, value: float | None
) -> None:
    row = replace(ROW, verdicts=VERDICTS)
    assert value_of(row, evaluator) == value
    found = verdict_of(row, evaluator)
    assert (None if found is None else found.value) == value


def test_verdict_of_returns_None_without_verdicts() -> None:
    assert verdict_of(ROW, None) is None
    assert verdict_of(ROW, "custom") is None


@each_row(
    ("verdict", "answerable", "by_evaluator", "at_08"),
    [
        (make_verdict("e", 1.0, True), True, True, True),
        (make_verdict("e", 0.8, False), True, False, True),
        (make_verdict("e", 0.79, False), True, False, False),
        (make_verdict("e", 0.0, True), True, True, False),
        (make_verdict("e", 1.0, True, abstained=True), True, True, False),
        (make_verdict("e", 1.0, True, abstained=True), False, True, True),
        (make_verdict("e", None, None), True, None, None),
        (make_verdict("e", None, True), True, True, True),
    ],
)
def test_correct_of_uses_the_verdict_or_a_threshold(
    verdict: Verdict, answerable: bool, by_evaluator: bool | None, at_08: bool | None
) -> None:
    row = replace(ROW, verdicts=(verdict,), answerable=answerable)
    assert (correct_of(row, "e"), correct_of(row, "e", 0.8)) == (by_evaluator, at_08)
    assert (correct_of(row, "other"), correct_of(row, "other", 0.8)) == (None, None)


@each_row("state", [*State, None])
def test_without_an_evaluator_accuracy_uses_the_state_of_the_item(state: State | None) -> None:
    row = replace(ROW, state=state, verdicts=(make_verdict("e", 1.0, True),))
    expected = (state is State.CORRECT) if state in SCORED_STATES else None
    assert correct_of(row, None) is expected
    assert value("accuracy", row) == binary_score(expected)
    assert value("correctness", row) == (1.0 if state in SCORED_STATES else None)


@each_row("method", METHODS)
def test_each_method_reads_the_verdicts_of_its_evaluator(method: str) -> None:
    row = replace(ROW, verdicts=(make_verdict("first", 0.0, False), make_verdict(METHODS[method], 0.5, True)))
    assert value(f"accuracy.{method}", row) == 1
    assert value(f"correctness.{method}", row) == 0.5
    assert value(f"accuracy_macro.{method}", row) == 1
    assert metrics.registry().measure(f"accuracy.{method}").evaluators == (METHODS[method],)


# ------------------------------------------------------------------------------------ inputs


@each_row(
    ("name", "params", "inputs", "expected"),
    [
        ("accuracy", {}, {"correct": True}, 1),
        ("accuracy", {}, {"correct": False, "value": 1.0}, 0),
        ("accuracy", {}, {"correct": None, "value": 1.0}, None),
        ("accuracy", {}, {}, None),
        ("accuracy", {"threshold": 0.5}, {"correct": False, "value": 0.5}, 1),
        ("accuracy", {"threshold": 0.5}, {"correct": True, "value": 0.4}, 0),
        ("accuracy", {"threshold": 0.5}, {"correct": True}, 1),
        ("accuracy", {"threshold": 0.5}, {"value": 1.0, "abstained": True}, 0),
        ("accuracy", {"threshold": 0.5}, {"value": 1.0, "abstained": True, "answerable": False}, 1),
        ("accuracy_excl_adversarial", {}, {"correct": True, "adversarial": True}, None),
        ("accuracy_excl_adversarial", {}, {"correct": True}, 1),
        ("accuracy_incl_adversarial", {}, {"correct": True, "adversarial": True}, 1),
        ("correctness", {}, {"value": 0.3, "correct": True}, 0.3),
        ("correctness", {}, {"correct": True}, 1),
        ("correctness", {}, {"value": 0}, 0),
        ("correctness", {}, {}, None),
        ("abstention_accuracy", {}, {"correct": True}, None),
        ("abstention_accuracy", {}, {"correct": True, "answerable": False}, 1),
        ("abstention_accuracy", {}, {"correct": None, "answerable": False}, None),
        ("over_abstention_rate", {}, {"correct": False, "abstained": True}, 1),
        ("over_abstention_rate", {}, {"correct": False}, 0),
        ("over_abstention_rate", {}, {"correct": None, "abstained": True}, None),
        ("over_abstention_rate", {}, {"correct": True, "answerable": False, "abstained": True}, None),
        ("faithfulness", {}, {"faithfulness": 0.5}, 0.5),
        ("faithfulness", {}, {"correct": True}, None),
    ],
)
def test_verdict_metrics_have_their_expected_values(
    name: str, params: dict[str, object], inputs: dict[str, object], expected: float | None
) -> None:
    assert metrics.score(name, params=params, **inputs) == expected


def test_all_verdict_metrics_accept_the_same_inputs() -> None:
    inputs = {field: getattr(JudgedInputs(), field) for field in JudgedInputs.__slots__}
    for name in ("accuracy", "correctness", "abstention_accuracy", "over_abstention_rate", "faithfulness"):
        assert metrics.score(name, **inputs) is None


@given(
    state=st.sampled_from([State.CORRECT, State.INCORRECT, State.ABSTAINED, State.UNSCORED]), answerable=st.booleans()
)
def test_abstention_accuracy_and_over_abstention_rate_cover_each_scored_item_once(
    state: State, answerable: bool
) -> None:
    row = replace(ROW, state=state, answerable=answerable)
    first, second = value("abstention_accuracy", row), value("over_abstention_rate", row)
    assert first is None or second is None
    assert (first is None and second is None) == (state is State.UNSCORED)


# ------------------------------------------------------------------------------------ folds of plain rows


def flags(found: Measurement) -> tuple[float | None, int, int, int]:
    return found.value, found.n, found.n_excluded, found.n_failed


ROWS: list[dict[str, object]] = [
    {"correct": True, "labels": {"question_type": "a", "speaker": "x"}, "corpus": "c1"},
    {"correct": False, "labels": {"question_type": "a"}, "corpus": "c1", "adversarial": True},
    {"correct": True, "labels": {"question_type": "b", "speaker": 7}, "corpus": "c2", "answerable": False},
    {"correct": None, "labels": {"question_type": "b"}, "corpus": "c2"},
    {"correct": False, "abstained": True, "corpus": "c2"},
    {"correct": None, "state": "error", "corpus": "c2"},
    {"correct": None, "state": None},
]


@each_row(
    ("name", "expected"),
    [
        ("accuracy", (2 / 4, 4, 1, 2)),
        ("accuracy_excl_adversarial", (2 / 3, 3, 2, 2)),
        ("accuracy_incl_adversarial", (2 / 4, 4, 1, 2)),
        ("abstention_accuracy", (1.0, 1, 4, 2)),
        ("over_abstention_rate", (1 / 3, 3, 2, 2)),
        ("correctness", (2 / 4, 4, 1, 2)),
    ],
)
def test_measure_counts_scored_excluded_and_failed_rows(name: str, expected: tuple[float, int, int, int]) -> None:
    assert flags(metrics.measure(name, ROWS)) == expected


def test_labels_are_texts_and_dimensions_have_aliases() -> None:
    found = metrics.measure("accuracy", ROWS, by=["category", "speaker"])
    assert list(found.breakdown) == ["question_type", "speaker"]
    assert {label: flags(one)[:2] for label, one in found.breakdown["question_type"].items()} == {
        "(none)": (0.0, 1),
        "a": (0.5, 2),
        "b": (1.0, 1),
    }
    assert list(found.breakdown["speaker"]) == ["(none)", "7", "x"]
    assert metrics.measure("accuracy", ROWS, by="questionType").breakdown.keys() == {"question_type"}
    assert metrics.measure("accuracy", ROWS).breakdown == {}


def test_accuracy_macro_averages_over_its_first_dimension() -> None:
    by_type = metrics.measure("accuracy_macro", ROWS)
    assert by_type.value == pytest.approx((0.0 + 0.5 + 1.0) / 3)
    assert metrics.measure("accuracy_macro", ROWS, by=["speaker", "question_type"]).value == pytest.approx(
        (1.0 + 1.0 + 0.0) / 3
    )
    assert set(metrics.measure("accuracy_by_question_type", ROWS).breakdown) == {"question_type"}


def test_rows_without_a_corpus_are_not_clustered() -> None:
    alone = metrics.measure("accuracy", [{"correct": True}, {"correct": False}]).interval
    together = metrics.measure("accuracy", ROWS[:3]).interval
    assert alone is not None and together is not None
    assert (alone.method, together.method) == ("wilson", "cluster_t")


@each_row(
    ("row", "reasons"),
    [
        ({"correct": None}, {"unscored": 1}),
        ({"correct": None, "state": "unsupported"}, {"unsupported": 1}),
        ({"correct": None, "state": "measured"}, {"measured": 1}),
        ({"value": 1.0}, {"measured": 1}),
    ],
)
def test_a_row_without_a_score_has_a_reason(row: dict[str, object], reasons: dict[str, int]) -> None:
    assert metrics.measure("accuracy", [row]).excluded_reasons == reasons


def test_measure_counts_the_reason_of_a_row() -> None:
    rows = [{"retrieved": [], "relevant": [], "reason": "no_evidence"}, {"retrieved": ["a"], "relevant": ["a"]}]
    found = metrics.measure("mrr", rows)
    assert (found.value, found.excluded_reasons) == (1.0, {"no_evidence": 1})


def test_a_row_may_contain_the_inputs_of_several_metrics() -> None:
    row = {"correct": True, "value": 1.0, "retrieved": ["a"], "relevant": ["a"], "us": 2_000, "tokens": 3}
    expected = {"accuracy": 1.0, "mrr": 1.0, "latency_p50": 2.0, "tokens_context": 3.0}
    assert {name: metrics.measure(name, [row]).value for name in expected} == expected


def test_Row_values_and_plain_rows_may_be_mixed_for_corpus_metrics() -> None:
    row = replace(ROW, costs_usd={"ingest": "0.5"}, times_us={"ingest": 4_000})
    assert metrics.measure("cost_ingest", [row, {"cost_usd": "0.25"}]).value == 0.75
    assert metrics.measure("ingest_latency_max", [row, {"us": 1_000}]).value == 4.0


def test_measure_of_no_rows_gives_None() -> None:
    assert flags(metrics.measure("accuracy", [])) == (None, 0, 0, 0)
    assert flags(metrics.measure("sacrebleu_corpus", [])) == (None, 0, 0, 0)
