"""A lost worker, scheduler or coordinator: stored work is kept, and the run can be continued."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio

from bench.engine import Stop
from bench.engine.run import PAUSE_FILE, SHARDS
from bench.journal import RunState
from tests.cluster.conftest import Machines, end
from tests.cluster.spread import FLAGS, bench, command, folder, results, resume, run, same_as_one_process, with_model
from tests.small_world import World, wait_for


async def test_results_after_a_killed_worker_equal_those_of_one_process(machines: Machines, world: World) -> None:
    world.fault("search:latency:ms=150")
    plan = world.plan(**FLAGS, run_id="r", cluster=machines.address, shards=4)
    outcome = await run(world, plan, once=machines.workers[0].kill)
    assert (outcome.status, outcome.exit_code, outcome.message) == (RunState.COMPLETE, 0, "")
    asked = {key: count for key, count in world.keys("search").items() if "What opens" in key}
    assert len(asked) == 32
    assert sum(asked.values()) <= 34, "the journal survived: only requests in flight are repeated"
    assert not (folder(world, "r") / SHARDS).exists()
    assert not list((world.workspace / "checkpoints/.shards/checkpoints").iterdir()), "no file stays on the workers"
    assert await same_as_one_process(world, "r")


def has_searched(journal: Path) -> bool:
    with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as connection:
        try:
            return connection.execute("select count(*) from phase where phase = 3").fetchone() != (0,)
        except sqlite3.OperationalError:  # it is being made
            return False


async def test_a_silent_worker_is_dropped_and_its_shard_runs_on_another(
    machines: Machines, world: World, tmp_path: Path
) -> None:
    world.fault("search:latency:ms=200")
    elsewhere = World.make(tmp_path / "elsewhere", world.url, corpora=4, items=8)
    elsewhere.write(".env", f"FAULT_URL={world.url}\n")
    held = machines.worker(MEMORYBENCH_WORKSPACE=str(elsewhere.workspace))
    machines.wait(3)
    plan = world.plan(**FLAGS, run_id="r", cluster=machines.address, shards=3)

    def hold() -> None:
        wait_for(lambda: any(map(has_searched, elsewhere.workspace.rglob("journal.sqlite"))))
        held.send_signal(signal.SIGSTOP)

    outcome = await run(world, plan, once=hold, after=1, silent_s=5.0)
    end(held)
    assert (outcome.message, outcome.status, outcome.exit_code) == ("", RunState.COMPLETE, 0)
    asked = [key.rpartition("\t")[2] for key in world.keys("search") if "What opens" in key]
    assert 32 == len(set(asked)) < len(asked), "without the other disk the shard starts again, in new namespaces"
    assert await same_as_one_process(world, "r")


async def test_a_run_whose_scheduler_was_killed_resumes_on_another_cluster(
    machines: Machines, world: World, tmp_path: Path
) -> None:
    world.fault("search:latency:ms=200")
    other = Machines(tmp_path).start()
    try:
        other.worker()
        other.wait(1)
        assert other.scheduler is not None
        plan = world.plan(**FLAGS, run_id="r", cluster=other.address, shards=4)
        outcome = await run(world, plan, once=other.scheduler.kill, after=11)
    finally:
        other.stop()
    assert (outcome.status, outcome.exit_code) == (RunState.STOPPED, 3)
    assert f"the scheduler {other.address} does not answer any more" in outcome.message
    assert list((folder(world, "r") / SHARDS).glob("1of4.sqlite")), "returned shards are kept"
    assert outcome.resume == "bench run --resume r"
    world.heal()
    assert (await resume(world, "r", cluster=machines.address)).status is RunState.COMPLETE
    assert await same_as_one_process(world, "r")


async def test_a_run_without_any_worker_stops_with_a_message_and_resumes_with_new_workers(
    machines: Machines, world: World
) -> None:
    world.fault("search:latency:ms=200")
    plan = world.plan(**FLAGS, run_id="r", cluster=machines.address, shards=4)

    def end_all() -> None:
        for one in machines.workers:
            end(one)

    outcome = await run(world, plan, once=end_all, silent_s=3.0)
    assert (outcome.status, outcome.exit_code) == (RunState.STOPPED, 3)
    assert outcome.message == "shard 1, 2, 3, 4: no worker was left for 3 s"
    world.heal()
    await anyio.to_thread.run_sync(machines.have, 2)
    assert (await resume(world, "r")).status is RunState.COMPLETE
    assert await same_as_one_process(world, "r")


async def test_a_rejected_key_stops_the_jobs_of_all_shards(machines: Machines, world: World) -> None:
    world.fault("search:status:code=401,match=What opens,skip=6")
    plan = world.plan(**FLAGS, run_id="r", cluster=machines.address, shards=2)
    outcome = await run(world, plan)
    assert (outcome.status, outcome.exit_code) == (RunState.STOPPED, 3)
    assert "401" in outcome.message
    assert sum(outcome.jobs[0].states.values()) >= 6
    world.heal()
    assert (await resume(world, "r")).status is RunState.COMPLETE
    assert await same_as_one_process(world, "r")


async def test_after_a_killed_coordinator_no_search_is_repeated(machines: Machines, world: World) -> None:
    world.fault("search:latency:ms=200")
    process = bench(world.workspace, *command(machines.address), "--shards", "4", "--display", "none")
    wait_for(lambda: world.calls("search") > 12, seconds=180)
    process.kill()
    process.communicate(timeout=120)
    assert (await resume(world, "r")).status is RunState.COMPLETE
    asked = {key: count for key, count in world.keys("search").items() if "What opens" in key}
    assert len(asked) == 32
    assert max(asked.values()) == 1, "the workers finished and stored the requests in flight"
    assert await same_as_one_process(world, "r")


async def test_an_unfinished_shard_continues_on_a_worker_without_its_files(machines: Machines, world: World) -> None:
    """The stores of a built-in provider are transferred with the journal."""
    with_model(world)
    flags = {**FLAGS, "providers": "bm25", "answering_model": "openai/stub-extract"}
    world.fault("chat:latency:ms=500")
    plan = world.plan(**flags, run_id="r", cluster=machines.address, shards=2)
    outcome = await run(world, plan, once=(folder(world, "r") / PAUSE_FILE).touch)
    assert outcome.stop is Stop.PAUSED
    shutil.rmtree(world.workspace / "checkpoints/.shards")
    world.heal()
    assert (await resume(world, "r")).status is RunState.COMPLETE
    assert world.calls("chat") == 32
    assert (await world.run(**flags, run_id="alone")).exit_code == 0
    assert await results(world, "r") == await results(world, "alone")
