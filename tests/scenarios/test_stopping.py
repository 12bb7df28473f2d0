"""C: signals, pauses and budgets stop a run cleanly; nothing in flight becomes an error."""

from __future__ import annotations

import json
import os
import platform
import random
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskGroup

from bench.engine import Outcome, Progress, SilentObserver, Stop, execute
from bench.journal import Reader, RunState
from bench.model import Phase, State
from tests.scenarios.program import bench, started
from tests.small_world import World, ended, kill, wait_for

Worlds = Callable[..., World]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_C1_a_run_stopped_by_a_signal_is_paused_with_its_exit_code(world_of: Worlds, number: int, code: int) -> None:
    world = world_of("search:latency:ms=100", corpora=3, items=10)
    moments = random.Random(number)
    flags = ["--benchmarks", "facts", "--providers", "faulty", "--concurrency", "2", "--json"]
    for run in range(4):
        process = started(world.workspace, "run", *flags, "--run-id", f"c1-{run}", **world.variables)
        wait_for(lambda run=run: (world.workspace / f"checkpoints/c1-{run}/journal.sqlite").exists())
        time.sleep(moments.uniform(0.3, 1.0))
        process.send_signal(number)
        out, _ = process.communicate(timeout=120)
        assert process.returncode == code
        done = json.loads(out.splitlines()[-1])
        assert (done["event"], done["status"], done["exit_code"]) == ("done", "paused", code)
    listed = json.loads(bench(world.workspace, "list", "runs", "--json", **world.variables).stdout)["runs"]
    assert [one["state"] for one in listed] == ["paused"] * 4


class Signalled(SilentObserver):
    """Send this process a signal after so many durable phases, and keep the durable counts of that moment."""

    def __init__(self, tasks: TaskGroup, number: int, phases: int) -> None:
        self.tasks, self.number, self.phases = tasks, number, phases
        self.durable: dict[Phase, int] | None = None
        self.outcome: Outcome | None = None

    def launched(self, progress: Progress) -> None:
        (self.lane,) = progress.lanes.values()
        self.tasks.start_soon(self.watch)

    async def watch(self) -> None:
        while sum(one.done for one in self.lane.phases.values()) < self.phases:
            await anyio.sleep(0)
        self.durable = {phase: one.done for phase, one in self.lane.phases.items()}
        os.kill(os.getpid(), self.number)

    def stopping(self, reason: Stop, in_flight: int) -> None:
        assert reason.exit_code == 128 + self.number

    def finished(self, outcome: Outcome) -> None:
        self.outcome = outcome


@pytest.mark.parametrize("times", [8, pytest.param(50, marks=pytest.mark.long)])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_C1_J6_a_signal_at_any_moment_is_reported_and_loses_no_durable_row(
    tmp_path: Path, number: int, code: int, times: int
) -> None:
    world = World.make(tmp_path, corpora=4, items=10)
    plan = world.plan(providers="bm25", answering_model="builtin/extractive")
    moments = random.Random(number)
    for run in range(times):
        named = replace(plan, request=plan.request.model_copy(update={"run_id": f"r{run}"}))
        async with anyio.create_task_group() as tasks:
            watch = Signalled(tasks, number, moments.randint(0, 110))
            outcome = await execute(named, environment=world.environment, observer=watch)
            tasks.cancel_scope.cancel()
        assert watch.outcome is outcome and watch.durable is not None
        assert (outcome.exit_code, outcome.stop and outcome.stop.exit_code) == (code, code)
        pending = outcome.jobs[0].pending
        assert (outcome.status is RunState.PAUSED) == bool(pending), f"{pending} items are pending"
        async with Reader.open(outcome.folder) as reader:
            assert (await reader.status()).state is outcome.status
            counts = await reader.counts()
        for phase in (Phase.SEARCH, Phase.ANSWER, Phase.EVALUATE):
            assert counts.get((phase, "ok"), 0) >= watch.durable[phase]


async def test_C2_the_first_signal_is_reported_at_once_and_the_second_ends_the_run(world_of: Worlds) -> None:
    world = world_of("search:hang:match=What", corpora=2, items=4)
    world.provider("faulty", **{"timeout: 2000": "timeout: 60000"})
    reported_s, ended_s = [], []
    for run in range(3):  # the best of three, because a busy machine adds time
        hanging = world.calls("search") + 3
        process = world.start(providers="faulty", run_id=f"c2-{run}", concurrency=3, isolation="off")
        wait_for(lambda hanging=hanging: world.calls("search") >= hanging)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("launched")
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline().split() == ["stopping", "sigint", "3"]
        reported_s.append(time.monotonic() - began)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert ended(process) == 130
        ended_s.append(time.monotonic() - began)
        assert world.query(f"c2-{run}", "pragma integrity_check") == [("ok",)]
    assert min(reported_s) < 0.2 and min(ended_s) < 1, (reported_s, ended_s)
    world.heal()
    assert (await world.resume("c2-0")).exit_code == 0


async def test_C3_a_hanging_call_does_not_delay_a_terminated_run_beyond_its_grace_period(world_of: Worlds) -> None:
    world = world_of("search:hang:match=What opens the vault K0x0", corpora=1, items=4)
    world.provider("faulty", **{"timeout: 2000": "timeout: 60000"})
    flags = ["--benchmarks", "facts", "--providers", "faulty", "--concurrency", "2", "--isolation", "off"]
    process = started(world.workspace, "run", *flags, "--run-id", "c3", **world.variables)
    wait_for(lambda: world.calls("search") >= 4)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 143
    assert time.monotonic() - began < 10
    assert "stopping (sigterm): waiting up to 8 s for 1 request in flight" in stderr
    assert "bench run --resume c3" in stderr
    async with Reader.open(world.workspace / "checkpoints/c3") as reader:
        states = await reader.states("facts/faulty|none|none")
    assert states == {State.MEASURED: 3}


async def test_C4_finished_rows_are_stored_when_a_run_is_canceled(world_of: Worlds) -> None:
    world = world_of("clear:latency:ms=2000", corpora=3, items=2)
    process = world.start(providers="faulty", run_id="c4", concurrency=2)
    wait_for(lambda: world.calls("clear") >= 1)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    ended(process)
    async with Reader.open(world.workspace / "checkpoints/c4") as reader:
        assert sum((await reader.states("facts/faulty|none|none")).values()) >= 2


FAILING_RUNS = {
    "missing data file": (["--benchmarks", "gone"], 2, "gone.jsonl"),
    "filter that matches nothing": (["--question-type", "three"], 2, "three"),
    "range beyond the end": (["--start", "90"], 2, "--start 90 is not a position: the selection has only 4 items"),
    "bad flag": (["--concurency", "3"], 2, "--concurrency"),
    "all items errors": (["--providers", "refused"], 4, "INVALID"),
    "gate failed": (["--answering-model", "builtin/extractive", "--min-score", "accuracy=1.01"], 4, "accuracy"),
    "budget reached": (["--max-time", "0.1"], 3, "max_time"),
}


@pytest.mark.parametrize(("flags", "code", "message"), FAILING_RUNS.values(), ids=FAILING_RUNS)
def test_C6_a_run_without_items_or_with_only_errors_fails(
    world_of: Worlds, flags: list[str], code: int, message: str
) -> None:
    world = world_of("search:latency:ms=100", "refused/search:status:code=422,match=What", corpora=1, items=4)
    world.provider("refused", **{"${FAULT_URL}": "${FAULT_URL}/p/refused"})
    world.write(
        "configs/benchmarks/gone.yaml",
        "name: gone\nversion: '1'\nextends: facts\ndata: {type: local, path: ./gone.jsonl, format: jsonl}\n",
    )
    chosen = [] if "--benchmarks" in flags else ["--benchmarks", "facts"]
    chosen += [] if "--providers" in flags else ["--providers", "faulty"]
    done = bench(world.workspace, "run", *chosen, *flags, **world.variables)
    assert done.returncode == code, done.stderr.decode()
    assert message in done.stderr.decode() + done.stdout.decode()
    assert b"Traceback" not in done.stderr


async def test_C8_max_time_lets_requests_in_flight_finish(world_of: Worlds) -> None:
    world = world_of("search:latency:ms=300", corpora=2, items=20)
    outcome = await world.run(providers="faulty", max_time=2, concurrency=2)
    assert (outcome.status, outcome.exit_code, outcome.stop) == (RunState.STOPPED, 3, Stop.MAX_TIME)
    assert State.ERROR not in outcome.jobs[0].states
    endpoints = world.control("stats")["providers"]["default"]["endpoints"]
    assert endpoints["search"]["aborted"] == 0, "requests in flight end"
    assert outcome.resume == f"bench run --resume {outcome.run_id}"
    world.heal()
    assert (await world.resume(outcome.run_id, max_time=600)).exit_code == 0


async def test_C8_max_cost_is_exceeded_at_most_by_the_calls_in_flight(world_of: Worlds) -> None:
    world = world_of("chat:latency:ms=50", corpora=1, items=12)
    world.variables["OPENAI_BASE_URL"] = f"{world.url}/v1"
    world.variables["OPENAI_API_KEY"] = "test-key-of-no-service"
    prices = {"openai/stub-echo": {"input": 10_000, "output": 10_000}}
    flags = {"providers": "faulty", "answering_model": "openai/stub-echo", "prices": prices, "concurrency": 2}
    outcome = await world.run(**flags, max_cost=0.5)
    assert (outcome.status, outcome.exit_code, outcome.stop) == (RunState.STOPPED, 3, Stop.MAX_COST)
    ((most,),) = world.query(outcome.run_id, "select max(cast(cost_usd as real)) from call where role = 'answering'")
    assert 0.5 <= float(outcome.cost_usd) <= 0.5 + 2 * most, "concurrency x one call"
    assert world.control("stats")["providers"]["default"]["endpoints"]["chat"]["aborted"] == 0


async def test_a_pause_file_stops_the_run_and_a_resume_completes_it(world_of: Worlds) -> None:
    world = world_of("search:latency:ms=150", corpora=2, items=20)

    class Pausing:
        def launched(self, progress: Progress) -> None:
            (world.workspace / "checkpoints" / progress.run_id / "pause").touch()

        def stopping(self, reason: Stop, in_flight: int) -> None:
            assert reason is Stop.PAUSED

        def finished(self, outcome: Outcome) -> None:
            assert outcome.status is RunState.PAUSED

    outcome = await world.run(Pausing(), providers="faulty", concurrency=1)
    assert (outcome.status, outcome.exit_code) == (RunState.PAUSED, 3)
    world.heal()
    assert (await world.resume(outcome.run_id)).status is RunState.COMPLETE


async def test_J7_a_second_process_is_locked_out_and_a_killed_holder_is_replaced(world_of: Worlds) -> None:
    world = world_of("search:hang:match=What,skip=2", corpora=1, items=5)
    world.provider("faulty", **{"timeout: 2000": "timeout: 600000"})
    process = world.start(providers="faulty", run_id="j7", concurrency=1)
    wait_for(lambda: world.calls("search") >= 3)
    second = bench(world.workspace, "resume", "j7", **world.variables)
    assert second.returncode == 6
    assert f"pid {process.pid} on {platform.node()}" in second.stderr.decode()
    kill(process)
    world.heal()
    assert bench(world.workspace, "resume", "j7", **world.variables).returncode == 0
