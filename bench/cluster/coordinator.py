"""Run a plan on a cluster: send shards to the workers, collect their journals, and merge these into the run's journal.

Example::

    outcome = await execute_on_cluster(plan, environment=environment, observer=display)
    outcome = await execute_on_cluster(plan, environment=environment, resume=Path("checkpoints/r1"))
    [str(shard) for shard in shards_of(plan, 4)]          # ["1of4", "2of4", "3of4", "4of4"]

A shard is a part of the run's items. Each shard may use an equal part of every rate limit. If a worker is lost, its
shard runs again on another worker. Any other failure ends only its shard.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import anyio.to_thread

from bench.cluster.backend import Cluster, Fleet
from bench.cluster.messages import ClusterProgress, Shard, ShardCounters, ShardOrder
from bench.cluster.processes import WorkerProcesses
from bench.cluster.progress import ShardStore
from bench.cluster.round import Round, require_fit_workers, workers, workers_with_shards
from bench.config.run import new_run_id
from bench.engine import Observer, Outcome, SilentObserver, Stop, execute
from bench.engine.outcome import STOPPED_EXIT, exit_code_of, job_outcomes, status_of
from bench.engine.run import PAUSE_FILE, RUN_LOG, AnnounceRun, StartupFolders, results_folder
from bench.engine.run_metadata import CodeState, check_identity, resume_data, run_meta
from bench.engine.stopping import GRACE_S, PauseFile, StopControl, watch_stops
from bench.errors import IdentityError, UsageError, innermost_exception
from bench.events import log, run_log
from bench.journal import Journal, Reader, RunMeta, RunState
from bench.journal.paths import CHECKPOINTS, report_folder
from bench.journal.rows import now
from bench.plan import Plan
from bench.plan.ranges import cut_range
from bench.plan.unpriced_calls import require_prices
from bench.settings import Environment
from bench.visible_text import counted

TRANSFER_S = 7.0
"""seconds that a journal may take to arrive after its worker's grace period"""
SILENT_S = 120.0
"""seconds without a message after which a worker is dropped; another worker then gets its shard, at most once"""
LEAST_USD = 1e-9


def shards_of(plan: Plan, count: int) -> list[Shard]:
    """Split the items of a plan into ``count`` shards.

    With ``--workers``, no corpus is split, so there may be fewer shards.

    Raises:
        UsageError: the plan has ``--limit`` or ``--sample``, or fewer items than shards.
    """
    request = plan.request
    if request.limit is not None or request.sample is not None:
        flag = "--limit" if request.limit is not None else "--sample"
        raise UsageError(
            f"{flag} cannot be used with --cluster, because it would apply to every shard separately",
            hint="select items with --start and --end, --items, --items-of or --question-type",
        )
    positions, breaks = _selected(plan)
    if not 1 <= count <= len(positions):
        raise UsageError(
            f"--shards {count}: the run has only {counted(len(positions), 'item(|s)')}, but every shard needs an item",
            hint="remove --shards, or give a smaller number",
        )
    whole = plan.ranges[0] if plan.ranges else (1, plan.total)
    ranges = cut_range(whole, positions, breaks, count, corpora_whole=plan.workers > 1)
    return [Shard(number=at, count=len(ranges), start=a, end=b) for at, (a, b) in enumerate(ranges, start=1)]


def _selected(plan: Plan) -> tuple[list[int], list[int]]:
    """Return the sorted positions of the selected items, and the indexes in this list at which a corpus begins."""
    corpora: dict[int, list[str]] = {}
    for benchmark in {lane.benchmark.name: lane.benchmark for lane in plan.running}.values():
        for ref in benchmark.dataset.items(benchmark.selection):
            corpora.setdefault(ref.position, []).append(ref.corpus)
    positions = sorted(corpora)
    breaks = [
        at
        for at, (before, here) in enumerate(pairwise(positions), start=1)
        if not set(corpora[before]) & set(corpora[here])
    ]
    return positions, breaks


async def execute_on_cluster(
    plan: Plan,
    *,
    environment: Environment,
    observer: Observer | None = None,
    resume: Path | None = None,
    silent_s: float = SILENT_S,
    announce: AnnounceRun | None = None,
) -> Outcome:
    """Run a plan in shards, on the cluster or the worker processes that its request names.

    ``resume`` is the folder of a run to continue. ``silent_s`` is the number of seconds without a message after which a
    worker counts as lost. ``announce`` is called before the first request of a new run, to publish the run.

    Raises:
        UsageError: the cluster is unreachable, the items cannot be split, or a worker cannot run the plan.
        IdentityError, Locked, JournalError: as in the engine's ``execute``.
    """
    folder = None if resume is None else resume if resume.is_dir() else resume.parent
    if folder is not None and not ShardStore(folder).is_there:
        await _refuse_local(folder)
        # every shard is in the run's own journal: what failed is tried again here
        return await execute(plan, environment=environment, observer=observer, resume=folder)
    if folder is None:
        require_prices(plan)
    shards_of(plan, plan.request.shards or 1)  # raises before anything has started
    token = secrets.token_hex(8)
    try:
        async with _fleet(plan, token) as cluster:
            slots = sum((await workers(cluster)).values())
            plan = await _with_shards(plan, folder, slots)
            home = folder or plan.workspace / CHECKPOINTS / str(plan.request.run_id)
            run = ClusterRun(
                plan, environment, observer or SilentObserver(), home, cluster, token, silent_s, slots, announce
            )
            return await run.execute(resumed=folder is not None)
    except BaseExceptionGroup as group:
        raise innermost_exception(group) from group


def _fleet(plan: Plan, token: str) -> AbstractAsyncContextManager[Fleet]:
    """Open the workers that run a plan: processes on this machine, or the workers of a cluster."""
    if plan.workers > 1:
        return WorkerProcesses.open(plan.workers)
    return Cluster.open(str(plan.request.cluster), token=token)


async def _refuse_local(folder: Path) -> None:
    async with Reader.open(folder) as reader:
        begun_here = "merged" not in reader.meta.extra
    if begun_here:
        raise UsageError(
            f"run {folder.name} was started in one process and cannot continue in several",
            hint="resume the run without --cluster and --workers, or start another run",
        )


async def _with_shards(plan: Plan, folder: Path | None, slots: int) -> Plan:
    """Return the plan with a run id and a number of shards.

    Raises:
        IdentityError: the run is resumed with another number of shards.
    """
    request = plan.request
    shards = request.shards or min(slots, len(_selected(plan)[0]))
    if folder is not None:
        async with Reader.open(folder) as reader:
            stored = reader.meta.request
        if request.shards != stored["shards"]:
            raise IdentityError(
                f"--shards of run {folder.name} cannot change: the run was started with --shards {stored['shards']}",
                hint="remove --shards (only the number of workers may change)",
            )
        return plan
    run_id = request.run_id or new_run_id(now().date(), secrets.token_hex(4))
    return replace(plan, request=request.model_copy(update={"run_id": run_id, "shards": shards}))


@dataclass(slots=True)
class ClusterRun:
    """One run in shards, from the first check to the merged journal."""

    plan: Plan
    environment: Environment
    observer: Observer
    folder: Path
    cluster: Fleet
    token: str
    silent_s: float
    slots: int
    announce: AnnounceRun | None = None
    stopping: StopControl = field(init=False)
    progress: ClusterProgress = field(init=False)
    round: Round = field(init=False)

    def __post_init__(self) -> None:
        self.progress = ClusterProgress(self.plan, self.run_id)
        self.stopping = StopControl(
            grace_s=GRACE_S + TRANSFER_S,
            on_stop=lambda reason: self.observer.stopping(reason, self.progress.in_flight),
        )
        self.round = Round(
            fleet=self.cluster,
            store=self.store,
            progress=self.progress,
            stopping=self.stopping,
            order=self._order,
            slots=self.slots,
            silent_s=self.silent_s,
            max_usd=self.plan.request.max_cost,
        )

    @property
    def run_id(self) -> str:
        assert self.plan.request.run_id is not None
        return self.plan.request.run_id

    @property
    def store(self) -> ShardStore:
        return ShardStore(self.folder)

    # ---- from beginning to end

    async def execute(self, *, resumed: bool) -> Outcome:
        """Check every worker, lock the run, run the shards, and merge the journals."""
        shards = shards_of(self.plan, self.plan.request.shards or self.slots)
        await require_fit_workers(self.cluster, self._order(shards[0]), within_s=self.silent_s)
        pause = PauseFile(self.folder / PAUSE_FILE)
        async with self._locked_journal(resumed=resumed) as journal:
            meta, journal.on_failure = journal.meta, self.stopping.now
            missing = [shard for shard in shards if not await self._count_stored(shard)]
            if missing and resumed:
                self.round.preferred = await workers_with_shards(self.cluster, self._order(missing[0]))
            self.cluster.listen(lambda text: self.progress.update(ShardCounters.read(text)))
            with run_log(report_folder(results_folder(self.plan), self.run_id) / RUN_LOG, self.run_id):
                async with watch_stops(self.stopping, max_time_s=self.plan.request.max_time) as watchers:
                    pause.watch(self.stopping, watchers)
                    self.observer.launched(self.progress)
                    log().info("cluster_run_started", shards=len(shards), missing=len(missing), slots=self.slots)
                    with self.stopping.scope:
                        await self.round.carry_out(deque(missing))
                        await self.round.delete_collected()
        outcome = await self._merge_and_finish(meta)
        self.observer.finished(outcome)
        return outcome

    @asynccontextmanager
    async def _locked_journal(self, *, resumed: bool) -> AsyncIterator[Journal]:
        """Create or resume the run's own journal, and hold its lock until the ``with`` block ends."""
        code = CodeState.read(self.environment)
        if resumed:
            async with Journal.resume(self.folder) as journal:
                check_identity(journal.meta, self.plan)
                await journal.record_resume(resume_data(self.plan, code))
                yield journal
            return
        with StartupFolders.of(self.folder) as startup:
            async with Journal.create(self.folder, run_meta(self.plan, self.run_id, code, self.environment)) as journal:
                startup.journal_created = True
                self.store.folder.mkdir()
                if self.announce is not None:
                    await anyio.to_thread.run_sync(self.announce, journal.meta)
                startup.run_begun = True
                yield journal

    async def _merge_and_finish(self, meta: RunMeta) -> Outcome:
        """Merge the journals of the shards, record the state of the run, and return its outcome."""
        await self.store.merge_into(meta)
        stop, refused, problems = self.stopping.reason, self.round.refused, self.round.problems
        jobs = await job_outcomes(self.plan, self.folder, refused)
        status, code = status_of(self.plan, jobs, stop, refused), exit_code_of(jobs, stop, refused)
        if problems and stop is None:
            status, code = RunState.STOPPED, STOPPED_EXIT
        message = self._message(stop)
        async with Journal.resume(self.folder) as journal:
            await journal.set_state(status, message)
        if not problems and not refused and not any(job.pending for job in jobs):
            self.store.clear()
        return Outcome(
            run_id=self.run_id,
            folder=self.folder,
            status=status,
            exit_code=code,
            message=message,
            jobs=jobs,
            stop=stop,
            cost_usd=str(self.progress.cost_usd),
            unknown_costs=self.progress.unknown_costs,
        )

    def _message(self, stop: Stop | None) -> str:
        """Return the reasons why the run, its jobs or its shards stopped early; empty if everything finished."""
        refusals = [failure.message for failure in self.round.refused.values()]
        texts: dict[str, list[str]] = {}
        for number, text in sorted(self.round.problems.items()):
            texts.setdefault(text, []).append(str(number))
        found = [f"shard {', '.join(numbers)}: {text}" for text, numbers in texts.items()]
        return "; ".join([*([stop.value] if stop else []), *dict.fromkeys(refusals), *found])

    async def _count_stored(self, shard: Shard) -> bool:
        """Add the counts of the shard's stored journal to the progress, and return True.

        If no journal of the shard is stored, or if it is incomplete or has failed items, add nothing and return False.
        """
        if not await self.store.is_done(shard, self.plan):
            return False
        async with Reader.open(self.store.path(shard)) as reader:
            states = {
                job.key: await reader.item_states(job.key, lane.benchmark.epochs)
                for lane in self.plan.lanes
                for job in lane.jobs
            }
            cost_usd, unknown = await reader.spending()
        counters = ShardCounters(shard=shard.number, attempt="stored", worker="", states=states)
        self.progress.update(replace(counters, cost_usd=cost_usd, unknown_costs=unknown))
        self.progress.shard_returned(shard.number)
        return True

    def _order(self, shard: Shard) -> ShardOrder:
        left_usd = None
        if (most := self.plan.request.max_cost) is not None:
            left_usd = max(most - float(self.progress.cost_usd), LEAST_USD)
        return ShardOrder.of(
            self.plan,
            shard,
            environment=self.environment,
            share=1 / min(self.slots, shard.count),
            left_usd=left_usd,
            token=self.token,
        )
