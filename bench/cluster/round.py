"""Send the shards (parts) of a cluster run to workers, watch the workers, and collect the results.

Before the first shard is sent, each worker is asked whether it can run the plan.

Example::

    slots = sum((await workers(cluster)).values())
    await require_fit_workers(cluster, order, within_s=120)        # UsageError names the worker and what it lacks
    round = Round(fleet=cluster, slots=slots, ...)
    await round.carry_out(deque(shards))
    round.problems          # {3: "no worker was left for 30 s"}: shard -> reason why it did not finish

At most ``slots`` shards run at a time. If a worker is lost, its shard runs again on another worker. Any other failure
ends only its shard.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import anyio

from bench.cluster.backend import CONNECT_S, Fleet, ShardTask
from bench.cluster.messages import ClusterProgress, Shard, ShardOrder, ShardResult
from bench.cluster.progress import ShardStore
from bench.cluster.worker import another_version, bench_version, check_order, delete_shards, run_shard, stored_shards
from bench.engine import Stop
from bench.engine.outcome import Failure
from bench.engine.stopping import StopControl
from bench.errors import UsageError
from bench.events import log

ANSWER_S = 15.0
LOOK_EVERY_S = 0.1
HINT = "install the same version of bench with its extra [cluster] on every worker"


def _unanswered(worker: str, checked: str, error: BaseException) -> UsageError:
    hint = "restart the worker" if isinstance(error, TimeoutError) else HINT
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return UsageError(f"worker {worker}: the check of its {checked} failed: {reason}", hint=hint)


async def workers(cluster: Fleet) -> Mapping[str, int]:
    """Wait until a cluster has workers; return how many shards each worker can run at a time, by address.

    Raises:
        UsageError: the scheduler has no worker after 3 seconds.
    """
    with anyio.move_on_after(CONNECT_S):
        while not (found := await cluster.slots()):  # noqa: ASYNC110  a scheduler tells no one of its workers
            await anyio.sleep(LOOK_EVERY_S)
        return found
    raise UsageError(
        f"--cluster {cluster.address}: the scheduler has no worker",
        hint=f"start workers with: dask worker {cluster.address} --nthreads 1",
    )


async def require_fit_workers(cluster: Fleet, order: ShardOrder, *, within_s: float) -> None:
    """Check that every worker can run the order; each has ``within_s`` seconds to open the datasets.

    Raises:
        UsageError: a worker does not answer, lacks a secret, or has another bench version, config or dataset.
    """
    for worker, version in (await cluster.ask(bench_version, within_s=ANSWER_S)).items():
        if isinstance(version, BaseException):
            raise _unanswered(worker, "version", version)
        if version != order.version:
            raise UsageError(f"worker {worker}: {another_version(version, order.version).message}", hint=HINT)
    for worker, found in (await cluster.ask(check_order, order, within_s=within_s)).items():
        if isinstance(found, BaseException):
            raise _unanswered(worker, "files", found)
        if found is not None:
            raise UsageError(f"worker {worker}: {found.message}", hint=found.hint)


async def workers_with_shards(cluster: Fleet, order: ShardOrder) -> dict[str, list[str]]:
    """Return, for each shard name, the workers that still have a journal of this shard."""
    found: dict[str, list[str]] = {}
    for worker, names in (await cluster.ask(stored_shards, order, within_s=ANSWER_S)).items():
        for name in names if isinstance(names, list) else ():
            found.setdefault(name, []).append(worker)
    return found


WATCH_EVERY_S = 1.0
NO_WORKER_S = 30.0


@dataclass(slots=True)
class RunningShard:
    """A shard that is running on a worker."""

    order: ShardOrder
    task: ShardTask
    dropped: int = 0
    """number of times that the shard was taken from a worker that sent no messages"""


@dataclass(slots=True, kw_only=True)
class Round:
    """The work on all shards of a run, from the first order to the last result."""

    fleet: Fleet
    store: ShardStore
    progress: ClusterProgress
    stopping: StopControl
    order: Callable[[Shard], ShardOrder]
    slots: int
    silent_s: float
    """seconds without a message after which a worker is dropped; another worker then gets its shard, at most once"""
    max_usd: float | None
    out: list[RunningShard] = field(default_factory=list)
    done: list[ShardOrder] = field(default_factory=list)
    """orders of complete shards, whose data the workers may delete"""
    problems: dict[int, str] = field(default_factory=dict)
    """shard -> reason why it did not finish"""
    refused: dict[str, Failure] = field(default_factory=dict)
    """job -> failure that stopped it"""
    preferred: dict[str, list[str]] = field(default_factory=dict)
    """name of a shard -> workers that have its journal"""
    alone_since: float | None = None
    """time at which the last worker was lost; None while there is a worker"""
    watch_at: float = 0.0

    async def carry_out(self, waiting: deque[Shard]) -> None:
        """Run all ``waiting`` shards and collect their results; after a request to stop, start no further shard."""
        stop_sent = False
        while self.out or (waiting and not self.stopping.requested):
            while waiting and len(self.out) < self.slots and not self.stopping.requested:
                await self._submit(waiting.popleft())
            if self.stopping.requested and not stop_sent:
                stop_sent = True
                await self.fleet.stop()
            await anyio.sleep(LOOK_EVERY_S)
            for one in [one for one in self.out if one.task.state != "pending"]:
                await self._collect(one)
            if not self.fleet.alive:
                self._fail_remaining(waiting, f"the scheduler {self.fleet.address} does not answer any more")
            self._check_budget()
            if anyio.current_time() >= self.watch_at:
                self.watch_at = anyio.current_time() + WATCH_EVERY_S
                await self._watch_workers(waiting)

    async def _submit(self, shard: Shard) -> None:
        pack, phases = await self.store.take(shard)
        order = replace(self.order(shard), pack=pack, phases=phases)
        name = order.name
        task = self.fleet.submit(run_shard, order, name=f"{name}-{order.token}", preferred=self.preferred.get(name, ()))
        self.out.append(RunningShard(order, task))
        log().info("shard_handed_out", shard=shard.number, phases=phases)

    async def _collect(self, one: RunningShard) -> None:
        """Store the result of an ended task; if the shard is incomplete, record the reason."""
        shard = one.order.shard
        self.out.remove(one)
        worker = self.progress.worker_of(shard.number)
        if one.task.state == "finished":
            await self._store(one.order, await one.task.result())
        elif one.task.state == "error":
            self.problems[shard.number] = await one.task.error()
        else:
            self.problems[shard.number] = f"the scheduler {self.fleet.address} canceled the shard"
        self.progress.shard_returned(shard.number)
        log().info("shard_taken_in", shard=shard.number, worker=worker, problem=self.problems.get(shard.number))

    async def _store(self, order: ShardOrder, returned: ShardResult | None) -> None:
        number = order.shard.number
        if returned is None:
            self.problems[number] = "its journal was lost during the transfer; the worker still has it"
            return
        if returned.counters is not None:
            self.progress.update(returned.counters)
        if returned.pack is not None:
            await self.store.put(order.shard, returned.pack)
        for job, text in returned.stopped.items():
            self.refused.setdefault(job, Failure(kind="stopped", message=text))
        if returned.refusal is not None:
            found = returned.refusal
            self.problems[number] = f"worker {found.worker}: {found.message} ({found.hint})"
        elif returned.whole:
            self.done.append(order)
        elif returned.stop == Stop.MAX_COST:
            self.stopping.request(Stop.MAX_COST)
        elif not returned.stopped and not self.stopping.requested:
            self.problems[number] = f"ended early: {returned.message or returned.stop}"

    async def delete_collected(self) -> None:
        """Ask the workers to delete their data of the complete shards. The coordinator has stored this data."""
        if self.done and self.fleet.alive:
            names = [order.name for order in self.done]
            await self.fleet.ask(delete_shards, self.done[0], names, within_s=ANSWER_S)

    def _check_budget(self) -> None:
        if self.max_usd is not None and float(self.progress.cost_usd) >= self.max_usd:
            self.stopping.request(Stop.MAX_COST)

    async def _watch_workers(self, waiting: deque[Shard]) -> None:
        """Take shards from silent workers; if there has been no worker for some time, fail all remaining shards."""
        there = await self.fleet.slots()
        if there:
            self.alone_since = None
            for one in [one for one in self.out if self.progress.silent_s(one.order.shard.number) >= self.silent_s]:
                await self._drop_silent(one, others=len(there) > 1)
            return
        self.alone_since = self.alone_since or anyio.current_time()
        if anyio.current_time() - self.alone_since >= self._alone_s:
            self._fail_remaining(waiting, f"no worker was left for {self._alone_s:.0f} s")

    async def _drop_silent(self, one: RunningShard, *, others: bool) -> None:
        """Drop the silent worker of a shard, so that another worker runs the shard.

        If there is no other worker, or the shard was taken from a worker before, the shard fails.
        """
        number = one.order.shard.number
        worker = self.progress.worker_of(number)
        text = f"its worker {worker} was silent for {self.silent_s:.0f} s"
        self.progress.shard_returned(number)
        self.progress.events.append(f"shard {one.order.shard}: {text}")
        one.dropped += 1
        if others and one.dropped == 1:
            await self.fleet.drop(worker)
            return
        self.out.remove(one)
        self.problems[number] = text
        await one.task.cancel()

    @property
    def _alone_s(self) -> float:
        """Return after how many seconds without a worker the remaining shards fail."""
        return min(NO_WORKER_S, self.silent_s)

    def _fail_remaining(self, waiting: deque[Shard], text: str) -> None:
        left = [*waiting, *(one.order.shard for one in self.out)]
        self.problems |= {shard.number: text for shard in left}
        waiting.clear()
        self.out.clear()
