"""Progress from durable rows only: each commit of the journal raises the counters that displays poll.

Example::

    journal.on_commit = counting          # called on the event loop with the rows that became durable
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.engine.progress import JobProgress, LaneProgress, Progress
from bench.engine.todo import Todo
from bench.journal import CorpusKind, CorpusRow, Entry, Key, Reader
from bench.journal.rows import JournalRow
from bench.metrics.epochs import Ended, settled
from bench.model import FAILED_STATES, Phase, State
from bench.plan import NONE, Plan

Unit = tuple[str, str, str]
"""job, corpus, item"""
CORPUS_PHASES = {CorpusKind.INGESTED: Phase.INGEST, CorpusKind.READY: Phase.INDEX}


@dataclass(slots=True)
class Counting:
    """Turns rows into counters."""

    plan: Plan
    progress: Progress
    _lane_of: dict[str, str] = field(default_factory=dict)
    _epochs: dict[str, int] = field(default_factory=dict)
    """by job"""
    _repeats: dict[Unit, dict[int, Ended]] = field(default_factory=dict)
    """what ended of items of which another repeat is to come, by epoch"""

    @classmethod
    async def over(cls, plan: Plan, progress: Progress, folder: Path, *, resumed: bool) -> Counting:
        """Make the table of lanes and jobs; a resumed run starts from what is durable, errors aside."""
        counting = cls(plan, progress)
        for lane in plan.lanes:
            progress.lanes[lane.key] = LaneProgress(lane.key)
            counting._lane_of[lane.key] = lane.key
            for job in lane.jobs:
                counting._lane_of |= {job.answer_owner: lane.key, job.key: lane.key}
                counting._epochs[job.key] = lane.benchmark.epochs
                progress.jobs[job.key] = JobProgress.of(lane, job)
        if resumed:
            await counting._recall(folder)
        return counting

    def expect(self, todos: Mapping[str, Todo], *, anew: bool = False) -> None:
        """Set the length of each bar: what this process has to do.

        ``anew``: what has ended already ends once more, so a job is as long as what is done again of it.
        """
        for key, todo in todos.items():
            for job in todo.lane.jobs if anew else ():
                self.progress.jobs[job.key].planned = todo.count
            phases, epochs = self.progress.lanes[key].phases, todo.lane.benchmark.epochs
            phases[Phase.INGEST].total = phases[Phase.INDEX].total = todo.corpus_count
            widths = {Phase.SEARCH: 1, Phase.ANSWER: self._readers(todo), Phase.EVALUATE: len(todo.lane.jobs)}
            for phase, width in widths.items():
                phases[phase].total = todo.count * epochs * width

    def __call__(self, rows: Sequence[JournalRow]) -> None:
        for row in rows:
            if isinstance(row, Entry):
                self._entry(row)
            elif isinstance(row, CorpusRow):
                self._corpus(row)

    def _entry(self, row: Entry) -> None:
        self.progress.phase_durable(self._lane_of[row.key.owner], row.key.phase, failed=not row.ok)
        if row.state is not None:
            value = row.verdicts[0].value if row.verdicts else None
            state = self._state(row.key, row.state, row.outcome)
            self.progress.item_ended(row.key.owner, state, value, row.key.corpus)

    def _state(self, key: Key, state: State, outcome: str) -> State | None:
        """How the item ended with this repeat; None while another one is to come."""
        epochs, unit = self._epochs[key.owner], (key.owner, key.corpus, key.unit)
        if epochs == 1:
            return state
        repeats = self._repeats.setdefault(unit, {})
        repeats[key.epoch] = (state, outcome)
        found = settled(list(repeats.values()), epochs)
        if found is None:
            return None
        del self._repeats[unit]
        return State(found[0])

    def _corpus(self, row: CorpusRow) -> None:
        phase = CORPUS_PHASES.get(row.kind)
        if phase is not None:
            self.progress.phase_durable(row.lane, phase, failed=False)
        elif row.kind is CorpusKind.FAILED:
            self.progress.phase_durable(row.lane, Phase.INGEST, failed=True)

    async def _recall(self, folder: Path) -> None:
        async with Reader.open(folder) as reader:
            for key, job in self.progress.jobs.items():
                states = await reader.item_states(key, self._epochs[key])
                job.states.update({state: n for state, n in states.items() if state not in FAILED_STATES})
                if self._epochs[key] > 1:
                    await self._recall_repeats(reader, key)

    async def _recall_repeats(self, reader: Reader, job: str) -> None:
        """Take up the items that were left between two repeats; failed ones are asked again."""
        begun: dict[Unit, dict[int, Ended]] = {}
        async for batch in reader.values(job):
            columns = (batch.corpora, batch.items, batch.epochs, batch.states, batch.outcomes)
            for corpus, item, epoch, *ended in zip(*columns, strict=True):
                unit = (job, corpus, item)
                begun.setdefault(unit, {})[epoch] = (ended[0], ended[1])
                if len(begun[unit]) == self._epochs[job]:
                    del begun[unit]
        for unit, repeats in begun.items():
            self._repeats[unit] = {epoch: one for epoch, one in repeats.items() if one[0] not in FAILED_STATES}

    @staticmethod
    def _readers(todo: Todo) -> int:
        return sum(model != NONE for model in todo.lane.answering_models)
