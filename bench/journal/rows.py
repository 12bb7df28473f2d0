"""The rows of a journal as frozen values; the text below each field states its meaning.

Here too:

* Who may write: one row in the journal names the process, and whether that process still lives.

Example::

    JournaledPhase(key=Key(owner="locomo/bm25", phase=Phase.SEARCH, corpus="conv-26", unit="conv-26-q1"),
          data={"retrieved": [["D1:3"]], "returned": 10}, payloads={"hits": [...]})

Owners: ``search`` belongs to a lane, ``answer`` to a lane and its answering model, ``evaluate`` to a
job, so jobs that differ only in a later model share what comes before. An owner is an opaque text.

Everything that two runs of one deterministic plan must agree on goes into ``data`` (and verdicts,
state, values); everything that is measured goes into ``times_us``, ``calls`` and ``measured``. Merge
compares the first and never the second.

A dead holder is taken over at once when it ran on this machine (its pid is gone, is a zombie, belongs
to another process now, or the machine was booted since). A holder on another machine, or in another
container of this one, counts as dead when its heartbeat is older than ``STALE_S``.
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

from bench.model import Call, Phase, State, Verdict
from bench.values import dataclass as value_dataclass

OK = "ok"


_steady = partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
"""seconds that run on evenly, also while a laptop sleeps where the system counts that"""
_STARTED = [time.time() - _steady()]


def now() -> datetime:
    """Give the time, aware and in UTC: two instants of a process lie apart as far as they did, if its clock jumps."""
    return datetime.fromtimestamp(_STARTED[0] + _steady(), UTC)


def set_clock() -> None:
    """Take the wall-clock time of this moment for ``now``, as a process does when it begins to write a journal."""
    _STARTED[0] = time.time() - _steady()


def wall() -> datetime:
    """Give the wall-clock time, for what is compared between processes."""
    return datetime.now(UTC)


class RunState(StrEnum):
    """The state that the last process of a run reported; only a reader derives ``interrupted``."""

    RUNNING = "running"
    COMPLETE = "complete"
    PARTIAL = "partial"
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class CorpusKind(StrEnum):
    """The steps of one corpus attempt, in the order in which they are written."""

    INTENT = "intent"
    """something is about to be sent; the one kind that is awaited"""
    BATCH = "batch"
    """a cursor and what the provider returned for it, in one transaction"""
    INGESTED = "ingested"
    CLEAN_STOP = "clean_stop"
    """nothing is in flight although the ingest is not at its end"""
    READY = "ready"
    FAILED = "failed"
    CLEARED = "cleared"
    CALLS = "calls"
    """no step: calls that no row of a phase holds, such as probes, status calls and what was cut off"""


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
    """One ended phase of one unit (one attempt). ``evaluate`` also states how the item ended.

    Write an ``evaluate`` entry for every item that ended, also for one that failed earlier: then
    ``outcome`` is the error kind and ``state`` is error, not_ready or unsupported.
    """

    key: Key
    outcome: str = OK
    """``ok`` or the error kind"""
    attempt: int = 0
    """1-based; 0 = the next free one, given by the writer"""
    message: str = ""
    """text of an error; redacted and kept once"""
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
    """evaluate only, as the four below"""
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
    """One step of one corpus attempt of a lane; ``data`` is needed for resume and never dropped."""

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
    """1-based inside (lane, corpus, attempt); given by the writer"""
    origin: str = ""
    """id of the journal that began the attempt; empty = the one it is written to"""


@value_dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRow:
    """The outcome of one isolation check."""

    lane: str
    corpus: str
    attempt: int
    kind: Literal["emptiness", "sentinel", "canary", "leak"]
    """leak: a hit that provably belongs to another namespace; there is a row only where one was found"""
    passed: bool
    data: Mapping[str, object] = field(default_factory=dict)
    at: datetime = field(default_factory=now)
    last: bool = True
    """given by a reader: it is of the last attempt of its corpus"""

    @property
    def decides(self) -> bool:
        """Say whether hits that are used rest on it: no search follows in an attempt whose other probes failed."""
        return self.last or self.kind == "leak"


@value_dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something worth telling that is not a phase: ``scope`` is a lane, a job or empty (the run)."""

    kind: str
    scope: str = ""
    message: str = ""
    data: Mapping[str, object] = field(default_factory=dict)
    at: datetime = field(default_factory=now)


JournalRow = JournaledPhase | CorpusRow | ProbeRow | Event


@value_dataclass(frozen=True, slots=True, kw_only=True)
class RunMeta:
    """The identity of a run; written once, before anything else."""

    run_id: str
    plan_digest: str
    identity: Mapping[str, object]
    """the tree under the plan digest, for a readable diff"""
    request: Mapping[str, object] = field(default_factory=dict)
    """what the user asked for, so that resume needs no flag"""
    ranges: tuple[tuple[int, int], ...] = ()
    """1-based inclusive positions that this run covers; empty = all"""
    total: int = 0
    """items of the benchmark's full order, before any filter"""
    versions: Mapping[str, object] = field(default_factory=dict)
    """bench, python, plug-ins, metric definitions, packs"""
    code_state: Mapping[str, object] = field(default_factory=dict)
    """git state, read before the first write"""
    extra: Mapping[str, object] = field(default_factory=dict)
    """preregistration, labels, note"""
    created_at: datetime = field(default_factory=now)


@value_dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRow:
    """A later process that continued with the run: its versions, code state and run-time settings."""

    at: datetime
    data: Mapping[str, object]


@value_dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The three owners whose phases make one job's items."""

    lane: str
    answering: str
    job: str


@value_dataclass(frozen=True, slots=True)
class Finished:
    """The units whose phase ended ok, by epoch; ``(unit, epoch) in finished``."""

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
class Holder:
    """One writing process; ``started`` is its start time in clock ticks since boot (0 = unknown)."""

    pid: int
    host: str
    boot: str
    started: int
    token: str

    @classmethod
    def me(cls) -> Holder:
        """Name this process, with a token of its own for each journal that it opens."""
        pid = os.getpid()
        started = _start_ticks(pid) or 0
        return cls(pid=pid, host=platform.node(), boot=_boot_id(), started=started, token=uuid.uuid4().hex)

    def take(self) -> None:
        """Mark this holder as living in this process."""
        _live_tokens.add(self.token)

    def leave(self) -> None:
        """Undo ``take``."""
        _live_tokens.discard(self.token)

    def lives(self, *, heartbeat_age_s: float) -> bool:
        """Say whether this holder, read from a journal, can still write."""
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
