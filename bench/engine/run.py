"""Execute a plan: open the journal, the providers and the models, run every lane, and return the outcome.

If a new run cannot begin, for example because a setting is missing, its folders are removed.

Example::

    outcome = await execute(make_plan(catalog, request, environment), environment=environment)
    outcome = await execute(plan, environment=environment, observer=display, resume=Path("checkpoints/r1"))
    with StartupFolders.of(folder, report) as startup:
        startup.journal_created = True     # after the journal was created
        ...                     # an error here, such as a missing key, removes the folders
        startup.run_begun = True    # from here on nothing is removed
"""

from __future__ import annotations

import gc
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from pathlib import Path

import anyio
import anyio.to_thread

from bench.config.run import new_run_id
from bench.engine.batches import batching
from bench.engine.budget import Budget
from bench.engine.corpora.reused_builds import reuse_builds
from bench.engine.items.judge_calibration import calibrate_judges
from bench.engine.lane import run_lane
from bench.engine.lane_setup import open_lanes, skip_lane
from bench.engine.models import OpenModels, open_models
from bench.engine.open_lane import OpenLane
from bench.engine.outcome import Failure, Outcome, exit_code_of, job_outcomes, status_of
from bench.engine.progress import Observer, Progress, SilentObserver
from bench.engine.progress_counter import ProgressCounter
from bench.engine.resume import show_own_scoring
from bench.engine.run_context import RunContext, RunScope
from bench.engine.run_metadata import CodeState, check_identity, resume_data, run_meta
from bench.engine.stopping import PauseFile, Stop, StopControl, watch_stops
from bench.errors import DiskFull, JournalError, UsageError, innermost_exception
from bench.events import log, run_log
from bench.http import Http, Limits
from bench.http.adaptive_concurrency import CEILING
from bench.journal import Journal, Reader, RunMeta, RunState
from bench.journal.file import NAME
from bench.journal.paths import CHECKPOINTS, report_folder
from bench.journal.queries import disk_full_text
from bench.journal.rows import now
from bench.plan import Plan
from bench.plan.unpriced_calls import require_prices
from bench.settings import Environment
from bench.visible_text import counted, money_text

ROWS_A_SLOT = 10
"""number of rows that may wait to become durable, for each concurrent request"""
PAUSE_FILE = "pause"
RUN_LOG = "run.log"
SHARDS = "shards"
"""name of the subfolder that a run's folder has while the run is distributed over several workers"""
GC_THRESHOLDS = (20_000, 20, 50)
"""thresholds for `gc.set_threshold` during a run"""
FROZEN_BY_PYTHON = 1_000
"""more frozen objects than this mean that other code has called `gc.freeze`; Python itself freezes 375 (3.12)"""
AnnounceRun = Callable[[RunMeta], None]
"""function that publishes the start of a run"""


async def execute(
    plan: Plan,
    *,
    environment: Environment,
    observer: Observer | None = None,
    resume: Path | None = None,
    share: float = 1.0,
    scope: RunScope | None = None,
    announce: AnnounceRun | None = None,
) -> Outcome:
    """Run a plan to its end, or until it is stopped.

    ``resume`` is the run folder or journal of a run to continue. ``share`` is the fraction of every rate limit that
    this process may use. ``scope`` is the part of the plan to run (None = all of it). ``announce`` publishes a new run;
    it is called when everything is open, before the first call.

    Raises:
        UsageError: the run id exists, the run is distributed over workers, or no call has a price for ``--max-cost``.
        IdentityError: the plan differs from the plan of the run to continue.
        ConfigError: a provider or model cannot be opened; no call was made, and the folders of a new run are removed.
        Locked, JournalError: another process works on the run, or the file is not a journal.
    """
    observer, scope = observer or SilentObserver(), scope or RunScope()
    if resume is not None:
        folder = resume if resume.is_dir() else resume.parent
        if (folder / SHARDS).is_dir():
            raise UsageError(
                f"run {folder.name} is distributed over several workers and has not ended",
                hint=f"finish the run first: bench resume {folder.name}",
            )
        startup = StartupFolders(run_begun=True)
        return await Execution(plan, environment, observer, folder, share, scope, startup).execute(resume)
    require_prices(plan)
    run_id = plan.request.run_id or new_run_id(now().date(), secrets.token_hex(4))
    folder, results = plan.workspace / CHECKPOINTS / run_id, results_folder(plan)
    with StartupFolders.of(folder, report_folder(results, run_id)) as startup:
        results.mkdir(parents=True, exist_ok=True)  # a run without a place for its report is not begun
        return await Execution(plan, environment, observer, folder, share, scope, startup, announce).execute()


@dataclass(slots=True)
class Execution:
    """One run in this process, from the journal to the outcome."""

    plan: Plan
    environment: Environment
    observer: Observer
    folder: Path
    share: float
    scope: RunScope
    startup: StartupFolders
    announce: AnnounceRun | None = None
    progress: Progress = field(default_factory=Progress)
    stopping: StopControl = field(init=False)

    def __post_init__(self) -> None:
        self.stopping = StopControl(on_stop=lambda reason: self.observer.stopping(reason, self.progress.in_flight))

    async def execute(self, resume: Path | None = None) -> Outcome:
        """Run the plan with a new journal, or with the existing journal ``resume``, and return the outcome.

        If the disk becomes full, this also returns an outcome.
        """
        plan, code = self.plan, CodeState.read(self.environment)
        bound = ROWS_A_SLOT * request_slots(plan)
        if resume is not None:
            journal = Journal.resume(resume, bound=bound)
        else:
            journal = Journal.create(self.folder, run_meta(plan, self.folder.name, code, self.environment), bound=bound)
        try:
            pause = PauseFile(self.folder / PAUSE_FILE)
            async with watch_stops(self.stopping, max_time_s=plan.request.max_time) as watchers, journal:
                self.startup.journal_created = True
                pause.watch(self.stopping, watchers)
                if resume is not None:
                    if not self.scope.is_rescore:
                        check_identity(journal.meta, plan)
                    await journal.record_resume(resume_data(plan, code))
                run_id = journal.meta.run_id
                with run_log(report_folder(results_folder(plan), run_id) / RUN_LOG, run_id):
                    outcome = await self._run(journal, resumed=resume is not None)
        except DiskFull as full:
            outcome = await self._disk_full(full)
        except BaseExceptionGroup as group:
            cause = innermost_exception(group)
            if not isinstance(cause, DiskFull):
                raise cause from group
            outcome = await self._disk_full(cause)
        self.observer.finished(outcome)
        return outcome

    async def _run(self, journal: Journal, *, resumed: bool) -> Outcome:
        """Open the HTTP client, the models and the lanes, then run the lanes and return the outcome."""
        request, run_id = self.plan.request, journal.meta.run_id
        self.progress.run_id = run_id
        budget = Budget(
            max_usd=None if request.max_cost is None else Decimal(str(request.max_cost)),
            stopping=self.stopping,
            progress=self.progress,
        )
        rates = {name: Limits(rps=rate) for name, rate in request.rates_per_s().items()}
        traffic = Http(concurrency=request.concurrency, rates=rates, share=self.share, attempt_s=request.timeout)
        async with traffic as http, AsyncExitStack() as stack:
            self.progress.watch(http)
            run = RunContext(
                run_id=run_id,
                folder=self.folder,
                plan=self.plan,
                journal=journal,
                http=http,
                environment=self.environment,
                progress=self.progress,
                stopping=self.stopping,
                budget=budget,
                scope=self.scope,
                resumed=resumed,
            )
            budget.resume(*await journal.spending())
            models = open_models(run)
            stack.callback(models.close)
            lanes = await self._open_lanes(run, stack, models)
            await self._run_lanes(run, lanes, models)
        return await self._outcome(run, lanes)

    async def _open_lanes(self, run: RunContext, stack: AsyncExitStack, models: OpenModels) -> list[OpenLane]:
        """Open the lanes and their providers. A missing setting is reported here, before the first call."""
        if self.scope.copy_rows is not None:
            await self.scope.copy_rows(run.journal)
        rescore = self.scope.is_rescore
        counter = await ProgressCounter.over(run.plan, run.progress, self.folder, resumed=run.resumed and not rescore)
        run.journal.on_commit = counter
        run.journal.on_failure = run.stopping.now
        run.journal.oldest_s = run.http.oldest_s
        run.journal.index_wait = run.progress.index_wait
        lanes = await open_lanes(stack, run, models, request_slots(run.plan))
        await reuse_builds(run, lanes)
        counter.expect({lane.key: lane.pending for lane in lanes}, rescore=rescore)
        if run.resumed and not rescore and any(lane.pending.count for lane in lanes):
            await show_own_scoring(run)
        return lanes

    async def _run_lanes(self, run: RunContext, lanes: list[OpenLane], models: OpenModels) -> None:
        if self.announce is not None:
            await anyio.to_thread.run_sync(self.announce, run.journal.meta)
        self.startup.run_begun = True
        await run.journal.set_state(RunState.RUNNING)
        run.progress.watch_rows(lambda: run.journal.pending)
        self.observer.launched(run.progress)
        log().info("run_started", digest=run.plan.digest, lanes=len(lanes), resumed=run.resumed)
        with run.stopping.scope, rare_garbage_collection():
            for planned in run.plan.lanes:
                if planned.skipped is not None:
                    await skip_lane(run, planned)
            wanted = run.plan.request.judge_calibration or run.plan.request.publishable
            if wanted and any(lane.pending.count for lane in lanes):
                await calibrate_judges(run, models)
            async with batching(models.batches), anyio.create_task_group() as workers:
                for lane in lanes:
                    if not lane.plan.shares:
                        workers.start_soon(run_lane, lane)

    async def _outcome(self, run: RunContext, lanes: list[OpenLane]) -> Outcome:
        """Wait until all rows are durable, then return the outcome that the journal shows."""
        await run.journal.flush()
        stop = run.stopping.reason
        stopped = {key: failure for lane in lanes for key, failure in lane.breaker.stopped_jobs.items()}
        hidden = False
        if self.scope.end_rescore is not None:
            hidden = not self._is_scored(stop, stopped)
            await self.scope.end_rescore(run.journal, not hidden)
        jobs = await job_outcomes(run.plan, self.folder, stopped)
        status = status_of(run.plan, jobs, stop, stopped, pending=hidden)
        done = sum(run.journal.durable.values())
        message = self._stop_message(stop) if stop else next((failure.message for failure in stopped.values()), "")
        if not message and not any(lane.pending.count for lane in lanes):
            message = "nothing left to do"
        if hidden:
            planned = counted(self.progress.planned, "item(|s)")
            ended = f"{self.progress.ended} of {planned} ended" if self.progress.planned else "no item was scored"
            message = f"{message}; {ended}, and the results are still those of the earlier scoring"
        else:
            await run.journal.set_state(status, message)
        log().info("run_ended", status=status.value, phases=done, message=message)
        return Outcome(
            run_id=run.run_id,
            folder=self.folder,
            status=status,
            exit_code=exit_code_of(jobs, stop, stopped, pending=hidden),
            message=message,
            jobs=jobs,
            stop=stop,
            rescore=self.scope.command if hidden else "",
            cost_usd=str(run.progress.cost_usd),
            unknown_costs=run.progress.unknown_costs,
        )

    def _is_scored(self, stop: Stop | None, stopped: Mapping[str, Failure]) -> bool:
        """Return True if a rescore has ended, so that its verdicts can be shown as the results of the run."""
        return not stopped and (stop is None or 0 < self.progress.planned <= self.progress.ended)

    def _stop_message(self, stop: Stop) -> str:
        """Return the reason why the run stopped; if its budget is used up, the reason contains the amount spent."""
        if stop is not Stop.MAX_COST:
            return stop.value
        spent, most = self.progress.cost_usd, self.plan.request.max_cost
        return f"{stop.value}: USD {money_text(spent)} of {most} were spent; resume with a larger --max-cost"

    async def _disk_full(self, full: DiskFull) -> Outcome:
        """Return the outcome of a run that stopped because the disk is full.

        Raises:
            DiskFull: the journal cannot be read, or was not created.
        """
        if not (self.folder / NAME).is_file():
            raise DiskFull("the disk is full; the run was not started", hint="make room, then repeat the command")
        self.startup.run_begun = True
        try:
            async with Reader.open(self.folder) as reader:
                message = disk_full_text(await reader.counts())
                run_id = reader.meta.run_id
        except JournalError as unread:
            text = "the disk is full; every finished phase is stored"
            raise DiskFull(text, where=full.where, hint=full.hint) from unread
        return Outcome(
            run_id=run_id,
            folder=self.folder,
            status=RunState.STOPPED,
            exit_code=full.exit_code,
            message=message,
            jobs=await job_outcomes(self.plan, self.folder, {}),
        )


@dataclass(slots=True)
class StartupFolders:
    """The folders of a new run. They are removed if the run does not begin."""

    journal_created: bool = False
    """True after this process has created the journal, so that the folders and their content are its own"""
    run_begun: bool = False
    """True after the run has begun, so that no folder is removed"""

    @classmethod
    @contextmanager
    def of(cls, *folders: Path) -> Iterator[StartupFolders]:
        """At the end of the ``with`` block, remove the folders that did not exist before, unless the run has begun."""
        new = [folder for folder in folders if not folder.exists()]
        parents = list(dict.fromkeys(up for folder in folders for up in folder.parents if not up.exists()))
        startup = cls()
        try:
            yield startup
        finally:
            if not startup.run_begun:
                for folder in new if startup.journal_created else ():
                    shutil.rmtree(folder, ignore_errors=True)
                for empty in (*new, *sorted(parents, key=lambda up: -len(up.parts))):
                    with suppress(OSError):  # another process's run may be in it by now
                        empty.rmdir()


def results_folder(plan: Plan) -> Path:
    """Return the folder that contains the report folders of runs."""
    return Path(plan.request.output) if plan.request.output else plan.workspace / "results"


def request_slots(plan: Plan) -> int:
    """Return the maximum number of concurrent requests; for ``--concurrency auto``, the largest value it can choose."""
    return CEILING if plan.request.concurrency == "auto" else plan.request.concurrency


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """In the ``with`` block, let the garbage collector run less often and skip the objects that exist now.

    With Python's default thresholds, the garbage collector uses a seventh of the CPU time of an item.
    """
    before = gc.get_threshold()
    if not has_frozen_objects():
        gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not has_frozen_objects():
            gc.unfreeze()


@cache
def has_frozen_objects() -> bool:
    """Return True if other code of this process has called `gc.freeze` before the first run.

    The result is cached, because counting frozen objects is slow.
    """
    return gc.get_freeze_count() > FROZEN_BY_PYTHON
