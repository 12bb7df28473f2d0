"""The records that ``Reader`` returns."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from bench.journal.rows import CorpusKind, CorpusRow, JournaledPhase, RunState
from bench.model import Call, Phase, State, Usage, Verdict
from bench.patterns import pattern
from bench.untyped_values import Json
from bench.visible_text import counted, visible

NO_USAGE = Usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTotals:
    """The totals of all calls of one role; retries count too."""

    calls: int = 0
    errors: int = 0
    usage: Usage = NO_USAGE
    """sum over the calls that reported their usage"""
    cost_usd: str = "0"
    """decimal text; sum over the calls with a known cost"""
    unknown_costs: int = 0
    """number of billed calls with unknown cost; a failed call is billed if its response reports a usage"""
    with_usage: int = 0
    """number of calls with a usage"""
    estimated: int = 0
    """number of calls whose usage was estimated, because the endpoint reported none"""
    timeouts: int = 0
    """number of calls that timed out; the vendor may bill them"""

    def __add__(self, other: UsageTotals) -> UsageTotals:
        return UsageTotals(
            calls=self.calls + other.calls,
            errors=self.errors + other.errors,
            usage=self.usage + other.usage,
            cost_usd=format(Decimal(self.cost_usd) + Decimal(other.cost_usd), "f"),
            unknown_costs=self.unknown_costs + other.unknown_costs,
            with_usage=self.with_usage + other.with_usage,
            estimated=self.estimated + other.estimated,
            timeouts=self.timeouts + other.timeouts,
        )


def totals_by_role(calls: Iterable[Call]) -> dict[str, UsageTotals]:
    """Add up calls, separately for each role."""
    by_role: dict[str, list[Call]] = {}
    for call in calls:
        by_role.setdefault(call.role, []).append(call)
    return {role: _spent(group) for role, group in sorted(by_role.items())}


def _spent(calls: list[Call]) -> UsageTotals:
    usages = [call.usage for call in calls if call.usage is not None]
    costs = [Decimal(call.cost_usd) for call in calls if call.cost_usd is not None]
    return UsageTotals(
        calls=len(calls),
        errors=sum(call.outcome != "ok" for call in calls),
        usage=sum(usages, NO_USAGE),
        cost_usd=format(sum(costs, Decimal(0)), "f"),
        unknown_costs=sum(call.cost_usd is None and (call.outcome == "ok" or call.reports_usage) for call in calls),
        with_usage=len(usages),
        estimated=sum(usage.estimated for usage in usages),
        timeouts=sum(call.outcome == "timeout" for call in calls),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTotals:
    """The time, tokens and cost of a phase over all items and attempts."""

    units: int
    """number of items for which the phase was started; each epoch counts"""
    succeeded: int
    """number of successful attempts; an item that succeeded in two merged runs counts twice"""
    calls: int
    tokens: int
    """input and output tokens of the calls that reported their usage"""
    cost_usd: str
    """decimal text; sum over the calls with a known cost"""
    unknown_costs: int
    """number of billed calls with unknown cost"""
    time_us: int
    """total time of the successful attempts, without waits in queues and for rate limits"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRecord:
    """One item in one epoch of a job: the latest attempt of each phase, and the newest scoring."""

    corpus: str
    item: str
    epoch: int
    phases: Mapping[Phase, JournaledPhase]
    """latest attempt of search, answer and evaluate, without calls; ``Reader.payload`` loads their payloads"""
    attempts: Mapping[Phase, int]
    state: State | None
    """None = pending"""
    outcome: str | None
    """``ok`` or the error kind; None = pending"""
    labels: Mapping[str, str]
    values: Mapping[str, float | None]
    verdicts: tuple[Verdict, ...]
    """verdicts of the newest scoring; ``Reader.payload`` loads the text to which their ``raw`` refers"""
    spent: Mapping[str, UsageTotals] = field(default_factory=dict)
    """role -> totals of its calls, over every attempt of the three phases"""

    @property
    def message(self) -> str:
        """Return the error message of the first failed phase; empty if no phase failed."""
        return next((entry.message for entry in self.phases.values() if not entry.ok), "")

    @property
    def hint(self) -> str:
        """Return the advice on the failure.

        The text is empty if no phase failed, or if an old version of bench wrote the journal.
        """
        return next((str(hint) for entry in self.phases.values() if (hint := entry.measured.get("hint"))), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingVerdicts:
    """A reason why an evaluator gave no verdict, and the number of items without a verdict for this reason."""

    evaluator: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCount:
    """An error, and the number of items that failed with this error."""

    kind: str
    """the error kind"""
    text: str
    count: int


_GENERATED_NAME = pattern(r"(?i)[\w.-]*(?:[0-9a-f]{16}|-[0-9a-f]{4}-[0-9a-f]{12})(?!\w)")
"""a name that ends in a hash or is a UUID, such as a namespace"""


def cause_texts(errors: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """Return a map from each error text to one text for all errors with the same cause.

    ``errors`` are (text, corpus, item). If several texts differ only in the names of corpora and items, they have the
    same cause. They are mapped to a text with placeholders for the names. Any other text is mapped to itself.
    """
    owners: dict[str, set[tuple[str, str]]] = {}
    for text, corpus, item in errors:
        named = {(name, placeholder) for name, placeholder in ((corpus, "<corpus>"), (item, "<item>")) if name}
        owners[text] = owners.get(text, named) & named
    causes = {text: _without_names(text, named) for text, named in owners.items()}
    counts = Counter(causes.values())
    return {text: cause if counts[cause] > 1 else text for text, cause in causes.items()}


def _without_names(text: str, named: Iterable[tuple[str, str]]) -> str:
    text = _GENERATED_NAME.sub("<id>", text)
    for name, placeholder in sorted(named, key=lambda one: (-len(one[0]), one)):  # an item id can contain the corpus id
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", placeholder, text)
    return text


class JudgedItem(NamedTuple):
    """The decision of a judge on one item in one scoring."""

    corpus: str
    item: str
    epoch: int
    labels: Mapping[str, str]
    value: float | None
    correct: bool | None
    """None = the judge gave no verdict; ``reason`` says why"""
    reason: str
    model: str | None
    prompt_name: str | None
    prompt_sha256: str | None


@dataclass(frozen=True, slots=True)
class FlaggedItems:
    """The items of a phase that have the same flags and outcome."""

    flags: tuple[str, ...]
    outcome: str
    count: int
    sent_tokens: int
    """total tokens of the prompts of these items, by bench's own estimate"""
    tokens_in: int
    """total tokens of the prompts of these items, as the endpoint counts"""
    tokens_out: int
    """total tokens of the replies to these items"""
    saved_usd: float | None
    """USD saved compared to single calls without the vendor's prompt cache; None = unknown"""
    item: str
    """an example item"""


@dataclass(frozen=True, slots=True)
class FlagCount:
    """The number of searches or answers that have a flag, and the ids of some of their items as examples."""

    count: int
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HitCounts:
    """Counts over the successful searches of a lane."""

    hits: int
    """number of hits, in searches whose hits can be mapped to memories"""
    unmapped: int
    """number of hits that match no memory of their corpus"""
    searches: int
    flags: Mapping[str, FlagCount]
    """flag -> number of searches that have this flag, with examples"""
    replies: Mapping[str, int] = field(default_factory=dict)
    """what a response contained instead of hits -> number of such responses, the most frequent first"""
    warnings: Mapping[str, int] = field(default_factory=dict)
    """warning that a response contained together with hits -> number of such responses, the most frequent first"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """Up to a few thousand ended items as columns: position n of each column belongs to item n.

    All items have values of the same metrics.
    """

    corpora: tuple[str, ...]
    items: tuple[str, ...]
    epochs: tuple[int, ...]
    states: tuple[str, ...]
    outcomes: tuple[str, ...]
    """``ok`` or the error kind of each item"""
    labels: tuple[Mapping[str, str], ...]
    """labels of each item; items with equal labels share one mapping"""
    values: Mapping[str, array[float]]
    """metric -> its value for each item; NaN = the metric does not apply; empty for failed items"""

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreGroup:
    """Ended items that have the same state, outcome and labels.

    Position n of each column belongs to item n. Items of one corpus are adjacent.
    """

    state: str
    outcome: str
    """``ok`` or the error kind"""
    labels: Mapping[str, str]
    corpora: Sequence[str]
    values: Mapping[str, array[float]]
    """metric -> its value for each item, as in ``Values``"""

    def __len__(self) -> int:
        return len(self.corpora)


class ItemWithoutValue(NamedTuple):
    """An ended item to which a metric does not apply.

    ``reason`` says why retrieval metrics do not apply to the item; it may be empty.
    """

    corpus: str
    item: str
    epoch: int
    state: str
    labels: Mapping[str, str]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusRecord:
    """The state of one corpus of a lane; in a merged run, one record for each source that prepared the corpus."""

    lane: str
    corpus: str
    attempts: int
    last: tuple[CorpusRow, ...]
    """rows of the last attempt in order"""
    uncleared: tuple[tuple[CorpusRow, ...], ...]
    """rows of each attempt whose namespace was not cleared"""
    spent: Mapping[str, UsageTotals]
    """role -> totals of its calls, over every attempt"""

    @property
    def started_at(self) -> datetime | None:
        return self.last[0].at if self.last else None

    @property
    def times_us(self) -> dict[str, int]:
        """Return the times of the last attempt; times with the same name in several rows are added."""
        return _summed(self.last)

    @property
    def sending_us(self) -> dict[str, int]:
        """Return the time of the last attempt for adding memories and for the provider's ``finish``, with its parts."""
        return _summed(row for row in self.last if row.kind in (CorpusKind.BATCH, CorpusKind.INGESTED))

    @property
    def is_reused(self) -> bool:
        """Return True when another run ingested the corpus and this run only searches it."""
        return any("reused_from" in row.data for row in self.last)

    def row(self, kind: str) -> CorpusRow | None:
        """Return the last row of this kind in the last attempt, or None if there is none."""
        return next((row for row in reversed(self.last) if row.kind == kind), None)


def _summed(rows: Iterable[CorpusRow]) -> dict[str, int]:
    times: Counter[str] = Counter()
    for row in rows:
        times.update(row.times_us)
    return dict(times)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalOrigin:
    """A journal to which rows were first written: the run's own journal, or a source of a merge."""

    uuid: str
    run_id: str
    created_at: datetime
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexWaiting:
    """The wait of a running process until ingested corpora are searchable."""

    corpora: int
    """number of corpora that wait"""
    corpus: str
    """the corpus that has waited longest"""
    waited_s: float
    timeout_s: float
    """number of seconds after which this corpus fails as not ready"""

    @property
    def text(self) -> str:
        others = f" and {counted(self.corpora - 1, 'other corp(us|ora)')}" if self.corpora > 1 else ""
        return (
            f"until memories of {visible(self.corpus)}{others} can be found "
            f"({self.waited_s:.0f} of {self.timeout_s:g} s)"
        )

    def to_json(self) -> Json:
        return {**asdict(self), "waited_s": round(self.waited_s, 3)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The state of a run; ``interrupted`` means that the run is marked as running, but its process has ended."""

    state: RunState
    reason: str
    at: datetime
    holder: str | None
    """``pid P on HOST`` while a live process holds the run"""
    heartbeat_at: datetime | None
    oldest_request_s: float | None = None
    """age of the oldest request in flight; None if no request is in flight or no process holds the run"""
    index_wait: IndexWaiting | None = None
    """None if no corpus waits for its index, or if no process holds the run"""
