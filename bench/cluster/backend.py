"""The interface to the workers of a cluster. Only this module imports dask.distributed.

:class:`Fleet` is the interface. :class:`Cluster` implements it with dask, and
:class:`bench.cluster.processes.WorkerProcesses` with processes on this machine. A task runs one shard, which is a part
of a run.

Example::

    async with Cluster.open("local:4", token="r1") as cluster:
        task = cluster.submit(run_shard, order, name="r1.1of4-7f", preferred=())      # order: a ShardOrder
        while task.state == "pending": ...
        returned = await task.result()
    line = DaskLine.here("r1")          # inside a task
    line.report("..."), line.stop_requested(within_s=1)
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, TypeVarTuple, cast

import anyio

from bench.cluster.messages import ShardOrder, ShardResult
from bench.errors import UsageError

if TYPE_CHECKING:
    from distributed import Client, Event, Future, Worker


A = TypeVarTuple("A")
T = TypeVar("T")

TaskState = Literal["pending", "finished", "error", "cancelled"]


class ShardTask(Protocol):
    """A submitted task that runs a shard. When the task is finished, it has a result."""

    @property
    def state(self) -> TaskState:
        """Return the current state of the task."""
        ...

    async def result(self) -> ShardResult | None:
        """Return the result of a finished task; None if the result was lost during the transfer."""
        ...

    async def error(self) -> str:
        """Return the message of the error that ended the task."""
        ...

    async def cancel(self) -> None:
        """Cancel the task."""
        ...


class Fleet(Protocol):
    """The interface to the workers of a run, on this machine or on a dask cluster."""

    @property
    def address(self) -> str:
        """Return the address of the workers, for use in messages."""
        ...

    @property
    def alive(self) -> bool:
        """Return True when orders can be submitted and results received."""
        ...

    async def slots(self) -> Mapping[str, int]:
        """Return how many shards each worker can run at a time, by the address of the worker."""
        ...

    def submit(
        self,
        function: Callable[[ShardOrder], ShardResult],
        order: ShardOrder,
        /,
        *,
        name: str,
        preferred: Sequence[str],
    ) -> ShardTask:
        """Submit the order to run a shard; if possible, one of the workers ``preferred`` gets it."""
        ...

    async def ask(
        self, function: Callable[[*A], Awaitable[T]], *arguments: *A, within_s: float
    ) -> Mapping[str, T | BaseException]:
        """Call a function on every worker, without interrupting its shards.

        Return, for each worker's address, the result or the exception. A worker that does not answer within
        ``within_s`` seconds gets a TimeoutError.
        """
        ...

    def listen(self, on_message: Callable[[str], None]) -> None:
        """Call ``on_message`` with every message of a task from now on."""
        ...

    async def stop(self) -> None:
        """Ask every running shard to stop, and every shard that begins later."""
        ...

    async def drop(self, worker: str) -> None:
        """Remove a worker; its shards run again on other workers."""
        ...


class CoordinatorLine(Protocol):
    """The connection of a task to the coordinator."""

    @property
    def address(self) -> str:
        """Return the address of the worker."""
        ...

    def report(self, text: str) -> None:
        """Send a message to the coordinator, without waiting until it is received."""
        ...

    def stop_requested(self, *, within_s: float) -> bool:
        """Wait at most ``within_s`` seconds for a request to stop.

        Return True if the coordinator asked to stop, or cannot be reached.
        """
        ...


S = TypeVar("S")

CONNECT_S = 3
TCP_S = 12
"""seconds without an acknowledgement after which a connection counts as lost"""
SETTINGS = {"distributed.comm.timeouts.connect": f"{CONNECT_S}s", "distributed.comm.timeouts.tcp": f"{TCP_S}s"}
LOCAL = re.compile(r"local:([1-9]\d*)")
REMOTE = re.compile(r"(tcp|tls)://[^\s:/]+:\d+")


@dataclass(frozen=True, slots=True)
class Task(Generic[T]):
    """One function call that was submitted to a dask cluster."""

    _future: Future[T]

    @property
    def state(self) -> TaskState:
        """Return the current state of the task. A task that dask lost is pending, because dask runs it again."""
        status = self._future.status
        return "pending" if status == "lost" or status is None else status

    async def result(self) -> T | None:
        """Return the result of a finished task; None if its worker or the scheduler was lost."""
        try:
            return await cast("Awaitable[T]", self._future.result())
        except (OSError, CancelledError):
            return None

    async def error(self) -> str:
        """Return why the task failed: every worker that ran it has died, or it raised an unexpected exception."""
        from distributed import KilledWorker

        raised: BaseException = await self._future.exception()
        if isinstance(raised, KilledWorker):
            return f"every worker that ran it has died, the last at {raised.last_worker.address}"
        return f"{type(raised).__name__}: {raised}"

    async def cancel(self) -> None:
        """Cancel the task. A running task is not interrupted: its ``DaskLine.stop_requested`` returns True."""
        await self._future.cancel()


@dataclass(frozen=True, slots=True)
class Cluster:
    """The connection of the coordinator to a dask cluster."""

    address: str
    _client: Client
    _stop: Event
    _topic: str

    @staticmethod
    @asynccontextmanager
    async def open(address: str, *, token: str) -> AsyncIterator[Cluster]:
        """Connect to a dask scheduler. For the address ``local:N``, N workers run on this machine until the block ends.

        Raises:
            UsageError: the extra ``cluster`` is not installed, or the address is invalid or does not answer.
        """
        local = LOCAL.fullmatch(address)
        if local is None and not REMOTE.fullmatch(address):
            raise UsageError(f"--cluster {address}: expected tcp://HOST:PORT, tls://HOST:PORT or local:N")
        try:
            import dask
            from distributed import Client, Event
        except ModuleNotFoundError:
            raise UsageError(
                "--cluster needs the extra [cluster]", hint="pip install 'memorybench[cluster]', also on the workers"
            ) from None
        # whatever matters is reported in our own words
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        with dask.config.set(SETTINGS):
            async with _scheduler(address, local) as place:
                try:
                    client = await Client(place, asynchronous=True, set_as_default=False, timeout=CONNECT_S)
                except OSError:
                    raise UsageError(
                        f"--cluster {address}: no dask scheduler answers within {CONNECT_S} s",
                        hint=(
                            "start a scheduler with: dask scheduler; start workers with: dask worker ADDRESS "
                            "--nthreads 1"
                        ),
                    ) from None
                async with client:
                    yield Cluster(address, client, Event(_stop_name(token), client=client), _topic(token))

    @property
    def alive(self) -> bool:
        """Return True when the scheduler is connected."""
        return bool(self._client.status == "running")

    async def slots(self) -> dict[str, int]:
        """Return how many tasks each worker can run at a time, by address; empty if the scheduler does not answer."""
        try:
            found: dict[str, int] = await self._client.nthreads()
        except OSError:
            return {}
        return found

    async def ask(
        self, function: Callable[[*A], Awaitable[T]], *arguments: *A, within_s: float
    ) -> dict[str, T | BaseException]:
        """Call a function on every worker, without interrupting its tasks; return results or exceptions by address."""
        silent = TimeoutError(f"no answer within {within_s:.0f} s")
        found: dict[str, T | BaseException] = dict.fromkeys(await self.slots(), silent)

        async def call_worker(worker: str) -> None:
            with anyio.move_on_after(within_s):
                found.update(await self._client.run(function, *arguments, workers=[worker], on_error="return"))

        async with anyio.create_task_group() as group:
            for worker in list(found):
                group.start_soon(call_worker, worker)
        return found

    def submit(self, function: Callable[[S], T], argument: S, *, name: str, preferred: Sequence[str]) -> Task[T]:
        """Submit a function call; if possible, one of the workers ``preferred`` runs it."""
        return Task(
            self._client.submit(
                function,
                argument,
                key=name,
                pure=False,
                workers=list(preferred) or None,
                allow_other_workers=bool(preferred),
            )
        )

    def listen(self, on_message: Callable[[str], None]) -> None:
        """Call ``on_message`` with every message of a task from now on."""

        def on_event(event: tuple[float, str]) -> None:
            on_message(event[1])

        self._client.subscribe_topic(self._topic, on_event)

    async def stop(self) -> None:
        """Ask every task to stop, including tasks that begin later."""
        await self._stop.set()

    async def drop(self, worker: str) -> None:
        """Remove a worker from the cluster; its tasks run again on other workers."""
        with anyio.move_on_after(CONNECT_S):
            # retire_workers would wait for the worker to answer
            scheduler: Any = self._client.scheduler  # an open set of calls
            await scheduler.unregister(address=worker, close=True, stimulus_id=f"bench-{uuid.uuid4().hex}")


@asynccontextmanager
async def _scheduler(address: str, local: re.Match[str] | None) -> AsyncIterator[str]:
    """Yield the address of the scheduler; a cluster on this machine runs until the ``with`` block ends."""
    if local is None:
        yield address
        return
    from distributed import LocalCluster

    async with LocalCluster(
        n_workers=int(local[1]),
        threads_per_worker=1,
        memory_limit=0,
        dashboard_address=None,
        silence_logs=logging.CRITICAL,
        preload=["bench.cluster.worker"],
        asynchronous=True,
    ) as cluster:
        yield cluster.scheduler_address


def _stop_name(token: str) -> str:
    return f"bench-stop-{token}"


def _topic(token: str) -> str:
    return f"bench-word-{token}"


@dataclass(frozen=True, slots=True)
class DaskLine:
    """The connection of a running dask task to the coordinator."""

    address: str
    """address of the worker that runs the task"""
    _worker: Worker
    _task: str
    _stop: Event
    _topic: str

    @staticmethod
    def here(token: str) -> DaskLine:
        """Return the connection to the coordinator for the dask task that calls this.

        ``token`` is the token of the task's order.
        """
        from distributed import Event, get_client, get_worker

        worker = get_worker()
        stop = Event(_stop_name(token), client=get_client())
        return DaskLine(worker.address, worker, str(worker.get_current_task()), stop, _topic(token))

    def report(self, text: str) -> None:
        """Send a message to the listeners without waiting for them."""
        self._worker.log_event(self._topic, text)

    def stop_requested(self, *, within_s: float) -> bool:
        """Wait at most ``within_s`` seconds for a request to stop.

        Return True if a stop was requested, or if the scheduler cannot be reached or has canceled the task.
        """
        try:
            requested: bool = self._stop.wait(timeout=within_s)
        except OSError:
            return True
        task = self._worker.state.tasks.get(self._task)
        return requested or task is None or task.state == "cancelled"
