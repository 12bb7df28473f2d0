"""Find, check, create and open the SQLite file of a run.

An older file is migrated to the newest schema.

A file that is damaged, truncated, not a journal or from a newer version of bench is rejected and not changed.

``MIGRATIONS`` has one SQL script per schema version. Never change a released script; add a new script.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import tempfile
import threading
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import aiosqlite
from anyio import CancelScope, to_thread

from bench.config.value_rules import require_unreserved
from bench.errors import DiskFull, JournalError, Locked, UsageError, is_disk_full
from bench.journal.codec import micros, to_json
from bench.journal.rows import RunMeta
from bench.journal.sql import blocks
from bench.visible_text import shorten

APPLICATION_ID = 0x4D424A31
"""``MBJ1``, the application id in the header of every journal"""

MIGRATIONS: Mapping[int, str] = {1: blocks("schema")["schema"]}
VERSION = max(MIGRATIONS)


T = TypeVar("T")


async def run_in_thread(connection: aiosqlite.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    """Run ``work`` in the thread of a connection; this is faster than a switch of threads for each statement."""
    done: T = await connection._execute(work, connection._conn)  # type: ignore[no-untyped-call]
    return done


def version_of(raw: sqlite3.Connection) -> int:
    """Return the schema version of a journal file."""
    return int(raw.execute("PRAGMA user_version").fetchone()[0])


def migrate(raw: sqlite3.Connection, migrations: Mapping[int, str] = MIGRATIONS) -> int:
    """Migrate a file to the newest schema, one transaction per version; return the version before the migration."""
    found = version_of(raw)
    for number in sorted(migrations):
        if number > found:
            # executescript commits first, so the transaction is part of the script
            raw.executescript(f"BEGIN IMMEDIATE;\n{migrations[number]}\nPRAGMA user_version = {number};\nCOMMIT;")
    return found


NAME = "journal.sqlite"
BUSY_TIMEOUT_S = 30.0
AUTOCHECKPOINT_PAGES = 4000
CHECKED_BYTES = 32 * 2**20
"""size up to which a file is checked page by page before it is opened for writing (0.1 s)"""

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
"""error numbers of file systems without hard links"""
_UNWRITABLE = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}


def locate(path: Path) -> Path:
    """Return the path of the journal file; ``path`` is this file or its run folder.

    Raises:
        UsageError: the file does not exist.
    """
    file = path / NAME if path.is_dir() else path
    if not file.is_file():
        raise UsageError(f"there is no journal at {file}", hint="list the runs of this workspace with: bench list runs")
    return file


@contextmanager
def sqlite_errors_reported(path: Path) -> Iterator[None]:
    """Convert every SQLite error of the ``with`` block to a JournalError, Locked or DiskFull."""
    try:
        yield
    except sqlite3.Error as error:
        raise _as_journal_error(path, error) from error


def _as_journal_error(path: Path, error: sqlite3.Error) -> JournalError:
    code = getattr(error, "sqlite_errorcode", 0) or 0
    message = shorten(str(error), SHOWN_CHARS)
    if is_disk_full(error):
        return DiskFull(f"the disk is full ({error})", where=str(path))
    if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Locked(f"another process has locked the file for more than {BUSY_TIMEOUT_S:.0f} s", where=str(path))
    if code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return JournalError(f"the journal is damaged ({message}); it was not changed", where=str(path))
    if code & 0xFF in _UNWRITABLE:
        return JournalError(message, where=str(path), hint="make the folder writable; nothing was changed")
    return JournalError(message, where=str(path))


SHOWN_CHARS = 160
"""maximum length of a message of SQLite, which can quote long values of a damaged row"""
_connections: Counter[Path] = Counter()
_counting = threading.Lock()
"""lock of ``_connections``; it also prevents that a file is opened as bytes while a connection to it is opened"""


@contextmanager
def counted_connection(path: Path) -> Iterator[None]:
    """Count a connection of this process to a file; open and close the connection inside the ``with`` block.

    While the count is above 0, `examine_header` does not open the file. The reason is a rule of POSIX: if a process
    closes any descriptor of a file, it loses its locks on this file. Then another process could delete the WAL while
    this process writes.
    """
    place = path.resolve()
    with _counting:
        _connections[place] += 1
    try:
        yield
    finally:
        with _counting:
            _connections[place] -= 1


def examine_header(path: Path) -> None:
    """Raise JournalError if a file is not a journal of a known version, or is cut off.

    Only the first 100 bytes and the size are read. A file to which this process has a connection is not checked again.
    """
    with _counting:
        if _connections[path.resolve()]:
            return
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    where = str(path)
    if not header.startswith(_MAGIC) or len(header) < _HEADER_BYTES:
        raise JournalError(
            "this is not an SQLite file, or its header is damaged; it was not changed",
            where=where,
            hint="if this file is the journal of a run, restore it from a backup; if not, name a run or its journal",
        )
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise JournalError(
            "this SQLite file belongs to another program; it was not changed",
            where=where,
            hint="name a run or its journal instead, or move this file out of the workspace",
        )
    refuse_newer(path, int.from_bytes(header[60:64], "big"))
    page_bytes = int.from_bytes(header[16:18], "big")
    promised = int.from_bytes(header[28:32], "big") * (65536 if page_bytes == 1 else page_bytes)
    if path.stat().st_size < promised and not _has_wal(path):
        raise JournalError(
            f"the file is incomplete: it has {path.stat().st_size} of {promised} bytes; it was not changed",
            where=where,
        )


def refuse_newer(path: Path, version: int) -> None:
    """Raise JournalError if the schema version of a journal is newer than this program can read."""
    if version > VERSION:
        raise JournalError(
            f"the journal has format version {version}; this program can read versions up to {VERSION}",
            where=str(path),
            hint="use a newer version of bench",
        )


async def examine(path: Path) -> None:
    """Raise JournalError if a file is damaged; call this before opening it for writing.

    The pages of a file above ``CHECKED_BYTES`` are not checked here, because that would take too long.
    """
    examine_header(path)
    async with open_reading(path) as connection:
        with sqlite_errors_reported(path):
            await connection.execute_fetchall(blocks("read")["meta"])
            if path.stat().st_size > CHECKED_BYTES:
                return
            found = [str(row[0]) for row in await connection.execute_fetchall("PRAGMA quick_check(1)")]
    if found != ["ok"]:
        raise JournalError(f"the journal is damaged ({found[0]}); it was not changed", where=str(path))


async def create(path: Path, meta: RunMeta) -> None:
    """Create a journal file with the metadata of its run; raise UsageError if the file exists.

    The file appears at once with this content, or not at all.
    """
    async with draft_folder(path, meta.run_id) as draft:
        await to_thread.run_sync(write_draft, draft, meta)


@asynccontextmanager
async def draft_folder(path: Path, run_id: str) -> AsyncIterator[Path]:
    """Yield a temporary path at which the ``with`` block creates a new journal.

    At the end, the file is moved to ``path``; after an error, it is deleted.

    Raises:
        UsageError: the run exists, or its id is reserved.
        JournalError: the file or folder cannot be created.
    """
    hint = f"continue the run with bench resume {run_id}, or choose another id for a new run"
    try:
        require_unreserved(run_id)
    except ValueError as error:
        raise UsageError(str(error), hint="choose another run id") from error
    if path.exists():
        raise UsageError(f"run {run_id} exists already ({path})", hint=hint)
    draft = path.parent.parent / f".{run_id}.{uuid.uuid4().hex}"
    try:
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        with sqlite_errors_reported(path):
            yield draft
        _sync(draft)
        path.parent.mkdir(exist_ok=True)
        if not _publish(draft, path):
            raise UsageError(f"run {run_id} was just created by another process ({path})", hint=hint)
        _sync(path.parent)
    except OSError as error:
        raise JournalError(
            f"cannot create the journal: {error.strerror}", where=str(path), hint="check the folder and its permissions"
        ) from error
    finally:
        for leftover in (draft, draft.with_name(f"{draft.name}-journal"), draft.with_name(f"{draft.name}-wal")):
            # the folder itself may be what could not be made
            with suppress(NotADirectoryError):
                leftover.unlink(missing_ok=True)


def _publish(draft: Path, path: Path) -> bool:
    """Move the finished file to ``path`` and return True; if ``path`` exists, change nothing and return False."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS or path.exists():
            raise
        draft.rename(path)
    return True


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_draft(draft: Path, meta: RunMeta) -> None:
    """Write the schema and the metadata of the run to a new file."""
    with closing(sqlite3.connect(draft, isolation_level="IMMEDIATE")) as raw:
        raw.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        migrate(raw)
        values = {name: getattr(meta, name) for name in RunMeta.__dataclass_fields__ if name != "created_at"}
        rows = [(name, to_json(value)) for name, value in values.items()]
        rows += [("created_us", str(micros(meta.created_at))), ("state", '["running",""]')]
        rows += [("state_us", str(micros(meta.created_at)))]
        raw.executemany(blocks("write")["set_meta"], rows)
        origin = (uuid.uuid4().hex, meta.run_id, micros(meta.created_at), to_json(meta.ranges))
        raw.execute(blocks("write")["origin"], origin)
        raw.commit()
        raw.execute("PRAGMA journal_mode = WAL")


@asynccontextmanager
async def open_writing(path: Path) -> AsyncIterator[aiosqlite.Connection]:
    """Open the only writing connection to a journal, in WAL mode with ``synchronous = FULL``."""

    def set_up(raw: sqlite3.Connection) -> None:
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute("PRAGMA synchronous = FULL")
        raw.execute(f"PRAGMA wal_autocheckpoint = {AUTOCHECKPOINT_PAGES}")

    with counted_connection(path):
        async with aiosqlite.connect(path, isolation_level="IMMEDIATE", timeout=BUSY_TIMEOUT_S) as connection:
            with sqlite_errors_reported(path):
                await run_in_thread(connection, set_up)
            yield connection


@asynccontextmanager
async def open_reading(path: Path) -> AsyncIterator[aiosqlite.Connection]:
    """Open a read-only connection to a journal; this works during its run, after a crash and in a read-only folder."""
    examine_header(path)
    with counted_connection(path):
        async with _reading(path) as (connection, _):
            yield connection


@asynccontextmanager
async def readable(path: Path) -> AsyncIterator[str]:
    """Yield an SQLite URI with which the file can be read, or attached to another connection."""
    async with _reading(path) as (connection, uri):
        await connection.close()
        yield uri


@asynccontextmanager
async def _reading(path: Path) -> AsyncIterator[tuple[aiosqlite.Connection, str]]:
    """Yield a read-only connection and its URI."""
    with ExitStack() as copies:
        uri = f"{path.resolve().as_uri()}?mode=ro"
        with sqlite_errors_reported(path):
            try:
                connection = await _connected_to(uri, path)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in _UNWRITABLE:
                    raise
                uri = _uri_in_read_only_folder(path, copies)
                connection = await _connected_to(uri, path)
        try:
            yield connection, uri
        finally:
            with CancelScope(shield=True):  # a canceled close leaves the query of a canceled reader without a file
                await connection.close()


async def _connected_to(uri: str, path: Path) -> aiosqlite.Connection:
    """Connect to the journal, and check that its schema can be read and is not too new for this program."""

    def read(raw: sqlite3.Connection) -> None:
        raw.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        refuse_newer(path, version_of(raw))

    connection = await aiosqlite.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S)
    try:
        await run_in_thread(connection, read)
    except BaseException:
        with CancelScope(shield=True):
            await connection.close()
        raise
    return connection


def _uri_in_read_only_folder(path: Path, copies: ExitStack) -> str:
    if not _has_wal(path):
        return f"{path.resolve().as_uri()}?immutable=1"
    # a WAL in a read-only folder can only be read where SQLite may make its index beside it
    folder = copies.enter_context(tempfile.TemporaryDirectory(prefix="bench-journal-"))
    copy = Path(shutil.copy(path, folder))
    shutil.copy(_wal(path), folder)
    return f"{copy.as_uri()}?mode=ro"


def _wal(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _has_wal(path: Path) -> bool:
    wal = _wal(path)
    return wal.exists() and wal.stat().st_size > 0
