"""The run service of ``bench serve``: it accepts, queues and pauses runs, and continues them after a restart.

``OrderStore`` stores each requested run as a small file in ``checkpoints/.service``, and locks the workspace.

Example::

    service = Service(workspace=workspace, environment=environment, orders=orders, tasks=tasks)
    await service.start(admit({"benchmarks": ["demo"]}))
    with OrderStore.open(workspace) as orders:        # Locked if another service uses the workspace
        orders.add(RunOrder(run_id="r1", request={"benchmarks": ["demo"]}))

Each run has its own thread, so that pages stay fast. When the service closes, it cancels the runs that have not ended
after ``PATIENCE_S`` seconds.

The file of a requested run exists until the run has ended or is paused. So after a crash, the service knows which runs
to continue.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from bench.config.catalog import Catalog
from bench.config.run import RunRequest, new_run_id
from bench.config.value_rules import SEGMENT
from bench.engine import Progress, execute, resumed_plan
from bench.engine.resume import failed_items, has_failed_items, stored_request
from bench.engine.run import PAUSE_FILE
from bench.engine.run_context import RunScope
from bench.errors import BenchError, Locked, UsageError
from bench.events import log, redact
from bench.journal import Journal, Reader, RunState
from bench.journal.paths import CHECKPOINTS, JOURNAL, run_ids
from bench.receipt.files import write_atomically
from bench.report import fold
from bench.report.result_files import publish
from bench.report.summary import store_report
from bench.settings import Environment
from bench.untyped_values import Json
from bench.web.errors import RequestRefused

if TYPE_CHECKING:
    from bench.engine import Outcome, Stop


FOLDER = ".service"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """A request to run or continue one run."""

    run_id: str
    request: Mapping[str, object] | None = None
    """flags of a new run, or None to continue a run from its journal"""
    number: int = 0
    """position in the queue, counted from 1"""
    retry: bool = False
    """True to run only the failed items again"""
    paused: bool = False
    """True if the run was paused before it started: it stays out of the queue until it is resumed"""


@dataclass(frozen=True, slots=True)
class OrderStore:
    """The folder with the order files of requested runs; the service holds the lock of this folder."""

    folder: Path

    @staticmethod
    @contextmanager
    def open(workspace: Path) -> Iterator[OrderStore]:
        """Lock the workspace for this service while the ``with`` block runs.

        Raises:
            Locked: another service uses the workspace.
        """
        folder = workspace / CHECKPOINTS / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                holder = os.read(handle, 64).decode("ascii", "replace").strip() or "another process"
                raise Locked(
                    f"the workspace is served by {holder}",
                    where=str(folder),
                    hint="stop that service, or use another workspace",
                ) from error
            os.truncate(handle, 0)
            os.write(handle, f"pid {os.getpid()}\n".encode())
            yield OrderStore(folder)
        finally:
            os.close(handle)

    def add(self, order: RunOrder) -> RunOrder:
        """Write an order to disk at the end of the queue, and return the order with its queue number."""
        number = max((one.number for one in self.all()), default=0) + 1
        order = replace(order, number=number)
        write_atomically(self.folder / f"{order.run_id}.json", json.dumps(asdict(order)).encode())
        return order

    def drop(self, run_id: str) -> None:
        """Delete the order of a run; do nothing if the run has no order."""
        (self.folder / f"{run_id}.json").unlink(missing_ok=True)

    def all(self) -> list[RunOrder]:
        """Return the stored orders, sorted by queue number. Files that are not valid orders are skipped."""
        found = []
        for path in self.folder.glob("*.json"):
            with suppress(ValueError, KeyError, TypeError, OSError):
                order = RunOrder(**json.loads(path.read_text(encoding="utf-8")))
                if SEGMENT.fullmatch(order.run_id) and isinstance(order.number, int):
                    found.append(order)
        return sorted(found, key=lambda order: (order.number, order.run_id))


PATIENCE_S = 7.0
"""seconds that a closing service waits for its runs before it cancels them"""
CANCEL_S = 1.0
"""seconds that a closing service waits after the cancellation, so that each run can close its journal"""


@dataclass(slots=True)
class ActiveRun:
    """A run that is being executed in its own thread."""

    order: RunOrder
    folder: Path
    progress: Progress | None = None
    stop_reason: str | None = None
    """``pause``, ``cancel`` or ``shutdown``; None if no stop was requested"""
    next_order: RunOrder | None = None
    """order to queue when this run has ended, if a resume was requested while it was stopping"""
    ended: anyio.Event = field(default_factory=anyio.Event)
    loop: asyncio.AbstractEventLoop | None = None
    scope: anyio.CancelScope | None = None

    # an Observer

    def launched(self, progress: Progress) -> None:
        self.progress = progress
        self.request_stop()  # a stop may have been requested before the run had a folder

    def request_stop(self) -> None:
        """Create the pause file if a stop was requested and the run has a folder."""
        if self.stop_reason is not None and self.folder.is_dir():
            (self.folder / PAUSE_FILE).touch()

    def stopping(self, reason: Stop, in_flight: int) -> None:
        log().info("run_stopping", run_id=self.order.run_id, reason=str(reason), in_flight=in_flight)

    def finished(self, outcome: Outcome) -> None:
        log().info("run_finished", run_id=self.order.run_id, status=str(outcome.status))


@dataclass(slots=True)
class Service:
    """The runs of one workspace: the queue and the active runs."""

    workspace: Path
    environment: Environment
    orders: OrderStore
    tasks: TaskGroup
    max_runs: int = 1
    closing: bool = False
    stuck: bool = False
    """True if a canceled run did not end: the thread of this run keeps the process alive"""
    queue: list[RunOrder] = field(default_factory=list)
    paused: dict[str, RunOrder] = field(default_factory=dict)
    """run id -> order of a run that was paused before it started"""
    active: dict[str, ActiveRun] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    labelling: anyio.Lock = field(default_factory=anyio.Lock)
    """held while answers are drawn for labelling, and while labels are written"""

    # ------------------------------------------------------------------ requests

    def states(self) -> dict[str, str]:
        """Return run id -> state for each run of this service.

        A state is ``queued``, ``paused`` (before its start), ``running``, ``stopping`` or ``failed: REASON``.
        """
        found = {name: f"failed: {text}" for name, text in self.problems.items()} | dict.fromkeys(self.paused, "paused")
        found |= {order.run_id: "queued" for order in self.queue}
        return found | {name: "stopping" if one.stop_reason else "running" for name, one in self.active.items()}

    def costs(self) -> dict[str, str]:
        """Return run id -> USD spent so far, for each live run; calls without a known price are not included."""
        return {name: format(one.progress.cost_usd, "f") for name, one in self.active.items() if one.progress}

    def live_progress(self, run_id: str) -> Json | None:
        """Return the progress of a run that this service executes now; None for any other run."""
        one = self.active.get(run_id)
        if one is None or one.progress is None:
            return None
        progress = one.progress
        wait = progress.index_wait()
        phases: dict[str, int] = {}
        for lane in list(progress.lanes.values()):
            for phase, count in lane.phases.items():
                phases[str(phase)] = phases.get(str(phase), 0) + count.done
        return {
            "eta_s": progress.eta_s,
            "rate_per_s": progress.rate_per_s,
            "in_flight": progress.in_flight,
            "rate_limited": progress.rate_limited,
            "calls": progress.calls,
            "cost_usd": format(progress.cost_usd, "f"),
            "unknown_costs": progress.unknown_costs,
            "memories": progress.memories,
            "index_wait": {**wait.to_json(), "text": wait.text} if wait else None,
            "phases": phases,
            "events": [redact(text) for text in list(progress.events.copy())[-5:]],
        }

    async def start(self, request: RunRequest) -> str:
        """Plan a new run, add it to the queue, and return its id. If the plan fails, nothing is queued.

        Raises:
            UsageError, ConfigError, DataError: as ``bench run`` raises them before anything starts.
        """
        from bench.plan import make_plan
        from bench.plan.unpriced_calls import require_prices

        run_id = request.run_id or new_run_id(datetime.now(UTC).date(), secrets.token_hex(4))
        self._refuse_known(run_id)
        request = request.model_copy(update={"run_id": run_id})
        work = partial(make_plan, Catalog.load(self.workspace), request, self.environment)
        require_prices(await anyio.to_thread.run_sync(work))
        self._refuse_known(run_id)  # another request may have started it meanwhile
        flags = request.model_dump(mode="json", exclude_unset=True) | {"run_id": run_id}
        self._enqueue(self.orders.add(RunOrder(run_id=run_id, request=flags)))
        return run_id

    def _refuse_known(self, run_id: str) -> None:
        if (self.workspace / CHECKPOINTS / run_id / JOURNAL).exists() or self.has_run(run_id):
            raise UsageError(f"run {run_id} exists already", hint="choose another run_id, or resume this run")

    def has_run(self, run_id: str) -> bool:
        """Return True if this service has the run in its queue, executes it, or keeps it paused before its start."""
        waiting = run_id in self.paused or any(order.run_id == run_id for order in self.queue)
        return waiting or run_id in self.active

    async def resume(self, run_id: str, *, retry: bool = False) -> RunState | None:
        """Queue a run so that it continues from its journal.

        With ``retry``, only the failed items of the run are executed again; if there are none, the run is not queued,
        and its state is returned. A run that is stopping is queued when it has stopped.

        Raises:
            RequestRefused: another process has locked the run.
        """
        order, active = RunOrder(run_id=run_id, retry=retry), self.active.get(run_id)
        if active is not None:
            active.next_order = None if active.stop_reason is None else order
            return None
        if any(queued.run_id == run_id for queued in self.queue):
            return None
        paused = self.paused.pop(run_id, None)
        if paused is not None:
            self._enqueue(self.orders.add(replace(paused, paused=False)))
            return None
        async with Reader.open(self.workspace / CHECKPOINTS / run_id) as reader:
            status, can_start = await reader.status(), not retry or await has_failed_items(reader)
        if status.holder is not None:
            raise RequestRefused(
                409,
                "locked",
                f"run {run_id} is locked by {status.holder}",
                f"pause the run first with: bench pause {run_id}",
            )
        if not can_start:
            return status.state
        if not self.has_run(run_id):  # another request may have queued it meanwhile
            self._enqueue(self.orders.add(order))
        return None

    async def stop(self, run_id: str, why: str) -> str:
        """Stop a run cleanly, or remove the run from the queue; return the state of the run.

        ``why`` is ``pause`` or ``cancel``. If a queued run is paused, its order stays stored, and its state is
        ``paused``. If it is canceled, its order is deleted, and its state is ``not started``.
        """
        self.orders.drop(run_id)
        waiting = [order for order in (*self.queue, *self.paused.values()) if order.run_id == run_id]
        if waiting:
            self.queue = [order for order in self.queue if order.run_id != run_id]
            self.paused.pop(run_id, None)
            if why == "cancel":
                return "not started"
            self.paused[run_id] = self.orders.add(replace(waiting[0], paused=True))
            return "paused"
        folder = self.workspace / CHECKPOINTS / run_id
        found = self.active.get(run_id)
        if found is not None:
            found.stop_reason = why
            found.request_stop()
            return "stopping"
        async with Reader.open(folder) as reader:
            status = await reader.status()
        if status.holder is not None:
            (folder / PAUSE_FILE).touch()
            return "stopping"
        return str(status.state)

    # ------------------------------------------------------------------ the life of the service

    async def recover(self) -> list[str]:
        """Queue the runs that an earlier service left unfinished, and return their ids.

        Stored orders come first, then runs whose journals show that they were interrupted.
        """
        for order in self.orders.all():
            if order.paused:
                self.paused[order.run_id] = order
            else:
                self._enqueue(order, begin=False)
        for name in reversed(run_ids(self.workspace)):
            if await self._was_interrupted(name):
                self._enqueue(self.orders.add(RunOrder(run_id=name)), begin=False)
        found = [order.run_id for order in self.queue]
        self._begin()
        return found

    async def _was_interrupted(self, name: str) -> bool:
        if self.has_run(name):
            return False
        try:
            async with Reader.open(self.workspace / CHECKPOINTS / name) as reader:
                return (await reader.status()).state is RunState.INTERRUPTED
        except BenchError:
            return False

    async def close(self) -> None:
        """Pause all runs, and cancel a run that does not pause in time. The next start continues all these runs."""
        self.closing = True
        running = list(self.active.values())
        for one in running:
            one.stop_reason = one.stop_reason or "shutdown"
            one.request_stop()
        with anyio.move_on_after(PATIENCE_S):
            for one in running:
                await one.ended.wait()
        for one in running:
            if one.scope is not None and one.loop is not None and not one.ended.is_set():
                one.loop.call_soon_threadsafe(one.scope.cancel)
        with anyio.move_on_after(CANCEL_S):
            for one in running:
                await one.ended.wait()
        self.stuck = any(not one.ended.is_set() for one in running)

    # ------------------------------------------------------------------ the queue

    def _enqueue(self, order: RunOrder, *, begin: bool = True) -> None:
        self.problems.pop(order.run_id, None)
        self.queue.append(order)
        if begin:
            self._begin()

    def _begin(self) -> None:
        while self.queue and len(self.active) < self.max_runs and not self.closing:
            order = self.queue.pop(0)
            one = ActiveRun(order=order, folder=self.workspace / CHECKPOINTS / order.run_id)
            self.active[order.run_id] = one
            self.tasks.start_soon(self._carry_out, one)

    async def _carry_out(self, one: ActiveRun) -> None:
        run_id = one.order.run_id
        try:
            await anyio.to_thread.run_sync(partial(anyio.run, self._execute, one), abandon_on_cancel=True)
        except (BenchError, OSError) as error:  # a folder that is gone fails its run, not the service of the others
            self.problems[run_id] = redact(str(error))
            log().warning("run_refused", run_id=run_id, error=redact(str(error)))
        except Exception as error:  # a fault of ours in one run must not end the runs of others, at each start again
            self.problems[run_id] = redact(f"internal error: {type(error).__name__}: {error}")
            log().exception("run_failed", run_id=run_id)
        finally:
            if one.stop_reason != "shutdown":
                self.orders.drop(run_id)
            one.ended.set()
            self.active.pop(run_id, None)
            if one.next_order is not None and not self.closing:
                self.queue.append(self.orders.add(one.next_order))
            self._begin()

    async def _execute(self, one: ActiveRun) -> None:
        """Plan and execute one run, and publish its report. This method is called in the thread of the run."""
        from bench.plan import make_plan

        one.loop = asyncio.get_running_loop()
        catalog = Catalog.load(self.workspace)
        with anyio.CancelScope() as one.scope:
            if (one.folder / JOURNAL).exists():
                await _refuse_other_run(one.folder, one.order)
                folder, plan = await resumed_plan(
                    one.order.run_id, catalog=catalog, flags={}, environment=self.environment
                )
                scope = RunScope(item_ids=await failed_items(folder)) if one.order.retry else None
                if scope is not None and not scope.item_ids:  # it was requested while the run was stopping
                    return
                outcome = await execute(plan, environment=self.environment, observer=one, resume=folder, scope=scope)
            else:
                request = RunRequest.combine(None, dict(one.order.request or {}))
                plan = make_plan(catalog, request, self.environment)
                outcome = await execute(plan, environment=self.environment, observer=one)
            if one.stop_reason == "cancel":
                async with Journal.resume(outcome.folder) as journal:
                    await journal.set_state(RunState.STOPPED, "cancelled")
            if one.stop_reason != "shutdown":
                async with Reader.open(outcome.folder) as reader:
                    report = await fold(reader)
                    await publish(reader, report, self.workspace / "results")
                    await store_report(reader, report, self.workspace / "results")


async def _refuse_other_run(folder: Path, order: RunOrder) -> None:
    """Refuse an order whose run id was taken by another process while the order waited."""
    if order.request is None:
        return
    async with Reader.open(folder) as reader:
        started = stored_request(reader.meta)
    if started != RunRequest.combine(None, dict(order.request)):
        raise UsageError(
            f"run {order.run_id} exists already with other settings: it was started while this request waited",
            hint="request the run again with another run_id",
        )
