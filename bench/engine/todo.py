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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bench.datasets import ItemRef
from bench.journal import Finished, Journal
from bench.model import Phase
from bench.plan import Lane


@dataclass(frozen=True, slots=True, kw_only=True)
class Todo:
    """The open items of one lane."""

    lane: Lane
    searched: Finished
    answered: Mapping[str, Finished]
    """by answer owner"""
    evaluated: Mapping[str, Finished]
    """by job"""
    open_positions: Mapping[str, array[int]]
    """corpus -> positions in file order"""

    @classmethod
    async def of(cls, journal: Journal, lane: Lane, *, last: Phase) -> Todo:
        """Compare the plan's items with the journal's finished ones; ``last`` = the phase the run stops after."""
        searched = await journal.finished(lane.key, Phase.SEARCH)
        answered = {job.answer_owner: await journal.finished(job.answer_owner, Phase.ANSWER) for job in lane.jobs}
        evaluated = {job.key: await journal.finished(job.key, Phase.EVALUATE) for job in lane.jobs}
        ends = {Phase.SEARCH: [searched], Phase.ANSWER: list(answered.values())}.get(last, list(evaluated.values()))
        epochs = range(1, lane.benchmark.epochs + 1)
        found: dict[str, array[int]] = {}
        for ref in lane.benchmark.dataset.items(lane.benchmark.selection):
            if not all((ref.id, epoch) in end for end in ends for epoch in epochs):
                found.setdefault(ref.corpus, array("I")).append(ref.position)
        return cls(lane=lane, searched=searched, answered=answered, evaluated=evaluated, open_positions=found)

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
