"""Find the items of a lane that are not finished.

An item that ended with an error is pending again. An item with a wrong answer is finished.

Example::

    pending = await PendingItems.of(journal, lane, last=Phase.EVALUATE, scope=scope, stopping=stopping)
    for corpus in pending.corpora(): ...
        for ref in pending.items(corpus): ...
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

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
        """Yield the epochs in which an item must run: all epochs or, in a rescore, those with a stored result."""
        every = range(1, self.lane.benchmark.epochs + 1)
        return (epoch for epoch in every if all((item, epoch) in one for one in self.rescorable))

    def _is_finished(self, ref: ItemRef, every: Iterable[Finished]) -> bool:
        """Return True if every phase in ``every`` has succeeded in all epochs of the item."""
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
