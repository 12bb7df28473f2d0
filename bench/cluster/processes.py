"""Run shards (parts of a run) on this machine: one process for each running shard.

Example::

    async with WorkerProcesses.open(4) as fleet:
        task = fleet.submit(run_shard, order, name="r1.1of4", preferred=())

A worker process reads its order from stdin, and writes messages to stdout. It is started with this command::

    python -P -m bench.cluster.processes "worker 1"

A worker process ends when its stdin is closed, and so also when its coordinator dies. If a worker process dies, a new
process continues with its journal.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import BinaryIO, Literal, TypeVar, TypeVarTuple

import anyio
from anyio.abc import ByteReceiveStream, Process, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from bench.cluster.backend import TaskState
from bench.cluster.messages import ShardOrder, ShardResult

A = TypeVarTuple("A")
T = TypeVar("T")

LENGTH = struct.Struct(">Q")
MAX_WORKER_DEATHS = 4
"""number of workers that may die while they run a shard, before the shard fails"""
STDERR_TAIL_CHARS = 500
"""number of characters that are kept of a worker's stderr; the error for a dead worker quotes the last line"""
Message = tuple[Literal["counters", "error"], str] | tuple[Literal["returned"], ShardResult]


@dataclass(slots=True)
class ProcessTask:
    """A task that runs a shard in a worker process on this machine. When the task is finished, it has a result."""

    order: ShardOrder
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    returned: ShardResult | None = None
    problem: str = ""

    @property
    def state(self) -> TaskState:
        if self.problem:
            return "error"
        if self.returned is not None:
            return "finished"
        return "cancelled" if self.scope.cancel_called else "pending"

    async def result(self) -> ShardResult | None:
        return self.returned

    async def error(self) -> str:
        return self.problem

    async def cancel(self) -> None:
        self.scope.cancel()


@dataclass(slots=True)
class WorkerProcesses:
    """The worker processes on this machine, at most ``count`` at a time."""

    count: int
    _tasks: TaskGroup
    _free: deque[str]
    _running: dict[str, Process] = field(default_factory=dict)
    _stopping: bool = False
    _on_message: Callable[[str], None] = field(default=lambda text: None)

    @staticmethod
    @asynccontextmanager
    async def open(count: int) -> AsyncIterator[WorkerProcesses]:
        """Yield a fleet of at most ``count`` worker processes at a time.

        Processes that still run at the end of the ``with`` block are killed.
        """
        async with anyio.create_task_group() as tasks:
            yield WorkerProcesses(count, tasks, deque(f"worker {number}" for number in range(1, count + 1)))
            tasks.cancel_scope.cancel()

    @property
    def address(self) -> str:
        return f"workers:{self.count}"

    @property
    def alive(self) -> bool:
        return True

    async def slots(self) -> Mapping[str, int]:
        return {f"worker {number}": 1 for number in range(1, self.count + 1)}

    def submit(
        self,
        function: Callable[[ShardOrder], ShardResult],
        order: ShardOrder,
        /,
        *,
        name: str,
        preferred: Sequence[str],
    ) -> ProcessTask:
        """Start a worker process that runs the order; ``function`` and ``preferred`` are ignored."""
        task = ProcessTask(order)
        self._tasks.start_soon(self._carry_out, task)
        return task

    async def ask(
        self, function: Callable[[*A], Awaitable[T]], *arguments: *A, within_s: float
    ) -> Mapping[str, T | BaseException]:
        """Call a function once in this process, because all workers on this machine would return the same result."""
        try:
            with anyio.fail_after(within_s):
                return {self.address: await function(*arguments)}
        except Exception as error:
            return {self.address: error}

    def listen(self, on_message: Callable[[str], None]) -> None:
        self._on_message = on_message

    async def stop(self) -> None:
        self._stopping = True
        for process in list(self._running.values()):
            await _ask_to_stop(process)

    async def drop(self, worker: str) -> None:
        with suppress(ProcessLookupError, KeyError):
            self._running[worker].kill()

    async def _carry_out(self, task: ProcessTask) -> None:
        """Run the order in a worker process; if the process dies, repeat in a new process."""
        worker, problem = self._free.popleft(), ""
        with task.scope:
            for _ in range(MAX_WORKER_DEATHS):
                problem = await self._run_worker(task, worker)
                if task.state != "pending":
                    break
            else:
                task.problem = f"{MAX_WORKER_DEATHS} workers died one after the other, the last {problem}"
        self._free.append(worker)

    async def _run_worker(self, task: ProcessTask, worker: str) -> str:
        """Start a worker and read its messages until it exits; return a text about its exit code and stderr."""
        command = [sys.executable, "-P", "-m", "bench.cluster.processes", worker]
        # a session of its own: ctrl-C reaches the coordinator only, which asks its workers to stop
        async with await anyio.open_process(command, stdin=subprocess.PIPE, start_new_session=True) as process:
            assert process.stdin is not None and process.stdout is not None and process.stderr is not None
            self._running[worker] = process
            stderr_tail: deque[str] = deque(maxlen=STDERR_TAIL_CHARS)
            async with anyio.create_task_group() as beside:
                beside.start_soon(_keep_tail, process.stderr, stderr_tail)
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await process.stdin.send(_packed(task.order))
                if self._stopping:
                    await _ask_to_stop(process)
                await self._listen_to(task, process.stdout)
            await process.wait()
            del self._running[worker]
        return _exit_text(process.returncode or 0, "".join(stderr_tail))

    async def _listen_to(self, task: ProcessTask, stream: ByteReceiveStream) -> None:
        buffered = BufferedByteReceiveStream(stream)
        with suppress(anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                (length,) = LENGTH.unpack(await buffered.receive_exactly(LENGTH.size))
                kind, content = _unpacked(await buffered.receive_exactly(length))
                if isinstance(content, ShardResult):
                    task.returned = content
                elif kind == "counters":
                    self._on_message(content)
                else:
                    task.problem = content


def _unpacked(content: bytes) -> Message:
    message: Message = pickle.loads(content)  # noqa: S301  written by a process that this one started
    return message


def _packed(message: object) -> bytes:
    content = pickle.dumps(message)
    return LENGTH.pack(len(content)) + content


async def _ask_to_stop(process: Process) -> None:
    assert process.stdin is not None
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.BusyResourceError):
        await process.stdin.aclose()


async def _keep_tail(stream: ByteReceiveStream, kept: deque[str]) -> None:
    async for chunk in stream:
        kept.extend(chunk.decode(errors="replace"))


def _exit_text(code: int, stderr_tail: str) -> str:
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    line = stderr_tail.strip().rpartition("\n")[2]
    return f"{how}: {line}" if line else how


# --------------------------------------------------------------------------- in a worker


@dataclass(slots=True)
class PipeLine:
    """A worker's connection to its coordinator."""

    address: str
    out: BinaryIO
    stop: threading.Event = field(default_factory=threading.Event)
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def send(self, message: Message) -> None:
        with self._one_at_a_time, suppress(BrokenPipeError):
            self.out.write(_packed(message))
            self.out.flush()

    def report(self, text: str) -> None:
        self.send(("counters", text))

    def stop_requested(self, *, within_s: float) -> bool:
        return self.stop.wait(within_s)

    def wait_for_stop(self, source: BinaryIO) -> None:
        source.read()
        self.stop.set()


def main() -> None:
    """Run the shard whose order arrives on stdin, and write its messages to stdout."""
    from bench.cluster.worker import run_shard

    line = PipeLine(sys.argv[1], os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # what plug-ins print does not get between the messages
    source = sys.stdin.buffer
    (length,) = LENGTH.unpack(source.read(LENGTH.size))
    order: ShardOrder = pickle.loads(source.read(length))  # noqa: S301  written by the process that started this one
    threading.Thread(target=line.wait_for_stop, args=(source,), daemon=True).start()
    try:
        line.send(("returned", run_shard(order, line)))
    except Exception as error:
        line.send(("error", f"{type(error).__name__}: {error}"))


if __name__ == "__main__":
    main()
