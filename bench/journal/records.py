"""The records that a reader returns: frozen values."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from bench.journal.rows import CorpusRow, JournaledPhase, RunState
from bench.model import Call, Phase, State, Usage, Verdict

NO_USAGE = Usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Calls of one role added up, retries included."""

    calls: int = 0
    errors: int = 0
    usage: Usage = NO_USAGE
    """of the calls that reported their usage"""
    cost_usd: str = "0"
    """decimal text, of the calls whose cost is known"""
    unknown_costs: int = 0
    """calls whose cost is not known"""
    told: int = 0
    """calls with a usage"""
    estimated: int = 0
    """those whose usage was counted here, because the endpoint reported none"""
    unpriced: int = 0
    """calls that ended well and whose cost is not known: a failed call has none"""

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            calls=self.calls + other.calls,
            errors=self.errors + other.errors,
            usage=add_usages([self.usage, other.usage]),
            cost_usd=format(Decimal(self.cost_usd) + Decimal(other.cost_usd), "f"),
            unknown_costs=self.unknown_costs + other.unknown_costs,
            told=self.told + other.told,
            estimated=self.estimated + other.estimated,
            unpriced=self.unpriced + other.unpriced,
        )


def spent_by_role(calls: Iterable[Call]) -> dict[str, Spent]:
    """Add up a ledger by role."""
    by_role: dict[str, list[Call]] = {}
    for call in calls:
        by_role.setdefault(call.role, []).append(call)
    return {role: _spent(group) for role, group in sorted(by_role.items())}


def _spent(calls: list[Call]) -> Spent:
    usages = [call.usage for call in calls if call.usage is not None]
    costs = [Decimal(call.cost_usd) for call in calls if call.cost_usd is not None]
    return Spent(
        calls=len(calls),
        errors=sum(call.outcome != "ok" for call in calls),
        usage=add_usages(usages),
        cost_usd=format(sum(costs, Decimal(0)), "f"),
        unknown_costs=len(calls) - len(costs),
        told=len(usages),
        estimated=sum(usage.estimated for usage in usages),
        unpriced=sum(call.cost_usd is None and call.outcome == "ok" for call in calls),
    )


def add_usages(usages: Iterable[Usage]) -> Usage:
    """Add token counts; estimated when any part is."""
    total = NO_USAGE
    for usage in usages:
        total = Usage(
            input_tokens=total.input_tokens + usage.input_tokens,
            cache_read_tokens=total.cache_read_tokens + usage.cache_read_tokens,
            cache_write_tokens=total.cache_write_tokens + usage.cache_write_tokens,
            output_tokens=total.output_tokens + usage.output_tokens,
            reasoning_tokens=total.reasoning_tokens + usage.reasoning_tokens,
            total_tokens=total.total_tokens + usage.total_tokens,
            estimated=total.estimated or usage.estimated,
        )
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSpent:
    """The time, tokens and money of a phase over all items and attempts."""

    units: int
    """items times epochs that it was begun for"""
    calls: int
    tokens: int
    """input and output, of the calls that reported their usage"""
    cost_usd: str
    """decimal text, of the calls whose cost is known"""
    unpriced: int
    """calls that ended well and whose cost is not known"""
    time_us: int
    """of the attempts that ended well, without queue and limiter"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRecord:
    """One item of one job: the latest attempt of each phase and the newest scoring."""

    corpus: str
    item: str
    epoch: int
    phases: Mapping[Phase, JournaledPhase]
    """latest attempt of search, answer, evaluate, without calls; payloads are references (``Reader.payload``)"""
    attempts: Mapping[Phase, int]
    state: State | None
    """None = pending"""
    outcome: str | None
    """``ok`` or the error kind of the scored entry; None = pending"""
    labels: Mapping[str, str]
    values: Mapping[str, float | None]
    verdicts: tuple[Verdict, ...]
    """of the newest scoring; ``raw`` is a reference"""
    spent: Mapping[str, Spent] = field(default_factory=dict)
    """by role, over every attempt of the three phases"""

    @property
    def message(self) -> str:
        """The text of what failed, empty when nothing did."""
        return next((entry.message for entry in self.phases.values() if not entry.ok), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unscored:
    """One reason why a judge gave no verdict, and how often."""

    evaluator: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedFor:
    """One reason why items failed, and how many."""

    kind: str
    """of the error"""
    text: str
    count: int


class JudgedItem(NamedTuple):
    """The decision of a judge on one item in one scoring generation."""

    corpus: str
    item: str
    epoch: int
    labels: Mapping[str, str]
    value: float | None
    correct: bool | None
    """None = no verdict, and ``reason`` states why"""
    reason: str
    model: str | None
    prompt_name: str | None
    prompt_sha256: str | None


@dataclass(frozen=True, slots=True)
class Flagged:
    """A flag of some items of a phase."""

    flags: tuple[str, ...]
    outcome: str
    count: int
    sent_tokens: int
    """of their prompts together, by our own estimate"""
    tokens_in: int
    """of their prompts together, as the endpoint counts"""
    tokens_out: int
    """of their replies together"""
    saved_usd: float | None
    """what they would have cost more, each sent alone to a vendor that remembers nothing; None = unknown"""
    item: str
    """one of them"""


@dataclass(frozen=True, slots=True)
class FlagCount:
    """The number of searches or answers with a flag, and some of their items."""

    count: int
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HitCounts:
    """The hits of the last searches of a lane's items, counted."""

    hits: int
    """that can be mapped"""
    unmapped: int
    """those of them that map to no memory of their corpus"""
    searches: int
    flags: Mapping[str, FlagCount]
    """what was odd about them"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """Up to a few thousand ended items in order, as columns; all have the same metrics."""

    corpora: tuple[str, ...]
    items: tuple[str, ...]
    epochs: tuple[int, ...]
    states: tuple[str, ...]
    outcomes: tuple[str, ...]
    """``ok`` or the error kind"""
    labels: tuple[Mapping[str, str], ...]
    """equal label sets are one object"""
    values: Mapping[str, array[float]]
    """metric -> column; NaN = does not apply to the item; a metric that is absent: the items failed"""

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """Ended items that share state, outcome and labels, as columns; items of one corpus are next to each other."""

    state: str
    outcome: str
    """``ok`` or the error kind"""
    labels: Mapping[str, str]
    corpora: Sequence[str]
    values: Mapping[str, array[float]]
    """as in ``Values``"""

    def __len__(self) -> int:
        return len(self.corpora)


class Unvalued(NamedTuple):
    """An ended item without a value of some metric, and why retrieval does not apply to it (may be empty)."""

    corpus: str
    item: str
    epoch: int
    state: str
    labels: Mapping[str, str]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusRecord:
    """The outcome of one corpus of a lane; a merged journal has one record per run that touched the corpus."""

    lane: str
    corpus: str
    attempts: int
    last: tuple[CorpusRow, ...]
    """rows of the last attempt in order; batch rows carry what was sent and returned"""
    uncleared: tuple[tuple[CorpusRow, ...], ...]
    """the rows of each attempt that none of them states was cleared; an earlier one is there where clearing failed"""
    spent: Mapping[str, Spent]
    """by role, over every attempt"""

    @property
    def started_at(self) -> datetime | None:
        return self.last[0].at if self.last else None

    @property
    def times_us(self) -> dict[str, int]:
        """The times of the last attempt; a name that several rows have is added up."""
        times: dict[str, int] = {}
        for row in self.last:
            for name, value in row.times_us.items():
                times[name] = times.get(name, 0) + value
        return times

    @property
    def is_reused(self) -> bool:
        """Whether another run ingested the corpus and this run only searches it."""
        return any("reused_from" in row.data for row in self.last)

    def row(self, kind: str) -> CorpusRow | None:
        """Give the last row of a kind in the last attempt."""
        return next((row for row in reversed(self.last) if row.kind == kind), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalOrigin:
    """A journal that rows came from: the run itself, and each shard after a merge."""

    uuid: str
    run_id: str
    created_at: datetime
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The run's state as a stranger sees it: ``interrupted`` = running, but its process is gone."""

    state: RunState
    reason: str
    at: datetime
    holder: str | None
    """``pid P on HOST`` while a live process holds the run"""
    heartbeat_at: datetime | None
    oldest_request_s: float | None = None
    """age of the oldest request that was in flight at the last heartbeat; None also where no one holds the run"""
