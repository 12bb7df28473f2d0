"""A run in several processes of one machine: kills and pauses lose no item and repeat no finished call."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import psutil
import pytest

from bench.cluster.coordinator import shards_of
from bench.engine import Stop
from bench.engine.run import PAUSE_FILE, SHARDS
from bench.errors import UsageError
from bench.journal import RunState
from bench.journal.paths import JOURNAL
from tests import forked
from tests.cluster.spread import FLAGS, folder, resume, run, same_as_one_process
from tests.small_world import World, wait_for

WORDS = ["run", "--benchmarks", "facts", "--providers", "faulty", "--answering-model", "builtin/extractive",
         "--concurrency", "1", "--workers", "2"]  # fmt: skip


@pytest.fixture
def world(world: World) -> World:
    """A provider with a long timeout, because the tests count requests and a timeout would repeat them."""
    world.provider("faulty", timeout__2000="timeout: 60000")
    return world


@pytest.fixture(autouse=True)
def forked_workers(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Fork workers, except in the test of workers as a user starts them."""
    if "two_workers_give" not in request.node.name:
        monkeypatch.setattr(sys, "executable", str(forked.client("python")))


def command(world: World, *words: str) -> subprocess.Popen[str]:
    """Start the command line in a subprocess that forks its workers."""
    code = "import sys; sys.executable = sys.argv.pop(1); from bench.cli import main; main()"
    program = [sys.executable, "-c", code, sys.executable, *words, "--display", "none"]
    return forked.Popen(program, cwd=world.workspace, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def command_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:  # it has just ended
        return ""


def workers_of(pid: int) -> list[psutil.Process]:
    starters = [one.pid for one in psutil.Process(pid).children() if "bench.cluster.processes" in command_of(one)]
    found = []
    for behind in filter(None, map(forked.pid_behind, starters)):
        with suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(behind))
    return found


def questions(world: World) -> dict[str, int]:
    return {key: count for key, count in world.keys("search").items() if "What opens" in key}


async def test_two_workers_give_the_results_of_one_process_without_a_repeated_ingest(world: World) -> None:
    plan = world.plan(**FLAGS, run_id="r", workers=2)
    corpora = [(shard.start, shard.end) for shard in shards_of(plan, 2)]
    assert len(corpora) == 2
    outcome = await run(world, plan)
    assert (outcome.status, outcome.exit_code, outcome.message) == (RunState.COMPLETE, 0, "")
    adds = world.calls("add")
    assert set(questions(world).values()) == {1}
    assert not (folder(world, "r") / SHARDS).exists()
    assert await same_as_one_process(world, "r")
    assert world.calls("add") == 2 * adds, "one process has as many ingest calls"


async def test_a_killed_worker_is_replaced_and_repeats_only_the_request_in_flight(world: World) -> None:
    world.fault("search:latency:ms=100")

    def kill_one() -> None:
        workers_of(os.getpid())[0].kill()

    outcome = await run(world, world.plan(**FLAGS, run_id="r", workers=2), once=kill_one)
    assert (outcome.status, outcome.exit_code, outcome.message) == (RunState.COMPLETE, 0, "")
    assert sum(questions(world).values()) <= len(questions(world)) + 1
    assert await same_as_one_process(world, "r")


async def test_a_shard_whose_workers_all_die_fails_with_the_signal(world: World) -> None:
    world.fault("search:latency:ms=1000")
    ended = threading.Event()

    def kill_all() -> None:
        while not ended.is_set():
            for one in workers_of(os.getpid()):
                with suppress(psutil.NoSuchProcess):
                    one.kill()
            time.sleep(0.01)

    killer = threading.Thread(target=kill_all)
    killer.start()
    try:
        outcome = await run(world, world.plan(**FLAGS, run_id="r", workers=2))
    finally:
        ended.set()
        killer.join()
    assert (outcome.status, outcome.exit_code) == (RunState.STOPPED, 3)
    assert "4 workers died one after the other, the last by SIGKILL" in outcome.message
    world.heal()
    assert (await resume(world, "r")).status is RunState.COMPLETE
    assert await same_as_one_process(world, "r")


async def test_a_paused_run_continues_with_other_workers(world: World) -> None:
    world.fault("search:latency:ms=300")
    plan = world.plan(**FLAGS, run_id="r", workers=2)
    outcome = await run(world, plan, once=(folder(world, "r") / PAUSE_FILE).touch, after=3)
    assert (outcome.status, outcome.exit_code, outcome.stop) == (RunState.PAUSED, 3, Stop.PAUSED)
    world.heal()
    assert (await resume(world, "r")).status is RunState.COMPLETE
    assert set(questions(world).values()) == {1}
    assert await same_as_one_process(world, "r")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
async def test_a_signal_to_the_command_ends_its_workers_and_a_resume_loses_no_item(
    world: World, number: signal.Signals, code: int
) -> None:
    world.fault("search:latency:ms=100")
    process = command(world, *WORDS, "--run-id", "r")
    wait_for(lambda: len(questions(world)) >= 4, seconds=60)
    workers = workers_of(process.pid)
    assert len(workers) == 2
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == code
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert not alive
    world.heal()
    assert (await resume(world, "r")).status is RunState.COMPLETE
    assert max(questions(world).values()) <= 2
    assert await same_as_one_process(world, "r")


def test_workers_have_no_effect_with_limit_or_one_corpus_and_the_plan_notes_it(world: World) -> None:
    (note,) = [one for one in world.plan(**FLAGS, workers=2, limit=3).notes if "--workers" in one]
    assert note == "--workers has no effect: one process must select the items of --limit"
    one_corpus = world.plan(**FLAGS, workers=4, start=1, end=2)
    assert "there is only one corpus" in one_corpus.notes[-1] and not one_corpus.is_spread
    assert not world.plan(**FLAGS, workers=1).is_spread
    with pytest.raises(UsageError, match="--workers is for one machine, --cluster for several"):
        world.plan(**FLAGS, workers=2, cluster="local:2")


def test_workers_auto_is_one_per_core(world: World) -> None:
    assert world.plan(**FLAGS, workers="auto").request.workers == len(os.sched_getaffinity(0))


@pytest.mark.long
async def test_fifty_kills_of_workers_and_command_lose_no_item(world: World) -> None:
    """The run is slow enough to outlive them; each start is killed up to three times, the command among its workers."""
    chance, kills, words = random.Random(5), 0, [*WORDS, "--run-id", "r"]
    world.fault("search:latency:ms=2500")
    while kills < 50:
        process = command(world, *words)
        for _ in range(chance.randint(1, 3)):
            time.sleep(chance.uniform(0.5, 3))
            with suppress(psutil.NoSuchProcess):  # of a worker that has just ended
                if process.poll() is None:
                    chance.choice([*workers_of(process.pid), process]).kill()
                    kills += 1
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=60)
        if (folder(world, "r") / JOURNAL).exists():
            words = ["resume", "r"]
    world.heal()
    assert (await resume(world, "r")).status is RunState.COMPLETE
    assert sum(questions(world).values()) <= len(questions(world)) + kills
    assert await same_as_one_process(world, "r")
