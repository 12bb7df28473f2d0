"""The early end of a run: by signals, a pause file, or a budget of money or time.

There is one `StopControl` per run. Code checks ``stopping.requested`` before it starts work, and waits with
`pause_for`, which returns early when the run stops. Requests in flight get a grace period, then are canceled::

    stopping = StopControl(grace_s=8)
    with stopping.scope: ...            # the run's work
    stopping.request(Stop.SIGINT)           # first time: no new work; second signal: cancel now
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path

import anyio
from anyio.abc import TaskGroup, TaskStatus

GRACE_S = 8.0
LOOK_EVERY_S = 1.0


class Stop(StrEnum):
    """The reason why a run stopped early."""

    SIGINT = "sigint"
    SIGTERM = "sigterm"
    PAUSED = "paused"
    MAX_COST = "max_cost"
    MAX_TIME = "max_time"

    @property
    def exit_code(self) -> int:
        return {Stop.SIGINT: 130, Stop.SIGTERM: 143}.get(self, 3)

    @property
    def status(self) -> str:
        return "stopped" if self in (Stop.MAX_COST, Stop.MAX_TIME) else "paused"


class StopControl:
    """The stop control of a run: a request to stop, then a grace period, then cancellation."""

    def __init__(self, *, grace_s: float = GRACE_S, on_stop: Callable[[Stop], None] | None = None) -> None:
        self.reason: Stop | None = None
        self.scope = anyio.CancelScope()
        self._grace_s = grace_s
        self._on_stop = on_stop
        self._requested = anyio.Event()

    @property
    def requested(self) -> bool:
        """Return True after the first request to stop: nothing new may start."""
        return self.reason is not None

    def request(self, reason: Stop) -> None:
        """Ask the run to stop: nothing new starts, requests in flight get a grace period. The first reason is kept."""
        if self.reason is not None:
            return
        self.reason = reason
        self.scope.deadline = anyio.current_time() + self._grace_s
        self._requested.set()
        if self._on_stop is not None:
            self._on_stop(reason)

    def now(self) -> None:
        """Cancel the requests in flight."""
        self.scope.cancel()

    async def pause_for(self, seconds: float) -> None:
        """Sleep; return early when the run is asked to stop."""
        if seconds > 0 and not self.requested:
            with anyio.move_on_after(seconds):
                await self._requested.wait()


async def obey_signals(stopping: StopControl, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
    """Ask to stop at the first SIGINT or SIGTERM, cancel at the second; do nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        task_status.started()
        return
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for number in signals:
            if stopping.requested:
                stopping.now()
            else:
                stopping.request(Stop.SIGTERM if number == signal.SIGTERM else Stop.SIGINT)


async def obey_pause_file(stopping: StopControl, path: Path) -> None:
    """Check once per second for the pause file; when it exists, remove it and ask to stop."""
    while not stopping.requested:
        if path.exists():
            path.unlink(missing_ok=True)
            stopping.request(Stop.PAUSED)
        await stopping.pause_for(LOOK_EVERY_S)


async def obey_deadline(stopping: StopControl, max_time_s: float) -> None:
    """Ask to stop after ``--max-time``."""
    await stopping.pause_for(max_time_s)
    stopping.request(Stop.MAX_TIME)


class PauseFile:
    """The file by which another process asks the process of a run to pause.

    Create this object before the lock of the run is taken: a file that exists by then is not meant for this process.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._earlier = self._written()

    def watch(self, stopping: StopControl, watchers: TaskGroup) -> None:
        """Remove the older file, and check for a new one from now on; the lock of the run must be held."""
        if self._earlier is not None and self._written() == self._earlier:
            self._path.unlink(missing_ok=True)
        watchers.start_soon(obey_pause_file, stopping, self._path)

    def _written(self) -> int | None:
        return self._path.stat().st_mtime_ns if self._path.exists() else None


@asynccontextmanager
async def watch_stops(stopping: StopControl, *, max_time_s: float | None) -> AsyncIterator[TaskGroup]:
    """Watch signals and the time limit while the block runs; further watchers may be started in the group."""
    async with anyio.create_task_group() as watchers:
        await watchers.start(obey_signals, stopping)
        if max_time_s is not None:
            watchers.start_soon(obey_deadline, stopping, max_time_s)
        yield watchers
        watchers.cancel_scope.cancel()


def monotonic_us() -> int:
    """Return the time of the monotonic clock in microseconds; all durations use this clock."""
    return time.monotonic_ns() // 1000
