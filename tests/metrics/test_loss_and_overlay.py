"""Every lost item has exactly one reason; doubted golds change no dataset."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.metrics.failure_reason import LossFacts, LossKind, count_losses, disagree, loss_of
from bench.metrics.overlay import Overlay, Suspect
from bench.model import State, Verdict
from tests.rows import each_row


def kind(**facts: object) -> str | None:
    found = loss_of(LossFacts(**({"state": State.INCORRECT} | facts)))  # type: ignore[arg-type]
    return None if found is None else str(found.kind)


def said(evaluator: str, value: float, *, judged: bool = False) -> Verdict:
    return Verdict(evaluator=evaluator, value=value, correct=value == 1, judged=judged)


FOUND = {"evidence": ("a", "b"), "ingested": ("a", "b"), "returned": (("x",), ("a",), ("b",)), "kept": (("x",), ("a",))}


@each_row(
    ("facts", "expected"),
    [
        ({"state": State.CORRECT}, None),
        ({"state": None}, None),
        ({"state": State.ERROR, "gold_suspect": True}, "error"),
        ({"state": State.NOT_READY}, "not_ready"),
        ({"state": State.UNSUPPORTED}, "unsupported"),
        ({"state": State.UNSCORED}, "unscored"),
        ({"gold_suspect": True}, "gold_suspect"),
        ({"verdicts": (said("llm-judge", 0, judged=True), said("llm-judge", 1, judged=True))}, "judge_disagreement"),
        ({"verdicts": (said("exact-match", 1), said("llm-judge", 0, judged=True))}, "judge_disagreement"),
        ({"answerable": False}, "should_have_abstained"),
        ({**FOUND, "answerable": False, "in_context": ("a", "b")}, "should_have_abstained"),
        ({"answerable": False, "state": State.MEASURED}, None),
        ({"answerable": False, "state": State.ERROR}, "error"),
        ({"answerable": False, "gold_suspect": True}, "gold_suspect"),
        ({}, "no_evidence_known"),
        ({**FOUND, "ingested": ("a",)}, "not_ingested"),
        ({**FOUND, "returned": (("x",),), "kept": (("x",),)}, "not_retrieved"),
        ({**FOUND, "kept": (("x",),)}, "below_cut"),
        ({**FOUND, "in_context": ()}, "below_cut"),
        ({**FOUND, "in_context": ("a", "b")}, "answer_wrong"),
        ({**FOUND, "ingested": None}, "answer_wrong"),
        ({**FOUND, "state": State.MEASURED}, None),
        ({**FOUND, "state": State.MEASURED, "kept": ()}, "below_cut"),
        ({"state": State.MEASURED}, None),
    ],
)
def test_the_first_reason_that_holds_is_the_reason(facts: dict[str, object], expected: str | None) -> None:
    assert kind(**facts) == expected


def test_an_answer_from_a_part_of_the_evidence_is_marked() -> None:
    part = loss_of(LossFacts(state=State.PARTIAL, evidence=("a", "b"), in_context=("a",)))
    whole = loss_of(LossFacts(state=State.PARTIAL, evidence=("a",), in_context=("a",)))
    assert part is not None and part.partial_evidence
    assert whole is not None and not whole.partial_evidence


@given(states=st.lists(st.sampled_from([*State, None]), max_size=30), data=st.data())
def test_reasons_add_up_to_the_lost_items(states: list[State | None], data: st.DataObject) -> None:
    facts = [LossFacts(state=s, evidence=data.draw(st.sampled_from([(), ("a",)]))) for s in states]
    losses = [loss_of(one) for one in facts]
    found = count_losses(losses)
    assert sum(found.values()) == sum(loss is not None for loss in losses)
    assert list(found) == [k for k in LossKind if k in found]
    scored = {State.INCORRECT, State.PARTIAL, State.ABSTAINED}
    assert all(loss is not None for one, loss in zip(facts, losses, strict=True) if one.state in scored)


def test_two_rules_that_differ_are_no_judge_disagreement() -> None:
    assert not disagree([said("exact-match", 0), said("contains", 1)])


DOUBTS = {
    "q1": Suspect(id="q1", kind="wrong_gold", note="n"),
    "2": Suspect(id="2", kind="x", corrected_answer="5"),
}
OVERLAY = Overlay(benchmark="demo", dataset_sha256="ab", source="an audit", items=DOUBTS)


def test_listed_items_are_left_out_or_scored_anew() -> None:
    overlay = OVERLAY
    values = {"q1": 0.0, "2": 0.0, "q3": 1.0, "q4": 0.0, "q5": None}
    plain = overlay.scores(values)
    assert (plain.raw, plain.corrected, plain.ceiling) == (0.25, 0.5, 0.5)
    assert (plain.n, plain.n_listed, plain.above_ceiling) == (4, 2, False)
    assert overlay.scores(values, rescored={"2": 1.0, "q3": 0.0}).corrected == pytest.approx(2 / 3)


def test_a_score_above_the_ceiling_is_flagged() -> None:
    assert OVERLAY.scores({"q1": 1.0, "q3": 1.0}).above_ceiling
    assert OVERLAY.scores({}).raw is None
