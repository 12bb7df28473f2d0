"""Run a shard (a part of a run) on a worker, and return its journal.

If a worker is killed, a new worker on the same disk continues its shard. A worker on another disk starts the shard
again, in new namespaces.

Example::

    returned = run_shard(order)             # a dask task; the coordinator stores returned.pack

The workspace of a worker is the value of ``MEMORYBENCH_WORKSPACE``. If this variable is not set, the path of the
coordinator's workspace is used. If this path does not exist here, the working directory is used. A secret is looked up
in these places, in this order: the worker's environment, the env file of the order, ``.env`` in the workspace.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
import uuid
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_fixed

import bench.version
from bench.cluster.backend import CoordinatorLine, DaskLine
from bench.cluster.messages import Refusal, ShardCounters, ShardOrder, ShardResult, pack
from bench.config.catalog import Catalog
from bench.config.run import RunRequest
from bench.engine import Outcome, Progress, SilentObserver, Stop, execute
from bench.engine.run import PAUSE_FILE
from bench.errors import BenchError, IdentityError, Locked, UsageError, innermost_exception
from bench.journal import Reader, RunState
from bench.journal.lease_holder import HEARTBEAT_S, STALE_S
from bench.journal.paths import CHECKPOINTS, JOURNAL
from bench.plan import Plan, changes, make_plan
from bench.plan.provider import require_variables
from bench.settings import Environment

WORKSPACE = "MEMORYBENCH_WORKSPACE"
SCRATCH = ".shards"
REPORT_EVERY_S = 1.0
LOOK_EVERY_S = 0.1
LOCKED_S = STALE_S + 2 * HEARTBEAT_S
"""seconds after which the lock of a dead process has expired"""


def dask_setup(worker: object) -> None:
    """Make a dask worker ignore Ctrl-C, because the coordinator asks the worker to stop.

    dask calls this function when a worker starts.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


async def bench_version() -> str:
    """Return the version of bench on this worker."""
    return bench.version.__version__


async def check_order(order: ShardOrder) -> Refusal | None:
    """Return the reason why this worker cannot run an order; None if it can."""
    try:
        await anyio.to_thread.run_sync(plan_of, order)
    except BenchError as problem:
        return Refusal.of(problem, "")
    return None


async def stored_shards(order: ShardOrder) -> list[str]:
    """Return the names of all shards that have a journal on this worker and belong to the run of the order."""
    found = (scratch_of(order) / CHECKPOINTS).glob(f"{order.run_id}.*-*/{JOURNAL}")
    return [path.parent.name.rpartition("-")[0] for path in found]


async def delete_shards(order: ShardOrder, names: list[str]) -> None:
    """Delete the data of the named shards on this worker."""
    for name in names:
        for path in scratch_of(order).glob(f"*/{name}-*"):
            shutil.rmtree(path, ignore_errors=True)


def run_shard(order: ShardOrder, line: CoordinatorLine | None = None) -> ShardResult:
    """Run a shard in this thread; return its journal, or the error that stopped it.

    If ``line`` is None, the caller must be a dask task.
    """
    line = line or DaskLine.here(order.token)
    try:
        return anyio.run(_carry_out, order, line)
    except BaseExceptionGroup as group:
        problem = innermost_exception(group)
        if not isinstance(problem, BenchError):
            raise problem from group
    except BenchError as error:
        problem = error
    return ShardResult(pack=None, refusal=Refusal.of(problem, line.address))


# --------------------------------------------------------------------------- the plan here


def workspace_of(order: ShardOrder) -> Path:
    """Return the workspace in which this worker runs an order. The docstring of this module has the rules."""
    own, theirs = os.environ.get(WORKSPACE), Path(order.workspace)
    if own:
        return Path(own)
    return theirs if theirs.is_dir() else Path.cwd()


def scratch_of(order: ShardOrder) -> Path:
    """Return the folder in which this worker runs shards. ``bench list runs`` does not show these runs."""
    return workspace_of(order) / CHECKPOINTS / SCRATCH


def plan_of(order: ShardOrder) -> tuple[Plan, Environment]:
    """Make the plan of a shard from this worker's own configs, datasets and environment variables.

    Raises:
        UsageError: this worker has another version of bench than the coordinator.
        IdentityError: a config or dataset differs from the coordinator's; the error lists the differences.
        ConfigError, DataError: something is missing here, such as a secret.
    """
    if (here := bench.version.__version__) != order.version:
        raise another_version(here, order.version)
    workspace = workspace_of(order)
    beside = Path(order.env_file) if order.env_file is not None else None
    environment = Environment.load(workspace, beside if beside is not None and beside.is_file() else None)
    plan = make_plan(Catalog.load(workspace), RunRequest.model_validate(dict(order.request)), environment)
    if plan.digest != order.digest:
        raise IdentityError(
            f"configs, datasets or variables in the workspace {workspace} differ from the coordinator's",
            changes=changes(order.identity, plan.identity),
            hint=f"give the worker the same configs, datasets and variables ({WORKSPACE} names its workspace)",
        )
    require_variables(plan.running, environment)
    return plan, environment


def another_version(here: str, wanted: str) -> UsageError:
    """Return the error for a worker with another version of bench."""
    return UsageError(
        f"bench {here} differs from the coordinator's version {wanted}",
        hint="install the same version of bench on every worker",
    )


# --------------------------------------------------------------------------- at work


async def _carry_out(order: ShardOrder, line: CoordinatorLine) -> ShardResult:
    """Run the shard until it ends, or until the coordinator asks it to stop."""
    reporter = ProgressReporter(order, line)
    async with anyio.create_task_group() as beside:
        beside.start_soon(reporter.report_forever)
        plan, environment = await anyio.to_thread.run_sync(plan_of, order)
        if await anyio.to_thread.run_sync(lambda: line.stop_requested(within_s=0)):
            beside.cancel_scope.cancel()
            return ShardResult(pack=None, stop=Stop.PAUSED)
        scratch = scratch_of(order)
        folder = await _run_folder(order, scratch / CHECKPOINTS)
        request = plan.request.model_copy(update={"run_id": folder.name})
        plan = replace(plan, workspace=scratch, request=request)
        beside.start_soon(_stop_when_requested, line, folder)
        outcome = await _execute(order, plan, environment, reporter, folder)
        beside.cancel_scope.cancel()
    whole = outcome.status in (RunState.COMPLETE, RunState.PARTIAL)
    return ShardResult(
        pack=pack(folder, whole=whole),
        whole=whole,
        counters=reporter.counters,
        stop=outcome.stop,
        stopped={job.job.key: job.stopped for job in outcome.jobs if job.stopped is not None},
        message=outcome.message,
    )


async def _execute(
    order: ShardOrder, plan: Plan, environment: Environment, reporter: ProgressReporter, folder: Path
) -> Outcome:
    """Run the engine. If the journal is locked, try again for ``LOCKED_S`` seconds.

    After this time, a lock that a dead process left has expired.
    """
    patiently = AsyncRetrying(
        retry=retry_if_exception_type(Locked), wait=wait_fixed(2), stop=stop_after_delay(LOCKED_S), reraise=True
    )
    async for attempt in patiently:
        with attempt:
            (folder / PAUSE_FILE).unlink(missing_ok=True)
            resume = folder if (folder / JOURNAL).exists() else None
            return await execute(plan, environment=environment, observer=reporter, resume=resume, share=order.share)
    raise AssertionError("unreachable")


async def _stop_when_requested(line: CoordinatorLine, folder: Path) -> None:
    """Create the engine's pause file when the coordinator asks to stop or cannot be reached."""
    while not await anyio.to_thread.run_sync(lambda: line.stop_requested(within_s=1), abandon_on_cancel=True):
        pass
    while not (folder / JOURNAL).exists():  # noqa: ASYNC110  a file sends no event
        await anyio.sleep(LOOK_EVERY_S)
    (folder / PAUSE_FILE).touch()


class ProgressReporter(SilentObserver):
    """An observer that sends the progress of a shard to the coordinator each second."""

    def __init__(self, order: ShardOrder, line: CoordinatorLine) -> None:
        self._order = order
        self._post = line
        self._attempt = uuid.uuid4().hex
        self._progress: Progress | None = None

    def launched(self, progress: Progress) -> None:
        self._progress = progress

    @property
    def counters(self) -> ShardCounters:
        """Return the current progress of the shard."""
        return ShardCounters.of(self._order.shard.number, self._attempt, self._post.address, self._progress)

    async def report_forever(self) -> None:
        while True:
            self._post.report(self.counters.text)
            await anyio.sleep(REPORT_EVERY_S)


# --------------------------------------------------------------------------- the journal on its way


async def _run_folder(order: ShardOrder, base: Path) -> Path:
    """Return the run folder in which to run the shard.

    An order can contain a journal of the shard, and this machine can have folders of the shard. Return the folder with
    the most phase rows, if it has at least as many as the journal of the order. Otherwise return the path of a new
    folder. The journal of the order is written to this folder.
    """
    stored_shards = {folder: await _phases(folder) for folder in base.glob(f"{order.name}-*")}
    furthest = max(stored_shards, key=lambda folder: stored_shards[folder], default=None)
    if furthest is not None and stored_shards[furthest] >= order.phases:
        return furthest
    folder = base / f"{order.name}-{uuid.uuid4().hex[:6]}"
    if order.pack is not None:
        order.pack.unpack_into(folder)
    return folder


async def _phases(folder: Path) -> int:
    """Return the number of phase rows in the journal of a folder; 0 if it has no journal."""
    if not (folder / JOURNAL).exists():
        return 0
    async with Reader.open(folder) as reader:
        return sum((await reader.counts()).values())
