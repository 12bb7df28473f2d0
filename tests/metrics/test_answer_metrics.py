"""Answer metrics: texts, verdicts, tokens and costs of one row."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import metrics
from bench.errors import UnknownMetric
from bench.metrics.answers.citation import citations
from bench.model import Row, State, Usage, Verdict
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
def test_every_comparison_is_between_0_and_1(prediction: str, reference: str) -> None:
    for name in COMPARISONS:
        got = metrics.score(name, prediction=prediction, reference=reference)
        assert got is None or 0 <= got <= 1 + 1e-12


@given(text=TEXT.filter(lambda t: t.strip(" .,;!?'-\n") != ""))
def test_a_text_equals_itself(text: str) -> None:
    assert metrics.score("exact_match", prediction=text, reference=text) == 1
    assert metrics.score("contains_match", prediction=text, reference=text) == 1
    assert metrics.score("token_f1", prediction=text, reference=text) == 1


@given(prediction=TEXT, references=st.lists(TEXT, min_size=1, max_size=4))
def test_more_references_never_lower_a_value(prediction: str, references: list[str]) -> None:
    for name in COMPARISONS:
        one = metrics.score(name, prediction=prediction, references=references[:1])
        all_of_them = metrics.score(name, prediction=prediction, references=references)
        assert one is None or (all_of_them is not None and all_of_them >= one)


@each_row("name", COMPARISONS)
def test_a_row_without_an_answer_or_reference_is_not_scored(name: str) -> None:
    assert value(name, replace(ROW, prediction=None)) is None
    assert value(name, replace(ROW, references=())) is None
    assert value(name, ROW) is not None


def test_a_byte_order_mark_is_white_space() -> None:
    assert metrics.score("exact_match", prediction="\ufeff a\ufeffb ", reference="A b") == 1


def test_locomo_takes_its_category_from_the_row_or_from_the_name_of_the_type() -> None:
    row = replace(ROW, prediction="Not mentioned in the conversation", references=())
    assert value("locomo_qa_score", replace(row, category="5")) == 1
    assert value("locomo_qa_score", replace(row, labels={"question_type": "adversarial"})) == 1
    assert value("locomo_qa_score", replace(ROW, labels={"question_type": "single-hop"})) == pytest.approx(0.5)
    assert value("locomo_qa_score", ROW) is None


def test_every_variant_of_bleu_is_a_name_too() -> None:
    for name in ("sacrebleu_sentence", "sacrebleu_corpus", "bleu1_nltk_method1", "bleu4_nltk_method1"):
        assert metrics.resolve(name).definition == f"bleu.{name}/1"


def test_corpus_bleu_has_no_value_of_an_item() -> None:
    assert value("bleu.sacrebleu_corpus", ROW) is None
    assert metrics.score("bleu.sacrebleu_corpus", predictions=[], references=[]) is None


def test_accuracy_follows_the_state_of_the_item() -> None:
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


def test_a_method_chooses_the_evaluator_and_a_threshold_is_its_own() -> None:
    row = replace(ROW, verdicts=(verdict("exact-match", 0.0, correct=False), verdict("llm-judge", 0.8, correct=False)))
    assert value("accuracy.exact_match", row) == 0
    assert value("accuracy.llm_judge", row) == 0
    assert value("accuracy.llm_judge", row, threshold=0.8) == 1
    assert value("accuracy.token_f1", row) is None
    assert value("correctness", row) == 0
    assert value("correctness.llm_judge", row) == 0.8


def test_the_newest_verdict_of_an_evaluator_counts() -> None:
    row = replace(ROW, verdicts=(verdict("llm-judge", 0.0, correct=False), verdict("llm-judge", 1.0, correct=True)))
    assert value("accuracy.llm_judge", row) == 1


def test_an_unscored_verdict_is_no_zero() -> None:
    row = replace(ROW, state=State.UNSCORED, verdicts=(verdict("llm-judge", None),))
    assert [value(name, row) for name in ("accuracy", "accuracy.llm_judge", "correctness")] == [None] * 3


def test_adversarial_items_leave_numerator_and_denominator_together() -> None:
    row = replace(ROW, adversarial=True)
    assert value("accuracy_excl_adversarial", row) is None
    assert value("accuracy_incl_adversarial", row) == 1


def test_abstention_and_over_abstention_look_at_different_items() -> None:
    refused = replace(ROW, state=State.ABSTAINED, abstained=True)
    assert (value("over_abstention_rate", refused), value("abstention_accuracy", refused)) == (1, None)
    unanswerable = replace(ROW, answerable=False)
    assert (value("over_abstention_rate", unanswerable), value("abstention_accuracy", unanswerable)) == (None, 1)


def test_faithfulness_is_null_where_no_evaluator_gives_it() -> None:
    assert value("faithfulness", ROW) is None
    assert value("faithfulness", replace(ROW, verdicts=(verdict("faithfulness", 0.5, faithfulness=0.5),))) == 0.5


def test_answer_length_counts_characters() -> None:
    assert value("answer_length", ROW) == 12
    assert metrics.score("answer_length", prediction=2022) == 4


@each_row(
    ("text", "expected"),
    [
        ("see Act 12, s. 4(2) and s. 7", ["act12:4(2)", ":7"]),
        ("Act 12 Section 4 (2)", ["act12:4(2)"]),
        ("under § 19a", [":19a"]),
        ("no citation, only words", []),
    ],
)
def test_citations_have_one_normal_form(text: str, expected: list[str]) -> None:
    assert citations(text) == expected


def test_citation_accuracy_wants_the_cited_place() -> None:
    assert (
        metrics.score(
            "citation_accuracy", prediction="By section 4(2) of it: Act 12 s.4(2)", reference="Act 12, s. 4(2)"
        )
        == 1
    )
    assert metrics.score("citation_accuracy", prediction="Act 12, s. 4(3)", reference="Act 12, s. 4(2)") == 0
    assert metrics.score("citation_accuracy", prediction="Act 12", reference="yes") is None


def test_a_phase_is_network_and_provider_and_a_part_can_be_asked_for() -> None:
    times = {"search": 900, "search.queue": 500, "search.limiter": 100, "search.network": 60, "search.provider": 240}
    row = replace(ROW, times_us={**times, "answer": 1_000})
    assert value("latency_p95", row) == 300
    assert value("search_latency_p95.queue", row) == 500
    assert value("answer_latency_p50", row) == 1_000
    assert value("total_latency_mean", row) == 1_300
    assert value("latency_p95", ROW) is None
    assert value("total_latency_mean", ROW) is None


def test_tokens_and_costs_of_a_row() -> None:
    row = replace(ROW, tokens={"context": 812, "judge_in": None}, costs_usd={"search": "0.1", "answer": "0.02"})
    assert value("tokens_context", row) == 812
    assert value("tokens_judge_in", row) is None
    assert value("cost_per_query", row) == pytest.approx(0.12)
    assert value("cost_judge", row) == 0
    assert value("cost_per_query", replace(row, costs_usd={"search": "0.1", "answer": None})) is None


def test_a_cost_may_come_from_a_usage_object() -> None:
    prices = {"acme/m1": {"input": 3, "output": 15}}
    usage = Usage(input_tokens=1000, output_tokens=10)
    assert metrics.cost(usage, provider="acme", model="m1", at="2026-01-01", prices=prices) == Decimal("0.00315")
    assert metrics.cost(None, provider="acme", model="m1", at="2026-01-01", prices=prices) is None
    assert metrics.cost({}, provider="acme", model="m1", at="2026-01-01", prices=prices) is None


def test_models_that_run_here_cost_nothing() -> None:
    usage = Usage(input_tokens=10, output_tokens=10)
    for provider in ("builtin", "ollama"):
        assert metrics.cost(usage, provider=provider, model="any", at="2026-01-01T00:00:00Z") == 0


def test_the_price_table_is_named_with_its_version() -> None:
    assert metrics.price_table().startswith("genai-prices ")


def test_values_are_one_vector_of_a_row() -> None:
    chosen = metrics.open_metrics(["accuracy", "exact_match", "tokens_ingest"], k=5, folder=Path())
    assert metrics.values(chosen, ROW) == {"accuracy": 1.0, "exact_match": 0.0}


def test_rows_may_be_measured_without_a_run() -> None:
    found = metrics.measure("exact_match", [ROW, replace(ROW, item_id="j", prediction="paris")], by="question_type")
    assert (found.value, found.n) == (0.5, 2)
    spread = metrics.measure("latency_p50", [{"us": 1000}, {"us": 3000}, {"us": 2000, "state": "error"}])
    assert (spread.value, spread.n_failed) == (1.0, 1)


def test_corpus_bleu_is_one_number_of_all_rows() -> None:
    rows = [{"prediction": "a b c d e", "reference": "a b c d e"}, {"prediction": "x", "reference": "y"}]
    found = metrics.measure("bleu.sacrebleu_corpus", rows)
    assert found.n == 2 and found.value is not None and 0 < found.value < 1
    same = [replace(ROW, prediction="a b c d e", references=("a b c d e",)), replace(ROW, prediction=None)]
    again = metrics.measure("bleu.sacrebleu_corpus", same)
    assert (again.n, again.n_excluded, again.value) == (1, 1, pytest.approx(1.0))
    whole = metrics.score("bleu.sacrebleu_corpus", predictions=["a b c d e", "x"], references=["a b c d e", "y"])
    assert found.value == pytest.approx(whole, abs=1e-15)


def test_the_parts_of_corpus_bleu_are_stored_with_each_item() -> None:
    chosen = metrics.open_metrics(["accuracy", "bleu.sacrebleu_corpus"], k=5, folder=Path())
    stored = metrics.values(chosen, ROW)
    assert list(stored) == [column.name for column in metrics.item_metrics(chosen)]
    assert stored["bleu.sacrebleu_corpus#answer_tokens"] == 3
    rows = [metrics.FoldRow("i", "c", 1, "correct", (("question_type", "a"),), tuple(stored.values()))]
    found = metrics.fold(chosen, rows)["bleu.sacrebleu_corpus"]
    assert found.n == 1 and found.value is not None
    assert found.breakdown["question_type"]["a"].value == found.value


def test_measure_takes_every_input_of_a_verdict() -> None:
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


def test_metrics_of_corpora_and_costs_can_be_measured_from_plain_rows() -> None:
    assert metrics.measure("ingest_latency_max", [{"us": 1_000}, {"us": 3_000}]).value == 3.0
    assert metrics.measure("cost_total", [{"cost_usd": "0.1"}, {"cost_usd": "0.2"}]).value == pytest.approx(0.3)
    assert metrics.measure("tokens_context", [{"tokens": 3}, {"tokens": None}]).n_unknown == 1


def test_a_metric_of_rows_only_says_so() -> None:
    with pytest.raises(UnknownMetric, match=r"cannot be computed with bench\.metrics\.score"):
        metrics.score("ingest_throughput", memories=3)


def test_tokens_of_a_kind_without_a_price_make_the_cost_unknown() -> None:
    prices = {"acme/in-only": {"input": "0.5"}}
    at = "2026-01-01T00:00:00+00:00"
    asked = {"input_tokens": 10, "output_tokens": 0}
    assert metrics.cost(asked, provider="acme", model="in-only", at=at, prices=prices) == Decimal("0.000005")
    assert metrics.cost({**asked, "output_tokens": 1}, provider="acme", model="in-only", at=at, prices=prices) is None
    assert metrics.cost({"input_tokens": -1}, provider="acme", model="in-only", at=at, prices=prices) is None
