"""The shards that are out: hand them out, take them in, watch their workers, keep the budget.

Example::

    await round.carry_out(deque(shards))
    round.problems          # {3: "no worker was left for 30 s"}: by shard, why it did not come to its end

No more shards are out than there are slots. A lost worker's shard is run again by dask; whatever else goes wrong ends
the shard, not the run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import anyio

from bench.cluster.asking import ANSWER_S, LOOK_EVERY_S
from bench.cluster.dask import Cluster, Task
from bench.cluster.order import Order, Returned, Shard
from bench.cluster.saying import Gathered
from bench.cluster.shelf import Shelf
from bench.cluster.worker import forget, run_shard
from bench.engine import Stop
from bench.engine.live import Failure
from bench.engine.stopping import Stopping
from bench.events import log

WATCH_EVERY_S = 1.0
NO_WORKER_S = 30.0


@dataclass(slots=True)
class Out:
    """A shard that is with a worker."""

    order: Order
    task: Task[Returned]
    dropped: int = 0
    """workers that were taken from it because they said nothing"""


@dataclass(slots=True, kw_only=True)
class Round:
    """All shards of one coordinator, from the first that goes out to the last that comes back."""

    cluster: Cluster
    shelf: Shelf
    progress: Gathered
    stopping: Stopping
    order: Callable[[Shard], Order]
    slots: int
    silent_s: float
    """a worker that says nothing for so long is dropped; the second one of a shard ends the shard"""
    max_usd: float | None
    out: list[Out] = field(default_factory=list)
    done: list[Order] = field(default_factory=list)
    """what a worker need not keep any longer"""
    problems: dict[int, str] = field(default_factory=dict)
    """by shard: why it did not come to its end"""
    refused: dict[str, Failure] = field(default_factory=dict)
    """by job: why it takes no more work"""
    near: dict[str, list[str]] = field(default_factory=dict)
    """shard -> workers that have a journal of it"""
    no_worker_since: float | None = None
    watch_at: float = 0.0

    async def carry_out(self, waiting: deque[Shard]) -> None:
        """Until every shard came back, or the run is asked to stop and what is out came back."""
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
                self._give_up(waiting, f"the scheduler {self.cluster.address} is gone")
            self._keep_budget()
            if anyio.current_time() >= self.watch_at:
                self.watch_at = anyio.current_time() + WATCH_EVERY_S
                await self._watch_workers(waiting)

    async def _hand_out(self, shard: Shard) -> None:
        pack, phases = await self.shelf.take(shard)
        order = replace(self.order(shard), pack=pack, phases=phases)
        name = order.name
        task = self.cluster.submit(run_shard, order, name=f"{name}-{order.token}", near=self.near.get(name, ()))
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

    async def _store(self, order: Order, returned: Returned | None) -> None:
        number = order.shard.number
        if returned is None:
            self.problems[number] = "its journal was lost on its way; the worker still has it"
            return
        if returned.word is not None:
            self.progress.hear(returned.word)
        if returned.pack is not None:
            await self.shelf.put(order.shard, returned.pack)
        if returned.refusal is not None:
            found = returned.refusal
            self.problems[number] = f"worker {found.worker}: {found.message} ({found.hint})"
        for job, text in returned.stopped.items():
            self.refused.setdefault(job, Failure(kind="stopped", message=text))
        if returned.stop == Stop.MAX_COST:
            self.stopping.ask(Stop.MAX_COST)
        elif returned.stop is not None and not self.stopping.asked:
            self.problems[number] = f"stopped early ({returned.stop})"
        elif returned.stop is None and returned.pack is not None:
            self.done.append(order)

    async def tidy(self) -> None:
        """Have the workers delete what is on the shelf."""
        if self.done and self.cluster.alive:
            names = [order.name for order in self.done]
            await self.cluster.ask(forget, self.done[0], names, within_s=ANSWER_S)

    def _keep_budget(self) -> None:
        if self.max_usd is not None and float(self.progress.cost_usd) >= self.max_usd:
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
            self._give_up(waiting, f"no worker was left for {NO_WORKER_S:.0f} s")

    async def _someone(self) -> bool:
        """Some worker is there, or was a short while ago."""
        if await self.cluster.slots():
            self.no_worker_since = None
            return True
        self.no_worker_since = self.no_worker_since or anyio.current_time()
        return anyio.current_time() - self.no_worker_since < NO_WORKER_S

    def _give_up(self, waiting: deque[Shard], text: str) -> None:
        left = [*waiting, *(one.order.shard for one in self.out)]
        self.problems |= {shard.number: text for shard in left}
        waiting.clear()
        self.out.clear()
