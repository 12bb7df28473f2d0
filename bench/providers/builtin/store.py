"""One SQLite file per namespace: the persistent store of the built-in providers.

Also in this module:

* The processor time of a built-in's own search steps and queries.

Example::

    async with NamespaceFiles(run_dir / "bm25", full_text=True) as stores, stores.open("ns") as store:
        await store.put(memories)
        rows = await store.match('"lisbon"', 10)
    with cpu_timer() as work:
        await provider.search(space, query)
    work.us                  # microseconds; None if nothing inside the block is measured

A memory with an existing id replaces the stored one at its position, so a batch in doubt can be repeated safely.

A built-in shares its process with all other work, which wall-clock time would include: ``random`` took 2 ms alone and
33 ms next to nine other searches. Processor time does not depend on the concurrency.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial, wraps
from pathlib import Path
from types import coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar
from urllib.parse import quote

from anyio import CancelScope, Lock, to_thread

from bench.errors import DiskFull, is_disk_full
from bench.metrics.answers.text_normalization import indexed
from bench.model import Hit, Memory
from bench.providers.statements import statements

if TYPE_CHECKING:
    import sqlite3

    import aiosqlite


P = ParamSpec("P")
T = TypeVar("T")

_work: ContextVar[cpu_timer | None] = ContextVar("work", default=None)


class cpu_timer:  # noqa: N801 - used as the statement `with cpu_timer()`
    """A block that collects the processor time of measured functions inside it."""

    __slots__ = ("_token", "ns")
    _token: Token[cpu_timer | None]

    def __enter__(self) -> cpu_timer:
        self.ns: int | None = None
        self._token = _work.set(self)
        return self

    def __exit__(self, *_exc: object) -> None:
        _work.reset(self._token)

    @property
    def us(self) -> int | None:
        """Return the microseconds; None when nothing was measured."""
        return None if self.ns is None else self.ns // 1000


def add_cpu_ns(ns: int) -> None:
    """Add processor time to the current block."""
    work = _work.get()
    if work is not None:
        work.ns = (work.ns or 0) + ns


def cpu_timed(function: Callable[P, Coroutine[object, object, T]]) -> Callable[P, Coroutine[object, object, T]]:
    """Decorate a coroutine function to measure its own steps, without the time between them."""

    @wraps(function)
    async def stepped(*args: P.args, **kwargs: P.kwargs) -> T:
        return await _steps(function(*args, **kwargs))

    return stepped


@coroutine
def _steps(work: Coroutine[object, object, T]) -> Generator[object, object, T]:
    step: Callable[[], object] = partial(work.send, None)
    while True:
        began = time.thread_time_ns()
        try:
            waited = step()
        except StopIteration as done:
            found: T = done.value
            return found
        finally:
            add_cpu_ns(time.thread_time_ns() - began)
        try:
            got = yield waited
        except BaseException as error:
            step = partial(work.throw, error)
        else:
            step = partial(work.send, got)


@contextmanager
def thread_cpu_timed(clock: Callable[[], int]) -> Iterator[None]:
    """Add the processor time of another thread inside the block, by that thread's clock."""
    began = clock()
    try:
        yield
    finally:
        add_cpu_ns(clock() - began)


def thread_clock(ident: int) -> Callable[[], int]:
    """Return a clock of a thread's processor time; without system support, the wall clock."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.perf_counter_ns
    return partial(time.clock_gettime_ns, time.pthread_getcpuclockid(ident))


SQL = statements(__file__, "store.sql")
IDLE_FILES = 8
"""limit of open connections without a user; each has a thread"""


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """One memory as stored in the file."""

    id: str
    content: str
    session: str | None
    at: str | None
    score: float | None = None

    def hit(self, score: float | None = None) -> Hit:
        """Return the memory as a search result."""
        return Hit(
            id=self.id,
            content=self.content,
            score=score,
            source_ids=(self.id,),
            when=datetime.fromisoformat(self.at) if self.at else None,
        )


@dataclass(slots=True)
class NamespaceFile:
    """The open file of one namespace."""

    connection: aiosqlite.Connection
    full_text: bool
    users: int = 0
    turn: Lock = field(default_factory=Lock)
    """allows one query at a time, so that the thread's clock measures a single query"""
    clock: Callable[[], int] = time.perf_counter_ns
    """clock of the processor time of the connection's thread"""

    async def prepare(self) -> None:
        """Set up the connection, and create missing tables."""

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
        """Run ``work`` in the connection's thread, with all its statements together."""
        done: T = await self.connection._execute(work, self.connection._conn)  # type: ignore[no-untyped-call]
        return done

    async def put(self, memories: Sequence[Memory], embeddings: Sequence[bytes | None] = ()) -> None:
        """Write a batch in one transaction; a memory with an existing id replaces the stored one at its position."""
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

        await self._run_together(write)

    async def match(self, expression: str, limit: int) -> list[StoredMemory]:
        """Return the memories that match a full-text search, ordered by bm25, then by writing."""
        return [StoredMemory(*row) for row in await self._rows("match", expression, limit)]

    async def all(self, session: str | None = None) -> list[StoredMemory]:
        """Return all memories, or the memories of one session, in the order of writing."""
        return [StoredMemory(*row) for row in await self._rows("all", session)]

    async def embeddings(self) -> list[tuple[StoredMemory, bytes]]:
        """Return all memories with their vectors."""
        return [(StoredMemory(*row[:4]), row[4]) for row in await self._rows("embeddings")]

    async def _rows(self, query: str, *values: object) -> Iterable[Any]:
        """Run a query of a search, and add the time of its thread to the search."""
        async with self.turn:
            with thread_cpu_timed(self.clock):
                return await self.connection.execute_fetchall(SQL[query], values)

    async def digest(self) -> str:
        """Return a SHA-256 of all contents in the order of writing, including vectors."""
        sha = hashlib.sha256()
        async with self.connection.execute(SQL["embeddings"]) as rows:
            async for row in rows:
                sha.update(repr(tuple(row)).encode("utf-8", "surrogatepass"))
        return sha.hexdigest()

    async def count(self) -> int:
        """Return the number of memories."""
        rows = list(await self.connection.execute_fetchall(SQL["count"]))
        return int(rows[0][0])

    async def delete(self, ids: Sequence[str]) -> None:
        """Remove memories; an unknown id is not an error."""
        keys = [(memory_id,) for memory_id in ids]

        def delete(raw: sqlite3.Connection) -> None:
            if self.full_text:
                raw.executemany(SQL["forget_words"], keys)
            raw.executemany(SQL["delete"], keys)
            raw.commit()

        await self._run_together(delete)

    async def close(self) -> None:
        """Close the file; shielded, because an open connection keeps its thread and the process alive."""
        with CancelScope(shield=True):
            await self.connection.close()


@contextmanager
def _disk_full_errors(path: Path) -> Iterator[None]:
    """Convert the error of a full disk to DiskFull, which stops the run instead of failing an item."""
    import sqlite3

    try:
        yield
    except (OSError, sqlite3.Error) as error:
        if not is_disk_full(error):
            raise
        raise DiskFull(f"the disk is full ({error})", where=str(path)) from error


def _copy(source: Path, target: Path) -> None:
    """Copy a database in one transaction, including writes in the WAL of another process."""
    import sqlite3

    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


class NamespaceFiles:
    """The files of one provider; a few unused ones stay open."""

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
        """Return the file of a namespace; its name is quoted, so that it cannot lead to another folder."""
        return self._folder / f"{quote(namespace, safe='')}.sqlite"

    @asynccontextmanager
    async def open(self, namespace: str) -> AsyncIterator[NamespaceFile]:
        """Open the file of a namespace, creating it if missing.

        Raises:
            DiskFull: there is no space. This stops the run, because every other item would fail too.
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
        """Delete the file and return its number of memories; a missing file is not an error."""
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
        """Replace a namespace by its copy in the folder of another run; if there is none, only remove the namespace."""
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
