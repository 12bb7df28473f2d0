"""Bring one corpus from whatever the journal knows of it to ready: enter, ingest, resolve doubt, wait.

Here too:

* Batches in doubt: sent, perhaps, and nothing came back. Are they stored? Asked before anything is thrown away.

Example::

    outcome = await prepare(lane, "conv-26")      # a Ready, a Failure, or None when the run was asked to stop
    settled = await settle(ingest, doubts=[7])      # True: sent again or accepted; False: no one can tell; a Failure

Only ingest holds one of the lane's ingest slots. A batch of which no one knows whether it was stored is resolved as
the provider's ``on_unknown`` states: it is sent again (repeat), or the provider is asked (probe, reset). Only where it
cannot tell is the namespace cleared and the corpus ingested again under the next attempt.

What the provider answers decides, in this order: how much the namespace holds, then whether a search finds the
memories of the batch by their ids. Only where neither tells is a namespace cleared.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from bench.engine.anonymizer import Veil
from bench.engine.corpus_state import CorpusState, Step
from bench.engine.ingest import Ending, IndexWait, IngestPass
from bench.engine.isolation import look, samples
from bench.engine.open_lane import OpenLane, Ready
from bench.engine.outcome import Failure
from bench.engine.run_context import Attempt, reread
from bench.events import bind
from bench.journal import CorpusKind, CorpusRow, Event
from bench.model import Corpus, Memory, Phase, Space
from bench.providers import Counts
from bench.providers.batching import whole_id

LOOKS = 3
"""as often a count must stay the same before what is missing counts as not stored"""
LEAST_PAUSE_S = 0.3


async def settle(ingest: IngestPass, doubts: Collection[int]) -> bool | Failure:
    """Accept the batches that are stored, leave the others to be sent; False when nothing can tell.

    A failure when the provider is not there at all: it cannot be cleared either, so the doubt stays.
    """
    if ingest.lane.provider.on_unknown == "repeat":
        return True
    stored = await _by_count(ingest, doubts)
    if stored is None:
        stored = await _by_search(ingest, doubts)
    if stored is None or isinstance(stored, Failure):
        return stored or False
    if not all(ingest.can_accept(position) for position in stored):
        return False
    for position in sorted(stored):
        ingest.accept(position)
    return True


async def _by_count(ingest: IngestPass, doubts: Collection[int]) -> set[int] | Failure | None:
    """All of them or none, where the number of memories reports it; None where it reports neither."""
    provider, live = ingest.lane.provider, ingest.lane.live
    if not isinstance(provider, Counts):
        return None
    before, sizes = ingest.sent, sum(len(ingest.batch(position)) for position in doubts)
    for number in range(LOOKS):
        if number:
            await live.stopping.pause_for(max(LEAST_PAUSE_S, provider.wait.interval_s))
        counted = await live.aside(lambda: reread(lambda: provider.count(ingest.space)), ingest.ledger)
        if counted.value is None:
            return _away(counted)
        if counted.value == before + sizes:
            return set(doubts)
        if counted.value != before:
            return None
    return set()


async def _by_search(ingest: IngestPass, doubts: Collection[int]) -> set[int] | Failure | None:
    """The batches that are found by their ids; None where one is not and that proves nothing.

    It proves something of a provider whose adds are searchable at once, while what was acknowledged last is found.
    """
    stored = set[int]()
    for position in doubts:
        seen = await _seen(ingest, position)
        if isinstance(seen, Failure) or seen is None:
            return seen
        if seen:
            stored.add(position)
        elif not await _is_missing(ingest, position):
            return None
    return stored


async def _is_missing(ingest: IngestPass, position: int) -> bool:
    """Look again and again, and each time for a batch too that is known to be there."""
    if ingest.lane.provider.wait.by != "nothing" or not ingest.done:
        return False
    for _ in range(LOOKS - 1):
        await ingest.lane.live.stopping.pause_for(LEAST_PAUSE_S)
        if await _seen(ingest, max(ingest.done)) is not True or await _seen(ingest, position) is not False:
            return False
    return True


async def _seen(ingest: IngestPass, position: int) -> bool | Failure | None:
    """Whether the first and the last memory of a batch are found by their ids; None when only one is, or on errors."""
    space, memories = ingest.with_batches(position), ingest.batch(position)
    found = set[bool]()
    for memory in {one.id: one for one in (*memories[:1], *memories[-1:])}.values():
        looked = await ingest.lane.live.aside(partial(reread, partial(_finds, ingest, space, memory)), ingest.ledger)
        if looked.value is None:
            return _away(looked)
        found.add(looked.value)
    return found.pop() if len(found) == 1 else None


async def _finds(ingest: IngestPass, space: Space, memory: Memory) -> bool:
    found = await look(ingest.lane.provider, space, memory.content)
    return any(whole_id(memory.id) in map(whole_id, hit.source_ids) for hit in found.hits)


def _away(looked: Attempt[int] | Attempt[bool]) -> Failure | None:
    return looked.failure if looked.unreached else None


async def prepare(lane: OpenLane, corpus_id: str) -> Ready | Failure | None:
    """Do what is missing until the corpus is ready, or ingested where the run stops after that."""
    history = CorpusState.of(await lane.live.journal.corpus(lane.key, corpus_id))
    if lane.asks and not lane.is_unsearched(corpus_id):
        space = lane.space(corpus_id, history)
        return Ready(lane=lane, corpus_id=corpus_id, space=space, held=history.held, prepared=False)
    corpus = lane.corpus(corpus_id)
    work = Preparation(lane=lane, corpus=corpus, veil=lane.veil(corpus))
    step = history.next_step(durability=lane.provider.durability, resumed=lane.live.resumed)
    lane.ownership.register(lane.place(lane.space(corpus_id, history), corpus_id), work.veil)
    if step is not Step.USE:
        ingest = await work.ingested(history, step)
        if not isinstance(ingest, IngestPass):
            return ingest
        if lane.last is Phase.INGEST:
            return None
        lane.ownership.register_given(lane.place(ingest.space, corpus_id), ingest.collected.ids)
        failure = await work.indexed(ingest)
        if failure is not None or lane.build_halted:
            return failure
        space = ingest.space
    else:
        space = IngestPass.after(history, lane, corpus_id, work.veil).space
        lane.ownership.register_given(lane.place(space, corpus_id), history.collected.ids)
    lane.remember_samples(corpus_id, samples(work.veil.memories))
    return Ready(lane=lane, corpus_id=corpus_id, space=space, held=not history.reused_from)


@dataclass(slots=True, kw_only=True)
class Preparation:
    """The work on one corpus."""

    lane: OpenLane
    corpus: Corpus
    veil: Veil
    retries: int = 0

    async def ingested(self, history: CorpusState, step: Step) -> IngestPass | Failure | None:
        """Ingest under a slot of the pool; None when the run was asked to stop."""
        if step is Step.WAIT:
            return IngestPass.after(history, self.lane, self.corpus.id, self.veil)
        async with self.lane.ingest_slots:
            with bind(phase=Phase.INGEST):
                try:
                    return await self._ingest(history, step)
                finally:
                    self.lane.first_write.leave(self.corpus.id)

    async def indexed(self, ingest: IngestPass) -> Failure | None:
        """Wait for the index; None also when the run was asked to stop."""
        index = IndexWait(
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

    async def _ingest(self, history: CorpusState, step: Step) -> IngestPass | Failure | None:
        while not self.lane.build_halted:
            if step is Step.RESET:
                history, step = await self._reset(history), Step.BEGIN
            ingest = IngestPass.after(history, self.lane, self.corpus.id, self.veil)
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

    def _result(self, ingest: IngestPass, ending: Ending) -> IngestPass | Failure | None:
        return ending.failure if ending.failure is not None else ingest if ending.complete else None

    async def _reread(self) -> CorpusState:
        """Take the corpus as the journal has it now."""
        await self.lane.live.journal.flush()
        return CorpusState.of(await self.lane.live.journal.corpus(self.lane.key, self.corpus.id))

    async def _settled(self, ingest: IngestPass, history: CorpusState) -> bool | Failure:
        """Settle what is in doubt without a reset, where something can tell."""
        if not history.is_marked:  # an older version did not say which batch it was about to send
            return self.lane.provider.on_unknown == "repeat"
        return await settle(ingest, history.doubts)

    async def _reset(self, history: CorpusState) -> CorpusState:
        """Clear what the last attempt may have left and begin the next one."""
        ingest = IngestPass.after(history, self.lane, self.corpus.id, self.veil)
        await self.lane.clear(self.corpus.id, ingest.with_batches(*sorted(history.doubts)))
        text = f"{self.corpus.id}: attempt {history.attempt} abandoned, ingested again"
        self.lane.tell(Event(kind="corpus_reset", scope=self.lane.key, message=text))
        return CorpusState(attempt=history.attempt + 1)

    def _give_up(self, ingest: IngestPass, failure: Failure) -> Failure:
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
