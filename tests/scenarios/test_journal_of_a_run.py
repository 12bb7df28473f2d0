"""J: a run on a full disk, with a damaged journal, with a concurrent reader, and killed while it writes."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.errors import JournalError
from bench.journal import Reader, RunState
from bench.model import Phase, State
from tests import forked
from tests.scenarios.left import durable, results_of
from tests.scenarios.program import clean
from tests.scenarios.storm import killed_after
from tests.small_world import World, ended, wait_for

Worlds = Callable[..., World]
SMALL_DISK = """
import resource, signal
from bench.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
main()
"""
"""the program, where no file can grow beyond 400 KB"""


async def test_J1_a_full_disk_stops_the_run_and_a_resume_completes_it(world_of: Worlds) -> None:
    world = world_of(corpora=4, items=60)

    flags = ["--benchmarks", "facts", "--providers", "faulty", "--run-id", "j1", "--concurrency", "4"]
    process = forked.Popen(
        [sys.executable, "-c", SMALL_DISK, "run", *flags],
        cwd=world.workspace,
        stderr=subprocess.PIPE,
        text=True,
        env=clean(**world.variables),
    )
    _, stderr = process.communicate(timeout=300)
    assert process.returncode == 3, stderr
    assert world.query("j1", "pragma integrity_check") == [("ok",)]
    async with Reader.open(world.workspace / "checkpoints/j1") as reader:
        counts = await reader.counts()
    assert counts[Phase.INGEST, "ok"] > 0
    assert counts[Phase.SEARCH, "ok"] > 5
    assert f"{sum(counts.values())} phases are stored" in stderr
    outcome = await world.resume("j1")
    assert (outcome.status, outcome.jobs[0].states) == (RunState.COMPLETE, {State.MEASURED: 240})
    whole = await world.run(providers="faulty", run_id="whole")
    assert whole.exit_code == 0
    assert await results_of(world, "j1") == await results_of(world, "whole")


async def test_J2_a_damaged_journal_is_refused_on_resume_and_not_changed(world_of: Worlds) -> None:
    world = world_of(corpora=1)
    outcome = await world.run(providers="faulty")
    path = outcome.folder / "journal.sqlite"
    damaged = b"not a journal" + path.read_bytes()[13:]
    path.write_bytes(damaged)
    with pytest.raises(JournalError, match="journal"):
        await world.resume(outcome.run_id)
    assert path.read_bytes() == damaged


@pytest.mark.parametrize(("pause_ms", "held_s"), [(50, 0.5), pytest.param(1500, 20, marks=pytest.mark.long)])
async def test_J3_a_reader_with_an_open_transaction_does_not_disturb_a_run(
    world_of: Worlds, pause_ms: int, held_s: float
) -> None:
    world = world_of(f"search:latency:ms={pause_ms}", corpora=3, items=20)
    process = world.start(providers="faulty", run_id="j3", concurrency=4)
    path = world.workspace / "checkpoints/j3/journal.sqlite"
    wait_for(lambda: world.calls("search") >= 4)
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    connection.execute("begin")
    before = connection.execute("select count(*) from phase").fetchone()
    began = time.monotonic()
    assert ended(process) == 0
    assert time.monotonic() - began > held_s
    assert connection.execute("select count(*) from phase").fetchone() == before
    connection.close()
    assert world.query("j3", "select outcome, count(*) from phase where phase = 3 group by outcome") == [("ok", 60)]


def test_J3_two_runs_and_a_status_watcher_in_one_workspace_do_not_lock_each_other(world_of: Worlds) -> None:
    world = world_of("search:latency:ms=20", corpora=2, items=20)
    command = [sys.executable, "-m", "bench"]
    surroundings = {"cwd": world.workspace, "env": clean(**world.variables), "text": True}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    flags = ["--benchmarks", "facts", "--providers", "faulty", "--concurrency", "2"]
    runs = [forked.Popen([*command, "run", *flags, "--run-id", name], **surroundings, **pipes) for name in "ab"]
    wait_for(lambda: (world.workspace / "checkpoints/a/journal.sqlite").exists(), seconds=180)
    watcher = forked.Popen([*command, "status", "a", "--watch", "--json"], **surroundings, **pipes)
    for process in (*runs, watcher):
        out, stderr = process.communicate(timeout=120)
        assert process.returncode == 0, stderr
        assert "locked" not in out + stderr
    for name in "ab":
        assert world.query(name, "select count(*) from phase where outcome = 'ok' and phase = 3") == [(40,)]
    connection = sqlite3.connect(world.workspace / "results/results.sqlite")
    assert connection.execute("select count(*) from runs").fetchone() == (2,)
    connection.close()


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.long)])
async def test_J4_sigkill_during_many_commits_loses_no_acknowledged_phase(tmp_path: Path, kills: int) -> None:
    world = World.make(tmp_path, corpora=5, items=400)
    moments, stored = random.Random(4), 0
    for _ in range(kills):
        printed = killed_after(tmp_path, "j4", moments.randint(21, 100))
        found = await durable(world, "j4")
        assert printed > 20 and found < 3 * 2000, "it was killed before it finished"
        assert found - stored >= printed
        stored = found
    assert world.query("j4", "pragma integrity_check") == [("ok",)]
