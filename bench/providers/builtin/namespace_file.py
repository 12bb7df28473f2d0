"""Store the memories of a built-in provider in one SQLite file per namespace.

Example::

    async with NamespaceFiles(run_dir / "bm25", full_text=True) as stores, stores.open("ns") as store:
        await store.put(memories)
        rows = await store.match('"lisbon"', 10)

A memory with an existing id replaces the stored memory at its position, so a batch can be sent again without harm.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

from anyio import CancelScope, Lock, to_thread

from bench.errors import DiskFull, is_disk_full
from bench.metrics.answers.text_normalization import indexed
from bench.model import Hit, Memory
from bench.processor_time import thread_clock, thread_cpu_timed
from bench.providers.statements import statements

if TYPE_CHECKING:
    import sqlite3

    import aiosqlite


T = TypeVar("T")

SQL = statements(__file__, "namespace_file.sql")
IDLE_FILES = 8
"""maximum number of open files that are not in use; each open file needs a thread"""


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """One memory as a row of the namespace's file."""

    id: str
    content: str
    session: str | None
    at: str | None
    score: float | None = None

    def hit(self, score: float | None = None) -> Hit:
        """Return the memory as a hit of a search."""
        return Hit(
            id=self.id,
            content=self.content,
            score=score,
            source_ids=(self.id,),
            when=datetime.fromisoformat(self.at) if self.at else None,
        )


@dataclass(slots=True)
class NamespaceFile:
    """The open SQLite file of one namespace."""

    connection: aiosqlite.Connection
    full_text: bool
    users: int = 0
    turn: Lock = field(default_factory=Lock)
    """allows one query or add at a time, so that ``clock`` measures only that one"""
    clock: Callable[[], int] = time.perf_counter_ns
    """reads the processor time of the connection's thread, in nanoseconds"""

    async def prepare(self) -> None:
        """Configure the connection, and create the tables if they do not exist."""

        def create(raw: sqlite3.Connection) -> int:
            raw.execute("PRAGMA journal_mode = WAL")
            raw.execute("PRAGMA synchronous = FULL")
            raw.execute(SQL["create"])
            if self.full_text:
                raw.execute(SQL["create_words"])
            raw.commit()
            return threading.get_ident()

        self.clock = thread_clock(await self._run_together(create))

    async def _run_together(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` in the connection's thread, without statements of other callers in between."""
        done: T = await self.connection._execute(work, self.connection._conn)  # type: ignore[no-untyped-call]
        return done

    async def put(self, memories: Sequence[Memory], embeddings: Sequence[bytes | None] = ()) -> None:
        """Store memories in one transaction.

        A stored memory with the same id is replaced, and keeps its position in the order.
        """
        vectors = embeddings or [None] * len(memories)
        rows = [
            (memory.id, memory.content, memory.session_id, memory.when.isoformat() if memory.when else None, vector)
            for memory, vector in zip(memories, vectors, strict=True)
        ]
        texts = [(indexed(memory.content), memory.id) for memory in memories] if self.full_text else []

        def write(raw: sqlite3.Connection) -> None:
            if self.full_text:
                raw.executemany(SQL["forget_words"], [(memory.id,) for memory in memories])
            raw.executemany(SQL["put"], rows)
            if self.full_text:
                raw.executemany(SQL["put_words"], texts)
            raw.commit()

        async with self.turn:
            with thread_cpu_timed(self.clock):
                await self._run_together(write)

    async def match(self, expression: str, limit: int) -> list[StoredMemory]:
        """Return at most ``limit`` memories that match an FTS5 expression, best BM25 score first.

        Memories with equal scores are in the order in which they were stored.
        """
        return [StoredMemory(*row) for row in await self._rows("match", expression, limit)]

    async def all(self, session: str | None = None) -> list[StoredMemory]:
        """Return all memories, or only those of one session, in the order in which they were stored."""
        return [StoredMemory(*row) for row in await self._rows("all", session)]

    async def embeddings(self) -> list[tuple[StoredMemory, bytes]]:
        """Return all memories that have a vector, each with its vector."""
        return [(StoredMemory(*row[:4]), row[4]) for row in await self._rows("embeddings")]

    async def _rows(self, query: str, *values: object) -> Iterable[Any]:
        """Run a query for a search, and add its processor time to the open ``cpu_timer``."""
        async with self.turn:
            with thread_cpu_timed(self.clock):
                return await self.connection.execute_fetchall(SQL[query], values)

    async def digest(self) -> str:
        """Return a SHA-256 of everything in the file, including vectors, in the order in which it was stored."""
        sha = hashlib.sha256()
        async with self.connection.execute(SQL["embeddings"]) as rows:
            async for row in rows:
                sha.update(repr(tuple(row)).encode("utf-8", "surrogatepass"))
        return sha.hexdigest()

    async def count(self) -> int:
        """Return the number of memories in the file."""
        rows = list(await self.connection.execute_fetchall(SQL["count"]))
        return int(rows[0][0])

    async def delete(self, ids: Sequence[str]) -> None:
        """Delete the memories with these ids; an unknown id is not an error."""
        keys = [(memory_id,) for memory_id in ids]

        def delete(raw: sqlite3.Connection) -> None:
            if self.full_text:
                raw.executemany(SQL["forget_words"], keys)
            raw.executemany(SQL["delete"], keys)
            raw.commit()

        await self._run_together(delete)

    async def close(self) -> None:
        """Close the file, even if the task is canceled, because an open connection would keep the process alive."""
        with CancelScope(shield=True):
            await self.connection.close()


@contextmanager
def _disk_full_errors(path: Path) -> Iterator[None]:
    """Convert the error of a full disk to DiskFull, which stops the whole run and not only one item."""
    import sqlite3

    try:
        yield
    except (OSError, sqlite3.Error) as error:
        if not is_disk_full(error):
            raise
        raise DiskFull(f"the disk is full ({error})", where=str(path)) from error


def _copy(source: Path, target: Path) -> None:
    """Copy a database in one transaction, including the changes in its write-ahead log."""
    import sqlite3

    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


class NamespaceFiles:
    """The namespace files of one provider. Up to 8 files that are not in use stay open."""

    def __init__(self, folder: Path, *, full_text: bool = False) -> None:
        self._folder = folder
        self._words = full_text
        self._open: dict[str, NamespaceFile] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        while self._open:
            _, store = self._open.popitem()
            await store.close()

    def path(self, namespace: str) -> Path:
        """Return the file of a namespace. The name is percent-encoded, so that it cannot lead to another folder."""
        return self._folder / f"{quote(namespace, safe='')}.sqlite"

    @asynccontextmanager
    async def open(self, namespace: str) -> AsyncIterator[NamespaceFile]:
        """Open the file of a namespace; create the file if it does not exist.

        Raises:
            DiskFull: the disk is full. This stops the run, because every other item would fail too.
        """
        with _disk_full_errors(self.path(namespace)):
            store = self._open.get(namespace)
            if store is None:
                fresh = await self._connect(namespace)
                store = self._open.setdefault(namespace, fresh)
                if store is not fresh:
                    await fresh.close()
            self._open[namespace] = self._open.pop(namespace)
            store.users += 1
            try:
                yield store
            finally:
                store.users -= 1
                await self._close_idle()

    async def remove(self, namespace: str) -> int:
        """Delete the file of a namespace; return how many memories it had, or 0 if there was no file."""
        path = self.path(namespace)
        if not path.exists():
            return 0
        async with self.open(namespace) as store:
            held = await store.count()
        known = self._open.pop(namespace, None)
        if known is not None:
            await known.close()
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        return held

    async def copy(self, namespace: str, folder: Path) -> None:
        """Replace the namespace by its copy in another run's ``folder``; if there is no copy, delete the namespace."""
        await self.remove(namespace)
        source = folder / self._folder.name / self.path(namespace).name
        if source.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            with _disk_full_errors(self.path(namespace)):
                await to_thread.run_sync(_copy, source, self.path(namespace))

    async def _connect(self, namespace: str) -> NamespaceFile:
        import aiosqlite

        self._folder.mkdir(parents=True, exist_ok=True)
        store = NamespaceFile(await aiosqlite.connect(self.path(namespace)), self._words)
        try:
            await store.prepare()
        except BaseException:
            await store.close()
            raise
        return store

    async def _close_idle(self) -> None:
        idle = [name for name, store in self._open.items() if store.users == 0]
        for name in idle[: max(0, len(idle) - IDLE_FILES)]:
            await self._open.pop(name).close()
