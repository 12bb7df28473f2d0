"""Every reason to end early: asked once, a grace, then an end; and a pause file that means this process."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import anyio
import pytest

from bench.engine import stopping as module
from bench.engine.stopping import GRACE_S, PauseFile, Stop, StopControl, obey_signals, watch_stops
from bench.journal import RunState
from tests.rows import each_row
from tests.small_world import World


@each_row(
    ("stop", "code", "status"),
    [
        (Stop.SIGINT, 130, "paused"),
        (Stop.SIGTERM, 143, "paused"),
        (Stop.PAUSED, 3, "paused"),
        (Stop.MAX_COST, 3, "stopped"),
        (Stop.MAX_TIME, 3, "stopped"),
    ],
)
def test_each_reason_has_its_exit_code_and_state(stop: Stop, code: int, status: str) -> None:
    assert (stop.exit_code, stop.status) == (code, status)


def test_the_grace_leaves_time_before_a_container_is_killed() -> None:
    assert GRACE_S == 8, "docker stop gives ten seconds"


async def test_the_first_reason_stays_and_is_told_once() -> None:
    told: list[Stop] = []
    stopping = StopControl(on_stop=told.append)
    assert not stopping.requested
    stopping.request(Stop.MAX_COST)
    stopping.request(Stop.SIGINT)
    assert (stopping.requested, stopping.reason, told) == (True, Stop.MAX_COST, [Stop.MAX_COST])


async def test_what_is_in_flight_is_cancelled_when_its_grace_is_over() -> None:
    stopping = StopControl(grace_s=0.05)
    with stopping.scope:
        stopping.request(Stop.SIGTERM)
        await anyio.sleep(0.01)
        await anyio.sleep(30)
    assert stopping.scope.cancelled_caught


async def test_what_ends_within_its_grace_is_not_cancelled() -> None:
    stopping = StopControl(grace_s=20)
    with stopping.scope:
        stopping.request(Stop.SIGTERM)
        await anyio.sleep(0.01)
    assert not stopping.scope.cancelled_caught


async def test_whatever_waits_ends_its_wait_when_the_run_stops() -> None:
    stopping = StopControl()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stopping.pause_for, 300)
            await anyio.sleep(0)
            stopping.request(Stop.PAUSED)
        await stopping.pause_for(300)
    assert stopping.reason is Stop.PAUSED


@pytest.mark.parametrize(("number", "reason"), [(signal.SIGINT, Stop.SIGINT), (signal.SIGTERM, Stop.SIGTERM)])
async def test_a_signal_asks_and_the_second_one_ends(number: signal.Signals, reason: Stop) -> None:
    stopping = StopControl()
    with anyio.fail_after(10):
        async with watch_stops(stopping, max_time_s=None):
            with stopping.scope:
                os.kill(os.getpid(), number)
                await stopping.pause_for(300)
                assert stopping.reason is reason
                assert not stopping.scope.cancel_called
                os.kill(os.getpid(), signal.SIGINT)
                await anyio.sleep(300)
    assert stopping.reason is reason


async def test_the_time_of_a_run_ends_it() -> None:
    stopping = StopControl()
    with anyio.fail_after(10):
        async with watch_stops(stopping, max_time_s=0.02):
            await stopping.pause_for(300)
    assert stopping.reason is Stop.MAX_TIME


def test_in_a_thread_signals_are_left_to_the_main_one() -> None:
    before = signal.getsignal(signal.SIGINT)
    asked: list[bool] = []

    async def watched() -> None:
        stopping = StopControl()
        async with anyio.create_task_group() as tasks:
            await tasks.start(obey_signals, stopping)
        assert signal.getsignal(signal.SIGINT) is before
        asked.append(stopping.requested)

    thread = threading.Thread(target=anyio.run, args=(watched,))
    thread.start()
    thread.join(timeout=120)
    assert asked == [False]


async def asked(path: Path, *, before: bool, within_s: float = 0.1) -> StopControl:
    """Watch a pause file that is there before the run is taken, or comes after."""
    stopping = StopControl()
    if before:
        path.touch()
    pause = PauseFile(path)
    async with watch_stops(stopping, max_time_s=None) as watchers:
        pause.watch(stopping, watchers)
        if not before:
            path.touch()
        await stopping.pause_for(within_s)
    return stopping


async def test_a_pause_file_is_obeyed_and_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "pause"
    assert (await asked(path, before=False, within_s=10)).reason is Stop.PAUSED
    assert not path.exists()


async def test_a_pause_file_is_looked_for_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.LOOK_EVERY_S == 1
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.01)
    stopping, path = StopControl(), tmp_path / "pause"
    with anyio.fail_after(10):
        async with watch_stops(stopping, max_time_s=None) as watchers:
            PauseFile(path).watch(stopping, watchers)
            await anyio.sleep(0.05)
            assert not stopping.requested
            path.touch()
            await stopping.pause_for(300)
    assert stopping.reason is Stop.PAUSED


async def test_a_pause_file_from_before_was_meant_for_another_process(tmp_path: Path) -> None:
    path = tmp_path / "pause"
    assert not (await asked(path, before=True)).requested
    assert not path.exists()


async def test_a_pause_that_is_asked_anew_while_the_run_is_taken_counts(tmp_path: Path) -> None:
    path, stopping = tmp_path / "pause", StopControl()
    path.touch()
    pause = PauseFile(path)
    os.utime(path, ns=(1, 1))
    async with watch_stops(stopping, max_time_s=None) as watchers:
        pause.watch(stopping, watchers)
        await stopping.pause_for(10)
    assert stopping.reason is Stop.PAUSED


async def test_a_resume_is_not_paused_by_what_its_killed_process_was_asked(tmp_path: Path) -> None:
    world = World.make(tmp_path, corpora=1, items=4)
    first = await world.run(providers="bm25", phases="search", run_id="r")
    (first.folder / "pause").touch()
    outcome = await world.resume("r", phases="search,evaluate")
    assert (outcome.status, outcome.stop) == (RunState.COMPLETE, None)
    assert not (first.folder / "pause").exists()
