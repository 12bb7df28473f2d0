"""Hand the shards of a run out to a cluster, take their journals in, and make the run's own journal of them.

Example::

    outcome = await execute_on_cluster(plan, environment=environment, observer=display)
    outcome = await execute_on_cluster(plan, environment=environment, resume=Path("checkpoints/r1"))

No more shards are out at once than there were slots at the start, and each has that part of every rate limit. A lost
worker's shard is run again by dask; whatever else goes wrong ends the shard, not the run: finished shards stay.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio

from bench.cluster.cutting import cut
from bench.cluster.dask import CONNECT_S, Cluster, Task
from bench.cluster.order import Order, Returned, Shard
from bench.cluster.saying import Gathered, Word
from bench.cluster.shelf import Shelf
from bench.cluster.worker import about, another_version, forget, kept, refusal, run_shard
from bench.config.run import new_run_id
from bench.engine import Observer, Outcome, Silent, Stop, execute
from bench.engine.codestate import CodeState
from bench.engine.live import Failure
from bench.engine.meta import check_identity, resume_data, run_meta
from bench.engine.outcome import STOPPED_EXIT, exit_code_of, job_outcomes, status_of
from bench.engine.run import PAUSE_FILE, RUN_LOG, inmost, results_folder
from bench.engine.stopping import GRACE_S, Stopping, watching
from bench.errors import IdentityError, UsageError
from bench.events import log, run_log
from bench.journal import Journal, Reader, RunMeta, RunState
from bench.journal.places import CHECKPOINTS
from bench.journal.rows import now
from bench.plan import Plan
from bench.settings import Environment
from bench.version import __version__

LOOK_EVERY_S = 0.1
WATCH_EVERY_S = 1.0
WAY_S = 7.0
"""after a worker's own grace: time for its journal to arrive"""
ANSWER_S = 15.0
NO_WORKER_S = 30.0
SILENT_S = 120.0
"""a worker that says nothing for so long is dropped, and its shard run elsewhere; the second time it is given up"""
ONLY_HERE = frozenset(
    {
        "cluster", "shards", "shard", "run_id", "output", "on_end", "sign", "key", "download", "publishable",
        "min_score", "max_time", "judge_calibration",
    }
)  # fmt: skip
"""flags that are the coordinator's business"""


async def execute_on_cluster(
    plan: Plan,
    *,
    environment: Environment,
    observer: Observer | None = None,
    resume: Path | None = None,
    silent_s: float = SILENT_S,
) -> Outcome:
    """Run a plan on the cluster that its request names; what came back is kept whatever happens.

    Raises:
        UsageError: no cluster there, a selection that cannot be cut, or a worker that cannot take part.
        IdentityError, Locked, JournalError: as the engine's own ``execute``.
    """
    folder = None if resume is None else resume if resume.is_dir() else resume.parent
    if folder is not None and not Shelf(folder).is_there:
        await _refuse_local(folder)
        # every shard is in the run's own journal: what failed is tried again here
        return await execute(plan, environment=environment, observer=observer, resume=folder)
    token = secrets.token_hex(8)
    try:
        async with Cluster.open(_address(plan), token=token) as cluster:
            slots = sum((await _workers(cluster)).values())
            plan = await _settled(plan, folder, slots)
            run = ClusterRun(plan, environment, observer or Silent(), cluster, token, silent_s, slots)
            return await run.execute(resumed=folder is not None)
    except BaseExceptionGroup as group:
        raise inmost(group) from group


def _address(plan: Plan) -> str:
    assert plan.request.cluster is not None
    return plan.request.cluster


async def _refuse_local(folder: Path) -> None:
    async with Reader.open(folder) as reader:
        begun_here = "merged" not in reader.meta.extra
    if begun_here:
        raise UsageError(
            f"run {folder.name} was not started on a cluster, and a run's shards are made at its start",
            hint="resume it without --cluster, or start another run",
        )


async def _workers(cluster: Cluster) -> dict[str, int]:
    """The workers of a cluster; those of a local one are there at once."""
    with anyio.move_on_after(CONNECT_S):
        while not (found := await cluster.slots()):  # noqa: ASYNC110  a scheduler tells nobody of its workers
            await anyio.sleep(LOOK_EVERY_S)
        return found
    raise UsageError(
        f"--cluster {cluster.address}: the scheduler has no worker",
        hint=f"start some with: dask worker {cluster.address} --nthreads 1",
    )


async def _settled(plan: Plan, folder: Path | None, slots: int) -> Plan:
    """Fix the run id and the number of shards, which a resumed run cannot change."""
    request = plan.request
    shards = request.shards or slots
    if folder is not None:
        async with Reader.open(folder) as reader:
            stored = reader.meta.request
        if request.shards != stored["shards"]:
            raise IdentityError(
                f"--shards of run {folder.name} cannot change: it has {stored['shards']}",
                hint="leave --shards out; the number of workers may change",
            )
        return plan
    run_id = request.run_id or new_run_id(now().date(), secrets.token_hex(4))
    return replace(plan, request=request.model_copy(update={"run_id": run_id, "shards": shards}))


@dataclass(slots=True)
class Out:
    """A shard that is with a worker."""

    order: Order
    task: Task[Returned]
    dropped: int = 0
    """workers that were taken from it because they said nothing"""


@dataclass(slots=True)
class ClusterRun:
    """One coordinator's work on one run."""

    plan: Plan
    environment: Environment
    observer: Observer
    cluster: Cluster
    token: str
    silent_s: float
    slots: int
    out: list[Out] = field(default_factory=list)
    done: list[Order] = field(default_factory=list)
    """what a worker need not keep any longer"""
    problems: dict[int, str] = field(default_factory=dict)
    """by shard: why it did not come to its end"""
    refused: dict[str, Failure] = field(default_factory=dict)
    """by job: why it takes no more work"""
    near: dict[str, list[str]] = field(default_factory=dict)
    """shard -> workers that have a journal of it"""
    stopping: Stopping = field(init=False)
    progress: Gathered = field(init=False)
    no_worker_since: float | None = None
    watch_at: float = 0.0

    def __post_init__(self) -> None:
        self.progress = Gathered(self.plan, self.run_id)
        self.stopping = Stopping(
            grace_s=GRACE_S + WAY_S,
            on_stop=lambda reason: self.observer.stopping(reason, self.progress.in_flight),
        )

    @property
    def run_id(self) -> str:
        assert self.plan.request.run_id is not None
        return self.plan.request.run_id

    @property
    def folder(self) -> Path:
        return self.plan.workspace / CHECKPOINTS / self.run_id

    @property
    def shelf(self) -> Shelf:
        return Shelf(self.folder)

    # ---- from beginning to end

    async def execute(self, *, resumed: bool) -> Outcome:
        """Check every worker, hold the run, have the shards carried out, and merge what there is."""
        shards = cut(self.plan, self.plan.request.shards or self.slots)
        await self._refuse_unfit(shards[0])
        async with self._held(resumed=resumed) as journal:
            meta = journal.meta
            todo = [shard for shard in shards if not await self._recalled(shard)]
            self.near = await self._survivors(todo[0]) if todo and resumed else {}
            self.cluster.listen(self._hear)
            watched = watching(
                self.stopping, pause_file=self.folder / PAUSE_FILE, max_time_s=self.plan.request.max_time
            )
            with run_log(results_folder(self.plan) / self.run_id / RUN_LOG, self.run_id):
                async with watched:
                    self.observer.launched(self.progress)
                    log().info("cluster_run_started", shards=len(shards), todo=len(todo), slots=self.slots)
                    with self.stopping.scope:
                        await self._work(deque(todo))
                        await self._tidy()
        outcome = await self._ended(shards, meta)
        self.observer.finished(outcome)
        return outcome

    @asynccontextmanager
    async def _held(self, *, resumed: bool) -> AsyncIterator[Journal]:
        """The run's own journal, held until it is made anew from the shards."""
        code = CodeState.read(self.environment)
        if resumed:
            async with Journal.resume(self.folder) as journal:
                check_identity(journal.meta, self.plan)
                await journal.record_resume(resume_data(self.plan, code))
                yield journal
            return
        async with Journal.create(self.folder, run_meta(self.plan, self.run_id, code)) as journal:
            self.shelf.folder.mkdir()
            yield journal

    async def _ended(self, shards: list[Shard], meta: RunMeta) -> Outcome:
        """Merge the shelf and say how the run stands, as the engine does."""
        await self.shelf.merge_into(meta)
        stop = self.stopping.reason
        jobs = await job_outcomes(self.plan, self.folder, self.refused)
        status, code = status_of(self.plan, jobs, stop, self.refused), exit_code_of(jobs, stop, self.refused)
        if self.problems and stop is None:
            status, code = RunState.STOPPED, STOPPED_EXIT
        message = self._message(stop)
        async with Journal.resume(self.folder) as journal:
            await journal.set_state(status, message)
        if stop is None and not self.problems and not self.refused:
            self.shelf.clear()
        done = sum(bar.done + bar.failed for lane in self.progress.lanes.values() for bar in lane.phases.values())
        return Outcome(
            run_id=self.run_id,
            folder=self.folder,
            status=status,
            exit_code=code,
            message=message,
            jobs=jobs,
            stop=stop,
            done_now=done,
            cost_usd=str(self.progress.cost_usd),
            unknown_costs=self.progress.unknown_costs,
        )

    def _message(self, stop: Stop | None) -> str:
        """Every shard that did not come to its end, each reason once."""
        refusals = [failure.message for failure in self.refused.values()]
        texts: dict[str, list[str]] = {}
        for number, text in sorted(self.problems.items()):
            texts.setdefault(text, []).append(str(number))
        found = [f"shard {', '.join(numbers)}: {text}" for text, numbers in texts.items()]
        return "; ".join([*([stop.value] if stop else []), *dict.fromkeys(refusals), *found])

    # ---- before the first order

    async def _refuse_unfit(self, shard: Shard) -> None:
        """Ask every worker whether it could take part, before anything is begun."""
        hint = "install the same bench with its extra [cluster] on every worker"
        for worker, version in (await self.cluster.ask(about, within_s=ANSWER_S)).items():
            if isinstance(version, BaseException):
                raise UsageError(f"worker {worker}: {type(version).__name__}: {version}", hint=hint)
            if version != __version__:
                raise UsageError(f"worker {worker}: {another_version(version, __version__).message}", hint=hint)
        for worker, found in (await self.cluster.ask(refusal, self._order(shard), within_s=self.silent_s)).items():
            if isinstance(found, BaseException):
                raise UsageError(f"worker {worker}: {type(found).__name__}: {found}", hint=hint)
            if found is not None:
                raise UsageError(f"worker {worker}: {found.message}", hint=found.hint)

    async def _survivors(self, shard: Shard) -> dict[str, list[str]]:
        """Which workers still have a journal of which shard."""
        found: dict[str, list[str]] = {}
        for worker, names in (await self.cluster.ask(kept, self._order(shard), within_s=ANSWER_S)).items():
            for name in names if isinstance(names, list) else ():
                found.setdefault(name, []).append(worker)
        return found

    async def _recalled(self, shard: Shard) -> bool:
        """A shard that is done needs no worker; its counts are those of its journal."""
        if not await self.shelf.is_done(shard, self.plan):
            return False
        async with Reader.open(self.shelf.path(shard)) as reader:
            states = {job.key: await reader.states(job.key) for job in self.plan.jobs}
        self.progress.hear(Word(shard=shard.number, attempt="stored", worker="", states=states))
        self.progress.took_back(shard.number)
        return True

    def _order(self, shard: Shard) -> Order:
        request = self.plan.request
        flags = request.model_dump(mode="json", exclude_unset=True, exclude=set(ONLY_HERE))
        if request.max_cost is not None:
            flags["max_cost"] = max(request.max_cost - float(self.progress.cost_usd), 1e-9)
        calibrates = shard.number == 1 and (request.judge_calibration or request.publishable)
        name = f"{self.run_id}.{shard}"
        flags |= {"start": shard.start, "end": shard.end, "run_id": name, "judge_calibration": calibrates}
        return Order(
            shard=shard,
            run_id=self.run_id,
            version=__version__,
            request=flags,
            digest=self.plan.digest,
            identity=self.plan.identity,
            workspace=str(self.plan.workspace.resolve()),
            env_file=self._named_env_file(),
            share=1 / min(self.slots, shard.count),
            token=self.token,
        )

    def _named_env_file(self) -> str | None:
        """The file of ``--env-file``; a worker's own workspace has its own ``.env``."""
        named = self.environment.dotenv
        return None if named is None or named == self.plan.workspace / ".env" else str(named.resolve())

    # ---- while shards are out

    async def _work(self, waiting: deque[Shard]) -> None:
        told = False
        while self.out or (waiting and not self.stopping.asked):
            while waiting and len(self.out) < self.slots and not self.stopping.asked:
                await self._hand_out(waiting.popleft())
            if self.stopping.asked and not told:
                told = True
                await self.cluster.stop()
            await anyio.sleep(LOOK_EVERY_S)
            for one in [one for one in self.out if one.task.state != "pending"]:
                await self._take_in(one)
            if not self.cluster.alive:
                self._give_up_all(f"the scheduler {self.cluster.address} is gone")
                self.problems |= {shard.number: f"the scheduler {self.cluster.address} is gone" for shard in waiting}
                return
            self._keep_budget()
            if anyio.current_time() >= self.watch_at:
                self.watch_at = anyio.current_time() + WATCH_EVERY_S
                await self._watch_workers(waiting)

    async def _hand_out(self, shard: Shard) -> None:
        journal, phases = await self.shelf.take(shard)
        order = replace(self._order(shard), journal=journal, phases=phases)
        name = order.shard_run_id
        task = self.cluster.submit(run_shard, order, name=f"{name}-{self.token}", near=self.near.get(name, ()))
        self.out.append(Out(order, task))
        log().info("shard_handed_out", shard=shard.number, phases=phases)

    async def _take_in(self, one: Out) -> None:
        """Store what came back, and say of a shard that is not whole why."""
        shard = one.order.shard
        self.out.remove(one)
        worker = self.progress.worker_of(shard.number)
        if one.task.state == "finished":
            await self._store(one.order, await one.task.result())
        elif one.task.state == "error":
            error = await one.task.error()
            self.problems[shard.number] = f"lost with its worker ({worker}), and again when it was run anew: {error}"
        else:
            self.problems[shard.number] = f"the scheduler {self.cluster.address} let it go"
        self.progress.took_back(shard.number)
        log().info("shard_taken_in", shard=shard.number, worker=worker, problem=self.problems.get(shard.number))

    async def _store(self, order: Order, returned: Returned) -> None:
        number = order.shard.number
        if returned.word is not None:
            self.progress.hear(returned.word)
        if returned.journal is not None:
            await self.shelf.put(order.shard, returned.journal)
        if returned.refusal is not None:
            found = returned.refusal
            self.problems[number] = f"worker {found.worker}: {found.message} ({found.hint})"
        for job, text in returned.stopped.items():
            self.refused.setdefault(job, Failure(kind="stopped", message=text))
        if returned.stop == Stop.MAX_COST:
            self.stopping.ask(Stop.MAX_COST)
        elif returned.stop is not None and not self.stopping.asked:
            self.problems[number] = f"stopped early ({returned.stop})"
        elif returned.stop is None and returned.journal is not None:
            self.done.append(order)

    async def _tidy(self) -> None:
        """Have the workers delete what is on the shelf."""
        if self.done and self.cluster.alive:
            names = [order.shard_run_id for order in self.done]
            await self.cluster.ask(forget, self.done[0], names, within_s=ANSWER_S)

    def _keep_budget(self) -> None:
        limit = self.plan.request.max_cost
        if limit is not None and float(self.progress.cost_usd) >= limit:
            self.stopping.ask(Stop.MAX_COST)

    async def _watch_workers(self, waiting: deque[Shard]) -> None:
        """Drop a worker that says nothing; give up when no worker is left."""
        for one in list(self.out):
            number = one.order.shard.number
            if self.progress.silent_s(number) < self.silent_s:
                continue
            worker = self.progress.worker_of(number)
            text = f"its worker {worker} said nothing for {self.silent_s:.0f} s"
            self.progress.took_back(number)
            self.progress.events.append(f"shard {one.order.shard}: {text}")
            one.dropped += 1
            if one.dropped > 1 or len(await self.cluster.slots()) < 2:
                self.out.remove(one)
                self.problems[number] = text
                await one.task.cancel()
            else:
                await self.cluster.drop(worker)
        if self.out and not await self._someone():
            self._give_up_all(f"no worker was left for {NO_WORKER_S:.0f} s")
            self.problems |= {shard.number: f"no worker was left for {NO_WORKER_S:.0f} s" for shard in waiting}
            waiting.clear()

    async def _someone(self) -> bool:
        """Some worker is there, or was a short while ago."""
        if await self.cluster.slots():
            self.no_worker_since = None
            return True
        self.no_worker_since = self.no_worker_since or anyio.current_time()
        return anyio.current_time() - self.no_worker_since < NO_WORKER_S

    def _give_up_all(self, text: str) -> None:
        self.problems |= {one.order.shard.number: text for one in self.out}
        self.out.clear()

    def _hear(self, text: str) -> None:
        self.progress.hear(Word.read(text))
