"""What is known of a job's judge: verdicts that it owes, how often it errs, and whether it judges its own kind.

Example::

    related("openai/gpt-4o", "openai/gpt-4o-mini")      # "the judge is of the same family (gpt) as the answering model"
    calibrations(events, record)[0].useless             # no better than chance
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.journal import Event
from bench.journal.records import Unscored
from bench.model import JUDGED, State
from bench.plan.record import JobRecord

CALIBRATION = "judge_calibration"
STORED = ("judge", "prompt", "prompt_sha256", "fpr", "fnr", "by_kind", "unparsed")
ABSTENTION = "abstention"
BUILT_IN = "builtin"
FAMILIES = re.compile(
    r"(?<![a-z])(claude|gemini|gemma|llama|qwen|qwq|deepseek|mistral|mixtral|ministral|magistral|codestral|phi|command"
    r"|grok|glm|chatglm|kimi|moonshot|yi|nova|granite|falcon|olmo|ernie|hunyuan|minimax|nemotron|jamba|solar|exaone"
    r"|gpt|chatgpt|o[134](?![a-z0-9]))"
)
ONE_NAME = {
    "qwq": "qwen", "mixtral": "mistral", "ministral": "mistral", "magistral": "mistral", "codestral": "mistral",
    "chatglm": "glm", "moonshot": "kimi", "chatgpt": "gpt", "o1": "gpt", "o3": "gpt", "o4": "gpt",
}  # fmt: skip


def is_judged(record: JobRecord) -> bool:
    """Whether a model decides how the items of a job end."""
    return record.models.judge not in (None, "none") and not JUDGED.isdisjoint(record.evaluators[:1])


# ------------------------------------------------------------------------ same family


def related(answering: str | None, judge: str | None) -> str | None:
    """Say that a judge judges itself or its own family; None where it does not, as far as names show."""
    if not answering or not judge or "none" in (answering, judge) or judge.startswith(f"{BUILT_IN}/"):
        return None
    if answering == judge:
        return f"the judge is the answering model itself ({judge}): models favor their own answers"
    shared = _families(answering) & _families(judge)
    if shared:
        named = ", ".join(sorted(shared))
        return f"the judge {judge} is of the same family ({named}) as the answering model: models favor their own kind"
    return None


def _families(name: str) -> frozenset[str]:
    return frozenset(ONE_NAME.get(one, one) for one in FAMILIES.findall(name.lower()))


# ------------------------------------------------------------------------ verdicts that are missing


def missing_verdicts(found: Sequence[Unscored], states: Mapping[State, int], planned: int) -> str:
    """Say how many items have no verdict of a judge and why most of them have none; empty = none is missing."""
    lost = most_missing(found)
    if not lost:
        return ""
    worst = max(found, key=lambda one: one.count)
    times = "once" if worst.count == 1 else f"{worst.count} times"
    none = "" if scored(states) else "; no item was scored"
    return (
        f"{lost} of {planned} items have no verdict of the judge; the commonest reason: {worst.reason}, {times}{none}"
    )


def most_missing(found: Sequence[Unscored]) -> int:
    """Return how many items the evaluator that lacks the most has no verdict of."""
    by_evaluator: dict[str, int] = {}
    for one in found:
        by_evaluator[one.evaluator] = by_evaluator.get(one.evaluator, 0) + one.count
    return max(by_evaluator.values(), default=0)


def scored(states: Mapping[State, int]) -> int:
    """Return how many items or repeats have a verdict."""
    return sum(states.get(state, 0) for state in (State.CORRECT, State.INCORRECT, State.PARTIAL, State.ABSTAINED))


# ------------------------------------------------------------------------ calibration


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCalibration:
    """How one judge did on the built-in probes with one prompt of a job."""

    stored: Mapping[str, object]
    """as it was measured: judge, prompt, prompt_sha256, fpr, fnr, by_kind, unparsed"""
    prompt: str
    accepted_wrong: tuple[float | None, int, tuple[float, float]]
    """share, probes, 95 % interval"""
    refused_right: tuple[float | None, int, tuple[float, float]]
    unparsed: int

    @property
    def useless(self) -> bool:
        """The judge accepts right answers no more often than wrong ones, within the noise of the probes.

        The lower end of Newcombe's 95 % interval of TPR - FPR is not above 0; so is a judge without readable verdicts.
        """
        (wrong, n_wrong, (_, wrong_high)), (refused, n_right, (_, refused_high)) = (
            self.accepted_wrong,
            self.refused_right,
        )
        if wrong is None or refused is None or not n_wrong or not n_right:
            return True
        right, right_low = 1 - refused, 1 - refused_high
        return right - wrong - math.hypot(right - right_low, wrong_high - wrong) <= 0

    @property
    def cells(self) -> tuple[str, ...]:
        """Judge, prompt, both rates and the verdicts that could not be read."""
        rates = (_share(self.accepted_wrong), _share(self.refused_right))
        verdict = "no better than chance" if self.useless else ""
        return str(self.stored["judge"]), self.prompt, *rates, str(self.unparsed), verdict

    def text(self, judge: str) -> str:
        """One sentence for tables."""
        verdict = "; it is no better than chance" if self.useless else ""
        return (
            f"judge calibration, {judge}, prompt {self.prompt}: accepts {_share(self.accepted_wrong)} wrong answers, "
            f"refuses {_share(self.refused_right)} right ones, {self.unparsed} unreadable{verdict}"
        )


def calibrations(events: Iterable[Event], record: JobRecord) -> list[JudgeCalibration]:
    """Return what the run measured of a job's judge with the job's own prompts."""
    digests = set(record.prompts.values())
    found: dict[str, JudgeCalibration] = {}
    for event in events:
        data = event.data
        if (
            event.kind == CALIBRATION
            and data.get("judge") == record.models.judge
            and data.get("prompt_sha256") in digests
        ):
            found[str(data["prompt_sha256"])] = JudgeCalibration(
                stored={key: data.get(key) for key in STORED},
                prompt=str(data.get("prompt")),
                accepted_wrong=_rate(data.get("fpr")),
                refused_right=_rate(data.get("fnr")),
                unparsed=int(str(data.get("unparsed") or 0)),
            )
    return list(found.values())


def useless_judge(found: Iterable[JudgeCalibration], record: JobRecord) -> str:
    """Say why no number of a job's judge may be used; empty = it is better than chance, or was not measured."""
    bad = [one.prompt for one in found if one.prompt != ABSTENTION and one.useless]
    if not bad or not is_judged(record):
        return ""
    return f"the judge {record.models.judge} is no better than chance (calibration, prompt {bad[0]})"


def _rate(stored: object) -> tuple[float | None, int, tuple[float, float]]:
    rate = stored if isinstance(stored, Mapping) else {}
    value, n, interval = rate.get("value"), rate.get("n"), rate.get("interval")
    ends = (float(interval["low"]), float(interval["high"])) if isinstance(interval, Mapping) else (0.0, 1.0)
    return (None if value is None else float(value)), int(n or 0), ends


def _share(rate: tuple[float | None, int, tuple[float, float]]) -> str:
    value, n, (low, high) = rate
    return "none" if value is None else f"{value:.0%} [{low:.0%}, {high:.0%}] of {n}"
