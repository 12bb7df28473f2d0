"""Decide whether the results of a job are valid, and check its judge.

Example::

    same_family_note("openai/gpt-4o", "openai/gpt-4o-mini")    # "the judge is of the same family (gpt) ..."
    calibrations(events, record)[0].useless             # no better than chance
    invalid_reasons({State.ERROR: 3, State.CORRECT: 97}, {"timeout": 3}, 100, 0.02, [])
    # ("3 of 100 items failed (error or not_ready): above the allowed 2%",)
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.journal import Event, ProbeRow
from bench.journal.records import MissingVerdicts
from bench.model import JUDGED, SCORED_STATES, State
from bench.plan.job_record import JobRecord
from bench.visible_text import counted

CALIBRATION = "judge_calibration"
"""kind of the event with a judge's error rates on answers whose verdict is known"""
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
    """Return True if the verdicts of a judge decide the states of the job's items."""
    return record.models.judge not in (None, "none") and not JUDGED.isdisjoint(record.evaluators[:1])


# ------------------------------------------------------------------------ same family


def same_family_note(answering: str | None, judge: str | None) -> str | None:
    """Return a note if judge and answering model are the same model or belong to one model family; otherwise None.

    Only the names of the models are compared.
    """
    if not answering or not judge or "none" in (answering, judge) or judge.startswith(f"{BUILT_IN}/"):
        return None
    if answering == judge:
        return f"the judge is the answering model itself ({judge}): models favor their own answers"
    shared = _families(answering) & _families(judge)
    if shared:
        named = ", ".join(sorted(shared))
        return (
            f"the judge {judge} is of the same family ({named}) as the answering model: models favor answers "
            "of their own family"
        )
    return None


def _families(name: str) -> frozenset[str]:
    return frozenset(ONE_NAME.get(one, one) for one in FAMILIES.findall(name.lower()))


# ------------------------------------------------------------------------ verdicts that are missing


def missing_verdicts(found: Sequence[MissingVerdicts], states: Mapping[State, int], planned: int) -> str:
    """Return a note on the items without a verdict from the judge, or an empty text if every item has a verdict.

    The note contains the number of these items and the most common reason.
    """
    lost = n_missing_verdicts(found)
    if not lost:
        return ""
    worst = max(found, key=lambda one: one.count)
    times = "once" if worst.count == 1 else f"{worst.count} times"
    none = "" if n_scored(states) else "; no item was scored"
    return (
        counted(lost, f"of {counted(planned, 'item(|s)')} (has|have) no verdict of the judge; the most common reason: ")
        + f"{worst.reason}, {times}{none}"
    )


def n_missing_verdicts(found: Sequence[MissingVerdicts]) -> int:
    """Return the number of missing verdicts of the evaluator with the most missing verdicts, or 0."""
    by_evaluator: dict[str, int] = {}
    for one in found:
        by_evaluator[one.evaluator] = by_evaluator.get(one.evaluator, 0) + one.count
    return max(by_evaluator.values(), default=0)


def n_scored(states: Mapping[State, int]) -> int:
    """Return the number of items with a verdict.

    If ``states`` counts repeats of items, return the number of repeats.
    """
    return sum(states.get(state, 0) for state in SCORED_STATES)


# ------------------------------------------------------------------------ calibration


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCalibration:
    """The error rates of one judge with one judge prompt, measured on built-in answers with known right verdicts."""

    stored: Mapping[str, object]
    """the stored values: judge, prompt, prompt_sha256, fpr, fnr, by_kind, unparsed"""
    prompt: str
    accepted_wrong: tuple[float | None, int, tuple[float, float]]
    """(share of wrong answers that the judge accepts, number of wrong answers, 95% interval of the share)"""
    refused_right: tuple[float | None, int, tuple[float, float]]
    """(share of right answers that the judge refuses, number of right answers, 95% interval of the share)"""
    unparsed: int
    """number of judge replies without a readable verdict"""

    @property
    def useless(self) -> bool:
        """Return True if the judge may be no better than chance.

        This is the case if the lower limit of Newcombe's 95% interval of TPR - FPR is 0 or less, or if the judge has
        no readable verdicts.
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
        """Return one table row: judge, prompt, both error rates, number of unreadable verdicts, and a note."""
        rates = (_share(self.accepted_wrong), _share(self.refused_right))
        verdict = "no better than chance" if self.useless else ""
        return str(self.stored["judge"]), self.prompt, *rates, str(self.unparsed), verdict

    def text(self, judge: str) -> str:
        """Return the error rates as one sentence for tables. ``judge`` is the name of the judge in this sentence."""
        verdict = "; it is no better than chance" if self.useless else ""
        return (
            f"judge calibration, {judge}, prompt {self.prompt}: accepts {_share(self.accepted_wrong)} wrong answers, "
            f"refuses {_share(self.refused_right)} right answers, "
            f"{counted(self.unparsed, 'unreadable verdict(|s)')}{verdict}"
        )


def calibrations(events: Iterable[Event], record: JobRecord) -> list[JudgeCalibration]:
    """Return the calibrations of the job's judge, one per judge prompt of the job.

    If a prompt was calibrated several times, the latest calibration is returned.
    """
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
    """Return the reason why the verdicts of a job's judge must not be used, or an empty text.

    The reason is that the judge is no better than chance. The text is empty if the judge is better than chance, was not
    calibrated, or does not decide the states of the job's items. The prompt for abstention items is not considered.
    """
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


CHECKS = ("emptiness", "canary", "leak")
FOREIGN = "an isolation probe found foreign memories in a namespace"


def invalid_reasons(
    states: Mapping[State, int],
    error_kinds: Mapping[str, int],
    planned: int,
    max_error_rate: float,
    probes: Sequence[ProbeRow],
    *,
    epochs: int = 1,
    unscored: Sequence[MissingVerdicts] = (),
    useless_judge: str = "",
) -> tuple[str, ...]:
    """Return the reasons why a job is INVALID. The result is empty for a valid job.

    A job is INVALID in these cases: too many items failed or lack a verdict of the judge (``unscored``), all verdicts
    are missing, the judge is no better than chance (``useless_judge``), or a namespace contained memories of another
    corpus or run. Pending items are not counted. If ``epochs`` is above 1, ``states`` and ``planned`` count repeats of
    items.
    """
    failed = states.get(State.ERROR, 0) + states.get(State.NOT_READY, 0)
    lost = n_missing_verdicts(unscored)
    reasons = [useless_judge] if useless_judge else []
    if lost and planned and ((failed + lost) / planned > max_error_rate or not n_scored(states)):
        also = f" and {failed} failed" if failed else ""
        allowed = f"above the allowed {max_error_rate * 100:g}%" if n_scored(states) else "nothing can be concluded"
        reasons.append(f"{missing_verdicts(unscored, states, planned)}{also}: {allowed}")
    if planned and failed / planned > max_error_rate:
        share = f"{max_error_rate * 100:g}%"
        what = "item(|s)" if epochs == 1 else "repeat(|s) of items"
        reasons.append(f"{failed} of {counted(planned, what)} failed (error or not_ready): above the allowed {share}")
    found = [probe for probe in deciding_probes(probes) if not probe.passed]
    if found or error_kinds.get("contaminated"):
        reasons.append(": ".join([FOREIGN, *map(probe_text, found[:1])]) + _other_corpora(found[1:]))
    return tuple(reasons)


def deciding_probes(probes: Sequence[ProbeRow]) -> list[ProbeRow]:
    """Return the isolation checks that can make the job INVALID.

    These are the checks of the last ingest attempt of each corpus, and the leaks of all attempts.
    """
    return [probe for probe in probes if probe.kind in CHECKS and probe.decides]


def probe_text(probe: ProbeRow) -> str:
    """Describe the result of a failed isolation check, with the corpora and namespaces."""
    place = f'corpus "{probe.corpus}"'
    if "namespace" in probe.data:
        place += f" (namespace {probe.data['namespace']})"
    owner = probe.data.get("of")
    whose = f' of corpus "{owner["corpus"]}" (namespace {owner["namespace"]})' if isinstance(owner, Mapping) else ""
    if probe.kind == "emptiness":
        held = probe.data.get("held")
        memories = counted(held, "memor(y|ies)") if isinstance(held, int) else "some memories"
        return f"{place} held {memories}{whose} before this run added any"
    return f"{place} returned a memory{whose or ' of another corpus'}"


def _other_corpora(probes: Sequence[ProbeRow]) -> str:
    others = {probe.corpus for probe in probes}
    return f", and {len(others)} other corpora" if len(others) > 1 else ", and another corpus" if others else ""
