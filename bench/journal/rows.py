"""The rows of a journal as frozen dataclasses.

Example::

    JournaledPhase(key=Key(owner="locomo/bm25", phase=Phase.SEARCH, corpus="conv-26", unit="conv-26-q1"),
          data={"retrieved": [["D1:3"]], "returned": 10}, payloads={"hits": [...]})

Each phase row has an owner: a lane for ``search``, a lane with its answering model for ``answer``, a job for
``evaluate``. So two jobs that differ only in their judge share the rows of search and answer.

``data``, verdicts, state and values must be equal in two runs of one deterministic plan, because a merge compares them.
``times_us``, ``calls`` and ``measured`` may differ.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import Literal

from bench.fast_dataclass import dataclass as value_dataclass
from bench.model import Call, Phase, RunIdentity, State, Verdict

OK = "ok"


_steady = partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
"""a clock in seconds that also counts suspended time where the system supports it"""
_STARTED = [time.time() - _steady()]


def now() -> datetime:
    """Return the UTC time from a steady clock, so that durations are right even if the wall clock is changed."""
    return datetime.fromtimestamp(_STARTED[0] + _steady(), UTC)


def set_clock() -> None:
    """Synchronize ``now`` with the wall clock; called when a process begins to write a journal."""
    _STARTED[0] = time.time() - _steady()


def wall() -> datetime:
    """Return the UTC time of the wall clock. The times of different processes can be compared."""
    return datetime.now(UTC)


class RunState(StrEnum):
    """The state of a run. ``interrupted`` is never stored: it means that the process of a running run has died."""

    RUNNING = "running"
    COMPLETE = "complete"
    PARTIAL = "partial"
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class CorpusKind(StrEnum):
    """The kinds of rows that an attempt to prepare a corpus can write."""

    INTENT = "intent"
    """something is about to be sent to the provider; the request waits until this row is durable"""
    BATCH = "batch"
    """a batch of memories was sent; ``data`` has its position and the provider's response"""
    INGESTED = "ingested"
    CLEAN_STOP = "clean_stop"
    """the ingest stopped between two batches: no request is in flight"""
    READY = "ready"
    FAILED = "failed"
    CLEARED = "cleared"
    CALLS = "calls"
    """not a step of the attempt: the row holds calls that belong to no other row, such as probes and status calls"""


@value_dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """The identity of a phase row; ``unit`` is the id of an item."""

    owner: str
    phase: Phase
    corpus: str
    unit: str
    epoch: int = 1


@value_dataclass(frozen=True, slots=True, kw_only=True)
class JournaledPhase:
    """One attempt of one phase of an item. An ``evaluate`` row also has the final state of the item.

    Every ended item needs an ``evaluate`` row. If an earlier phase failed, ``outcome`` is the kind of its error, and
    ``state`` is error, not_ready or unsupported.
    """

    key: Key
    outcome: str = OK
    """``ok`` or the error kind"""
    attempt: int = 0
    """1-based number of the attempt; 0 = the writer sets the next free number"""
    message: str = ""
    """error message; the writer redacts secrets"""
    data: Mapping[str, object] = field(default_factory=dict)
    """small JSON that a merge compares"""
    measured: Mapping[str, object] = field(default_factory=dict)
    """small JSON that a merge does not compare"""
    payloads: Mapping[str, object] = field(default_factory=dict)
    """name -> large JSON value; stored compressed, equal values only once; can be dropped from the journal"""
    times_us: Mapping[str, int] = field(default_factory=dict)
    started_at: datetime = field(default_factory=now)
    calls: tuple[Call, ...] = ()
    state: State | None = None
    """final state of the item; this field and the four fields below are set only for ``evaluate``"""
    labels: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, float | None] = field(default_factory=dict)
    """metric name -> value; None = the metric does not apply; empty if the item failed"""
    verdicts: tuple[Verdict, ...] = ()
    generation: int = 0
    """0 = scored by the run itself, N = by its rescore N, -N = by its rescore N, which is not shown"""
    """number of the scoring: 0 = the run itself, each rescore adds one; readers show the newest"""

    @property
    def ok(self) -> bool:
        return self.outcome == OK


@value_dataclass(frozen=True, slots=True, kw_only=True)
class CorpusRow:
    """One step of one attempt to prepare a corpus of a lane; a resume needs ``data``, so ``data`` is never removed."""

    lane: str
    corpus: str
    attempt: int
    kind: CorpusKind
    outcome: str = OK
    message: str = ""
    data: Mapping[str, object] = field(default_factory=dict)
    times_us: Mapping[str, int] = field(default_factory=dict)
    at: datetime = field(default_factory=now)
    calls: tuple[Call, ...] = ()
    seq: int = 0
    """1-based number of the row in its attempt; set by the writer"""
    origin: str = ""
    """id of the journal that began the attempt; empty = this journal"""


ProbeKind = Literal["emptiness", "sentinel", "canary", "leak"]


@value_dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRow:
    """The outcome of one isolation check."""

    lane: str
    corpus: str
    attempt: int
    kind: ProbeKind
    """kind of the check; a ``leak`` row exists only if a search returned a hit of another namespace"""
    passed: bool
    data: Mapping[str, object] = field(default_factory=dict)
    at: datetime = field(default_factory=now)
    last: bool = True
    """True if the check belongs to the last attempt to prepare its corpus; set by a reader"""

    @property
    def decides(self) -> bool:
        """Return True if the check counts for the lane.

        It counts if it belongs to the last attempt to prepare its corpus, or if it is a leak.
        """
        return self.last or self.kind == "leak"


RESET = "corpus_reset"
"""kind of the event that records that a corpus is ingested again from the beginning"""
STOPPED = "job_stopped_"
"""start of the kind of an event that records that a job was stopped; the kind of the failure follows"""
CIRCUIT_BREAKER = "circuit_breaker"
"""kind of the failure by which bench stops a job whose first calls all failed or found nothing"""


@value_dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of a run, such as a warning.

    ``scope`` is a lane, a job or a model endpoint; empty = the whole run.
    """

    kind: str
    scope: str = ""
    message: str = ""
    data: Mapping[str, object] = field(default_factory=dict)
    at: datetime = field(default_factory=now)


JournalRow = JournaledPhase | CorpusRow | ProbeRow | Event


@value_dataclass(frozen=True, slots=True, kw_only=True)
class RunMeta:
    """The metadata of a run, stored when its journal is created."""

    run_id: str
    plan_digest: str
    identity: RunIdentity
    """the values from which the plan digest was computed; they show what differs between two plans"""
    request: Mapping[str, object] = field(default_factory=dict)
    """the flags of the run, so that they need not be repeated for a resume"""
    ranges: tuple[tuple[int, int], ...] = ()
    """1-based inclusive ranges of item positions that this run covers; empty = all items"""
    total: int = 0
    """number of items of the benchmark before any filter"""
    versions: Mapping[str, object] = field(default_factory=dict)
    """versions of bench, Python, plug-ins, metric definitions and packs"""
    code_state: Mapping[str, object] = field(default_factory=dict)
    """git state, read before the first write"""
    extra: Mapping[str, object] = field(default_factory=dict)
    """job records, environment, labels and note; for a published run also its preregistration"""
    created_at: datetime = field(default_factory=now)


@value_dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRow:
    """One resume of the run; ``data`` has the versions, code state and run-time settings of its process."""

    at: datetime
    data: Mapping[str, object]


@value_dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The owners of a job's phase rows: ``lane`` owns search, ``answering`` owns answer, ``job`` owns evaluate."""

    lane: str
    answering: str
    job: str


@value_dataclass(frozen=True, slots=True)
class Finished:
    """The ids of the items whose phase succeeded, by epoch; supports ``(id, epoch) in finished``."""

    by_epoch: Mapping[int, frozenset[str]]

    def __contains__(self, unit: tuple[str, int]) -> bool:
        return unit[0] in self.by_epoch.get(unit[1], frozenset())

    def __len__(self) -> int:
        return sum(map(len, self.by_epoch.values()))
