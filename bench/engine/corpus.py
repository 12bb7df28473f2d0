"""Bring one corpus from whatever the journal knows of it to ready: enter, ingest, resolve doubt, wait.

Example::

    outcome = await prepare(lane, "conv-26")      # a Ready, a Failure, or None when the run was asked to stop

Only ingest holds one of the lane's ingest slots. A batch of which nobody knows whether it was stored is resolved as
the provider's ``on_unknown`` says: it is sent again (repeat), or the provider is asked (probe, reset). Only where it
cannot tell is the namespace cleared and the corpus ingested again under the next attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.engine.doubt import settle
from bench.engine.history import History, Step
from bench.engine.indexing import Index
from bench.engine.ingesting import Ending, Ingest
from bench.engine.isolation import samples
from bench.engine.live import Failure
from bench.engine.opaque import Veil
from bench.events import bind
from bench.journal import CorpusKind, CorpusRow, Event
from bench.model import Corpus, Phase, Space

if TYPE_CHECKING:
    from bench.engine.lane import OpenLane


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A corpus in memory."""

    corpus: Corpus
    veil: Veil
    turn_texts: Mapping[str, str]


@dataclass(slots=True, kw_only=True)
class Ready:
    """A corpus whose items can be asked; shared by the workers that ask them.

    It is read when its first item is asked and goes with its last, so that corpora which wait cost no memory.
    """

    lane: OpenLane
    corpus_id: str
    space: Space
    open_items: int = 0
    """items that have not ended in this process"""
    all_good: bool = True
    """no item ended as error or not_ready: the namespace may be cleared"""
    held: bool = True
    """the provider holds it"""
    prepared: bool = True
    """False: every search is in the journal, so the provider was not asked whether it is ready"""
    _content: Content | None = None

    def closed(self) -> Ready:
        """The same, with its content let go."""
        self._content = None
        return self

    @property
    def content(self) -> Content:
        """The corpus, its memories as the provider knows them, and the texts of its turns."""
        if self._content is None:
            corpus = self.lane.corpus(self.corpus_id)
            texts = {turn.id: turn.text for session in corpus.sessions for turn in session.turns}
            self._content = Content(corpus=corpus, veil=self.lane.veil(corpus), turn_texts=texts)
        return self._content


async def prepare(lane: OpenLane, corpus_id: str) -> Ready | Failure | None:
    """Do what is missing until the corpus is ready, or ingested where the run stops after that."""
    history = History.of(await lane.live.journal.corpus(lane.key, corpus_id))
    if lane.asks and corpus_id not in lane.todo.unsearched:
        space = lane.space(corpus_id, history)
        return Ready(lane=lane, corpus_id=corpus_id, space=space, held=history.held, prepared=False)
    corpus = lane.corpus(corpus_id)
    work = Preparation(lane=lane, corpus=corpus, veil=lane.veil(corpus))
    step = history.next_step(durability=lane.provider.durability, resumed=lane.live.resumed)
    lane.ownership.register(lane.place(lane.space(corpus_id, history), corpus_id), work.veil)
    if step is not Step.USE:
        ingest = await work.ingested(history, step)
        if not isinstance(ingest, Ingest):
            return ingest
        if lane.last is Phase.INGEST:
            return None
        lane.ownership.register_given(lane.place(ingest.space, corpus_id), ingest.collected.ids)
        failure = await work.indexed(ingest)
        if failure is not None or lane.halted:
            return failure
        space = ingest.space
    else:
        space = Ingest.after(history, lane, corpus_id, work.veil).space
        lane.ownership.register_given(lane.place(space, corpus_id), history.collected.ids)
    lane.remember_samples(corpus_id, samples(work.veil.memories))
    return Ready(lane=lane, corpus_id=corpus_id, space=space)


@dataclass(slots=True, kw_only=True)
class Preparation:
    """The work on one corpus."""

    lane: OpenLane
    corpus: Corpus
    veil: Veil
    retries: int = 0

    async def ingested(self, history: History, step: Step) -> Ingest | Failure | None:
        """Ingest under a slot of the pool; None when the run was asked to stop."""
        if step is Step.WAIT:
            return Ingest.after(history, self.lane, self.corpus.id, self.veil)
        async with self.lane.ingest_slots:
            with bind(phase=Phase.INGEST):
                try:
                    return await self._ingest(history, step)
                finally:
                    self.lane.first_write.leave(self.corpus.id)

    async def indexed(self, ingest: Ingest) -> Failure | None:
        """Wait for the index; None also when the run was asked to stop."""
        index = Index(
            lane=self.lane,
            corpus=self.corpus.id,
            space=ingest.space,
            veil=self.veil,
            ingested=ingest.collected.value,
            last_ack_us=ingest.last_ack_us,
        )
        with bind(phase=Phase.INDEX, attempt=ingest.space.attempt):
            failure = await index.wait()
        ingest.space = index.space
        return failure

    async def _ingest(self, history: History, step: Step) -> Ingest | Failure | None:
        while not self.lane.halted:
            if step is Step.RESET:
                history, step = await self._reset(history), Step.BEGIN
            ingest = Ingest.after(history, self.lane, self.corpus.id, self.veil)
            if step is Step.BEGIN and (failure := await ingest.occupied() or await ingest.enter()) is not None:
                return failure
            if step is Step.DOUBT and (settled := await self._settled(ingest, history)) is not True:
                if settled is not False:
                    return self._give_up(ingest, settled)
                step = Step.RESET
                continue
            ending = await ingest.run()
            if ending.failure is None or not ending.doubtful:
                return self._result(ingest, ending)
            if self.retries >= self.lane.max_retries:
                return self._give_up(ingest, ending.failure)
            self.retries += 1
            history, step = await self._reread(), Step.DOUBT
        return None

    def _result(self, ingest: Ingest, ending: Ending) -> Ingest | Failure | None:
        return ending.failure if ending.failure is not None else ingest if ending.complete else None

    async def _reread(self) -> History:
        """Take the corpus as the journal has it now."""
        await self.lane.live.journal.flush()
        return History.of(await self.lane.live.journal.corpus(self.lane.key, self.corpus.id))

    async def _settled(self, ingest: Ingest, history: History) -> bool | Failure:
        """Settle what is in doubt without a reset, where that can be told."""
        if not history.is_marked:  # an older version did not say which batch it was about to send
            return self.lane.provider.on_unknown == "repeat"
        return await settle(ingest, history.doubts)

    async def _reset(self, history: History) -> History:
        """Clear what the last attempt may have left and begin the next one."""
        space = Ingest.after(history, self.lane, self.corpus.id, self.veil).space
        await self.lane.clear(self.corpus.id, space)
        text = f"{self.corpus.id}: attempt {history.attempt} given up, ingested anew"
        self.lane.tell(Event(kind="corpus_reset", scope=self.lane.key, message=text))
        return History(attempt=history.attempt + 1)

    def _give_up(self, ingest: Ingest, failure: Failure) -> Failure:
        """Leave the corpus as it is; what is in doubt is settled by the next process, when the provider is back."""
        self.lane.live.journal.append(
            CorpusRow(
                lane=self.lane.key,
                corpus=self.corpus.id,
                attempt=ingest.space.attempt,
                kind=CorpusKind.FAILED,
                outcome=failure.kind,
                message=failure.message,
                data={"clean": False, "doubt": True},
            )
        )
        return failure
