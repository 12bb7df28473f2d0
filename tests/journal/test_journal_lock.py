"""One writer at a time: which process holds a run, and when a dead holder is replaced."""

from __future__ import annotations

import os
import platform
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from anyio import to_thread

from bench.errors import Locked
from bench.journal import Journal, Reader, RunState
from bench.journal.lease_holder import LeaseHolder
from bench.model import State
from tests import forked
from tests.journal.journal_samples import items_of, meta, scored, states_of
from tests.journal.test_journal_crash import running


def set_holder(folder: Path, **columns: object) -> None:
    """Write a holder row as another process would have."""
    me = LeaseHolder.me()
    now_us = time.time_ns() // 1000
    row = {
        "id": 1, "pid": me.pid, "host": me.host, "boot": me.boot, "started": me.started, "token": "another",
        "since_us": now_us, "heartbeat_us": now_us, **columns,
    }  # fmt: skip
    connection = sqlite3.connect(folder / "journal.sqlite")
    names = ", ".join(row)
    connection.execute(
        f"INSERT OR REPLACE INTO holder ({names}) VALUES ({', '.join('?' * len(row))})", tuple(row.values())
    )
    connection.commit()
    connection.close()


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    async with Journal.create(tmp_path / "run", meta()) as journal:
        journal.append(scored("q1"))
    return tmp_path / "run"


async def test_a_second_resume_in_the_same_process_is_locked(folder: Path) -> None:
    async with Journal.resume(folder) as journal:
        with pytest.raises(Locked, match=rf"pid {os.getpid()} on {platform.node()}"):
            async with Journal.resume(folder):
                pass
        await journal.append_durable(scored("q2"))
    async with Journal.resume(folder):
        pass


@pytest.mark.scenario("J7")
async def test_J7_a_run_of_another_process_is_locked_until_that_process_is_killed(folder: Path) -> None:
    with running(str(folder), "hold", start=subprocess.Popen) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(Locked, match=f"pid {process.pid} on"):
            async with Journal.resume(folder):
                pass
        async with Reader.open(folder) as reader:
            status = await reader.status()
            assert status.state is RunState.RUNNING
            assert status.holder is not None
            assert str(process.pid) in status.holder
        process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        # not reaped yet: a zombie holds nothing
        async with Journal.resume(folder) as journal:
            await journal.append_durable(scored("q2"))
    assert set(states_of(await items_of(folder))) == {"q1", "q2"}


async def check_take_over(folder: Path) -> None:
    """Check that this process becomes the holder on resume and its rows are stored."""
    async with Journal.resume(folder) as journal:
        await journal.append_durable(scored("q9"))
        async with Reader.open(folder) as reader:
            status = await reader.status()
            assert status.state is RunState.RUNNING
            assert status.holder is not None
            assert f"pid {os.getpid()} " in status.holder
    assert "q9" in states_of(await items_of(folder))


async def test_a_reader_sees_the_age_of_the_oldest_request_while_the_run_is_active(folder: Path) -> None:
    async with Journal.resume(folder) as journal:
        journal.oldest_s = lambda: 7.5
        await journal.append_durable(scored("q2"))
        async with Reader.open(folder) as reader:
            seen = (await reader.status()).oldest_request_s
            assert seen is not None
            assert 7.5 <= seen < 15
    async with Reader.open(folder) as reader:
        assert (await reader.status()).oldest_request_s is None


@pytest.mark.scenario("J7")
async def test_J7_a_holder_from_an_earlier_boot_is_taken_over(folder: Path) -> None:
    set_holder(folder, pid=os.getppid(), boot="another boot")
    await check_take_over(folder)


async def test_a_holder_whose_pid_another_process_has_now_is_taken_over(folder: Path) -> None:
    set_holder(folder, pid=os.getppid(), started=1)
    await check_take_over(folder)


async def test_a_holder_with_the_pid_of_this_process_but_an_earlier_start_is_taken_over(folder: Path) -> None:
    set_holder(folder, pid=os.getpid(), started=1)
    await check_take_over(folder)


async def test_a_holder_on_another_machine_is_taken_over_after_60_s_without_heartbeat(folder: Path) -> None:
    set_holder(folder, host="elsewhere", boot="another boot", heartbeat_us=time.time_ns() // 1000 - 10_000_000)
    with pytest.raises(Locked, match="elsewhere"):
        async with Journal.resume(folder):
            pass
    set_holder(folder, host="elsewhere", boot="another boot", heartbeat_us=time.time_ns() // 1000 - 60_000_000)
    async with Journal.resume(folder):
        pass


async def test_a_locked_resume_does_not_change_the_file(folder: Path) -> None:
    set_holder(folder, host="elsewhere")
    before = (folder / "journal.sqlite").read_bytes()
    with pytest.raises(Locked):
        async with Journal.resume(folder):
            pass
    assert (folder / "journal.sqlite").read_bytes() == before


async def test_a_writer_stops_when_another_process_has_taken_over_its_run(folder: Path) -> None:
    with pytest.raises(Locked, match="has taken over the run"):
        async with Journal.resume(folder) as journal:
            await journal.append_durable(scored("q2"))
            set_holder(folder, host="elsewhere")
            journal._lease._beaten = -1e9  # as if the last heartbeat were long ago
            await journal.append_durable(scored("q3"))
    assert states_of(await items_of(folder)) == {"q1": State.CORRECT, "q2": State.CORRECT}


@pytest.mark.scenario("R3")
async def test_R3_a_killed_run_is_interrupted_and_not_running(folder: Path) -> None:
    with running(str(folder), "hold") as process:
        assert process.stdout is not None
        process.stdout.readline()
    async with Reader.open(folder) as reader:
        status = await reader.status()
    assert status.state is RunState.INTERRUPTED
    assert status.holder is None


async def test_a_closed_journal_is_one_file_without_a_holder(folder: Path) -> None:
    assert [path.name for path in folder.iterdir()] == ["journal.sqlite"]
    async with Reader.open(folder) as reader:
        assert (await reader.status()).holder is None


async def test_J7_processes_that_are_locked_out_do_not_disturb_the_holder(folder: Path) -> None:
    script = (
        "import asyncio, sys; from pathlib import Path\n"
        "from bench.errors import Locked; from bench.journal import Journal\n"
        "async def main():\n"
        "    try:\n"
        "        async with Journal.resume(Path(sys.argv[1])): pass\n"
        "    except Locked: sys.exit(6)\n"
        "asyncio.run(main())"
    )
    async with Journal.resume(folder) as journal:
        async with Reader.open(folder):
            await journal.append_durable(scored("q2"))
        for number in range(3):
            refused = await to_thread.run_sync(forked.run, [sys.executable, "-c", script, str(folder)])
            assert refused.returncode == 6
            assert (folder / "journal.sqlite-wal").is_file()
            await journal.append_durable(scored(f"q{3 + number}"))
    async with Reader.open(folder) as reader:
        assert sum((await reader.counts()).values()) >= 4
