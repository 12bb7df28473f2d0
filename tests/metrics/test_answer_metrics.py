"""Answer metrics: texts, verdicts, tokens and costs of one row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import metrics
from bench.errors import UnknownMetric
from bench.model import Row, State, Verdict
from tests.rows import each_row

TEXT = st.text(alphabet="abcXYZ é.,;!?'- 12\n", max_size=30)
COMPARISONS = (
    "exact_match",
    "exact_match.squad",
    "contains_match",
    "token_f1",
    "token_f1.locomo",
    "token_f1.locomo_multi",
    "token_f1.mem0",
    "rouge_l",
)
ROW = Row(benchmark="b", corpus="c", item_id="i", state=State.CORRECT, prediction="It was Paris", references=("Paris",))


def value(name: str, row: Row, **params: object) -> float | None:
    return metrics.registry().measure(name, params).score(row)


def verdict(evaluator: str, value: float | None, *, correct: bool | None = None, **more: object) -> Verdict:
    return Verdict(evaluator=evaluator, value=value, correct=correct, **more)  # type: ignore[arg-type]


@given(prediction=TEXT, reference=TEXT)
def test_text_comparisons_return_values_between_0_and_1(prediction: str, reference: str) -> None:
    for name in COMPARISONS:
        got = metrics.score(name, prediction=prediction, reference=reference)
        assert got is None or 0 <= got <= 1 + 1e-12


@given(text=TEXT.filter(lambda t: t.strip(" .,;!?'-\n") != ""))
def test_an_answer_equal_to_the_reference_scores_1(text: str) -> None:
    assert metrics.score("exact_match", prediction=text, reference=text) == 1
    assert metrics.score("contains_match", prediction=text, reference=text) == 1
    assert metrics.score("token_f1", prediction=text, reference=text) == 1


@given(prediction=TEXT, references=st.lists(TEXT, min_size=1, max_size=4))
def test_more_references_never_lower_a_score(prediction: str, references: list[str]) -> None:
    for name in COMPARISONS:
        one = metrics.score(name, prediction=prediction, references=references[:1])
        all_of_them = metrics.score(name, prediction=prediction, references=references)
        assert one is None or (all_of_them is not None and all_of_them >= one)


@each_row("name", COMPARISONS)
def test_a_row_without_an_answer_or_reference_is_not_scored(name: str) -> None:
    assert value(name, replace(ROW, prediction=None)) is None
    assert value(name, replace(ROW, references=())) is None
    assert value(name, ROW) is not None


def test_locomo_qa_score_takes_the_category_from_the_row_or_its_question_type() -> None:
    row = replace(ROW, prediction="Not mentioned in the conversation", references=())
    assert value("locomo_qa_score", replace(row, category="5")) == 1
    assert value("locomo_qa_score", replace(row, labels={"question_type": "adversarial"})) == 1
    assert value("locomo_qa_score", replace(ROW, labels={"question_type": "single-hop"})) == pytest.approx(0.5)
    assert value("locomo_qa_score", ROW) is None


def test_each_BLEU_variant_resolves_by_its_own_name() -> None:
    for name in ("sacrebleu_sentence", "sacrebleu_corpus", "bleu1_nltk_method1", "bleu4_nltk_method1"):
        assert metrics.resolve(name).definition == f"bleu.{name}/1"


def test_corpus_BLEU_has_no_value_per_item() -> None:
    assert value("bleu.sacrebleu_corpus", ROW) is None
    assert metrics.score("bleu.sacrebleu_corpus", predictions=[], references=[]) is None


def test_accuracy_depends_on_the_state_of_the_item() -> None:
    expected = {
        State.CORRECT: 1.0,
        State.PARTIAL: 0.0,
        State.INCORRECT: 0.0,
        State.ABSTAINED: 0.0,
        State.UNSCORED: None,
        State.MEASURED: None,
        State.UNSUPPORTED: None,
    }
    assert {state: value("accuracy", replace(ROW, state=state)) for state in expected} == expected


def test_an_unscored_verdict_gives_None() -> None:
    row = replace(ROW, state=State.UNSCORED, verdicts=(verdict("llm-judge", None),))
    assert [value(name, row) for name in ("accuracy", "accuracy.llm_judge", "correctness")] == [None] * 3


def test_adversarial_items_are_excluded_from_accuracy_excl_adversarial() -> None:
    row = replace(ROW, adversarial=True)
    assert value("accuracy_excl_adversarial", row) is None
    assert value("accuracy_incl_adversarial", row) == 1


def test_abstention_accuracy_and_over_abstention_rate_use_different_items() -> None:
    refused = replace(ROW, state=State.ABSTAINED, abstained=True)
    assert (value("over_abstention_rate", refused), value("abstention_accuracy", refused)) == (1, None)
    unanswerable = replace(ROW, answerable=False)
    assert (value("over_abstention_rate", unanswerable), value("abstention_accuracy", unanswerable)) == (None, 1)


def test_faithfulness_is_None_without_a_faithfulness_verdict() -> None:
    assert value("faithfulness", ROW) is None
    assert value("faithfulness", replace(ROW, verdicts=(verdict("faithfulness", 0.5, faithfulness=0.5),))) == 0.5


def test_values_returns_the_item_metrics_of_a_row() -> None:
    chosen = metrics.open_metrics(["accuracy", "exact_match", "tokens_ingest"], k=5, folder=Path())
    assert metrics.values(chosen, ROW) == {"accuracy": 1.0, "exact_match": 0.0}


def test_measure_accepts_rows_without_a_run() -> None:
    found = metrics.measure("exact_match", [ROW, replace(ROW, item_id="j", prediction="paris")], by="question_type")
    assert (found.value, found.n) == (0.5, 2)
    spread = metrics.measure("latency_p50", [{"us": 1000}, {"us": 3000}, {"us": 2000, "state": "error"}])
    assert (spread.value, spread.n_failed) == (1.0, 1)


def test_score_and_measure_agree_on_corpus_BLEU() -> None:
    rows = [{"prediction": "a b c d e", "reference": "a b c d e"}, {"prediction": "x", "reference": "y"}]
    found = metrics.measure("bleu.sacrebleu_corpus", rows)
    assert found.n == 2 and found.value is not None and 0 < found.value < 1
    same = [replace(ROW, prediction="a b c d e", references=("a b c d e",)), replace(ROW, prediction=None)]
    again = metrics.measure("bleu.sacrebleu_corpus", same)
    assert (again.n, again.n_excluded, again.value) == (1, 1, pytest.approx(1.0))
    whole = metrics.score("bleu.sacrebleu_corpus", predictions=["a b c d e", "x"], references=["a b c d e", "y"])
    assert found.value == pytest.approx(whole, abs=1e-15)


def test_corpus_BLEU_stores_its_parts_per_item() -> None:
    chosen = metrics.open_metrics(["accuracy", "bleu.sacrebleu_corpus"], k=5, folder=Path())
    stored = metrics.values(chosen, ROW)
    assert list(stored) == [column.name for column in metrics.item_metrics(chosen)]
    assert stored["bleu.sacrebleu_corpus#answer_tokens"] == 3
    rows = [metrics.FoldRow("i", "c", 1, "correct", (("question_type", "a"),), tuple(stored.values()))]
    found = metrics.fold(chosen, rows)["bleu.sacrebleu_corpus"]
    assert found.n == 1 and found.value is not None
    assert found.breakdown["question_type"]["a"].value == found.value


def test_measure_accepts_every_input_of_a_verdict() -> None:
    rows = [
        {"correct": False, "value": 0.8, "faithfulness": 0.5},
        {"correct": True, "value": 1.0, "abstained": True},
        {"correct": None, "value": None},
    ]
    found = metrics.measure("accuracy.llm_judge", rows, params={"threshold": 0.8})
    assert (found.value, found.n, found.excluded_reasons) == (0.5, 2, {"unscored": 1})
    assert metrics.measure("correctness", rows).value == pytest.approx(0.9)
    assert metrics.measure("faithfulness", rows).value == 0.5
    assert metrics.measure("over_abstention_rate", rows).value == 0.5


def test_measure_accepts_plain_rows_for_corpus_and_cost_metrics() -> None:
    assert metrics.measure("ingest_latency_max", [{"us": 1_000}, {"us": 3_000}]).value == 3.0
    assert metrics.measure("cost_total", [{"cost_usd": "0.1"}, {"cost_usd": "0.2"}]).value == pytest.approx(0.3)
    assert metrics.measure("tokens_context", [{"tokens": 3}, {"tokens": None}]).n_unknown == 1


def test_a_corpus_metric_cannot_be_computed_with_score() -> None:
    with pytest.raises(UnknownMetric, match=r"cannot be computed with bench\.metrics\.score"):
        metrics.score("ingest_throughput", memories=3)
