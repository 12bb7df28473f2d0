"""Filter and sort the items of a run by outcome, cause of failure, evidence, and differences between systems.

Example::

    positions(outcomes, ItemFilter(provider="bm25", show="missed"))      # [3, 17, 40]
    positions(outcomes, ItemFilter(sort="latency", by="bm25"))      # the slowest search of bm25 first
    position_of(outcomes, ItemFilter(provider="bm25", state="incorrect"), "q17")      # {"at": 12, "of": 40, ...}

This module does not search for texts. Such a search reads the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from bench.config.builtin_providers import is_control
from bench.metrics.failure_reason import LossKind
from bench.report.item_outcomes import JobOutcomes, RunOutcomes
from bench.untyped_values import Json
from bench.web.errors import RequestRefused, slug_of

RIGHT_STATES = frozenset({"correct"})
WRONG_STATES = frozenset({"incorrect", "partial", "abstained"})
SCORED = RIGHT_STATES | WRONG_STATES

SHOWS: Mapping[str, str] = {
    "differ": "systems differ",
    "all_wrong": "no system is right",
    "found_wrong": "evidence returned, answered wrong",
    "missed": "evidence not returned",
}
ORDERS: Mapping[str, str] = {
    "item": "item",
    "type": "question type",
    "state": "outcome, worst first",
    "value": "value, lowest first",
    "rank": "first evidence, missed first",
    "latency": "search time, slowest first",
    "tokens": "context tokens, most first",
    "differ": "disagreement, most first",
}
_WORST = ("error", "not_ready", "unsupported", "incorrect", "abstained", "partial", "unscored", "measured", "correct")
WORST = {state: float(at) for at, state in enumerate(_WORST)}
SORT_VALUES: Mapping[str, tuple[Callable[[JobOutcomes, int], float | None], Callable[[Sequence[float]], float]]] = {
    "state": (lambda job, at: WORST.get(job["states"][at] or ""), lambda found: sum(found) / len(found)),
    "value": (lambda job, at: job["values"][at], lambda found: sum(found) / len(found)),
    "rank": (lambda job, at: job["ranks"][at], lambda found: -max(rank or inf for rank in found)),
    "latency": (lambda job, at: job["search_us"][at], lambda found: -max(found)),
    "tokens": (lambda job, at: job["tokens"][at], lambda found: -max(found)),
    "differ": (lambda job, at: job["values"][at], lambda found: min(found) - max(found)),
}
"""name of the order -> (value of an item in one job, sort key from the values of all jobs); smallest sort key first"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemFilter:
    """The filter and order of a list of items. A filter that is None includes every item."""

    provider: str | None = None
    benchmark: str | None = None
    state: str | None = None
    question_type: str | None = None
    show: str | None = None
    loss: str | None = None
    error: str | None = None
    sort: str = "item"
    by: str | None = None
    """provider whose outcomes determine the order of the items

    None means ``provider``. If ``provider`` is None too, the outcomes of all providers that are not controls count.
    """

    @classmethod
    def of(cls, query: Mapping[str, str]) -> ItemFilter:
        """Read the filter and order from a query string.

        Raises:
            RequestRefused: the value of ``show``, ``loss`` or ``sort`` is unknown.
        """
        for name, known in (("show", SHOWS), ("loss", list(LossKind)), ("sort", ORDERS)):
            if query.get(name) and query[name] not in known:
                raise RequestRefused(400, "usage", f"{name}={query[name]} is not valid", f"known: {', '.join(known)}")
        return cls(
            provider=query.get("provider") or None,
            benchmark=query.get("benchmark") or None,
            state=query.get("state") or None,
            question_type=query.get("type") or None,
            show=query.get("show") or None,
            loss=query.get("loss") or None,
            error=query.get("error") or None,
            sort=query.get("sort") or "item",
            by=query.get("by") or None,
        )

    @property
    def needs_outcomes(self) -> bool:
        """True if the outcomes of all items must be known; False if a search of the journal is enough."""
        return any((self.show, self.loss, self.error)) or self.sort != "item"


LOSS_WORDS: Mapping[str, str] = {
    LossKind.ERROR: "failed",
    LossKind.NOT_READY: "the memory was not ready",
    LossKind.UNSUPPORTED: "the system cannot do this",
    LossKind.NOT_INGESTED: "evidence never stored",
    LossKind.NOT_RETRIEVED: "evidence not returned",
    LossKind.BELOW_CUT: "evidence returned, cut before the prompt",
    LossKind.ANSWER_WRONG: "evidence in the prompt, no right answer",
    LossKind.SHOULD_HAVE_ABSTAINED: "should have abstained",
    LossKind.NO_EVIDENCE_KNOWN: "no evidence is named, so the cause is not known",
    LossKind.GOLD_SUSPECT: "the expected answer is in doubt",
    LossKind.JUDGE_DISAGREEMENT: "judges disagree",
    LossKind.UNSCORED: "no verdict",
}


class _PositionCache:
    """The positions found for the latest outcomes, cached so that the next page of a list does not filter again."""

    outcomes: RunOutcomes | None = None
    chosen: ClassVar[dict[ItemFilter, list[int]]] = {}


def positions(outcomes: RunOutcomes, wanted: ItemFilter) -> list[int]:
    """Return the positions of the items that match the filter, in the order that the filter requests."""
    if _PositionCache.outcomes is not outcomes or len(_PositionCache.chosen) >= MAX_CACHED:
        _PositionCache.outcomes = outcomes
        _PositionCache.chosen.clear()
    if wanted not in _PositionCache.chosen:
        _PositionCache.chosen[wanted] = _positions(outcomes, wanted)
    return _PositionCache.chosen[wanted]


MAX_CACHED = 16


def _positions(outcomes: RunOutcomes, wanted: ItemFilter) -> list[int]:
    every, types = outcomes["jobs"], outcomes["types"]
    benchmark = wanted.benchmark or (every[0]["benchmark"] if every else None)
    jobs = [job for job in every if job["benchmark"] == benchmark]
    own = [job for job in jobs if wanted.provider in (None, job["provider"])]
    ranked = [job for job in jobs if not is_control(job["provider"])] or jobs
    if wanted.provider is None and wanted.show in JOB_CONDITIONS:
        own = ranked
    of_a_job = wanted.state or wanted.loss or wanted.error or wanted.show in JOB_CONDITIONS
    found = [
        at
        for at, kind in enumerate(types)
        if wanted.question_type in (None, kind)
        and any(job["states"][at] is not None for job in own)
        and (not of_a_job or any(_matches(job, at, wanted) for job in own))
        and _matches_across(ranked, at, wanted.show)
    ]
    if wanted.sort == "type":
        return sorted(found, key=lambda at: types[at] or "")
    chosen = [job for job in jobs if job["provider"] == (wanted.by or wanted.provider)] or ranked
    return sorted(found, key=_sort_key(wanted.sort, chosen)) if wanted.sort in SORT_VALUES else found


def _sort_key(sort: str, jobs: Sequence[JobOutcomes]) -> Callable[[int], tuple[bool, float]]:
    """Return a function that computes the sort key of an item's position. Items without a value come last."""
    value_of, fold = SORT_VALUES[sort]

    def key(at: int) -> tuple[bool, float]:
        known = [one for job in jobs if (one := value_of(job, at)) is not None]
        return not known, fold(known) if known else 0.0

    return key


def _matches(job: JobOutcomes, at: int, wanted: ItemFilter) -> bool:
    return (
        job["states"][at] is not None
        and wanted.state in (None, job["states"][at])
        and wanted.loss in (None, job["item_losses"][at])
        and wanted.error in (None, job["errors"][at])
        and ((shows := JOB_CONDITIONS.get(wanted.show or "")) is None or shows(job, at))
    )


JOB_CONDITIONS: Mapping[str, Callable[[JobOutcomes, int], bool]] = {
    "found_wrong": lambda job, at: bool(job["ranks"][at]) and job["states"][at] in WRONG_STATES,
    "missed": lambda job, at: job["ranks"][at] == 0 and job["states"][at] not in ("error", "not_ready", "unsupported"),
}
"""value of ``show`` -> function that returns True if the item at a position matches this value in one job"""


def _matches_across(jobs: Sequence[JobOutcomes], at: int, show: str | None) -> bool:
    """Return True if the outcomes of an item in several jobs match ``show``.

    Only ``differ`` and ``all_wrong`` are checked; any other value matches. Jobs in which the item failed are ignored.
    """
    scored = [job["states"][at] in RIGHT_STATES for job in jobs if job["states"][at] in SCORED]
    if show == "differ":
        return len(set(scored)) > 1
    if show == "all_wrong":
        return bool(scored) and not any(scored)
    return True


def position_of(outcomes: RunOutcomes, wanted: ItemFilter, item: str) -> Json | None:
    """Return the place of an item in the filtered list, with the previous and the next item.

    Return None if the item does not match the filter.
    """
    found = [outcomes["units"][at][1] for at in positions(outcomes, wanted)]
    if item not in found:
        return None
    at = found.index(item)
    return {
        "at": at + 1,
        "of": len(found),
        "previous": slug_of(found[at - 1]) if at else None,
        "next": slug_of(found[at + 1]) if at + 1 < len(found) else None,
    }
