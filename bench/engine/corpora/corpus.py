"""Prepare one corpus for searches, and continue after a crash from the state in the journal.

Example::

    outcome = await prepare_corpus(lane, "conv-26")      # a ReadyCorpus, a Failure, or None after a request to stop

The steps are: set up the namespace, ingest the memories, and wait for the index. After a crash it may be unknown
whether a batch was stored. If `bench.engine.corpora.unconfirmed_batches` cannot find this out, the namespace is
cleared and the corpus is ingested again.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.engine.corpora.anonymizer import AnonymizedCorpus
from bench.engine.corpora.corpus_state import CorpusState, Step
from bench.engine.corpora.index_wait import IndexWait
from bench.engine.corpora.ingest import DOUBTFUL, IngestPass
from bench.engine.corpora.isolation import samples
from bench.engine.corpora.unconfirmed_batches import resolve_doubts
from bench.engine.open_lane import OpenLane, ReadyCorpus
from bench.engine.outcome import Failure
from bench.events import bind
from bench.journal import CorpusKind, Event
from bench.journal.rows import RESET
from bench.model import Corpus, Phase
from bench.visible_text import counted


async def prepare_corpus(lane: OpenLane, corpus_id: str) -> ReadyCorpus | Failure | None:
    """Do all steps that a corpus still needs until it is ready; return the ready corpus or the failure.

    The journal shows which steps are already done.

    Return None if the run was asked to stop, or ends after the ingest phase.
    """
    history = CorpusState.of(await lane.run.journal.corpus(lane.key, corpus_id))
    if lane.runs_items and not lane.is_unsearched(corpus_id):
        space = lane.space(corpus_id, history)
        return ReadyCorpus(lane=lane, corpus_id=corpus_id, space=space, held=history.holds_memories, prepared=False)
    corpus = lane.corpus(corpus_id)
    work = CorpusPreparation(lane=lane, corpus=corpus, anonymized=lane.anonymize(corpus))
    step = history.next_step(durability=lane.provider.durability, resumed=lane.run.resumed)
    lane.ownership.register(lane.corpus_namespace(lane.space(corpus_id, history), corpus_id), work.anonymized)
    if step is not Step.USE:
        ingest = await work.ingest_and_wait(history, step)
        if not isinstance(ingest, IngestPass):
            return ingest
        space = ingest.space
    else:
        space = IngestPass.after(history, lane, corpus_id, work.anonymized).space
        lane.ownership.register_given(lane.corpus_namespace(space, corpus_id), history.collected.ids)
    lane.samples.append((corpus_id, samples(work.anonymized.memories)))
    return ReadyCorpus(lane=lane, corpus_id=corpus_id, space=space, held=not history.reused_from)


@dataclass(slots=True, kw_only=True)
class CorpusPreparation:
    """The steps that prepare one corpus."""

    lane: OpenLane
    corpus: Corpus
    anonymized: AnonymizedCorpus
    lost_early: bool = False
    """True if the service has lost the memories that it acknowledged before the ingest was interrupted"""

    async def ingest_and_wait(self, history: CorpusState, step: Step) -> IngestPass | Failure | None:
        """Ingest the corpus and wait until it is searchable; return the ingest or the failure.

        If the service has lost the memories from before an interruption, ingest the corpus once more.

        Return None if the run was asked to stop, or ends after the ingest phase.
        """
        lane = self.lane
        ingest = await self.ingest(history, step)
        if not isinstance(ingest, IngestPass) or lane.last is Phase.INGEST:
            return ingest if isinstance(ingest, Failure) else None
        lane.ownership.register_given(lane.corpus_namespace(ingest.space, self.corpus.id), ingest.collected.ids)
        had_lost = self.lost_early
        failure = await self.wait_for_index(ingest)
        if self.lost_early and not had_lost and not lane.is_build_stopped:
            await lane.run.journal.flush()
            return await self.ingest_and_wait(await self._history(), Step.RESET)
        return failure or (None if lane.is_build_stopped else ingest)

    async def ingest(self, history: CorpusState, step: Step) -> IngestPass | Failure | None:
        """Wait for an ingest slot, then ingest the corpus; return the ingest or the failure.

        Return None if the run was asked to stop.
        """
        if step is Step.WAIT:
            return IngestPass.after(history, self.lane, self.corpus.id, self.anonymized)
        async with self.lane.ingest_slots:
            with bind(phase=Phase.INGEST):
                try:
                    return await self._ingest(history, step)
                finally:
                    self.lane.first_write.leave(self.corpus.id)

    async def wait_for_index(self, ingest: IngestPass) -> Failure | None:
        """Wait until the corpus is searchable; if the wait fails, return the failure.

        Otherwise return None, also if the run was asked to stop.
        """
        index = IndexWait(
            lane=self.lane,
            corpus=self.corpus.id,
            space=ingest.space,
            anonymized=self.anonymized,
            ingested=ingest.collected.value,
            last_ack_us=ingest.last_ack_us,
            early=ingest.early_memories,
        )
        with bind(phase=Phase.INDEX, attempt=ingest.space.attempt):
            failure = await index.wait()
        ingest.space = index.space
        self.lost_early = self.lost_early or index.lost_early
        return failure

    async def _ingest(self, history: CorpusState, step: Step) -> IngestPass | Failure | None:
        lane, retries = self.lane, 0
        while not lane.is_build_stopped:
            if step is Step.RESET:
                history, step = await self._reset(history), Step.BEGIN
            ingest = IngestPass.after(history, lane, self.corpus.id, self.anonymized)
            if step is Step.BEGIN and (failure := await ingest.check_unoccupied() or await ingest.set_up()) is not None:
                return failure
            if step is Step.DOUBT:
                # an older version did not record which batch it was about to send
                repeats = lane.provider.on_unknown == "repeat"
                uncounted = history.uncounted if lane.run.resumed and not retries else ()
                resolved = await resolve_doubts(ingest, history.doubts, uncounted) if history.is_marked else repeats
                if isinstance(resolved, Failure):
                    return self._fail_in_doubt(ingest, resolved)
                if not resolved:
                    step = Step.RESET
                    continue
            complete = await ingest.run()
            if not isinstance(complete, Failure):
                return ingest if complete else None
            if complete.kind not in DOUBTFUL:
                return complete
            if retries >= lane.plan.provider.config.rate_limit.max_retries:
                return self._fail_in_doubt(ingest, complete)
            retries += 1
            await lane.run.journal.flush()
            history, step = await self._history(), Step.DOUBT
        return None

    async def _history(self) -> CorpusState:
        return CorpusState.of(await self.lane.run.journal.corpus(self.lane.key, self.corpus.id))

    async def _reset(self, history: CorpusState) -> CorpusState:
        """Clear the namespace of the last attempt, and return the state of a new attempt."""
        ingest = IngestPass.after(history, self.lane, self.corpus.id, self.anonymized)
        if ingest.sent or history.doubts or not history.is_marked:
            self._report_reset(history, ingest.sent)
        await self.lane.clear(self.corpus.id, ingest.with_batches(*sorted(history.doubts)))
        return CorpusState(attempt=history.attempt + 1)

    def _report_reset(self, history: CorpusState, sent: int) -> None:
        name, why = self.lane.provider.name, ""
        if history.doubts:
            why = f": {name} cannot tell whether an add was stored"
        elif self.lost_early:
            why = f": {name} has lost the memories that it acknowledged before the ingest was interrupted"
        cost = f", including {counted(sent, 'acknowledged memor(y|ies)')}" if sent else ""
        text = f"{self.corpus.id}: attempt {history.attempt} abandoned{why}; everything is ingested again{cost}"
        data = {"corpus": self.corpus.id, "again": sent}
        self.lane.report(Event(kind=RESET, scope=self.lane.key, message=text, data=data))

    def _fail_in_doubt(self, ingest: IngestPass, failure: Failure) -> Failure:
        """Record and return a failure that leaves batches in doubt; a resume finds out whether they were stored."""
        data = {"clean": False, "doubt": True}
        row = self.lane.corpus_row(CorpusKind.FAILED, self.corpus.id, ingest.space, failure=failure, data=data)
        self.lane.run.journal.append(row)
        return failure
