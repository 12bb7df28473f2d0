"""A journal file always has exactly one version; each migration step is one transaction."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bench.journal import Journal
from bench.journal.file import MIGRATIONS, VERSION, migrate, open_reading
from tests.journal.journal_samples import items_of, meta, scored

NEXT = {
    **MIGRATIONS,
    VERSION + 1: "ALTER TABLE event ADD COLUMN severity TEXT;",
    VERSION + 2: "CREATE TABLE note (text TEXT);",
}
BROKEN = {**MIGRATIONS, VERSION + 1: "CREATE TABLE note (text TEXT); INSERT INTO nowhere VALUES (1);"}


def version(file: Path) -> int:
    connection = sqlite3.connect(file)
    try:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])
    finally:
        connection.close()


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    async with Journal.create(tmp_path / "run", meta()) as journal:
        journal.append(scored("q1"))
    return tmp_path / "run" / "journal.sqlite"


async def test_migrate_brings_an_older_journal_to_the_newest_version_with_its_rows(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        assert migrate(connection, NEXT) == VERSION
    assert version(file) == VERSION + 2
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT count(*) FROM score").fetchone() == (1,)
        assert connection.execute("SELECT severity FROM event").fetchall() == []


async def test_a_failed_migration_step_leaves_the_previous_version(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, pytest.raises(sqlite3.OperationalError):
        migrate(connection, BROKEN)
    assert version(file) == VERSION
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'note'").fetchone() == (0,)
    assert len(await items_of(file)) == 1


async def test_migrating_twice_changes_nothing(file: Path) -> None:
    before = file.read_bytes()
    with closing(sqlite3.connect(file)) as connection:
        assert migrate(connection) == VERSION
    assert file.read_bytes() == before


async def test_migrations_are_numbered_without_gaps() -> None:
    assert sorted(MIGRATIONS) == list(range(1, VERSION + 1))


async def test_a_reading_connection_cannot_write(file: Path) -> None:
    async with open_reading(file) as connection:
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            await connection.execute("DELETE FROM score")
