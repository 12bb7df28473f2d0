"""The journal file: SQLite errors become errors with a hint, and a new file is complete or absent."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from bench.errors import DiskFull, JournalError, Locked, UsageError
from bench.journal import Journal, Reader, RunState
from bench.journal.file import (
    APPLICATION_ID,
    AUTOCHECKPOINT_PAGES,
    NAME,
    SHOWN_CHARS,
    VERSION,
    counted_connection,
    create,
    examine,
    examine_header,
    locate,
    open_writing,
    sqlite_errors_reported,
)
from tests.journal.journal_samples import items_of, meta, scored, search
from tests.rows import each_row

WRITABLE = "make the folder writable; nothing was changed"
DAMAGED = "the journal is damaged (text of SQLite); it was not changed"
BACKUP = "restore the file from a backup, or start a new run"


def sqlite_error(code: int, text: str = "text of SQLite") -> sqlite3.Error:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    error.sqlite_errorname = "SQLITE_FULL" if code == sqlite3.SQLITE_FULL else "SQLITE_OTHER"
    return error


@each_row(
    ("code", "kind", "message", "hint"),
    [
        (sqlite3.SQLITE_FULL, DiskFull, "the disk is full (text of SQLite)", "make room, then resume the run"),
        (sqlite3.SQLITE_BUSY, Locked, "another process has locked the file for more than 30 s", None),
        (sqlite3.SQLITE_LOCKED, Locked, "another process has locked the file for more than 30 s", None),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, Locked, "another process has locked the file for more than 30 s", None),
        (sqlite3.SQLITE_CORRUPT, JournalError, DAMAGED, BACKUP),
        (sqlite3.SQLITE_NOTADB, JournalError, DAMAGED, BACKUP),
        (sqlite3.SQLITE_CORRUPT_INDEX, JournalError, DAMAGED, BACKUP),
        (sqlite3.SQLITE_CANTOPEN, JournalError, "text of SQLite", WRITABLE),
        (sqlite3.SQLITE_READONLY, JournalError, "text of SQLite", WRITABLE),
        (sqlite3.SQLITE_READONLY_DBMOVED, JournalError, "text of SQLite", WRITABLE),
        (sqlite3.SQLITE_ERROR, JournalError, "text of SQLite", BACKUP),
        (0, JournalError, "text of SQLite", BACKUP),
    ],
)
def test_each_sqlite_error_code_becomes_a_journal_error_with_a_hint(
    code: int, kind: type[JournalError], message: str, hint: str | None
) -> None:
    with pytest.raises(JournalError) as raised, sqlite_errors_reported(Path("r/journal.sqlite")):
        raise sqlite_error(code)
    assert type(raised.value) is kind
    assert (raised.value.message, raised.value.where) == (message, "r/journal.sqlite")
    assert hint is None or raised.value.hint == hint
    assert isinstance(raised.value.__cause__, sqlite3.Error)


def test_a_long_sqlite_message_is_shortened() -> None:
    with pytest.raises(JournalError) as raised, sqlite_errors_reported(Path("r")):
        raise sqlite_error(sqlite3.SQLITE_ERROR, "x" * 5000)
    assert raised.value.message == "x" * (SHOWN_CHARS - 1) + "…"


def test_an_exception_that_is_not_from_sqlite_passes_unchanged() -> None:
    with pytest.raises(ZeroDivisionError), sqlite_errors_reported(Path("r")):
        raise ZeroDivisionError


def test_locate_accepts_the_folder_or_the_file_of_a_journal(tmp_path: Path) -> None:
    (tmp_path / NAME).touch()
    assert locate(tmp_path) == locate(tmp_path / NAME) == tmp_path / NAME
    for gone in (tmp_path / "absent", tmp_path / "absent" / NAME):
        with pytest.raises(UsageError) as refused:
            locate(gone)
        assert refused.value.message == f"there is no journal at {gone}"


# ------------------------------------------------------------------ create


async def test_a_new_journal_has_our_application_id_the_newest_version_and_wal_mode(tmp_path: Path) -> None:
    path = tmp_path / "checkpoints/r" / NAME
    await create(path, meta("r"))
    assert [one.name for one in (tmp_path / "checkpoints").iterdir()] == ["r"]
    assert [one.name for one in path.parent.iterdir()] == [NAME]
    connection = sqlite3.connect(path)
    try:
        names = ("application_id", "user_version", "journal_mode")
        pragmas = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]
    finally:
        connection.close()
    assert pragmas == [APPLICATION_ID, VERSION, "wal"]
    await examine(path)


async def test_the_second_of_two_concurrent_creates_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "checkpoints/r" / NAME
    results = await asyncio.gather(create(path, meta("r")), create(path, meta("r")), return_exceptions=True)
    refused = [one for one in results if one is not None]
    assert len(refused) == 1
    assert isinstance(refused[0], UsageError)
    assert refused[0].hint == "continue the run with bench resume r, or choose another id for a new run"
    assert [one.name for one in (tmp_path / "checkpoints").iterdir()] == ["r"]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
async def test_create_works_on_a_file_system_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def link(source: object, target: object) -> None:
        raise OSError(number, "no links here")

    monkeypatch.setattr(os, "link", link)
    await create(tmp_path / "checkpoints/r" / NAME, meta("r"))
    async with Reader.open(tmp_path / "checkpoints/r") as reader:
        assert reader.meta.run_id == "r"
    with pytest.raises(UsageError, match="exists already"):
        await create(tmp_path / "checkpoints/r" / NAME, meta("r"))


@pytest.mark.parametrize(("number", "text"), [(errno.EACCES, "Permission denied"), (errno.EIO, "Input/output error")])
async def test_an_os_error_in_create_is_a_journal_error_and_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, text: str
) -> None:
    def link(source: object, target: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", link)
    path = tmp_path / "checkpoints/r" / NAME
    with pytest.raises(JournalError) as refused:
        await create(path, meta("r"))
    assert (refused.value.message, refused.value.where) == (f"cannot create the journal: {text}", str(path))
    assert not path.exists()
    assert [one.name for one in (tmp_path / "checkpoints").iterdir()] == ["r"]
    assert list((tmp_path / "checkpoints/r").iterdir()) == []


async def test_create_below_a_path_that_is_a_file_is_a_journal_error(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("in the way")
    with pytest.raises(JournalError, match="cannot create the journal: "):
        await create(tmp_path / "checkpoints/r" / NAME, meta("r"))
    assert (tmp_path / "checkpoints").read_text() == "in the way"


# ------------------------------------------------------------------ open


async def test_a_writing_connection_uses_wal_full_sync_and_rare_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "checkpoints/r" / NAME
    await create(path, meta("r"))
    async with open_writing(path) as connection:
        found = [
            next(iter(await connection.execute_fetchall(f"PRAGMA {name}")))[0]
            for name in ("journal_mode", "synchronous", "wal_autocheckpoint")
        ]
    assert found == ["wal", 2, AUTOCHECKPOINT_PAGES]


async def test_examine_header_does_not_open_a_file_with_a_counted_connection(tmp_path: Path) -> None:
    path = tmp_path / "checkpoints/r" / NAME
    await create(path, meta("r"))
    path.write_bytes(b"torn" + path.read_bytes()[4:])
    with counted_connection(path):
        examine_header(path)
    with pytest.raises(JournalError, match="its header is damaged"):
        examine_header(path)


async def test_closing_a_reader_does_not_release_the_locks_of_the_writer(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run", meta()) as journal:
        for number in range(3):
            await journal.append_durable(scored(f"q{number}"))
            async with Reader.open(tmp_path / "run") as reader:
                assert (await reader.status()).state is RunState.RUNNING
            with pytest.raises(Locked):
                async with Journal.resume(tmp_path / "run"):
                    pass
        assert (tmp_path / "run" / f"{NAME}-wal").stat().st_size > 0


async def test_a_checkpoint_killed_after_its_first_page_loses_no_rows(tmp_path: Path) -> None:
    """The header then counts pages that only the WAL has."""
    run, copy = tmp_path / "run", tmp_path / "copy"
    async with Journal.create(run, meta()) as journal:
        for number in range(40):
            await journal.append_durable(search(f"q{number}", payloads={"hits": [f"{number} " * 900]}))
        shutil.copytree(run, copy)
    whole, torn = (run / NAME).read_bytes(), bytearray((copy / NAME).read_bytes())
    page_bytes = int.from_bytes(whole[16:18], "big")
    torn[:page_bytes] = whole[:page_bytes]
    (copy / NAME).write_bytes(torn)
    assert len(torn) < len(whole) == int.from_bytes(torn[28:32], "big") * page_bytes
    assert len(await items_of(copy)) == 40
