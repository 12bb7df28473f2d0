"""The write queue of a journal: collect rows, commit them in groups, and report which rows are durable.

``append`` never blocks. A separate task commits the collected rows, at most ``linger_s`` seconds after the first row.
Rows become durable in the order in which they were appended. The separate task cannot be canceled, so a canceled run
still writes all rows and closes its journal.

Example::

    async with Journal.create(folder, meta) as journal:
        await journal.wait_for_room()
        journal.append(row)
    waiters = DurabilityWaiters()
    done = waiters.add(3)           # then: await done.wait(), until three rows are durable
    waiters.release(3)              # after a commit; False, because no other task waits
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import TracebackType

import aiosqlite
from anyio import CancelScope, Event, create_task_group, move_on_after
from anyio.abc import TaskGroup, TaskStatus

from bench.errors import DiskFull, JournalError
from bench.journal.codec import micros, storable, to_json
from bench.journal.file import (
    NAME,
    create,
    examine,
    locate,
    migrate,
    open_reading,
    open_writing,
    run_in_thread,
    sqlite_errors_reported,
)
from bench.journal.lease import JournalLease
from bench.journal.lease_holder import HEARTBEAT_S
from bench.journal.queries import (
    READ,
    disk_full_text,
    phase_outcome,
    read_corpus,
    read_counts,
    read_finished,
    read_head,
    read_latest,
    read_spending,
    read_verdict_history,
)
from bench.journal.reader import Reader
from bench.journal.records import IndexWaiting
from bench.journal.row_writer import RowWriter, Statement, Writable
from bench.journal.rows import (
    CorpusRow,
    Finished,
    JournaledPhase,
    JournalRow,
    Key,
    ResumeRow,
    RunMeta,
    RunState,
    now,
)
from bench.journal.sql import blocks
from bench.model import Phase, Verdict


class DurabilityWaiters:
    """The tasks that wait until this process has made a given number of rows durable."""

    def __init__(self) -> None:
        self._waiters: list[tuple[int, Event]] = []

    def add(self, count: int) -> Event:
        """Return an event that is set as soon as ``count`` rows are durable."""
        done = Event()
        self._waiters.append((count, done))
        return done

    def release(self, acknowledged: int) -> bool:
        """Wake the tasks that wait for at most ``acknowledged`` durable rows; return True if other tasks still wait."""
        for count, done in self._waiters:
            if count <= acknowledged:
                done.set()
        self._waiters = [(count, done) for count, done in self._waiters if count > acknowledged]
        return bool(self._waiters)

    def release_all(self) -> None:
        """Wake every task, because no more rows will become durable."""
        for _, done in self._waiters:
            done.set()


BOUND = 1000
LINGER_S = 0.01
LARGEST_BATCH = 4000
NEWEST_SCORING = 2**31
"""above the number of every rescore"""

_WRITE = blocks("write")


class Journal:
    """The only writer of a run; use it with ``async with Journal.create(...) as journal``."""

    meta: RunMeta
    resumes: tuple[ResumeRow, ...]
    uuid: str
    """random unique id of the journal; a copy of the file has the same id"""

    def __init__(self, path: Path, *, new: RunMeta | None, bound: int, linger_s: float) -> None:
        self.path = path
        self.durable: dict[tuple[Phase, str], int] = {}
        """(phase, outcome) -> number of phases that this process has made durable"""
        self.acknowledged = 0
        """rows made durable by this process"""
        self.on_commit: Callable[[Sequence[JournalRow]], None] | None = None
        """called on the event loop after each commit with the rows that became durable"""
        self.on_failure: Callable[[], object] = lambda: None
        """called on the event loop when a write has failed; from then on, no row becomes durable"""
        self.oldest_s: Callable[[], float | None] = lambda: None
        """called on the event loop at each commit; returns the age of the oldest request in flight in seconds"""
        self.index_wait: Callable[[], IndexWaiting | None] = lambda: None
        """called like ``oldest_s``; returns the wait until corpora are searchable"""
        self._new = new
        self._bound = bound
        self._linger_s = linger_s
        self._lease = JournalLease(path)
        self._queue: list[Writable] = []
        self._committing: Sequence[Writable] = ()
        self._waiting = DurabilityWaiters()
        self._wake = Event()
        self._hurry = Event()
        self._closing = False
        self._failure: JournalError | None = None
        self._tasks: TaskGroup
        self._reading: aiosqlite.Connection

    @staticmethod
    def create(folder: Path, meta: RunMeta, *, bound: int = BOUND, linger_s: float = LINGER_S) -> Journal:
        """Return a journal that creates ``folder/journal.sqlite`` on ``async with``; UsageError if the file exists."""
        return Journal(folder / NAME, new=meta, bound=bound, linger_s=linger_s)

    @staticmethod
    def resume(path: Path, *, bound: int = BOUND, linger_s: float = LINGER_S) -> Journal:
        """Return the journal of an existing run, opened for writing by ``async with``; ``path`` is its folder or file.

        Raises:
            Locked: another live process writes to the run.
            JournalError: the file is damaged, not a journal, or from a newer version; it stays unchanged.
            UsageError: there is no such file.
            DiskFull: the disk is full.
        """
        return Journal(locate(path), new=None, bound=bound, linger_s=linger_s)

    @staticmethod
    @asynccontextmanager
    async def append_to(path: Path) -> AsyncIterator[Journal]:
        """Open the journal of a run that is not running, to add rows. The state of the run does not change.

        Raises the same errors as `resume`.
        """
        async with Reader.open(path) as reader:
            before = await reader.status()
        async with Journal.resume(path) as journal:
            try:
                yield journal
            finally:
                await journal.set_state(before.state, before.reason)

    async def __aenter__(self) -> Journal:
        self._tasks = create_task_group()
        await self._tasks.__aenter__()
        opened = False
        try:
            await self._tasks.start(self._serve)
            opened = True
        finally:
            if not opened:
                await self._tasks.__aexit__(None, None, None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        self._wake.set()
        self._hurry.set()
        # the body's own error is not handed to the task group, which would wrap it in a group
        await self._tasks.__aexit__(None, None, None)
        if self._failure is not None and error is None:
            raise self._failure

    # ------------------------------------------------------------------ writing

    @property
    def pending(self) -> int:
        """Return the number of appended rows that are not durable yet."""
        return len(self._queue) + len(self._committing)

    def append(self, row: JournalRow) -> None:
        """Enqueue a row, which becomes durable within about 10 ms.

        Raises:
            JournalError: an earlier write has failed.
        """
        self._enqueue(row)

    async def wait_for_room(self) -> None:
        """Wait until fewer than ``bound`` rows are pending."""
        while self.pending >= self._bound and self._failure is None:
            await self._acknowledged_up_to(self.acknowledged + self.pending - self._bound + 1)
        self._check()

    async def append_durable(self, row: JournalRow) -> None:
        """Enqueue a row and wait until it is durable; for rows that must be stored before a request is sent."""
        self._enqueue(row)
        await self.flush()

    async def flush(self) -> None:
        """Wait until all rows appended so far are durable."""
        self._check()
        if self.pending:
            await self._acknowledged_up_to(self.acknowledged + self.pending)
        self._check()

    async def set_state(self, state: RunState, reason: str = "") -> None:
        """Record the state of the run, and wait until it is durable."""
        self._enqueue(Statement("set_meta", "state", to_json([state, reason])))
        self._enqueue(Statement("set_meta", "state_us", str(micros(now()))))
        await self.flush()

    async def record_resume(self, data: Mapping[str, object]) -> None:
        """Record that this process resumes the run; ``data`` has its versions, code state and run-time settings."""
        resume = ResumeRow(at=now(), data=data)
        self._enqueue(Statement("resume", micros(resume.at), to_json(dict(data))))
        await self.flush()
        self.resumes = (*self.resumes, resume)

    async def amend(self, **extra: object) -> None:
        """Add values to ``meta.extra``, such as the entry of a preregistration, and wait until they are durable."""
        self.meta = replace(self.meta, extra={**self.meta.extra, **extra})
        self._enqueue(Statement("set_meta", "extra", to_json(self.meta.extra)))
        await self.flush()

    async def replan(self, meta: RunMeta) -> None:
        """Replace the plan of the run by one with more items, and wait until it is durable."""
        self.meta = meta
        for name in ("plan_digest", "identity", "request", "ranges", "total", "extra"):
            self._enqueue(Statement("set_meta", name, to_json(getattr(meta, name))))
        await self.flush()

    async def show_scoring(self, number: int, **extra: object) -> None:
        """Show the hidden rows of the rescore ``number``. If ``number`` is 0, hide the rows of all rescores.

        At the same time, ``extra`` is added to ``meta.extra``.
        """
        rows = (-number, -number) if number else (1, NEWEST_SCORING)
        for name in ("flip_scores", "flip_entries"):
            self._enqueue(Statement(name, *rows))
        await self.amend(**extra)

    async def drop_payloads(self) -> None:
        """Remove every large JSON value, such as prompts and hits; rows, scores and calls are kept."""
        self._enqueue(Statement("drop_payloads"))
        await self.flush()

    # ------------------------------------------------------------------ reading, for resume

    async def finished(self, owner: str, phase: Phase) -> Finished:
        """Return the items for which a phase of an owner succeeded.

        This scans the rows of the phase: about 0.3 us per item.
        """
        with sqlite_errors_reported(self.path):
            return await read_finished(self._reading, owner, phase)

    async def load(self, key: Key) -> JournaledPhase | None:
        """Return the latest attempt of a key, successful or not; None if there is no attempt.

        Large values are included, but not calls and verdicts.
        """
        with sqlite_errors_reported(self.path):
            return await read_latest(self._reading, key)

    async def verdict_history(self, key: Key) -> list[Verdict]:
        """Return the verdicts of every attempt of an evaluate phase, the newest attempt first.

        In each verdict, ``raw`` is the judge's full text instead of a reference to it.
        """
        with sqlite_errors_reported(self.path):
            return await read_verdict_history(self._reading, key)

    async def corpus(self, lane: str, corpus: str) -> list[CorpusRow]:
        """Return the rows of every attempt to prepare a corpus, in order.

        Rows copied by a merge and rows of the kind ``calls`` are left out.
        """
        with sqlite_errors_reported(self.path):
            return await read_corpus(self._reading, lane, corpus)

    async def spending(self) -> tuple[Decimal, int]:
        """Return the total cost of all calls in USD, and the number of billed calls whose cost is unknown."""
        with sqlite_errors_reported(self.path):
            return await read_spending(self._reading)

    # ------------------------------------------------------------------ the writing task

    def _enqueue(self, row: Writable) -> None:
        self._check()
        if not self._queue:
            self._wake.set()
        self._queue.append(row)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _acknowledged_up_to(self, count: int) -> None:
        done = self._waiting.add(count)
        self._hurry.set()
        await done.wait()

    async def _serve(self, *, task_status: TaskStatus[None]) -> None:
        """Open the file, write queued rows until the journal is closed, and close the file.

        A cancellation of the run has no effect on this task.
        """
        with CancelScope(shield=True):
            async with self._opened() as (writing, row_writer):
                task_status.started()
                try:
                    await self._write_until_closed(writing, row_writer)
                except JournalError as error:
                    self._failure = await self._explain(writing, error)
                    self._waiting.release_all()
                    self.on_failure()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[tuple[aiosqlite.Connection, RowWriter]]:
        if self._new is not None:
            await create(self.path, self._new)
        else:
            await examine(self.path)
        lease = self._lease
        try:
            async with open_writing(self.path) as writing:
                with sqlite_errors_reported(self.path):
                    last_id = await run_in_thread(writing, self._begin)
                async with open_reading(self.path) as self._reading:
                    yield writing, RowWriter(last_id)
                await run_in_thread(writing, lease.release)
        finally:
            lease.leave()

    def _begin(self, raw: sqlite3.Connection) -> int:
        """Take the lock, migrate the file and read its metadata; return the last row id. Runs in SQLite's thread."""
        self._lease.take(raw)
        migrate(raw)
        self.meta, self.resumes = read_head(raw)
        self.uuid = str(raw.execute(READ["origins"]).fetchone()[0])
        return int(raw.execute(_WRITE["last_id"]).fetchone()[0])

    async def _write_until_closed(self, writing: aiosqlite.Connection, row_writer: RowWriter) -> None:
        while self._queue or not self._closing:
            with move_on_after(HEARTBEAT_S):
                await self._wake.wait()
            with move_on_after(self._linger_s):
                await self._hurry.wait()
            await self._commit(writing, row_writer)

    async def _commit(self, writing: aiosqlite.Connection, row_writer: RowWriter) -> None:
        batch = self._committing = self._queue[:LARGEST_BATCH]
        del self._queue[:LARGEST_BATCH]
        self._rearm()
        oldest_s, index_wait = self.oldest_s(), self.index_wait()
        with sqlite_errors_reported(self.path), storable(self.path):
            await run_in_thread(writing, lambda raw: self._transact(raw, row_writer, batch, oldest_s, index_wait))
        self._committing = ()
        self.acknowledged += len(batch)
        self._acknowledge(batch)

    def _transact(
        self,
        raw: sqlite3.Connection,
        row_writer: RowWriter,
        batch: Sequence[Writable],
        oldest_s: float | None,
        index_wait: IndexWaiting | None,
    ) -> None:
        """Write and commit one batch of rows. Runs in SQLite's thread."""
        row_writer.write(raw, batch)
        self._lease.beat(raw, oldest_s, index_wait)
        raw.commit()

    def _rearm(self) -> None:
        if not self._closing:
            self._wake, self._hurry = Event(), Event()
        if self._queue:
            self._wake.set()

    def _acknowledge(self, batch: Sequence[Writable]) -> None:
        rows = [row for row in batch if not isinstance(row, Statement)]
        for row in rows:
            if (phase := phase_outcome(row)) is not None:
                self.durable[phase] = self.durable.get(phase, 0) + 1
        if self._waiting.release(self.acknowledged):
            self._hurry.set()
        if rows and self.on_commit is not None:
            self.on_commit(rows)

    async def _explain(self, writing: aiosqlite.Connection, error: JournalError) -> JournalError:
        """Roll back the failed batch, and return the error.

        If the disk is full, the error contains the number of durable phases.
        """
        with suppress(sqlite3.Error):
            await writing.rollback()
        if not isinstance(error, DiskFull):
            return error
        with sqlite_errors_reported(self.path):
            return DiskFull(disk_full_text(await read_counts(self._reading)), where=str(self.path))
