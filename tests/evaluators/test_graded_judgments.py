"""Graded judgments: points, orders, labels, audits, and routes of items to evaluators."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from judge_double import ScriptedJudge, item

from bench import metrics
from bench.errors import QuotaError
from bench.evaluators import Evaluator, JudgePrompts, open_evaluator
from bench.evaluators.graded import texts_by_call
from bench.evaluators.routed import RoutedEvaluator, distinct_evaluators, evaluator_for
from bench.metrics.answers.choices import letter_rules
from bench.metrics.answers.ordering import order_agreement
from bench.metrics.answers.text import has_phrases
from bench.model import Completion, Prompt, ScoredItem, Verdict
from tests.rows import each_row


def opened(method: str, config: Mapping[str, object] | None = None, prompt: str | None = None) -> Evaluator:
    prompts = None if prompt is None else JudgePrompts.of({"default": prompt})
    found = open_evaluator(method, config=config, prompts=prompts)
    assert found is not None
    return found


def score(value: object, **more: object) -> str:
    return json.dumps({"score": value, **more, "reasoning": "so"})


async def verdict_of(evaluator: Evaluator, one: ScoredItem, *replies: str, answer: str = "Paris") -> Verdict:
    return await evaluator.evaluate(one, answer, (), ScriptedJudge(*replies))


# ------------------------------------------------------------------ points


async def test_rubric_points_makes_one_request_per_point_and_counts_half_points() -> None:
    judge = ScriptedJudge(score(1), score(0.5), score(0))
    verdict = await opened("rubric-points").evaluate(item(rubric=("a", "b", "c")), "Paris", (), judge)
    assert (verdict.value, verdict.correct, len(judge.prompts)) == (0.5, False, 3)
    assert verdict.parts["floored"] == pytest.approx(1 / 3), "the published script cuts 0.5 to 0"
    assert all(f"1. {point}" in prompt.messages[0].content for point, prompt in zip("abc", judge.prompts, strict=True))


@each_row("bad", ["", "maybe", score(0.7), score(True), score("1"), '{"score": 1'])
async def test_a_point_without_a_readable_score_leaves_the_item_unscored(bad: str) -> None:
    verdict = await verdict_of(opened("rubric-points"), item(rubric=("a", "b")), score(1), bad)
    assert (verdict.value, verdict.correct, dict(verdict.parts)) == (None, None, {})
    assert verdict.reason


async def test_rubric_points_accepts_the_configured_values() -> None:
    evaluator = opened("rubric-points", {"values": (0, 0.25, 1)})
    assert (await verdict_of(evaluator, item(rubric=("a", "b")), score(0.25), score(1))).value == 0.625
    assert (await verdict_of(evaluator, item(rubric=("a",)), score(0.5))).reason == "out_of_range"


async def test_one_failed_request_fails_the_item() -> None:
    class Broke(ScriptedJudge):
        async def ask(self, prompt: Prompt) -> Completion:
            if "b" in prompt.messages[0].content.partition("<point>")[2][:6]:
                raise QuotaError("the budget is used up")
            return await super().ask(prompt)

    with pytest.raises(QuotaError):
        await opened("rubric-points").evaluate(item(rubric=("a", "b", "c")), "Paris", (), Broke(score(1)))


async def test_raw_replies_of_several_requests_are_stored_by_prompt_digest() -> None:
    judge = ScriptedJudge(score(1), score(0))
    verdict = await opened("rubric-points").evaluate(item(rubric=("a", "b")), "Paris", (), judge)
    replies = texts_by_call(verdict)
    assert [replies[prompt.template_sha256] for prompt in judge.prompts] == [score(1), score(0)]
    one = await verdict_of(opened("order-agreement"), item(rubric=("a",)), json.dumps({"order": [1], "reasoning": ""}))
    assert list(texts_by_call(one)) == [one.prompt_sha256]


# ------------------------------------------------------------------ order


@each_row(
    ("order", "events", "value"),
    [
        ([1, 2, 3], 3, 1.0),
        ([3, 2, 1], 3, 0.0),  # tau-b -1
        ([1, 3, 2], 3, 2 / 3),  # tau-b 1/3 -> 2/3
        ([], 3, 0.0),
        ([0, 0], 2, 0.0),
        ([1], 1, 1.0),  # no two events: nothing can be out of order
        ([2, 2, 1, 1], 2, 0.0),  # the first mention counts
        ([1, 2], 4, ((5 / (6 * 5) ** 0.5 + 1) / 2) * (2 / 3)),  # of 6 pairs 5 differ in the answer, all concordant
    ],
)
def test_order_agreement_has_its_expected_values(order: list[int], events: int, value: float) -> None:
    assert order_agreement(order, events) == pytest.approx(value)
    assert metrics.score("order_agreement", order=order, events=events) == pytest.approx(value)


@each_row(
    ("order", "events", "tau"),
    [
        ([1], 3, 0.816496580926727),
        ([2], 6, 0.34641016151377546),
        ([2, 0], 2, -0.33333333333333337),
        ([4, 0], 4, -0.5976143046671968),
        ([3, 4], 6, 0.08606629658238703),
        ([0, 0, 2], 2, -0.912870929175277),
        ([0, 2, 0], 3, -0.4444444444444444),
        ([0, 4, 2], 4, -0.7378647873726218),
        ([1, 4, 0], 4, 0.10540925533894598),
        ([0, 4, 3], 5, -0.5962847939999439),
        ([1, 2, 0, 0], 2, 0.912870929175277),
        ([0, 4, 1, 2], 4, -0.4),
        ([0, 1, 2, 5], 5, 0.0),
        ([1, 3, 0, 0, 2], 3, 0.31622776601683794),
        ([0, 3, 4, 2, 0], 4, -0.41403933560541256),
        ([3, 6, 2, 4, 1], 6, -0.06666666666666665),
        ([0, 3, 1, 0, 4, 5, 2], 5, -0.19518001458970663),
        ([2, 0, 5, 0, 4, 6, 3], 6, -0.32732683535398854),
        ([1, 6, 4, 0, 0, 2, 5], 6, 0.036369648372665396),
    ],
)
def test_order_agreement_agrees_with_scipy(order: list[int], events: int, tau: float) -> None:
    """Tau-b is ``kendalltau`` of scipy 1.17.1: events of only one side are tied at the end of the other."""
    f1 = 2 * sum(event > 0 for event in order) / (len(order) + events)
    assert order_agreement(order, events) == pytest.approx((tau + 1) / 2 * f1)


async def test_order_agreement_is_computed_from_the_order_that_the_judge_returns() -> None:
    events = item(rubric=("left", "came", "ate"))
    verdict = await verdict_of(opened("order-agreement"), events, json.dumps({"order": [1, 3, 2], "reasoning": ""}))
    assert verdict.value == pytest.approx(2 / 3)
    beyond = await verdict_of(opened("order-agreement"), events, json.dumps({"order": [4], "reasoning": ""}))
    assert (beyond.value, beyond.reason) == (None, "out_of_range")
    assert (await verdict_of(opened("order-agreement"), events, "1, 3, 2")).value is None


# ------------------------------------------------------------------ labels

LABELS = {"correct": 1.0, "hallucination": 0.0, "omission": 0.0}


@pytest.mark.parametrize("reply", [json.dumps({"label": "Omission", "reasoning": "x"}), "omission", "**Omission**."])
async def test_a_label_is_read_from_JSON_or_plain_text(reply: str) -> None:
    evaluator = opened("labels", {"labels": LABELS}, "Which label?\n${response}")
    verdict = await verdict_of(evaluator, item(), reply)
    assert (verdict.value, verdict.correct) == (0.0, False)
    assert verdict.parts == {"correct": 0.0, "hallucination": 0.0, "omission": 1.0}


@each_row("reply", ["", "wrong", "no omission", json.dumps({"label": 3, "reasoning": ""})])
async def test_an_unknown_label_is_not_a_verdict(reply: str) -> None:
    verdict = await verdict_of(opened("labels", {"labels": LABELS}, "Which?\n${response}"), item(), reply)
    assert (verdict.value, dict(verdict.parts)) == (None, {})


async def test_a_labels_prompt_about_evidence_needs_no_answer() -> None:
    evaluator = opened("labels", {"labels": LABELS}, "Is it there?\n${evidence|default:'-'}")
    assert (await verdict_of(evaluator, item(), "correct", answer="")).value == 1


# ------------------------------------------------------------------ audits


async def test_memory_audit_counts_found_points_and_right_memories() -> None:
    one = item(rubric=("tea", "cat", "car"), stored=("likes tea", "has a dog"))
    judge = ScriptedJudge(score(1), score(0.5), score(0), score(1, expected=True), score(0, expected=False))
    verdict = await opened("memory-audit").evaluate(one, "", (), judge)
    assert verdict.parts == {
        "points": 3, "found": 1, "partly": 1.5, "stored": 2, "right": 1, "target": 1, "target_right": 1,
    }  # fmt: skip
    assert verdict.value == pytest.approx(0.5), "recall 1/3, accuracy 1"
    assert "likes tea\nhas a dog" in judge.prompts[0].messages[0].content


async def test_memory_audit_needs_a_provider_that_lists_its_memories() -> None:
    audit = opened("memory-audit")
    verdict = await audit.evaluate(item(rubric=("tea",)), "", (), ScriptedJudge(score(1)))
    assert (verdict.value, verdict.reason) == (None, "cannot_list")
    judge = ScriptedJudge(score(1))
    empty = await audit.evaluate(item(rubric=("tea",), stored=()), "", (), judge)
    assert (empty.value, empty.parts["points"], empty.parts["found"], judge.prompts) == (0, 1, 0, [])


# ------------------------------------------------------------------ letters and phrases


@each_row(
    ("answer", "exact", "stated", "only"),
    [
        ("B", 1, 0, 1),
        ("B.", 0, 0, 1),
        ("The correct answer is (B).", 0, 1, 1),
        ("The correct answer is **B**", 0, 1, 1),
        ("Not (A). The correct answer is (B).", 0, 1, 0),
        ("(A) looks right <final_answer>(b)</final_answer>", 0, 0, 1),
        ("Paris", 0, 0, 0),
    ],
)
def test_letter_rules_read_a_letter_like_the_published_scripts(answer: str, exact: int, stated: int, only: int) -> None:
    assert letter_rules(answer, ("Rome", "Paris"), 1) == {"exact": exact, "stated": stated, "only": only}


def test_choice_letter_only_reads_a_letter_of_choices_with_labels() -> None:
    choices = ("(a) I would go by train, as you like", "(b) Take the plane")
    for answer in ("(a)", "A"):
        assert metrics.score("choice_letter.only", parts=letter_rules(answer, choices, 0)) == 1, answer


@each_row(
    ("answer", "gold", "ordered", "value"),
    [
        ("First Save, then re-open it.", "save; re open", True, 1),
        ("re-open, then save", "save; re-open", True, 0),
        ("re-open, then save", "save; re-open", False, 1),
        ("save it", "save; save", True, 0),
        ("save, and save again", "save; save", True, 1),
        ("resave", "save", False, 0),
        ("x", " ; ", False, None),
    ],
)
def test_has_phrases_finds_whole_words_in_order_if_required(
    answer: str, gold: str, ordered: bool, value: float | None
) -> None:
    assert has_phrases(answer, gold, ordered=ordered) == value


# ------------------------------------------------------------------ routes


def test_RoutedEvaluator_selects_the_first_matching_route() -> None:
    contains, exact, mcq = opened("contains"), opened("exact-match"), opened("mcq")
    by_type = RoutedEvaluator(default=contains, by="question_type", routes=(("icl_*", exact), ("*", mcq)))
    assert evaluator_for(by_type, item(question_type="icl_clinic")) is exact
    assert evaluator_for(by_type, item()) is mcq
    by_choices = RoutedEvaluator(default=contains, by="choices", routes=(("present", mcq),))
    assert evaluator_for(by_choices, item(choices=("a", "b"))) is mcq
    assert evaluator_for(by_choices, item()) is contains
    by_key = RoutedEvaluator(default=contains, by="kind", routes=(("x", exact),))
    assert evaluator_for(by_key, item(metadata={"kind": "x"})) is exact
    assert [one.name for one in distinct_evaluators([by_type, contains])] == ["contains", "exact-match", "mcq"]
