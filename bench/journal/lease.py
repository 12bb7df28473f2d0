"""The write lock of a journal: acquire the lock, renew its heartbeat, release the lock.

Example::

    lease = JournalLease(path)
    await run_in_thread(connection, lease.take)        # Locked when another live process has it
    lease.beat(raw, oldest_s=1.2)                # inside the transaction of a batch, in SQLite's thread
    await run_in_thread(connection, lease.release)
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from time import monotonic

from bench.errors import JournalError, Locked
from bench.journal.codec import micros, to_json
from bench.journal.lease_holder import HEARTBEAT_S, LeaseHolder
from bench.journal.queries import READ, holder_of
from bench.journal.records import IndexWaiting
from bench.journal.rows import RunState, set_clock, wall
from bench.journal.sql import blocks

_WRITE = blocks("write")
OLDEST_SENT = "oldest_sent_us"
"""name of the meta row with the time at which the oldest request in flight was sent; null if there is no request"""
INDEX_WAIT = "index_wait"
"""name of the meta row with the longest wait for an index; null if no corpus waits"""
PATIENCE_MS = 500
"""milliseconds that the last checkpoint waits for readers"""


class JournalLease:
    """The write lock of this process on one journal."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._me = LeaseHolder.me()
        self._beaten = 0.0
        self._file: int | None = None

    def take(self, raw: sqlite3.Connection) -> None:
        """Take the lock and mark the run as running, in one transaction.

        Raises:
            Locked: another live process has the lock.
        """
        set_clock()
        raw.execute("BEGIN IMMEDIATE")
        held = holder_of(raw.execute(READ["holder"]).fetchall())
        stamp = micros(wall())
        if held is not None and held.holder.lives(heartbeat_age_s=(stamp - held.heartbeat_us) / 1e6):
            raw.rollback()
            raise Locked(f"the run is locked by {held.holder}", where=str(self._path))
        me = self._me
        raw.execute(_WRITE["hold"], (me.pid, me.host, me.boot, me.started, me.token, stamp, stamp))
        state = [("state", to_json([RunState.RUNNING, ""])), ("state_us", str(stamp))]
        raw.executemany(_WRITE["set_meta"], state)
        raw.commit()
        me.take()
        self._file = self._found()

    def beat(self, raw: sqlite3.Connection, oldest_s: float | None, index_wait: IndexWaiting | None = None) -> None:
        """If a heartbeat is due, write the current time to the lock row.

        ``oldest_s`` is the age of the oldest request in flight; the time at which this request was sent is stored too.
        ``index_wait`` is stored with the time at which the wait began.

        Raises:
            JournalError: the file was deleted or replaced; SQLite would go on writing to the deleted file.
            Locked: another process has taken over the run.
        """
        if self._found() != self._file:
            raise JournalError("the journal was deleted or replaced during the run", where=str(self._path))
        if monotonic() - self._beaten < HEARTBEAT_S:
            return
        self._beaten = monotonic()
        stamp = micros(wall())
        if raw.execute(_WRITE["heartbeat"], (stamp, self._me.token)).rowcount != 1:
            raise Locked("another process has taken over the run", where=str(self._path))
        sent_us = None if oldest_s is None else stamp - int(oldest_s * 1e6)
        raw.execute(_WRITE["set_meta"], (OLDEST_SENT, to_json(sent_us)))
        wait = index_wait
        waiting = wait and [wait.corpora, wait.corpus, stamp - int(wait.waited_s * 1e6), wait.timeout_s]
        raw.execute(_WRITE["set_meta"], (INDEX_WAIT, to_json(waiting)))

    def _found(self) -> int | None:
        """Return the inode number of the journal file; None if the file does not exist."""
        try:
            return self._path.stat().st_ino
        except FileNotFoundError:
            return None

    def release(self, raw: sqlite3.Connection) -> None:
        """Release the lock and empty the WAL; an SQLite error is ignored, because the file stays valid."""
        try:
            raw.execute(_WRITE["release"], (self._me.token,))
            raw.commit()
            raw.execute(f"PRAGMA busy_timeout = {PATIENCE_MS}")
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error:
            # a holder that could not sign off is seen to be dead by the next one; the WAL stays valid
            raw.rollback()

    def leave(self) -> None:
        """Record in this process that the lock is no longer held, even if the file could not be written."""
        self._me.leave()
