"""A run on real dask processes: what is lost with a worker, a scheduler or a signal is nothing that was paid for."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from bench.cluster import execute_on_cluster
from bench.cluster.cutting import cut
from bench.cluster.order import Order
from bench.engine import Outcome, Progress, Silent, Stop, resumed_plan
from bench.engine.run import PAUSE_FILE, SHARDS
from bench.errors import IdentityError, UsageError
from bench.journal import Reader, RunState
from bench.plan import Plan
from bench.report import fold
from bench.report.wire import report_json
from tests.cluster.conftest import Machines, end
from tests.small_world import World, wait_for

FLAGS: dict[str, Any] = {"providers": "faulty", "answering_model": "builtin/extractive", "concurrency": 1}


class Watching(Silent):
    """Does something once, when a live run has come far enough."""

    def __init__(self) -> None:
        self.progress: Progress | None = None
        self.stops: list[Stop] = []

    def launched(self, progress: Progress) -> None:
        self.progress = progress

    def stopping(self, reason: Stop, in_flight: int) -> None:
        self.stops.append(reason)

    @property
    def ended(self) -> int:
        return 0 if self.progress is None else self.progress.ended


async def run(
    world: World, plan: Plan, *, once: Callable[[], None] | None = None, after: int = 3, **more: object
) -> Outcome:
    """Run on the cluster; ``once`` that many items have ended, do something."""
    watching = Watching()

    async def act() -> None:
        while watching.ended < after:
            await anyio.sleep(0.05)
        assert once is not None
        await anyio.to_thread.run_sync(once)

    async def carry_out() -> Outcome:
        return await execute_on_cluster(plan, environment=world.environment, observer=watching, **more)  # type: ignore[arg-type]

    if once is None:
        return await carry_out()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(act)
        outcome = await carry_out()
        tasks.cancel_scope.cancel()
    return outcome


async def resume(world: World, run_id: str, **flags: object) -> Outcome:
    from bench.config.catalog import Catalog

    catalog = Catalog.load(world.workspace)
    folder, plan = await resumed_plan(run_id, catalog=catalog, flags=flags, environment=world.environment)
    return await execute_on_cluster(plan, environment=world.environment, resume=folder)


def with_model(world: World) -> None:
    """Have the fault server answer too, also for workers."""
    world.variables.update(OPENAI_BASE_URL=f"{world.url}/v1", OPENAI_API_KEY="test-key-of-nobody")
    world.write(".env", "".join(f"{name}={value}\n" for name, value in world.variables.items()))


async def results(world: World, run_id: str) -> bytes:
    """The part of a report that may not depend on where a run ran."""
    async with Reader.open(world.workspace / "checkpoints" / run_id) as reader:
        return json.dumps(report_json(await fold(reader))["results"]).encode()


def folder(world: World, run_id: str) -> Path:
    return world.workspace / "checkpoints" / run_id


async def same_as_one_process(world: World, run_id: str) -> bool:
    world.heal()
    assert (await world.run(**FLAGS, run_id="alone")).exit_code == 0
    return await results(world, run_id) == await results(world, "alone")


# --------------------------------------------------------------------------- losing a worker


async def test_a_worker_killed_mid_shard_leaves_results_byte_equal_to_one_process(
    machines: Machines, world: World
) -> None:
    world.fault("search:latency:ms=150")
    plan = world.plan(**FLAGS, run_id="r", cluster=machines.address, shards=4)
    outcome = await run(world, plan, once=machines.workers[0].kill)
    assert (outcome.status, outcome.exit_code, outcome.message) == (RunState.COMPLETE, 0, "")
    asked = {key: count for key, count in world.keys("search").items() if "What opens" in key}
    assert len(asked) == 32
    assert sum(asked.values()) <= 34, "the journal survived: only what was in flight is asked again"
    assert not (folder(world, "r") / SHARDS).exists()
    assert not list((world.workspace / "checkpoints/.shards/checkpoints").iterdir()), "nothing stays on the workers"
    assert await same_as_one_process(world, "r")


async def test_a_worker_that_says_nothing_is_dropped_and_its_shard_run_elsewhere(
    machines: Machines, world: World, tmp_path: Path
) -> None:
    world.fault("search:latency:ms=200")
    elsewhere = World.make(tmp_path / "elsewhere", world.url, corpora=4, items=8)
    elsewhere.write(".env", f"FAULT_URL={world.url}\n")
    held = machines.worker(MEMORYBENCH_WORKSPACE=str(elsewhere.workspace))
    wait_for(lambda: machines.known() == 3, seconds=60)
    plan = world.plan(**FLAGS, run_id="r", cluster=machines.address, shards=3)
    outcome = await run(world, plan, once=lambda: held.send_signal(signal.SIGSTOP), silent_s=5.0)
    end(held)
    assert (outcome.message, outcome.status, outcome.exit_code) == ("", RunState.COMPLETE, 0)
    asked = [key.rpartition("\t")[2] for key in world.keys("search") if "What opens" in key]
    assert 32 == len(set(asked)) < len(asked), "its disk is not this one's: it began anew, in namespaces of its own"
    assert await same_as_one_process(world, "r")


async def test_a_scheduler_that_goes_away_leaves_a_run_that_goes_on_elsewhere(
    machines: Machines, world: World, tmp_path: Path
) -> None:
    world.fault("search:latency:ms=200")
    other = Machines(tmp_path).start()
    try:
        other.worker()
        wait_for(lambda: other.known() == 1, seconds=60)
        assert other.scheduler is not None
        plan = world.plan(**FLAGS, run_id="r", cluster=other.address, shards=4)
        outcome = await run(world, plan, once=other.scheduler.kill, after=11)
    finally:
        other.stop()
    assert (outcome.status, outcome.exit_code) == (RunState.STOPPED, 3)
    assert f"the scheduler {other.address} is gone" in outcome.message
    assert list((folder(world, "r") / SHARDS).glob("1of4.sqlite")), "what had come back is kept"
    assert outcome.resume == "bench run --resume r"
    world.heal()
    assert (await resume(world, "r", cluster=machines.address)).status is RunState.COMPLETE
    assert await same_as_one_process(world, "r")


async def test_a_run_whose_workers_are_all_gone_says_so_and_goes_on_with_others(
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


async def test_a_refusal_of_the_provider_stops_the_jobs_of_every_shard(machines: Machines, world: World) -> None:
    world.fault("search:status:code=401,match=What opens,skip=6")
    plan = world.plan(**FLAGS, run_id="r", cluster=machines.address, shards=2)
    outcome = await run(world, plan)
    assert (outcome.status, outcome.exit_code) == (RunState.STOPPED, 3)
    assert "401" in outcome.message
    assert sum(outcome.jobs[0].states.values()) >= 6
    world.heal()
    assert (await resume(world, "r")).status is RunState.COMPLETE
    assert await same_as_one_process(world, "r")


async def test_a_killed_coordinator_costs_no_more_than_what_was_in_flight(machines: Machines, world: World) -> None:
    world.fault("search:latency:ms=200")
    process = bench(world.workspace, *command(machines.address), "--shards", "4", "--display", "none")
    wait_for(lambda: world.calls("search") > 12, seconds=60)
    process.kill()
    process.communicate(timeout=20)
    assert (await resume(world, "r")).status is RunState.COMPLETE
    asked = {key: count for key, count in world.keys("search").items() if "What opens" in key}
    assert len(asked) == 32
    assert max(asked.values()) == 1, "the workers ended what was in flight, and kept it"
    assert await same_as_one_process(world, "r")


async def test_a_half_done_shard_goes_on_with_a_worker_that_has_nothing_of_it(machines: Machines, world: World) -> None:
    """What a built-in provider had ingested came back with the journal, and goes along with it."""
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


# --------------------------------------------------------------------------- stopping and going on


async def test_a_paused_run_asks_again_only_for_what_is_missing(machines: Machines, world: World) -> None:
    world.fault("search:latency:ms=500")
    plan = world.plan(**FLAGS, run_id="r", cluster=machines.address, shards=4)
    outcome = await run(world, plan, once=(folder(world, "r") / PAUSE_FILE).touch, after=3)
    assert (outcome.status, outcome.exit_code, outcome.stop) == (RunState.PAUSED, 3, Stop.PAUSED)
    ended = sum(sum(job.states.values()) for job in outcome.jobs)
    assert 3 <= ended < 16, "half-done shards came back too"
    with pytest.raises(UsageError, match="spread over a cluster"):
        await world.resume("r")
    with pytest.raises(IdentityError, match="--shards of run r cannot change: it has 4"):
        await resume(world, "r", shards=5)
    world.heal()
    assert (await resume(world, "r")).status is RunState.COMPLETE
    assert max(count for key, count in world.keys("search").items() if "What opens" in key) == 1
    assert await same_as_one_process(world, "r")


async def test_a_run_stops_at_its_time_on_every_worker(machines: Machines, world: World) -> None:
    world.fault("search:latency:ms=200")
    began = time.monotonic()
    plan = world.plan(**FLAGS, run_id="r", cluster=machines.address, shards=2, max_time="2s")
    outcome = await run(world, plan)
    assert (outcome.status, outcome.exit_code, outcome.stop) == (RunState.STOPPED, 3, Stop.MAX_TIME)
    assert time.monotonic() - began < 8
    calls = world.calls("search")
    await anyio.sleep(0.5)
    assert world.calls("search") == calls


async def test_a_budget_is_one_for_all_shards(machines: Machines, world: World) -> None:
    world.fault("chat:latency:ms=250")
    with_model(world)
    flags = {
        **FLAGS,
        "answering_model": "openai/stub-echo",
        "prices": {"openai/stub-echo": {"input": 100, "output": 100}},
    }
    outcome = await run(world, world.plan(**flags, run_id="r", cluster=machines.address, shards=2, max_cost=0.3))
    assert (outcome.status, outcome.exit_code, outcome.stop) == (RunState.STOPPED, 3, Stop.MAX_COST)
    each = float(outcome.cost_usd) / world.calls("chat")
    assert 0.3 <= float(outcome.cost_usd) <= 0.3 + 16 * each, "two seconds of two workers too late at most"


async def test_the_first_ctrl_c_on_a_terminal_ends_a_local_cluster_cleanly(machines: Machines, world: World) -> None:
    world.fault("search:latency:ms=100")
    process = bench(world.workspace, *command("local:2"), "--display", "none")
    wait_for(lambda: world.calls("search") > 4, seconds=60)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "stopping (sigint)" in said
    assert "bench run --resume r" in said
    async with Reader.open(folder(world, "r")) as reader:
        assert (await reader.status()).state is RunState.PAUSED
        ended = sum((await reader.counts()).values())
    assert ended > 0
    world.heal()
    process = bench(world.workspace, "run", "--resume", "r", "--cluster", machines.address, "--json")
    told, said = process.communicate(timeout=90)
    assert process.returncode == 0, said
    assert json.loads(told.splitlines()[-1])["status"] == "complete"
    assert await same_as_one_process(world, "r")


# --------------------------------------------------------------------------- limits and secrets


async def test_a_rate_limit_is_one_for_all_shards(machines: Machines, world: World) -> None:
    flags = {**FLAGS, "concurrency": 10, "isolation": "off"}
    plan = world.plan(**flags, run_id="r", cluster=machines.address, shards=4, rate=["faulty.search=10/s"])
    assert (await run(world, plan)).exit_code == 0
    seen = world.control("window?provider=default&endpoint=search&seconds=1")
    assert seen["calls"] == 32
    assert seen["max"] <= 13, "10 a second, and the burst of one of each of two workers"


def test_no_secret_travels(world: World) -> None:
    world.provider("faulty", extra="auth: {type: bearer, envVar: FAULTY_KEY}\n")
    world.write(".env", f"FAULT_URL={world.url}\nFAULTY_KEY=hunter2-hunter2\n")
    world.variables["FAULTY_KEY"] = "hunter2-hunter2"
    plan = world.plan(**FLAGS, run_id="r", cluster="local:2", shards=2)
    shard, environment = cut(plan, 2)[0], world.environment
    order = Order.of(plan, shard, environment=environment, share=0.5, left_usd=None, token="t")
    assert b"hunter2" not in pickle.dumps(order)


# --------------------------------------------------------------------------- workers that cannot take part


async def test_a_worker_that_cannot_take_part_is_named_before_anything_starts(
    machines: Machines, world: World, tmp_path: Path
) -> None:
    world.provider("faulty", extra="auth: {type: bearer, envVar: FAULTY_KEY}\n")
    world.write(".env", f"FAULT_URL={world.url}\nFAULTY_KEY=hunter2-hunter2\n")
    world.variables["FAULTY_KEY"] = "hunter2-hunter2"
    plan = world.plan(**FLAGS, run_id="r", cluster=machines.address, shards=2)
    patch = tmp_path / "older.py"
    patch.write_text("import bench.version\nbench.version.__version__ = '0.0.9'\n", encoding="utf-8")

    elsewhere = World.make(tmp_path / "elsewhere", world.url, corpora=4, items=8)
    elsewhere.provider("faulty", extra="auth: {type: bearer, envVar: FAULTY_KEY}\n")
    elsewhere.write(".env", f"FAULT_URL={world.url}\n")
    place = {"MEMORYBENCH_WORKSPACE": str(elsewhere.workspace)}

    older = machines.worker("--preload", str(patch))
    wait_for(lambda: machines.known() == 3, seconds=60)
    with pytest.raises(UsageError, match=r"worker tcp://\S+: bench 0.0.9 is not the coordinator's") as version:
        await run(world, plan)
    assert "install the same bench" in version.value.hint
    end(older)

    lacking = machines.worker(**place)
    wait_for(lambda: machines.known() == 3, seconds=60)
    with pytest.raises(UsageError, match=r"worker tcp://\S+: .*FAULTY_KEY, which is not set"):
        await run(world, plan)

    changed = (elsewhere.workspace / "datasets/facts.jsonl").read_text().replace("W0y0", "W9y9")
    elsewhere.write("datasets/facts.jsonl", changed)
    with pytest.raises(UsageError, match=r"benchmarks.facts.dataset.sha256") as other:
        await run(world, plan)
    assert "MEMORYBENCH_WORKSPACE" in other.value.hint

    (elsewhere.workspace / "datasets/facts.jsonl").unlink()
    with pytest.raises(UsageError, match=r"worker tcp://\S+: .*facts.jsonl"):
        await run(world, plan)
    end(lacking)
    assert not folder(world, "r").exists(), "nothing is left behind"
    assert world.calls("search") == 0


async def test_a_worker_that_joins_too_late_to_be_asked_is_told_so_by_its_shard(
    machines: Machines, world: World
) -> None:
    """The file goes away under the workers after they were asked."""
    world.fault("search:latency:ms=200")
    plan = world.plan(**FLAGS, run_id="r", cluster=machines.address, shards=4)
    data = world.workspace / "datasets/facts.jsonl"
    kept = data.read_bytes()
    outcome = await run(world, plan, once=data.unlink)
    assert (outcome.status, outcome.exit_code) == (RunState.STOPPED, 3)
    assert "shard 3, 4: worker tcp://" in outcome.message or "shard 3: worker" in outcome.message
    assert "facts.jsonl" in outcome.message
    async with Reader.open(folder(world, "r")) as reader:
        assert reader.meta.ranges == ((1, 16),), "finished shards are kept, and the rest is a gap"
    data.write_bytes(kept)
    world.heal()
    assert (await resume(world, "r")).status is RunState.COMPLETE
    assert await same_as_one_process(world, "r")


# --------------------------------------------------------------------------- no cluster


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("tcp://127.0.0.1:9", "no dask scheduler answers there within 3 s"),
        ("somewhere", "expected tcp://HOST:PORT"),
        ("local:0", "expected tcp://HOST:PORT"),
    ],
)
async def test_a_wrong_address_is_an_error_before_anything_starts(world: World, address: str, said: str) -> None:
    began = time.monotonic()
    with pytest.raises(UsageError, match=said):
        await run(world, world.plan(**FLAGS, run_id="r", cluster=address))
    assert time.monotonic() - began < 10
    assert not folder(world, "r").exists()


async def test_a_scheduler_without_workers_is_an_error(world: World, tmp_path: Path) -> None:
    empty = Machines(tmp_path).start()
    try:
        wait_for(lambda: empty.known() == 0, seconds=60)
        with pytest.raises(UsageError, match="the scheduler has no worker") as error:
            await run(world, world.plan(**FLAGS, run_id="r", cluster=empty.address))
        assert f"dask worker {empty.address}" in error.value.hint
    finally:
        empty.stop()


def test_without_the_extra_the_flag_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "distributed.py").write_text("raise ModuleNotFoundError('no distributed')\n", encoding="utf-8")
    process = bench(tmp_path, "run", "--providers", "oracle", "--cluster", "local:2", PYTHONPATH=str(tmp_path))
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "error: --cluster needs the extra [cluster]" in said
    assert "pip install 'memorybench[cluster]'" in said


def test_the_coordinator_needs_no_secret_of_its_own(machines: Machines, world: World) -> None:
    world.provider("faulty", extra="auth: {type: bearer, envVar: FAULTY_KEY}\n")
    there = World.make(world.workspace.parent / "there", world.url, corpora=4, items=8)
    there.provider("faulty", extra="auth: {type: bearer, envVar: FAULTY_KEY}\n")
    there.write(".env", f"FAULT_URL={world.url}\nFAULTY_KEY=hunter2-hunter2\nOPENAI_API_KEY=hunter3-hunter3\n")
    machines.have(0)
    machines.worker(MEMORYBENCH_WORKSPACE=str(there.workspace), OPENAI_BASE_URL=f"{world.url}/v1")
    wait_for(lambda: machines.known() == 1, seconds=60)
    words = [word.replace("builtin/extractive", "openai/stub-extract") for word in command(machines.address)]
    process = bench(world.workspace, *words, "--json", FAULT_URL=str(world.url), OPENAI_BASE_URL=f"{world.url}/v1")
    told, said = process.communicate(timeout=90)
    assert process.returncode == 0, told + said
    assert json.loads(told.splitlines()[-1])["jobs"][0]["models"]["answering"] == "openai/stub-extract"
    assert world.calls("chat") == 32
    machines.have(0)
    for path in world.workspace.rglob("*"):
        assert not path.is_file() or b"hunter" not in path.read_bytes(), path


async def test_a_run_of_one_machine_cannot_be_spread_later(world: World) -> None:
    await world.run(**FLAGS, run_id="alone", limit=4)
    with pytest.raises(UsageError, match="was not started on a cluster"):
        await resume(world, "alone", cluster="local:2")


async def test_an_ended_run_tries_again_what_failed_where_it_is_asked(machines: Machines, world: World) -> None:
    world.fault("search:status:code=400,match=K3x0")
    flags = {**FLAGS, "max_error_rate": 0.5, "isolation": "off"}
    plan = world.plan(**flags, run_id="r", cluster=machines.address, shards=2)
    assert (await run(world, plan)).status is RunState.COMPLETE
    world.heal()
    assert (await resume(world, "r")).exit_code == 0
    assert await same_as_one_process(world, "r")


# --------------------------------------------------------------------------- the command line


def command(address: str) -> list[str]:
    found = ["run", "--benchmarks", "facts", "--run-id", "r", "--cluster", address]
    for name, value in FLAGS.items():
        found += [f"--{name.replace('_', '-')}", str(value)]
    return found


def test_an_installed_program_spreads_a_run_from_any_folder(root: Path, tmp_path: Path) -> None:
    """As the wheel lies in site-packages: the package and its data, and no checkout in sight."""
    site, place = tmp_path / "site", tmp_path / "empty"
    place.mkdir()
    shutil.copytree(root / "bench", site / "bench", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("configs", "datasets/demo"):
        shutil.copytree(root / name, site / "bench/_data" / name)
    words = ["run", "--providers", "oracle", "--cluster", "local:2", "--run-id", "r", "--json"]
    process = bench(place, *words, PYTHONPATH=str(site), PYTHONSAFEPATH="1")
    told, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    lines = [json.loads(line) for line in told.splitlines()]
    assert [line["event"] for line in lines if line["event"] != "progress"] == ["launch", "done"]
    assert lines[-2]["ended"] == lines[-2]["planned"] == 160
    assert (lines[-1]["status"], lines[-1]["resume"]) == ("complete", None)


def bench(cwd: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """The command line in a process group of its own, as a terminal starts it."""
    return subprocess.Popen(
        [sys.executable, "-m", "bench", *arguments],
        cwd=cwd,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
