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
from bench.journal import CorpusKind, CorpusRow, Entry, Reader
from bench.journal.rows import JournalRow
from bench.model import FAILED_STATES, Phase
from bench.plan import NONE, Plan

CORPUS_PHASES = {CorpusKind.INGESTED: Phase.INGEST, CorpusKind.READY: Phase.INDEX}


@dataclass(slots=True)
class Counting:
    """Turns rows into counters."""

    plan: Plan
    progress: Progress
    _lane_of: dict[str, str] = field(default_factory=dict)

    @classmethod
    async def over(cls, plan: Plan, progress: Progress, folder: Path, *, resumed: bool) -> Counting:
        """Make the table of lanes and jobs; a resumed run starts from what is durable, errors aside."""
        counting = cls(plan, progress)
        for lane in plan.lanes:
            progress.lanes[lane.key] = LaneProgress(lane.key)
            counting._lane_of[lane.key] = lane.key
            for job in lane.jobs:
                counting._lane_of |= {job.answer_owner: lane.key, job.key: lane.key}
                progress.jobs[job.key] = JobProgress.of(lane, job)
        if resumed:
            await counting._recall(folder)
        return counting

    def expect(self, todos: Mapping[str, Todo]) -> None:
        """Set the length of each bar: what this process has to do."""
        for key, todo in todos.items():
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
            self.progress.item_ended(row.key.owner, row.state, value)

    def _corpus(self, row: CorpusRow) -> None:
        phase = CORPUS_PHASES.get(row.kind)
        if phase is not None:
            self.progress.phase_durable(row.lane, phase, failed=False)
        elif row.kind is CorpusKind.FAILED:
            self.progress.phase_durable(row.lane, Phase.INGEST, failed=True)

    async def _recall(self, folder: Path) -> None:
        async with Reader.open(folder) as reader:
            for key, job in self.progress.jobs.items():
                states = await reader.states(key)
                job.states.update({state: n for state, n in states.items() if state not in FAILED_STATES})

    @staticmethod
    def _readers(todo: Todo) -> int:
        return sum(model != NONE for model in todo.lane.answering_models)
