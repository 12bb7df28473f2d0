"""Update the progress of a run from the rows that became durable in its journal.

Example::

    counter = await ProgressCounter.over(plan, progress, folder, resumed=False)
    journal.on_commit = counter          # called on the event loop with the rows that became durable
    counter.expect({lane.key: pending})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.engine.pending_items import PendingItems
from bench.engine.progress import JobProgress, LaneProgress, Progress
from bench.journal import CorpusKind, CorpusRow, JournaledPhase, Key, Reader
from bench.journal.rows import JournalRow
from bench.metrics.fold_input import EndState, item_outcome
from bench.model import FAILED_STATES, Phase, State
from bench.plan import NONE, Plan

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
        """Return the final state of an item after one of its epochs ended; None if another epoch is still open."""
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
        """Read which items have some epochs that ended and others that are open. Failed epochs count as open."""
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
