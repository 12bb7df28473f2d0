"""The rows of a journal as frozen dataclasses; the docstring below a field describes it.

Also in this module:

* The holder of a journal: the process that may write, and the check whether it is alive.

Example::

    JournaledPhase(key=Key(owner="locomo/bm25", phase=Phase.SEARCH, corpus="conv-26", unit="conv-26-q1"),
          data={"retrieved": [["D1:3"]], "returned": 10}, payloads={"hits": [...]})

Owners: ``search`` belongs to a lane, ``answer`` to a lane and its answering model, ``evaluate`` to a job. So jobs that
differ only in a later model share the earlier phases. An owner is an opaque text.

Values that must be equal in two runs of one deterministic plan are in ``data`` (and verdicts, state, values). Measured
values are in ``times_us``, ``calls`` and ``measured``; merge does not compare them.

The lock of a dead holder on this machine is taken over at once (its pid does not exist, is a zombie or belongs to
another process, or the machine was rebooted). A holder on another machine, or in another container, counts as dead when
its heartbeat is older than ``STALE_S``.
"""

from __future__ import annotations

import os
import platform
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Literal

from bench.model import Call, Phase, RunIdentity, State, Verdict
from bench.values import dataclass as value_dataclass

OK = "ok"


_steady = partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
"""a clock in seconds that also counts suspended time where the system supports it"""
_STARTED = [time.time() - _steady()]


def now() -> datetime:
    """Return the UTC time; differences within a process are exact even if the wall clock jumps."""
    return datetime.fromtimestamp(_STARTED[0] + _steady(), UTC)


def set_clock() -> None:
    """Set ``now`` to the wall clock; called when a process begins to write a journal."""
    _STARTED[0] = time.time() - _steady()


def wall() -> datetime:
    """Return the wall-clock time, for comparisons between processes."""
    return datetime.now(UTC)


class RunState(StrEnum):
    """The state that the last process of a run recorded; ``interrupted`` is derived by readers only."""

    RUNNING = "running"
    COMPLETE = "complete"
    PARTIAL = "partial"
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class CorpusKind(StrEnum):
    """The kinds of rows of one attempt to prepare a corpus, in the order in which they are written."""

    INTENT = "intent"
    """something is about to be sent; the only kind that must be durable before the work continues"""
    BATCH = "batch"
    """the position of a batch and the provider's response to it"""
    INGESTED = "ingested"
    CLEAN_STOP = "clean_stop"
    """nothing is in flight although the ingest is not complete"""
    READY = "ready"
    FAILED = "failed"
    CLEARED = "cleared"
    CALLS = "calls"
    """not a step: calls that belong to no phase row, such as probes, status calls and canceled calls"""


@value_dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """The owner, phase and unit of a row; for ``ingest`` and ``index`` the unit is the corpus itself."""

    owner: str
    phase: Phase
    corpus: str
    unit: str
    epoch: int = 1


@value_dataclass(frozen=True, slots=True, kw_only=True)
class JournaledPhase:
    """One attempt of one phase of one unit. ``evaluate`` also has the item's final state.

    Write an ``evaluate`` entry for every ended item, also for one that failed earlier: then ``outcome`` is the error
    kind and ``state`` is error, not_ready or unsupported.
    """

    key: Key
    outcome: str = OK
    """``ok`` or the error kind"""
    attempt: int = 0
    """1-based; 0 = the next free number, set by the writer"""
    message: str = ""
    """error message; redacted, and stored once"""
    data: Mapping[str, object] = field(default_factory=dict)
    """small JSON; compared by merge"""
    measured: Mapping[str, object] = field(default_factory=dict)
    """small JSON; never compared"""
    payloads: Mapping[str, object] = field(default_factory=dict)
    """large JSON by name; stored once by content, compressed, droppable; never compared"""
    times_us: Mapping[str, int] = field(default_factory=dict)
    started_at: datetime = field(default_factory=now)
    calls: tuple[Call, ...] = ()
    state: State | None = None
    """for evaluate only, like the four fields below"""
    labels: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, float | None] = field(default_factory=dict)
    """metric name -> value; None = does not apply; absent = the item failed"""
    verdicts: tuple[Verdict, ...] = ()
    generation: int = 0
    """scoring generation: 0 = the run itself, a rescore adds one; the newest is shown"""

    @property
    def ok(self) -> bool:
        return self.outcome == OK


@value_dataclass(frozen=True, slots=True, kw_only=True)
class CorpusRow:
    """One step of one attempt to prepare a corpus of a lane; ``data`` is needed for resume and never removed."""

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
    """1-based within (lane, corpus, attempt); set by the writer"""
    origin: str = ""
    """id of the journal that began the attempt; empty = the journal of the row"""


ProbeKind = Literal["emptiness", "sentinel", "canary", "leak"]


@value_dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRow:
    """The outcome of one isolation check."""

    lane: str
    corpus: str
    attempt: int
    kind: ProbeKind
    """leak: a hit that provably belongs to another namespace; a row exists only when one was found"""
    passed: bool
    data: Mapping[str, object] = field(default_factory=dict)
    at: datetime = field(default_factory=now)
    last: bool = True
    """set by a reader: the check is of the last attempt of its corpus"""

    @property
    def decides(self) -> bool:
        """Return True when this check concerns searched memories: it is of the last attempt, or a leak in a search."""
        return self.last or self.kind == "leak"


@value_dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event that is not a phase; ``scope`` is a lane, a job, a model endpoint, or empty (the run)."""

    kind: str
    scope: str = ""
    message: str = ""
    data: Mapping[str, object] = field(default_factory=dict)
    at: datetime = field(default_factory=now)


JournalRow = JournaledPhase | CorpusRow | ProbeRow | Event


@value_dataclass(frozen=True, slots=True, kw_only=True)
class RunMeta:
    """The metadata of a run; written before any other row."""

    run_id: str
    plan_digest: str
    identity: RunIdentity
    """the tree from which the plan digest was computed, for a readable diff"""
    request: Mapping[str, object] = field(default_factory=dict)
    """the user's request, so that resume needs no flags"""
    ranges: tuple[tuple[int, int], ...] = ()
    """1-based inclusive positions that this run covers; empty = all"""
    total: int = 0
    """number of items of the benchmark before any filter"""
    versions: Mapping[str, object] = field(default_factory=dict)
    """versions of bench, Python, plug-ins, metric definitions and packs"""
    code_state: Mapping[str, object] = field(default_factory=dict)
    """git state, read before the first write"""
    extra: Mapping[str, object] = field(default_factory=dict)
    """job records, environment, labels, note, and if published the preregistration"""
    created_at: datetime = field(default_factory=now)


@value_dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRow:
    """A later process of the run: its versions, code state and run-time settings."""

    at: datetime
    data: Mapping[str, object]


@value_dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The three owners whose phases make up one job's items."""

    lane: str
    answering: str
    job: str


@value_dataclass(frozen=True, slots=True)
class Finished:
    """The units whose phase succeeded, by epoch; supports ``(unit, epoch) in finished``."""

    by_epoch: Mapping[int, frozenset[str]]

    def __contains__(self, unit: tuple[str, int]) -> bool:
        return unit[0] in self.by_epoch.get(unit[1], frozenset())

    def __len__(self) -> int:
        return sum(map(len, self.by_epoch.values()))


STALE_S = 30.0
HEARTBEAT_S = 5.0

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_live_tokens: set[str] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHolder:
    """One writing process; ``started`` is its start time in clock ticks since boot (0 = unknown)."""

    pid: int
    host: str
    boot: str
    started: int
    token: str

    @classmethod
    def me(cls) -> LeaseHolder:
        """Return this process as a holder, with a new token for each opened journal."""
        pid = os.getpid()
        started = _start_ticks(pid) or 0
        return cls(pid=pid, host=platform.node(), boot=_boot_id(), started=started, token=uuid.uuid4().hex)

    def take(self) -> None:
        """Mark this holder as alive in this process."""
        _live_tokens.add(self.token)

    def leave(self) -> None:
        """Undo ``take``."""
        _live_tokens.discard(self.token)

    def lives(self, *, heartbeat_age_s: float) -> bool:
        """Return True when this holder, read from a journal, may still write."""
        if self.host != platform.node():
            return heartbeat_age_s < STALE_S
        if self.boot != _boot_id():
            return False
        if self.pid == os.getpid():
            return self.token in _live_tokens
        return _is_running(self.pid, self.started)

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}"


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _stat_fields(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # the command name in parentheses may hold blanks and parentheses itself
    return text.rpartition(")")[2].split()


def _start_ticks(pid: int) -> int | None:
    fields = _stat_fields(pid)
    return int(fields[19]) if fields else None


def _is_running(pid: int, started: int) -> bool:
    fields = _stat_fields(pid)
    if fields is not None:
        return fields[0] not in "ZX" and (started == 0 or int(fields[19]) == started)
    if Path("/proc/self/stat").exists():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
