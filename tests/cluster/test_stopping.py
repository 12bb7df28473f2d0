"""Signals, pauses and budgets reach each worker; limits apply to the whole run."""

from __future__ import annotations

import json
import os
import pickle
import signal
import time

import anyio
import pytest

from bench.cluster.coordinator import shards_of
from bench.cluster.messages import ShardOrder
from bench.engine import Stop
from bench.engine.run import PAUSE_FILE
from bench.errors import IdentityError, UsageError
from bench.journal import Reader, RunState
from tests.cluster.conftest import Machines
from tests.cluster.spread import FLAGS, bench, command, folder, resume, run, same_as_one_process, with_model
from tests.small_world import World, wait_for


async def test_a_resumed_cluster_run_repeats_no_finished_item(machines: Machines, world: World) -> None:
    world.fault("search:latency:ms=500")
    plan = world.plan(**FLAGS, run_id="r", cluster=machines.address, shards=4)
    outcome = await run(world, plan, once=(folder(world, "r") / PAUSE_FILE).touch, after=3)
    assert (outcome.status, outcome.exit_code, outcome.stop) == (RunState.PAUSED, 3, Stop.PAUSED)
    ended = sum(sum(job.states.values()) for job in outcome.jobs)
    assert 3 <= ended < 16, "unfinished shards were returned too"
    with pytest.raises(UsageError, match="run r is distributed over several workers and has not ended"):
        await world.resume("r")
    with pytest.raises(IdentityError, match="--shards of run r cannot change: the run was started with --shards 4"):
        await resume(world, "r", shards=5)
    world.heal()
    assert (await resume(world, "r")).status is RunState.COMPLETE
    assert max(count for key, count in world.keys("search").items() if "What opens" in key) == 1
    assert await same_as_one_process(world, "r")


async def test_max_time_stops_all_workers(machines: Machines, world: World) -> None:
    world.fault("search:latency:ms=200")
    began = time.monotonic()
    plan = world.plan(**FLAGS, run_id="r", cluster=machines.address, shards=2, max_time="2s")
    outcome = await run(world, plan)
    assert (outcome.status, outcome.exit_code, outcome.stop) == (RunState.STOPPED, 3, Stop.MAX_TIME)
    assert time.monotonic() - began < 8
    calls = world.calls("search")
    await anyio.sleep(0.5)
    assert world.calls("search") == calls


async def test_max_cost_limits_all_shards_together(machines: Machines, world: World) -> None:
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
    assert 0.3 <= float(outcome.cost_usd) <= 0.3 + 16 * each, "at most two seconds of two workers above it"


async def test_ctrl_c_pauses_a_local_cluster_and_the_run_can_be_resumed(machines: Machines, world: World) -> None:
    world.fault("search:latency:ms=100")
    process = bench(world.workspace, *command("local:2"), "--display", "none")
    wait_for(lambda: world.calls("search") > 4, seconds=180)
    os.killpg(process.pid, signal.SIGINT)
    _, text = process.communicate(timeout=60)
    assert process.returncode == 130, text
    assert "stopping (sigint)" in text
    assert "bench run --resume r" in text
    async with Reader.open(folder(world, "r")) as reader:
        assert (await reader.status()).state is RunState.PAUSED
        ended = sum((await reader.counts()).values())
    assert ended > 0
    world.heal()
    process = bench(world.workspace, "run", "--resume", "r", "--cluster", machines.address, "--json")
    output, text = process.communicate(timeout=90)
    assert process.returncode == 0, text
    assert json.loads(output.splitlines()[-1])["status"] == "complete"
    assert await same_as_one_process(world, "r")


async def test_a_rate_limit_applies_to_all_shards_together(machines: Machines, world: World) -> None:
    flags = {**FLAGS, "concurrency": 10, "isolation": "off"}
    plan = world.plan(**flags, run_id="r", cluster=machines.address, shards=4, rate=["faulty.search=10/s"])
    assert (await run(world, plan)).exit_code == 0
    seen = world.control("window?provider=default&endpoint=search&seconds=1")
    assert seen["calls"] == 32
    assert seen["max"] <= 13, "10 per second, plus one burst per worker"


def test_an_order_contains_no_secret(world: World) -> None:
    world.provider("faulty", extra="auth: {type: bearer, envVar: FAULTY_KEY}\n")
    world.write(".env", f"FAULT_URL={world.url}\nFAULTY_KEY=hunter2-hunter2\n")
    world.variables["FAULTY_KEY"] = "hunter2-hunter2"
    plan = world.plan(**FLAGS, run_id="r", cluster="local:2", shards=2)
    shard, environment = shards_of(plan, 2)[0], world.environment
    order = ShardOrder.of(plan, shard, environment=environment, share=0.5, left_usd=None, token="t")
    assert b"hunter2" not in pickle.dumps(order)
