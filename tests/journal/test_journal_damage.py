"""A damaged file, or a file that is not a journal, is refused and does not change by a byte."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.errors import JournalError
from bench.journal import Journal, Reader, merge
from bench.journal.file import CHECKED_BYTES
from tests.journal.journal_samples import items_of, meta, scored, search, units


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    async with Journal.create(tmp_path / "run", meta()) as journal:
        for unit in units(300):
            journal.append(search(unit))
            journal.append(scored(unit))
    return tmp_path / "run" / "journal.sqlite"


def overwrite_header(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.write(b"\xff" * 100)


def overwrite_magic(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.write(b"garbage")


def cut(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.truncate(file.stat().st_size // 2)


def cut_to_a_page(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.truncate(4096)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def text(file: Path) -> None:
    file.write_text("this is a diary, not a database\n" * 100, encoding="utf-8")


def another_program(file: Path) -> None:
    file.unlink()
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE diary (entry TEXT)")
    connection.commit()
    connection.close()


def newer(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version = 999")
    connection.commit()
    connection.close()


def newer_in_the_wal(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version = 999")
    connection.commit()
    wal = file.with_name(file.name + "-wal")
    main, log = file.read_bytes(), wal.read_bytes()
    connection.close()
    file.write_bytes(main)
    wal.write_bytes(log)


def a_page_of_garbage(file: Path) -> None:
    pages = file.stat().st_size // 4096
    with file.open("r+b") as opened:
        for page in range(3, pages, 2):
            opened.seek(page * 4096)
            opened.write(b"\xa5" * 4096)


DAMAGES = [
    overwrite_header, overwrite_magic, cut, cut_to_a_page, empty, text, another_program, newer, newer_in_the_wal,
    a_page_of_garbage,
]  # fmt: skip


@pytest.mark.scenario("J2")
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
async def test_J2_resume_refuses_a_damaged_or_foreign_file_and_does_not_change_it(
    file: Path, damage: Callable[[Path], None]
) -> None:
    damage(file)
    before = file.read_bytes()
    assert len(before) < CHECKED_BYTES
    with pytest.raises(JournalError) as refusal:
        async with Journal.resume(file.parent):
            pass
    assert str(file) in str(refusal.value)
    assert refusal.value.exit_code == 2
    assert file.read_bytes() == before


@pytest.mark.scenario("J2")
@pytest.mark.parametrize(
    "damage", [d for d in DAMAGES if d is not a_page_of_garbage], ids=lambda damage: damage.__name__
)
async def test_J2_a_reader_refuses_a_damaged_or_foreign_file_and_does_not_change_it(
    file: Path, damage: Callable[[Path], None]
) -> None:
    damage(file)
    before = file.read_bytes()
    with pytest.raises(JournalError, match=str(file)):
        async with Reader.open(file):
            pass
    assert file.read_bytes() == before


async def test_reading_a_damaged_page_is_a_journal_error(file: Path) -> None:
    a_page_of_garbage(file)
    with pytest.raises(JournalError, match="damaged"):
        await items_of(file)


async def test_the_hint_for_a_journal_of_a_newer_version_is_to_install_it(file: Path) -> None:
    newer(file)
    with pytest.raises(JournalError) as refusal:
        async with Journal.resume(file):
            pass
    assert "newer version of bench" in (refusal.value.hint or "")


async def test_a_damaged_source_cannot_be_merged(file: Path, tmp_path: Path) -> None:
    cut(file)
    with pytest.raises(JournalError):
        await merge([file], tmp_path / "whole", run_id="whole")
    assert not (tmp_path / "whole").exists()
