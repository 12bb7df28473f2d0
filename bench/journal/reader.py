"""Read a journal without ever blocking its writer: live, crashed, finished or copied."""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from bench.journal.rows import Chain, CorpusRow, Entry, Event, Probe, Resume, RunMeta, RunState
from bench.model import Call, Phase, State, Usage, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Calls of one role added up; ``cost_usd`` is decimal text, None when any call's cost is unknown."""

    calls: int = 0
    errors: int = 0
    usage: Usage = Usage()
    cost_usd: str | None = "0"
    unknown_costs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRecord:
    """One item of one job: the latest attempt of each phase and the newest scoring."""

    corpus: str
    item: str
    epoch: int
    phases: Mapping[Phase, Entry]
    """latest attempt; payloads hold content hashes, see ``Reader.payload``; calls are left out"""
    attempts: Mapping[Phase, int]
    state: State | None
    """None = pending"""
    error_kind: str | None
    message: str
    labels: Mapping[str, str]
    values: Mapping[str, float | None]
    verdicts: tuple[Verdict, ...]
    spent: Mapping[str, Spent] = field(default_factory=dict)
    """by role, over every attempt"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """Up to a few thousand scored items in order, as columns; one metric set a batch."""

    corpora: tuple[str, ...]
    items: tuple[str, ...]
    epochs: tuple[int, ...]
    states: tuple[str, ...]
    error_kinds: tuple[str | None, ...]
    labels: tuple[Mapping[str, str], ...]
    """equal label sets are one object"""
    values: Mapping[str, array[float]]
    """metric -> column; NaN = does not apply to the item"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusFacts:
    """How one corpus of a lane fared (its last attempt)."""

    lane: str
    corpus: str
    attempts: int
    started_at: datetime | None
    ingested_at: datetime | None
    ready_at: datetime | None
    failed: str | None
    """error kind"""
    message: str
    times_us: Mapping[str, int]
    """merged from the rows of the last attempt"""
    rows: tuple[CorpusRow, ...]
    """rows of the last attempt; batch rows carry what was sent and returned"""
    spent: Mapping[str, Spent]
    """by role, over every attempt"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The run's state as a stranger sees it: ``interrupted`` = running, but its process is gone."""

    state: RunState
    reason: str
    at: datetime
    holder: str | None
    """``pid P on HOST`` while a live process holds the run"""
    heartbeat_at: datetime | None


class Reader:
    """A read-only view of one journal; use as ``async with Reader.open(path) as reader``."""

    path: Path
    meta: RunMeta
    resumes: tuple[Resume, ...]

    @staticmethod
    def open(path: Path) -> AbstractAsyncContextManager[Reader]:
        """Open a run folder or journal file. Raises JournalError when it is none, or of a newer version."""
        ...

    async def status(self) -> Status:
        """Say how the run stands now."""
        ...

    async def counts(self) -> dict[tuple[Phase, str], int]:
        """Count phase rows by (phase, outcome), every attempt."""
        ...

    async def states(self, job: str) -> dict[State, int]:
        """Count the items of a job by state."""
        ...

    async def owners(self) -> dict[str, set[Phase]]:
        """Name every owner with rows and the phases it has."""
        ...

    def items(self, chain: Chain) -> AsyncIterator[ItemRecord]:
        """Stream the items of a job that have any row, by (corpus, item, epoch)."""
        ...

    def values(self, job: str) -> AsyncIterator[Values]:
        """Stream states, labels and metric values of a job's ended items, by (corpus, item, epoch)."""
        ...

    def corpora(self, lane: str) -> AsyncIterator[CorpusFacts]:
        """Stream the corpora of a lane by id."""
        ...

    async def item(self, chain: Chain, item: str) -> list[ItemRecord]:
        """Give one item, an element an epoch."""
        ...

    async def attempts(self, chain: Chain, item: str) -> list[Entry]:
        """Give every attempt of an item with its calls, in the order of phase, epoch, attempt."""
        ...

    async def payload(self, content_hash: str) -> object:
        """Give a payload's JSON value, None when it was dropped."""
        ...

    async def probes(self, lane: str) -> list[Probe]:
        """Give the isolation checks of a lane in order."""
        ...

    async def events(self, *, after: int = 0) -> list[tuple[int, Event]]:
        """Give the events with an id above ``after``."""
        ...

    async def spent(self, owner: str) -> dict[str, Spent]:
        """Add up all calls of an owner (lane, answering or job) by role."""
        ...

    def calls(self, owner: str) -> AsyncIterator[Call]:
        """Stream the ledger of an owner."""
        ...
