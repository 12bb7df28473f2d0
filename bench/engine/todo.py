"""Which items of a lane are still to be asked, by corpus; and what the journal already knows of them.

Example::

    todo = await Todo.of(journal, lane)
    for corpus in todo.corpora(): ...
        for ref in todo.items(corpus): ...

Positions are kept as machine integers, finished units as the journal's sets, so a hundred thousand items stay small.
Errors are to do again; wrong answers never are.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import anyio.lowlevel

from bench.datasets import ItemRef
from bench.engine.errand import Errand
from bench.engine.stopping import Stopping
from bench.journal import Finished, Journal
from bench.model import Phase
from bench.plan import NONE, Lane

LOOK_EVERY = 100
"""items after which the event loop is let in, to hear a signal"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Todo:
    """The open items of one lane."""

    lane: Lane
    searched: Finished
    answered: Mapping[str, Finished]
    """by answer owner"""
    evaluated: Mapping[str, Finished]
    """by job"""
    open_positions: dict[str, array[int]] = field(default_factory=dict)
    """corpus -> positions in file order"""
    stored: tuple[Finished, ...] = ()
    """what a repeat must have in the journal to be asked at all: of a rescore its search and its answers"""
    unsearched: set[str] = field(default_factory=set)
    """corpora with an item that is still to be searched: only these need their provider"""

    @classmethod
    async def of(cls, journal: Journal, lane: Lane, *, last: Phase, errand: Errand, stopping: Stopping) -> Todo:
        """Compare the plan's items with the journal's finished ones; ``last`` = the phase the run stops after.

        A run that is asked to stop meanwhile has nothing to do.
        """
        searched = await journal.finished(lane.key, Phase.SEARCH)
        owners = [job.answer_owner for job in lane.jobs if job.answering != NONE]
        answered = {owner: await journal.finished(owner, Phase.ANSWER) for owner in owners}
        evaluated = {
            job.key: Finished({}) if errand.rescores else await journal.finished(job.key, Phase.EVALUATE)
            for job in lane.jobs
        }
        ends = {Phase.SEARCH: [searched], Phase.ANSWER: list(answered.values())}.get(last, list(evaluated.values()))
        stored = (searched, *answered.values()) if errand.rescores else ()
        todo = cls(lane=lane, searched=searched, answered=answered, evaluated=evaluated, stored=stored)
        for number, ref in enumerate(lane.benchmark.dataset.items(lane.benchmark.selection)):
            if number % LOOK_EVERY == 0:
                await anyio.lowlevel.checkpoint()
                if stopping.asked:
                    return cls(lane=lane, searched=searched, answered=answered, evaluated=evaluated)
            wanted = errand.only is None or ref.id in errand.only
            if wanted and any(todo.epochs(ref.id)) and not todo._within(ref, ends):
                todo.open_positions.setdefault(ref.corpus, array("I")).append(ref.position)
                if not todo._within(ref, [searched]):
                    todo.unsearched.add(ref.corpus)
        return todo

    def epochs(self, item: str) -> Iterator[int]:
        """The repeats of an item that can be asked: of a rescore those that have something to score."""
        every = range(1, self.lane.benchmark.epochs + 1)
        return (epoch for epoch in every if all((item, epoch) in one for one in self.stored))

    def _within(self, ref: ItemRef, every: Iterable[Finished]) -> bool:
        """Every epoch of an item is in every one of these."""
        return all((ref.id, epoch) in one for one in every for epoch in range(1, self.lane.benchmark.epochs + 1))

    @property
    def count(self) -> int:
        return sum(map(len, self.open_positions.values()))

    @property
    def corpus_count(self) -> int:
        return len(self.open_positions)

    def corpora(self) -> Iterator[str]:
        """The corpora with open items, in the order in which the file first names them."""
        return iter(self.open_positions)

    def count_of(self, corpus: str) -> int:
        return len(self.open_positions[corpus])

    def items(self, corpus: str) -> Iterator[ItemRef]:
        """The open items of one corpus in file order."""
        dataset = self.lane.benchmark.dataset
        return (dataset.ref(position) for position in self.open_positions[corpus])
