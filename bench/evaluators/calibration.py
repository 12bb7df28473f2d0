"""How often this judge, with these prompts, is wrong: built-in probes whose right verdict is known.

Each distinct judge prompt is asked about 12 answers of each kind. An unparsed verdict counts on its own,
neither as right nor as wrong.

Example::

    found = await calibrate(judge, prompts)
    found[0].fpr.value, found[0].noise
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.evaluators.judged import JudgeEvaluator
from bench.evaluators.probes import PROBES, Kind, Probe
from bench.evaluators.prompts import JudgePrompt, JudgePrompts
from bench.evaluators.protocol import Judge
from bench.model import Interval, ScoredItem
from bench.stats import interval_wilson

WARN_ABOVE = 0.2
"""a judge that takes more wrong answers for right than this is warned of"""
RIGHT: Mapping[bool, frozenset[Kind]] = {
    False: frozenset({Kind.RIGHT, Kind.RIGHT_OTHER_WORDS}),
    True: frozenset({Kind.REFUSAL}),
}
"""abstention prompt or not -> the kinds that are right"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A share of n verdicts, with its Wilson interval."""

    value: float | None
    n: int
    interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """One judge with one prompt."""

    judge: str
    prompt_sha256: str
    prompt_name: str
    fpr: Rate
    """wrong answers taken for right"""
    fnr: Rate
    """right answers taken for wrong"""
    by_kind: Mapping[str, Rate]
    """share taken for right, kind by kind"""
    unparsed: int

    @property
    def noise(self) -> float:
        """max(FPR, FNR): a smaller difference between two jobs is within judge noise."""
        return max(self.fpr.value or 0.0, self.fnr.value or 0.0)


async def calibrate(
    judge: Judge, prompts: JudgePrompts, *, evaluator: JudgeEvaluator | None = None
) -> list[Calibration]:
    """Ask every probe with every distinct prompt; the answers count as calls like any other."""
    return [
        await _one(judge, prompt, abstention=prompt is prompts.abstention, base=evaluator) for prompt in prompts.all
    ]


def calls_needed(prompts: JudgePrompts) -> int:
    """How many judge calls a calibration makes."""
    return len(prompts.all) * sum(1 for _ in answers())


def answers() -> Iterator[tuple[Probe, Kind, str]]:
    """Every probe with every kind of answer."""
    for probe in PROBES:
        for kind in Kind:
            yield probe, kind, probe.answer(kind)


async def _one(judge: Judge, prompt: JudgePrompt, *, abstention: bool, base: JudgeEvaluator | None) -> Calibration:
    fixed = JudgePrompts(default=prompt, abstention=prompt)
    evaluator = JudgeEvaluator(
        prompts=fixed,
        protocol=base.protocol if base else "auto",
        threshold=base.threshold if base else 1.0,
        temperature=base.temperature if base else 0.0,
    )
    taken: dict[Kind, list[bool]] = {kind: [] for kind in Kind}
    unparsed: Counter[Kind] = Counter()
    for probe, kind, answer in answers():
        verdict = await evaluator.evaluate(_item(probe, abstention), answer, (), judge)
        if verdict.correct is None:
            unparsed[kind] += 1
        else:
            taken[kind].append(verdict.correct)
    right = RIGHT[abstention]
    accepted_wrongly = [v for kind in Kind if kind not in right for v in taken[kind]]
    refused_wrongly = [not v for kind in right for v in taken[kind]]
    return Calibration(
        judge=judge.name,
        prompt_sha256=prompt.sha256,
        prompt_name=prompt.name,
        fpr=_rate(accepted_wrongly),
        fnr=_rate(refused_wrongly),
        by_kind={kind.value: _rate(taken[kind]) for kind in Kind},
        unparsed=unparsed.total(),
    )


def _item(probe: Probe, abstention: bool) -> ScoredItem:
    answers = ("this was never mentioned",) if abstention else (probe.expected,)
    return ScoredItem(
        id=probe.question, question=probe.question, answers=answers, abstention=abstention, rubric=(probe.rubric,)
    )


def _rate(said: Sequence[bool]) -> Rate:
    if not said:
        return Rate(value=None, n=0, interval=None)
    yes = sum(said)
    return Rate(value=yes / len(said), n=len(said), interval=interval_wilson(yes, len(said)))
