"""Run the phases of one item in every epoch: search, answer, evaluate.

Example::

    good = await run_item(lane, ready, ref)      # True when no phase failed and none is missing

Phases that are finished in the journal are not repeated. If a phase fails, the item ends as an error for every job that
needs the phase, and later phases do not run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TypeVar

import anyio

from bench.datasets import ItemRef
from bench.engine.items.answer import answer_item
from bench.engine.items.evaluate import Memo, evaluate_item
from bench.engine.items.item_row import failed_row
from bench.engine.items.phase_results import AnswerResult, SearchResult, item_key, phase_row
from bench.engine.items.search import search_item
from bench.engine.open_lane import OpenLane, ReadyCorpus
from bench.engine.outcome import Failure
from bench.engine.run_context import Attempt, CallOwner
from bench.errors import EvaluatorFailed, PluginFault
from bench.events import bind
from bench.fast_dataclass import dataclass
from bench.model import Call, Item, Phase
from bench.plan import NONE, Job

T = TypeVar("T")


async def run_item(lane: OpenLane, ready: ReadyCorpus, ref: ItemRef) -> bool:
    """Run one item in every epoch; return True if every phase is finished and none failed."""
    item = lane.plan.benchmark.dataset.item(ref)
    timeout_s = lane.run.plan.request.item_timeout
    good = True
    with bind(corpus=ref.corpus, item=item.id):
        if lane.run.plan.request.batch:
            epochs = [ItemEpoch(lane=lane, ready=ready, item=item, epoch=one) for one in lane.pending.epochs(item.id)]
            return await _run_together([epoch.run for epoch in epochs])
        for epoch in lane.pending.epochs(item.id):
            if lane.is_stopped:
                return False
            deadline = None if timeout_s is None else anyio.current_time() + timeout_s
            good &= await ItemEpoch(lane=lane, ready=ready, item=item, epoch=epoch, deadline=deadline).run()
    return good


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemEpoch:
    """One item in one epoch."""

    lane: OpenLane
    ready: ReadyCorpus
    item: Item
    epoch: int
    deadline: float | None = None
    """time of the event loop's clock by which all phases must have ended; None = no limit"""
    memo: Memo = field(default_factory=list)

    async def run(self) -> bool:
        """Run the phases that are not finished yet; return True if afterwards all are finished and none failed."""
        search = await self._search()
        if not isinstance(search, SearchResult):
            self._record_failure(search, self.lane.plan.jobs, concerns=self.lane.plan.jobs)
            return False
        if self.lane.last is Phase.SEARCH:
            return False
        models = self.lane.plan.answering_models
        if self.lane.run.plan.request.batch:
            return await _run_together([partial(self._answer_and_evaluate, model, search) for model in models])
        good = True
        for model in models:
            good &= await self._answer_and_evaluate(model, search)
        return good

    async def _answer_and_evaluate(self, model: str, search: SearchResult) -> bool:
        """Run the answer phase of one model, then the evaluate phase of each of its jobs.

        Return True if afterwards all these phases are finished and none failed.
        """
        model_jobs = self.lane.plan.jobs_of(model)
        open_jobs = [job for job in model_jobs if not self._is_evaluated(job)]
        jobs = [job for job in open_jobs if job.key not in self.lane.breaker.stopped_jobs]
        if not jobs:
            return not open_jobs
        answer: AnswerResult | None = None
        if model != NONE:
            answered = await self._answer(model, model_jobs, search)
            if not isinstance(answered, AnswerResult):
                self._record_failure(answered, jobs, concerns=model_jobs)
                return False
            answer = answered
        if self.lane.last is Phase.ANSWER:
            return False
        good = len(jobs) == len(open_jobs)
        for job in jobs:
            if self.lane.is_stopped:
                return False
            good &= await self._evaluate(job, search, answer)
        return good

    # ---- the phases: each returns its result, a failure, or None when the lane is stopped

    async def _search(self) -> SearchResult | Failure | None:
        key = item_key(self.lane.key, Phase.SEARCH, self.item, self.epoch)
        if (self.item.id, self.epoch) in self.lane.pending.searched:
            row = await self.lane.run.journal.load(key)
            known = SearchResult.of(row) if row is not None else None
            if known is not None:
                return known
            if not self.ready.prepared:
                return Failure(kind="dropped", message="the texts of this search are no longer in the journal")
        done = await self._attempt(self.lane.key, Phase.SEARCH, lambda: search_item(self.lane, self.ready, self.item))
        if done is None:
            return None
        result = done.value
        if result is not None:
            result = result.timed(done.times_us).billed(done.calls)
            self.lane.count_search(empty=not result.hits)
        self.lane.breaker.count_outcome("search", self.lane.plan.jobs, done.failure)
        self.lane.run.journal.append(phase_row(key, result, done.failure, times_us=done.times_us, calls=done.calls))
        return result if result is not None else done.failure

    async def _answer(self, model: str, jobs: Sequence[Job], search: SearchResult) -> AnswerResult | Failure | None:
        """Run the answer phase of one model, and return its answer or failure; None if the lane is stopped.

        ``jobs`` has all jobs that use this model.
        """
        owner = jobs[0].answer_owner
        key = item_key(owner, Phase.ANSWER, self.item, self.epoch)
        if (self.item.id, self.epoch) in self.lane.pending.answered[owner]:
            row = await self.lane.run.journal.load(key)
            if row is not None:
                return AnswerResult.of(row)
        done = await self._attempt(
            owner,
            Phase.ANSWER,
            lambda: answer_item(self.lane, model, self.ready.content.corpus, self.item, search, epoch=self.epoch),
        )
        if done is None:
            return None
        result = done.value.timed(done.times_us).billed(done.calls) if done.value is not None else None
        failure = done.failure if result is None else result.failure
        self.lane.breaker.count_outcome(f"answer of {model}", jobs, failure)
        self.lane.run.journal.append(phase_row(key, result, failure, times_us=done.times_us, calls=done.calls))
        return result if failure is None else failure

    async def _evaluate(self, job: Job, search: SearchResult, answer: AnswerResult | None) -> bool:
        """Run the evaluate phase of one job; return True if it succeeded."""
        if job.key in self.lane.breaker.stopped_jobs:
            return False
        done = await self._attempt(
            job.key,
            Phase.EVALUATE,
            lambda: evaluate_item(self.lane, job, self.ready, self.item, self.epoch, search, answer, self.memo),
        )
        if done is None:
            return False
        same_judge = [one for one in self.lane.plan.jobs if one.judge == job.judge]
        self.lane.breaker.count_outcome(f"evaluation by {job.judge}", same_judge, done.failure)
        if done.value is None:
            self._record_failure(done.failure, [job], concerns=same_judge, calls=done.calls)
            return False
        key = item_key(job.key, Phase.EVALUATE, self.item, self.epoch)
        self.lane.run.journal.append(done.value.journal_row(key, done, -self.lane.run.scope.generation))
        return True

    async def _attempt(self, owner: str, phase: Phase, act: Callable[[], Awaitable[T]]) -> Attempt[T] | None:
        """Run a phase within the item's deadline. If the lane is stopped, run nothing and return None."""
        if self.lane.is_stopped:
            return None
        with bind(phase=phase):
            timed = act if self.deadline is None else partial(_run_before, self.deadline, act)
            call_owner = CallOwner(owner, self.item.corpus, self.ready.space.attempt)
            fault = EvaluatorFailed if phase is Phase.EVALUATE else PluginFault
            return await self.lane.run.attempt(
                timed, call_owner, measures_work=phase is Phase.SEARCH, plugin_fault=fault
            )

    # ---- the journal

    def _record_failure(
        self, failure: Failure | None, jobs: Sequence[Job], *, concerns: Sequence[Job], calls: Sequence[Call] = ()
    ) -> None:
        """Record the item as failed for these jobs.

        If ``failure`` is None because the run stops, record nothing, so that the item stays pending. A failure that
        would repeat for every item stops the jobs in ``concerns``.
        """
        if failure is not None:
            for job in jobs:
                if not self._is_evaluated(job):
                    key = item_key(job.key, Phase.EVALUATE, self.item, self.epoch)
                    row = failed_row(self.lane.plan, key, self.item, failure)
                    generation = -self.lane.run.scope.generation
                    self.lane.run.journal.append(replace(row, calls=tuple(calls), generation=generation))
            if failure.stops_lane:
                self.lane.breaker.stop(concerns, failure)

    def _is_evaluated(self, job: Job) -> bool:
        return (self.item.id, self.epoch) in self.lane.pending.evaluated[job.key]


async def _run_together(acts: Sequence[Callable[[], Awaitable[bool]]]) -> bool:
    """Run actions at the same time, so that their model calls can be in one batch; return True if all return True."""
    results: list[bool] = []

    async def run(act: Callable[[], Awaitable[bool]]) -> None:
        results.append(await act())

    async with anyio.create_task_group() as tasks:
        for act in acts:
            tasks.start_soon(run, act)
    return all(results)


async def _run_before(deadline: float, act: Callable[[], Awaitable[T]]) -> T:
    with anyio.fail_after(max(0.0, deadline - anyio.current_time())):
        return await act()


async def record_failed_item(lane: OpenLane, ref: ItemRef, failure: Failure) -> None:
    """Record that an item failed because its corpus could not be prepared.

    This is recorded in every job that has no result for the item.
    """
    item = lane.plan.benchmark.dataset.item(ref)
    for job in lane.plan.jobs:
        for epoch in range(1, lane.plan.benchmark.epochs + 1):
            if lane.run.stopping.requested:
                return
            await lane.run.journal.wait_for_room()
            if (item.id, epoch) not in lane.pending.evaluated[job.key]:
                key = item_key(job.key, Phase.EVALUATE, item, epoch)
                lane.run.journal.append(failed_row(lane.plan, key, item, failure))
