"""Stops of a run: reasons, timeout of requests in flight, signals and the pause file."""

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
    ("stop", "code"),
    [(Stop.SIGINT, 130), (Stop.SIGTERM, 143), (Stop.PAUSED, 3), (Stop.MAX_COST, 3), (Stop.MAX_TIME, 3)],
)
def test_each_stop_reason_has_its_exit_code(stop: Stop, code: int) -> None:
    assert stop.exit_code == code


def test_the_stop_timeout_is_shorter_than_that_of_docker() -> None:
    assert GRACE_S == 8, "docker stop gives ten seconds"


async def test_the_first_stop_reason_is_kept_and_reported_once() -> None:
    reported: list[Stop] = []
    stopping = StopControl(on_stop=reported.append)
    assert not stopping.requested
    stopping.request(Stop.MAX_COST)
    stopping.request(Stop.SIGINT)
    assert (stopping.requested, stopping.reason, reported) == (True, Stop.MAX_COST, [Stop.MAX_COST])


async def test_requests_in_flight_are_cancelled_after_the_stop_timeout() -> None:
    stopping = StopControl(grace_s=0.05)
    with stopping.scope:
        stopping.request(Stop.SIGTERM)
        await anyio.sleep(0.01)
        await anyio.sleep(30)
    assert stopping.scope.cancelled_caught


async def test_requests_that_end_within_the_stop_timeout_are_not_cancelled() -> None:
    stopping = StopControl(grace_s=20)
    with stopping.scope:
        stopping.request(Stop.SIGTERM)
        await anyio.sleep(0.01)
    assert not stopping.scope.cancelled_caught


async def test_a_stop_ends_all_waits() -> None:
    stopping = StopControl()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stopping.pause_for, 300)
            await anyio.sleep(0)
            stopping.request(Stop.PAUSED)
        await stopping.pause_for(300)
    assert stopping.reason is Stop.PAUSED


@pytest.mark.parametrize(("number", "reason"), [(signal.SIGINT, Stop.SIGINT), (signal.SIGTERM, Stop.SIGTERM)])
async def test_the_first_signal_requests_a_stop_and_the_second_cancels(number: signal.Signals, reason: Stop) -> None:
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


async def test_max_time_stops_a_run() -> None:
    stopping = StopControl()
    with anyio.fail_after(10):
        async with watch_stops(stopping, max_time_s=0.02):
            await stopping.pause_for(300)
    assert stopping.reason is Stop.MAX_TIME


def test_in_a_thread_signal_handlers_are_not_changed() -> None:
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
    """Watch a pause file that is created before or after the run is locked."""
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


async def test_a_pause_file_pauses_the_run_and_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "pause"
    assert (await asked(path, before=False, within_s=10)).reason is Stop.PAUSED
    assert not path.exists()


async def test_the_pause_file_is_checked_repeatedly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_a_pause_file_of_an_earlier_process_is_removed_without_a_pause(tmp_path: Path) -> None:
    path = tmp_path / "pause"
    assert not (await asked(path, before=True)).requested
    assert not path.exists()


async def test_a_pause_file_renewed_while_the_run_starts_pauses_it(tmp_path: Path) -> None:
    path, stopping = tmp_path / "pause", StopControl()
    path.touch()
    pause = PauseFile(path)
    os.utime(path, ns=(1, 1))
    async with watch_stops(stopping, max_time_s=None) as watchers:
        pause.watch(stopping, watchers)
        await stopping.pause_for(10)
    assert stopping.reason is Stop.PAUSED


async def test_a_resume_ignores_the_pause_file_of_its_killed_process(tmp_path: Path) -> None:
    world = World.make(tmp_path, corpora=1, items=4)
    first = await world.run(providers="bm25", phases="search", run_id="r")
    (first.folder / "pause").touch()
    outcome = await world.resume("r", phases="search,evaluate")
    assert (outcome.status, outcome.stop) == (RunState.COMPLETE, None)
    assert not (first.folder / "pause").exists()
