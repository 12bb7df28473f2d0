"""Find the items of a lane that are not finished, and pass them to the workers.

An item that ended with an error is pending again. An item with a wrong answer is finished.

Example::

    pending = await PendingItems.of(journal, lane, last=Phase.EVALUATE, scope=scope, stopping=stopping)
    for corpus in pending.corpora(): ...
        for ref in pending.items(corpus): ...
    await queue.put(ready, items)       # a preparing worker; waits while the queue is full
    while (work := await queue.take()) is not None: ...     # an item worker: (ready, (lane, item reference))

A queue entry is one corpus with an iterator over its items, so that a hundred thousand items need little memory.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import anyio
import anyio.lowlevel

from bench.datasets import ItemRef
from bench.engine.run_context import RunScope
from bench.engine.stopping import StopControl
from bench.journal import Finished, Journal
from bench.model import Phase
from bench.plan import NONE, Lane

LOOK_EVERY = 100
"""number of items after which other tasks can run, for example to handle signals"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingItems:
    """The open items of one lane: those with a phase that has not succeeded yet."""

    lane: Lane
    searched: Finished
    answered: Mapping[str, Finished]
    """lane with answering model -> items that have an answer of this model"""
    evaluated: Mapping[str, Finished]
    """job -> items that it has evaluated"""
    open_positions: dict[str, array[int]] = field(default_factory=dict)
    """corpus -> positions of open items, in file order"""
    rescorable: tuple[Finished, ...] = ()
    """in a rescore, the items with a stored search and those with a stored answer; otherwise empty"""
    unsearched: set[str] = field(default_factory=set)
    """corpora with an item that is not searched yet; only these corpora need their provider"""
    left_out: dict[str, int] = field(default_factory=dict)
    """corpus -> number of open items that this process does not run; their memories must be kept"""

    @classmethod
    async def of(
        cls, journal: Journal, lane: Lane, *, last: Phase, scope: RunScope, stopping: StopControl
    ) -> PendingItems:
        """Read the journal, and return the items of a lane that have not finished the phase ``last``.

        If the run is asked to stop meanwhile, the result has no open items.
        """
        searched = await journal.finished(lane.key, Phase.SEARCH)
        owners = [job.answer_owner for job in lane.jobs if job.answering != NONE]
        answered = {owner: await journal.finished(owner, Phase.ANSWER) for owner in owners}
        evaluated = {
            job.key: Finished({}) if scope.is_rescore else await journal.finished(job.key, Phase.EVALUATE)
            for job in lane.jobs
        }
        ends = {Phase.SEARCH: [searched], Phase.ANSWER: list(answered.values())}.get(last, list(evaluated.values()))
        rescorable = (searched, *answered.values()) if scope.is_rescore else ()
        pending = cls(lane=lane, searched=searched, answered=answered, evaluated=evaluated, rescorable=rescorable)
        for number, ref in enumerate(lane.benchmark.dataset.items(lane.benchmark.selection)):
            if number % LOOK_EVERY == 0:
                await anyio.lowlevel.checkpoint()
                if stopping.requested:
                    return cls(lane=lane, searched=searched, answered=answered, evaluated=evaluated)
            if not any(pending.epochs(ref.id)) or pending._is_finished(ref, ends):
                continue
            if scope.item_ids is not None and ref.id not in scope.item_ids:
                pending.left_out[ref.corpus] = pending.left_out.get(ref.corpus, 0) + 1
            else:
                pending.open_positions.setdefault(ref.corpus, array("I")).append(ref.position)
                if not pending._is_finished(ref, [searched]):
                    pending.unsearched.add(ref.corpus)
        return pending

    def epochs(self, item: str) -> Iterator[int]:
        """Yield the epochs of an item to run: all epochs or, in a rescore, those with a stored result."""
        every = range(1, self.lane.benchmark.epochs + 1)
        return (epoch for epoch in every if all((item, epoch) in one for one in self.rescorable))

    def _is_finished(self, ref: ItemRef, every: Iterable[Finished]) -> bool:
        """Return True if each `Finished` in ``every`` contains all epochs of the item."""
        return all((ref.id, epoch) in one for one in every for epoch in range(1, self.lane.benchmark.epochs + 1))

    @property
    def count(self) -> int:
        return sum(map(len, self.open_positions.values()))

    def corpora(self) -> Iterator[str]:
        """Return the corpora with open items, in file order."""
        return iter(self.open_positions)

    def count_of(self, corpus: str) -> int:
        return len(self.open_positions.get(corpus, ()))

    def items(self, corpus: str) -> Iterator[ItemRef]:
        """Return the open items of one corpus in file order."""
        dataset = self.lane.benchmark.dataset
        return (dataset.ref(position) for position in self.open_positions.get(corpus, ()))


ReadyT = TypeVar("ReadyT")
ItemT = TypeVar("ItemT")


class WorkQueue(Generic[ReadyT, ItemT]):
    """A queue of at most ``bound`` ready corpora, each with an iterator over its items."""

    def __init__(self, *, bound: int) -> None:
        self._waiting: deque[tuple[ReadyT, Iterator[ItemT]]] = deque()
        self._current: tuple[ReadyT, Iterator[ItemT]] | None = None
        self._bound = bound
        self._closed = False
        self._changed = anyio.Event()

    async def put(self, ready: ReadyT, items: Iterator[ItemT]) -> None:
        """Add a corpus; if the queue is full, wait until a corpus is taken."""
        while len(self._waiting) >= self._bound and not self._closed:
            await self._changed.wait()
        self._waiting.append((ready, items))
        self._wake()

    def close(self) -> None:
        """Declare that no further corpus will be added, so that workers end when the queue is empty."""
        self._closed = True
        self._wake()

    def drop(self) -> None:
        """Discard the waiting corpora and close the queue, because the lane stops."""
        self._waiting.clear()
        self._current = None
        self.close()

    async def take(self) -> tuple[ReadyT, ItemT] | None:
        """Wait for the next item, and return it with its corpus; None if the queue is closed and empty."""
        while True:
            if self._current is not None:
                ready, items = self._current
                if (item := next(items, None)) is not None:
                    return ready, item
                self._current = None
            elif self._waiting:
                self._current = self._waiting.popleft()
                self._wake()
            elif self._closed:
                return None
            else:
                await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
