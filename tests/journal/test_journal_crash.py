"""The journal after kill -9 and on a full disk."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.errors import DiskFull
from bench.journal import Journal, Reader, RunState
from bench.model import Phase
from tests import forked
from tests.journal.journal_samples import JOB, LANE, items_of, meta, scored

HERE = Path(__file__).parent
STORM = [sys.executable, str(HERE / "journal_storm.py")]


@contextmanager
def running(*arguments: str, start: type[subprocess.Popen[str]] = forked.Popen) -> Iterator[subprocess.Popen[str]]:
    process = start([*STORM, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def killed_after(folder: Path, mode: str, delay_s: float, *, rows: bool = False) -> int:
    """Run a storm, kill it that long after it opened the journal; return the number of rows it had acknowledged.

    ``rows`` starts the clock only when some are acknowledged.
    """
    with running(str(folder), mode) as process:
        assert process.stdout is not None
        acknowledged = int(process.stdout.readline().split()[1])
        if rows:
            acknowledged = int(process.stdout.readline())
        time.sleep(delay_s)
        process.kill()
        lines = process.stdout.read().splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]
    return int(whole[-1]) if whole else acknowledged


def check(folder: Path) -> str:
    connection = sqlite3.connect(folder / "journal.sqlite")
    try:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])
    finally:
        connection.close()


@pytest.mark.scenario("J4")
@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.long)])
async def test_J4_sigkill_loses_no_acknowledged_row(tmp_path: Path, kills: int) -> None:
    folder = tmp_path / "run"
    chance = random.Random(7)
    acknowledged = killed_after(folder, "create", 0.2, rows=True)
    for _ in range(kills - 1):
        async with Reader.open(folder) as reader:
            assert (await reader.status()).state is RunState.INTERRUPTED
            counts = await reader.counts()
            searched, evaluated = counts.get((Phase.SEARCH, "ok"), 0), counts.get((Phase.EVALUATE, "ok"), 0)
        assert searched >= acknowledged
        # order of append is order of durability: an item's later phase never outlives its earlier one
        assert searched - 1 <= evaluated <= searched
        acknowledged = killed_after(folder, "resume", chance.uniform(0.0, 0.3))
    assert check(folder) == "ok"
    async with Journal.resume(folder) as journal:
        assert len(await journal.finished(LANE, Phase.SEARCH)) >= acknowledged


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.long)])
async def test_sigkill_during_creation_leaves_a_complete_journal_or_none(tmp_path: Path, kills: int) -> None:
    chance = random.Random(8)
    started = time.monotonic()
    killed_after(tmp_path / "measure", "create", 0.0)
    whole_s = time.monotonic() - started
    for number in range(kills):
        folder = tmp_path / f"run{number}"
        with running(str(folder), "create") as process:
            time.sleep(chance.uniform(0.5, 1.05) * whole_s)
            process.kill()
        if (folder / "journal.sqlite").exists():
            async with Journal.resume(folder) as journal:
                assert journal.meta.run_id == "run"
        else:
            async with Journal.create(folder, meta()):
                pass
        assert check(folder) == "ok"


@pytest.mark.scenario("R2")
@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.long)])
async def test_R2_sigkill_while_a_resume_starts_loses_no_finished_phase(tmp_path: Path, kills: int) -> None:
    folder = tmp_path / "run"
    known = killed_after(folder, "create", 0.1, rows=True)
    started = time.monotonic()
    killed_after(folder, "resume", 0.0)
    whole_s = time.monotonic() - started
    chance = random.Random(9)
    for _ in range(kills):
        with running(str(folder), "resume") as process:
            time.sleep(chance.uniform(0.0, 1.1) * whole_s)
            process.kill()
        async with Reader.open(folder) as reader:
            finished = (await reader.counts())[Phase.SEARCH, "ok"]
        assert finished >= known
        known = finished


@pytest.mark.scenario("J1")
async def test_J1_the_error_for_a_full_disk_counts_stored_phases_and_the_run_resumes_later(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with running(str(folder), "create", str(3_000_000)) as process:
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
        assert process.wait(timeout=60) == DiskFull.exit_code
    acknowledged = int(lines[-2]) if lines[-2].isdigit() else 0
    async with Reader.open(folder) as reader:
        counts = await reader.counts()
    assert lines[-1].startswith("DiskFull")
    assert f"{sum(counts.values())} phases are stored" in lines[-1]
    assert counts[Phase.SEARCH, "ok"] >= acknowledged > 0
    async with Journal.resume(folder) as journal:
        await journal.append_durable(scored("one more"))
        assert ("one more", 1) in await journal.finished(JOB, Phase.EVALUATE)
    assert check(folder) == "ok"


async def test_creating_a_journal_on_a_full_disk_leaves_no_files(tmp_path: Path) -> None:
    with running(str(tmp_path / "run"), "create", "4096") as process:
        assert process.stdout is not None
        text = process.stdout.read()
        assert process.wait(timeout=60) == DiskFull.exit_code
    assert text.startswith("DiskFull")
    assert not (tmp_path / "run").exists()
    assert list(tmp_path.iterdir()) == []


async def test_a_copied_journal_of_a_killed_process_is_read_with_its_wal(tmp_path: Path) -> None:
    killed_after(tmp_path / "run", "create", 0.2, rows=True)
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("journal.sqlite", "journal.sqlite-wal"):
        (copy / name).write_bytes((tmp_path / "run" / name).read_bytes())
    assert len(await items_of(copy)) == len(await items_of(tmp_path / "run"))
