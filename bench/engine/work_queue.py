"""Find the items of a lane that are not finished, and pass them to the workers.

An item that ended with an error is pending again. An item with a wrong answer is finished.

Example::

    pending = await PendingItems.of(journal, lane, last=Phase.EVALUATE, scope=scope, stopping=stopping)
    for corpus in pending.corpora(): ...
        for ref in pending.items(corpus): ...
    await queue.put(ready, items)       # a preparing worker; waits while the queue is full
    while (work := await queue.take()) is not None: ...     # an item worker: (ready, item reference)
    journal.on_commit = counter          # called on the event loop with the rows that became durable

A queue entry is one corpus with an iterator over its items, so that a hundred thousand items need little memory.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import anyio
import anyio.lowlevel

from bench.datasets import ItemRef
from bench.engine.progress import JobProgress, LaneProgress, Progress
from bench.engine.run_context import RunScope
from bench.engine.stopping import StopControl
from bench.journal import CorpusKind, CorpusRow, Finished, Journal, JournaledPhase, Key, Reader
from bench.journal.rows import JournalRow
from bench.metrics.fold_input import EndState, item_outcome
from bench.model import FAILED_STATES, Phase, State
from bench.plan import NONE, Lane, Plan

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
    stored: tuple[Finished, ...] = ()
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
        stored = (searched, *answered.values()) if scope.is_rescore else ()
        pending = cls(lane=lane, searched=searched, answered=answered, evaluated=evaluated, stored=stored)
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
        return (epoch for epoch in every if all((item, epoch) in one for one in self.stored))

    def _is_finished(self, ref: ItemRef, every: Iterable[Finished]) -> bool:
        """Return True if every set in ``every`` contains all epochs of the item."""
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
RefT = TypeVar("RefT")


class WorkQueue(Generic[ReadyT, RefT]):
    """A queue of at most ``bound`` ready corpora, each with an iterator over its items."""

    def __init__(self, *, bound: int) -> None:
        self._waiting: deque[tuple[ReadyT, Iterator[RefT]]] = deque()
        self._current: tuple[ReadyT, Iterator[RefT]] | None = None
        self._bound = bound
        self._closed = False
        self._changed = anyio.Event()

    async def put(self, ready: ReadyT, items: Iterator[RefT]) -> None:
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

    async def take(self) -> tuple[ReadyT, RefT] | None:
        """Wait for the next item, and return it with its corpus; None if the queue is closed and empty."""
        while True:
            if self._current is not None:
                ready, items = self._current
                if (ref := next(items, None)) is not None:
                    return ready, ref
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


Unit = tuple[str, str, str]
"""job, corpus, item"""
CORPUS_PHASES = {CorpusKind.INGESTED: Phase.INGEST, CorpusKind.READY: Phase.INDEX}


@dataclass(slots=True)
class ProgressCounter:
    """A function for ``Journal.on_commit`` that updates the progress counters from the rows that became durable."""

    plan: Plan
    progress: Progress
    _lane_of: dict[str, str] = field(default_factory=dict)
    _epochs: dict[str, int] = field(default_factory=dict)
    """job -> number of epochs"""
    _repeats: dict[Unit, dict[int, EndState]] = field(default_factory=dict)
    """(job, corpus, item) -> epoch -> how this epoch ended; only for items with an open epoch"""

    @classmethod
    async def over(cls, plan: Plan, progress: Progress, folder: Path, *, resumed: bool) -> ProgressCounter:
        """Create the counters of all lanes and jobs.

        For a resumed run, the counters begin with the results in the journal. Errors are not counted, because their
        items are tried again.
        """
        counter = cls(plan, progress)
        for lane in plan.lanes:
            progress.lanes[lane.key] = LaneProgress(lane.key)
            counter._lane_of[lane.key] = lane.key
            for job in lane.jobs:
                counter._lane_of |= {job.answer_owner: lane.key, job.key: lane.key}
                counter._epochs[job.key] = lane.benchmark.epochs
                progress.jobs[job.key] = JobProgress.of(lane, job)
        if resumed:
            await counter._recall(folder)
        return counter

    def expect(self, pending_by_lane: Mapping[str, PendingItems], *, rescore: bool = False) -> None:
        """Set the total of each progress bar to the amount of work in this process.

        In a rescore, the total of a job is its number of items to score.
        """
        for key, pending in pending_by_lane.items():
            for job in pending.lane.jobs if rescore else ():
                self.progress.jobs[job.key].planned = pending.count
            phases, epochs = self.progress.lanes[key].phases, pending.lane.benchmark.epochs
            if not pending.lane.shares:
                sharing = [one for one in pending_by_lane.values() if one.lane.build == key]
                corpora = {corpus for one in sharing for corpus in one.open_positions}
                phases[Phase.INGEST].total = phases[Phase.INDEX].total = len(corpora)
            n_models = sum(model != NONE for model in pending.lane.answering_models)
            widths = {Phase.SEARCH: 1, Phase.ANSWER: n_models, Phase.EVALUATE: len(pending.lane.jobs)}
            for phase, width in widths.items():
                phases[phase].total = pending.count * epochs * width

    def __call__(self, rows: Sequence[JournalRow]) -> None:
        for row in rows:
            if isinstance(row, JournaledPhase):
                self._entry(row)
            elif isinstance(row, CorpusRow):
                self._corpus(row)

    def _entry(self, row: JournaledPhase) -> None:
        self.progress.phase_durable(self._lane_of[row.key.owner], row.key.phase, failed=not row.ok)
        if row.state is not None:
            value = row.verdicts[0].value if row.verdicts else None
            state = self._state(row.key, row.state, row.outcome)
            self.progress.item_ended(row.key.owner, state, value, row.key.corpus)

    def _state(self, key: Key, state: State, outcome: str) -> State | None:
        """Return the final state of an item when one of its epochs ends; None if another epoch is still open."""
        epochs, unit = self._epochs[key.owner], (key.owner, key.corpus, key.unit)
        if epochs == 1:
            return state
        repeats = self._repeats.setdefault(unit, {})
        repeats[key.epoch] = (state, outcome)
        found = item_outcome(list(repeats.values()), epochs)
        if found is None:
            return None
        del self._repeats[unit]
        return State(found[0])

    def _corpus(self, row: CorpusRow) -> None:
        phase = CORPUS_PHASES.get(row.kind)
        if phase is not None:
            self.progress.phase_durable(row.lane, phase, failed=False)
        elif row.kind is CorpusKind.BATCH and isinstance(sent := row.data.get("sent"), int):
            self.progress.memories_durable(row.lane, sent)
        elif row.kind is CorpusKind.FAILED:
            self.progress.phase_durable(row.lane, Phase.INGEST, failed=True)

    async def _recall(self, folder: Path) -> None:
        async with Reader.open(folder) as reader:
            for key, job in self.progress.jobs.items():
                states = await reader.item_states(key, self._epochs[key])
                job.states.update({state: n for state, n in states.items() if state not in FAILED_STATES})
                job.earlier = job.ended
                if self._epochs[key] > 1:
                    await self._recall_repeats(reader, key)

    async def _recall_repeats(self, reader: Reader, job: str) -> None:
        """Read the items of which some epochs have ended and some are open; failed epochs count as open."""
        begun: dict[Unit, dict[int, EndState]] = {}
        async for batch in reader.values(job):
            columns = (batch.corpora, batch.items, batch.epochs, batch.states, batch.outcomes)
            for corpus, item, epoch, *ended in zip(*columns, strict=True):
                unit = (job, corpus, item)
                begun.setdefault(unit, {})[epoch] = (ended[0], ended[1])
                if len(begun[unit]) == self._epochs[job]:
                    del begun[unit]
        for unit, repeats in begun.items():
            self._repeats[unit] = {epoch: one for epoch, one in repeats.items() if one[0] not in FAILED_STATES}
