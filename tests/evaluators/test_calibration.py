"""Calibration of a judge with probes."""

from __future__ import annotations

from bench.evaluators import JudgePrompts
from bench.evaluators.calibration import PROBES, AnswerKind, calibrate, calls_needed, probe_answers
from bench.model import Completion, Prompt
from tests.evaluators.judge_double import ScriptedJudge
from tests.rows import each_row

ONE = JudgePrompts.of({"default": "${question} ${answer} ${response}", "abstention": "abstain? ${response}"})


class Sharp:
    """A judge that accepts the expected answer in any words, and refusals of abstention items."""

    name = "acme/sharp"

    async def ask(self, prompt: Prompt) -> Completion:
        text = prompt.messages[-1].content
        if text.startswith("abstain?"):
            right = "I don't know" in text
        else:
            right = any(text.endswith((f" {p.expected} {p.expected}", p.other_words)) for p in PROBES)
        return Completion(text="yes" if right else "no", model=self.name)


def test_there_are_twelve_distinct_probes_of_each_kind() -> None:
    texts = [answer for _, _, answer in probe_answers()]
    assert len(PROBES) == 12 and len(texts) == 12 * len(AnswerKind)
    assert calls_needed(ONE) == 2 * 72
    assert len({p.question for p in PROBES}) == 12
    assert all(len(p.answer(AnswerKind.OVER_LONG)) > 5 * len(p.answer(AnswerKind.RIGHT)) for p in PROBES)


async def test_a_judge_without_errors_has_noise_0() -> None:
    plain, abstain = await calibrate(Sharp(), ONE)
    for found in (plain, abstain):
        assert (found.fpr.value, found.fnr.value, found.unparsed, found.noise) == (0, 0, 0, 0)
        assert found.fpr.interval is not None and found.fpr.interval.high > 0
    assert (plain.fpr.n, plain.fnr.n) == (48, 24)
    assert (abstain.fpr.n, abstain.fnr.n) == (60, 12)
    assert plain.prompt_sha256 == ONE.default.sha256
    assert plain.by_kind["right_other_words"].value == 1


async def test_a_judge_that_accepts_everything_has_fpr_1() -> None:
    plain, _ = await calibrate(ScriptedJudge("yes"), ONE)
    assert (plain.fpr.value, plain.fnr.value, plain.noise) == (1, 0, 1)


async def test_unreadable_replies_are_counted_separately() -> None:
    plain, _ = await calibrate(ScriptedJudge("hm"), ONE)
    assert (plain.unparsed, plain.fpr.value, plain.fpr.interval) == (72, None, None)
    assert plain.by_kind["vague"].n == 0


@each_row("kind", list(AnswerKind))
def test_only_right_answers_contain_the_expected_fact(kind: AnswerKind) -> None:
    for probe in PROBES:
        held = probe.expected.lower() in probe.answer(kind).lower()
        assert held == (kind is AnswerKind.RIGHT) or kind is AnswerKind.RIGHT_OTHER_WORDS
