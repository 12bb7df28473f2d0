"""J: a run on a full disk, and a run that is read while it writes."""

from __future__ import annotations

import json
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable

import pytest

from bench.errors import JournalError
from bench.journal import RunState
from bench.model import State
from tests.scenarios.program import clean
from tests.small_world import DRIVER, World, ended, wait_for

Worlds = Callable[..., World]


async def test_J1_a_full_disk_stops_the_run_and_loses_nothing(world_of: Worlds) -> None:
    world = world_of(corpora=4, items=60)
    flags = {"benchmarks": "facts", "providers": "faulty", "run_id": "j1", "concurrency": 4}

    def small_disk() -> None:
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))

    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(world.workspace), json.dumps(flags)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/bin:/bin", **world.variables},
        preexec_fn=small_disk,
    )
    out, said = process.communicate(timeout=60)
    assert process.returncode == 3, said
    assert "done stopped 3" in out
    assert world.query("j1", "pragma integrity_check") == [("ok",)]
    safe = world.query("j1", "select count(*) from phase where outcome = 'ok'")[0][0]
    assert safe > 20
    outcome = await world.resume("j1")
    assert (outcome.status, outcome.jobs[0].states) == (RunState.COMPLETE, {State.MEASURED: 240})


async def test_J2_a_damaged_run_file_is_refused_and_left_as_it_is(world_of: Worlds) -> None:
    world = world_of(corpora=1)
    outcome = await world.run(providers="faulty")
    path = outcome.folder / "journal.sqlite"
    damaged = b"not a journal" + path.read_bytes()[13:]
    path.write_bytes(damaged)
    with pytest.raises(JournalError, match="journal"):
        await world.resume(outcome.run_id)
    assert path.read_bytes() == damaged


async def test_J3_a_reader_that_holds_on_disturbs_no_run(world_of: Worlds) -> None:
    world = world_of("search:latency:ms=30", corpora=3, items=20)
    process = world.start(providers="faulty", run_id="j3", concurrency=4)
    path = world.workspace / "checkpoints/j3/journal.sqlite"
    wait_for(lambda: world.calls("search") >= 5)
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    connection.execute("begin")
    connection.execute("select count(*) from phase").fetchone()
    assert ended(process) == 0
    connection.close()
    assert world.query("j3", "select count(*) from phase where phase = 3 and outcome = 'ok'") == [(60,)]


def test_J3_two_runs_and_a_watcher_in_one_workspace_lock_nobody_out(world_of: Worlds) -> None:
    world = world_of("search:latency:ms=20", corpora=2, items=20)
    command = [sys.executable, "-m", "bench"]
    surroundings = {"cwd": world.workspace, "env": clean(**world.variables), "text": True}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    flags = ["--benchmarks", "facts", "--providers", "faulty", "--concurrency", "2"]
    runs = [subprocess.Popen([*command, "run", *flags, "--run-id", name], **surroundings, **pipes) for name in "ab"]
    wait_for(lambda: (world.workspace / "checkpoints/a/journal.sqlite").exists(), seconds=60)
    watcher = subprocess.Popen([*command, "status", "a", "--watch", "--json"], **surroundings, **pipes)
    for process in (*runs, watcher):
        out, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        assert "locked" not in out + said
    for name in "ab":
        assert world.query(name, "select count(*) from phase where outcome = 'ok' and phase = 3") == [(40,)]
    connection = sqlite3.connect(world.workspace / "results/results.sqlite")
    assert connection.execute("select count(*) from runs").fetchone() == (2,)
    connection.close()


async def test_J4_a_kill_in_a_storm_of_commits_loses_no_acknowledged_phase(world_of: Worlds) -> None:
    world = world_of(corpora=4, items=60)
    process = world.start(providers="faulty", run_id="j4", concurrency=16)
    wait_for(lambda: world.calls("search") >= 80)
    process.kill()
    process.communicate(timeout=20)
    answered = world.calls("search") - 4
    (rows,) = world.query("j4", "select count(*) from phase where phase = 3 and outcome = 'ok'")
    assert rows[0] >= answered - 16 - 160, "at most what was in flight or not yet acknowledged"
    outcome = await world.resume("j4")
    assert outcome.jobs[0].states == {State.MEASURED: 240}
