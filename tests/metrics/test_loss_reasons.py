"""Each lost item has exactly one reason."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bench.metrics.failure_reason import LossFacts, LossKind, count_losses, loss_of
from bench.model import State, Verdict
from tests.rows import each_row


def kind(**facts: object) -> str | None:
    found = loss_of(LossFacts(**({"state": State.INCORRECT} | facts)))  # type: ignore[arg-type]
    return None if found is None else str(found.kind)


def make_verdict(evaluator: str, value: float, *, judged: bool = False) -> Verdict:
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
        (
            {"verdicts": (make_verdict("llm-judge", 0, judged=True), make_verdict("llm-judge", 1, judged=True))},
            "judge_disagreement",
        ),
        (
            {"verdicts": (make_verdict("exact-match", 1), make_verdict("llm-judge", 0, judged=True))},
            "judge_disagreement",
        ),
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
def test_loss_of_returns_the_first_matching_reason(facts: dict[str, object], expected: str | None) -> None:
    assert kind(**facts) == expected


@given(states=st.lists(st.sampled_from([*State, None]), max_size=30), data=st.data())
def test_count_losses_adds_up_to_the_lost_items(states: list[State | None], data: st.DataObject) -> None:
    facts = [LossFacts(state=s, evidence=data.draw(st.sampled_from([(), ("a",)]))) for s in states]
    losses = [loss_of(one) for one in facts]
    found = count_losses(losses)
    assert sum(found.values()) == sum(loss is not None for loss in losses)
    assert list(found) == [k for k in LossKind if k in found]
    scored = {State.INCORRECT, State.PARTIAL, State.ABSTAINED}
    assert all(loss is not None for one, loss in zip(facts, losses, strict=True) if one.state in scored)
