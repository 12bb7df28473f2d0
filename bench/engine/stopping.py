"""Stop a run early: after a signal, for a pause file, or when a limit of time or money is reached.

``bench.engine.budget`` watches the money. Each run has one `StopControl`. Code checks ``stopping.requested`` before it
starts work. Requests in flight get ``grace_s`` seconds to end before they are canceled::

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


class StopControl:
    """The control by which a run is stopped: first no new work starts, then requests in flight are canceled."""

    def __init__(self, *, grace_s: float = GRACE_S, on_stop: Callable[[Stop], None] | None = None) -> None:
        self.reason: Stop | None = None
        self.scope = anyio.CancelScope()
        self._grace_s = grace_s
        self._on_stop = on_stop
        self._requested = anyio.Event()

    @property
    def requested(self) -> bool:
        """Return True if the run was asked to stop, so that no new work may start."""
        return self.reason is not None

    def request(self, reason: Stop) -> None:
        """Ask the run to stop: no new work starts, and requests in flight are canceled after ``grace_s`` seconds.

        Only the first request counts.
        """
        if self.reason is not None:
            return
        self.reason = reason
        self.scope.deadline = anyio.current_time() + self._grace_s
        self._requested.set()
        if self._on_stop is not None:
            self._on_stop(reason)

    def now(self) -> None:
        """Cancel the requests in flight at once."""
        self.scope.cancel()

    async def pause_for(self, seconds: float) -> None:
        """Sleep for some seconds, but return at once when the run is asked to stop."""
        if seconds > 0 and not self.requested:
            with anyio.move_on_after(seconds):
                await self._requested.wait()


async def obey_signals(stopping: StopControl, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
    """At the first SIGINT or SIGTERM, ask the run to stop; at the second, cancel its requests.

    Outside the main thread, this does nothing, because only the main thread receives signals.
    """
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
    """Look for the pause file each second; if it exists, remove it and ask the run to stop."""
    while not stopping.requested:
        if path.exists():
            path.unlink(missing_ok=True)
            stopping.request(Stop.PAUSED)
        await stopping.pause_for(LOOK_EVERY_S)


async def obey_deadline(stopping: StopControl, max_time_s: float) -> None:
    """Ask the run to stop after ``max_time_s`` seconds."""
    await stopping.pause_for(max_time_s)
    stopping.request(Stop.MAX_TIME)


class PauseFile:
    """The file that another process creates to ask a run to pause.

    Create this object before the lock of the run is taken. A file that already exists was meant for an earlier process.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._earlier = self._written()

    def watch(self, stopping: StopControl, watchers: TaskGroup) -> None:
        """Remove a file that was meant for an earlier process, and start a task that looks for a new file.

        Call this after the lock of the run was taken.
        """
        if self._earlier is not None and self._written() == self._earlier:
            self._path.unlink(missing_ok=True)
        watchers.start_soon(obey_pause_file, stopping, self._path)

    def _written(self) -> int | None:
        return self._path.stat().st_mtime_ns if self._path.exists() else None


@asynccontextmanager
async def watch_stops(stopping: StopControl, *, max_time_s: float | None) -> AsyncIterator[TaskGroup]:
    """Obey signals and the time limit during the ``with`` block; other watchers can be started in the yielded group."""
    async with anyio.create_task_group() as watchers:
        await watchers.start(obey_signals, stopping)
        if max_time_s is not None:
            watchers.start_soon(obey_deadline, stopping, max_time_s)
        yield watchers
        watchers.cancel_scope.cancel()


def monotonic_us() -> int:
    """Return the time of the monotonic clock in microseconds."""
    return time.monotonic_ns() // 1000
