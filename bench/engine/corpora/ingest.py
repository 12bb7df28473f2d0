"""Ingest one corpus into one namespace, in batches.

Example::

    complete = await IngestPass.after(history, lane, corpus, anonymized).run()     # True, False or a Failure

Up to `PARALLEL_BATCHES` batches are in flight at a time. They are sent one after the other if the provider requires it
(``ingest.order: serial``), or if the benchmark wants a pause between batches.

The journal gets one row before a batch is sent, and one row with the response. After a crash, only the batches in
flight are in doubt: the provider may or may not have stored them. If the provider stores its data only in this process,
no row is written before a batch, because a resumed run cannot use this data.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

import anyio

from bench.engine.corpora.anonymizer import AnonymizedCorpus
from bench.engine.corpora.corpus_state import SPOILS, BatchResponses, CorpusState, returned
from bench.engine.corpora.isolation import (
    count_found,
    look,
    samples,
    shares_text,
)
from bench.engine.items.answer import full_context_tokens
from bench.engine.open_lane import OpenLane
from bench.engine.outcome import Failure
from bench.engine.run_context import OCCUPIED, CallOwner, retry_unreadable
from bench.engine.stopping import monotonic_us
from bench.errors import CallError, Contaminated, IngestFailed
from bench.journal import CorpusKind, CorpusRow
from bench.journal.rows import now
from bench.model import Call, Ingested, Memory, Space, Usage
from bench.plan.validity import probe_text
from bench.providers import Assumes, Finishes, Prepares, merge_captures
from bench.providers.batching import batches, pieces, whole_id
from bench.visible_text import counted

PARALLEL_BATCHES = 8
EMBEDDED_AHEAD = 8
"""number of requests to the embedding model that are sent together, before the batches that need their vectors"""
DOUBTFUL = frozenset({"unavailable", "timeout"})
"""kinds of errors that leave it unknown whether the batch was stored"""
NOT_STORED = frozenset({"auth", "quota", "rate_limited", "rejected"})
"""kinds of errors which show that the batch was not stored, so that it can be sent again"""

LOST = "lost"
"""outcome of a call that a killed process made, so that its response is unknown"""

Batch = tuple[int, tuple[Memory, ...]]
NO_IDS: Mapping[str, tuple[str, ...]] = {}


@dataclass(slots=True, kw_only=True)
class IngestPass:
    """One process's work on the ingest of a corpus: it sends the batches that are not stored yet."""

    lane: OpenLane
    corpus: str
    space: Space
    anonymized: AnonymizedCorpus
    collected: BatchResponses = field(default_factory=BatchResponses)
    prepared: Mapping[str, object] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    before_interruption: frozenset[int] = frozenset()
    """positions of the batches that were acknowledged before the ingest was first interrupted"""
    failure: Failure | None = None
    last_ack_us: int = 0
    has_namespace_row: bool = False
    """True if a journal row of this attempt already has the name of its namespace"""
    embedding: anyio.Lock = field(default_factory=anyio.Lock)
    embedded: set[str] = field(default_factory=set)
    """ids of the memories whose texts are already embedded"""
    upcoming: Iterator[Memory] = field(default_factory=lambda: iter(()))
    """the memories that are not embedded yet, in the order in which they are sent"""

    @classmethod
    def after(cls, history: CorpusState, lane: OpenLane, corpus: str, anonymized: AnonymizedCorpus) -> IngestPass:
        """Return the ingest that continues at ``history``, the state of the corpus in the journal."""
        return cls(
            lane=lane,
            corpus=corpus,
            space=lane.space(corpus, history),
            anonymized=anonymized,
            collected=history.collected,
            prepared=history.prepared,
            done=set(history.batches),
            before_interruption=history.before_interruption,
            has_namespace_row=bool(history.namespace),
        )

    # ---- the steps

    async def check_unoccupied(self) -> Failure | None:
        """Check that the namespace is empty, if the service has only one; return the failure if it contains memories.

        These memories are not recorded in the journal, so that a cleanup does not delete them.
        """
        chosen = samples(self.anonymized.memories)
        if not self.lane.single or not chosen:
            return None
        looked = await self.lane.run.attempt_and_journal(lambda: self._count_held(chosen[-1]), self.call_owner)
        if looked.value:
            held = (
                f"{self.lane.provider.name} has only one namespace, which already contained "
                f"{counted(looked.value, 'memor(y|ies)')}"
            )
            text = f"{held} before this run: nothing was written or deleted; empty it, then resume"
            return Failure(kind=OCCUPIED, message=text, stops_lane=True)
        return looked.failure

    async def set_up(self) -> Failure | None:
        """Create the namespace at the provider, and check that it is empty; return the failure if a step fails."""
        if self.lane.provider.on_unknown == "reset" or self.lane.single:
            await self._intent({})
        entered = await self.lane.run.attempt_and_journal(self._prepare_empty, self.call_owner)
        if entered.failure is not None:
            self._append_row(CorpusKind.FAILED, failure=entered.failure, data={"clean": False})
        return entered.failure

    async def run(self) -> bool | Failure:
        """Send the missing batches, then call the provider's ``finish``, if it has this method.

        Return True if the ingest is complete, and False if it was stopped between two batches. If it failed, return the
        failure.
        """
        began = monotonic_us()
        done = frozenset(self.done)
        missing = (batch for batch in self._batches() if batch[0] not in done)
        self.upcoming = (memory for at, some in self._batches() if at not in done for memory in some)
        await self._send_all(missing)
        if self.failure is not None:
            return self.failure
        if self.lane.is_build_stopped:
            self._append_row(CorpusKind.CLEAN_STOP)
            return False
        finished = await self.lane.run.attempt(self._finish, self.call_owner)
        if finished.failure is not None:
            self.lane.run.journal_calls(finished.calls, self.call_owner)
            if finished.failure.kind not in DOUBTFUL:
                self._append_row(CorpusKind.FAILED, failure=finished.failure, data={"clean": False})
            return finished.failure
        last = finished.value or Ingested()
        self._collect(last)
        times = {"ingest": monotonic_us() - began}
        if isinstance(self.lane.provider, Finishes):
            times |= finished.times_us
        memories = self.anonymized.memories
        tokens = full_context_tokens(memories, dated=self.lane.plan.unit != "session")
        data = {**returned(last), "memories": len(memories), "tokens": tokens, "sha256": self.anonymized.sha256}
        self._append_row(CorpusKind.INGESTED, data=data, times_us=times, calls=finished.calls)
        return True

    def accept(self, position: int, given: Mapping[str, tuple[str, ...]]) -> None:
        """Record that a batch in doubt is stored; ``given`` has the ids of its memories, as far as known."""
        self.done.add(position)
        got = self._assumed(self.batch(position), given)
        self._collect(got)
        self._append_row(CorpusKind.BATCH, data={"batch": position, "found_stored": True, **returned(got)})

    def count_lost(self, batches: Collection[int], *, cost_usd: str | None) -> None:
        """Add calls that a killed process made for batches without a response; ``cost_usd`` is the price of a call."""
        call = Call(
            endpoint=f"{self.lane.plan.provider.config.name}.add",
            role="provider",
            attempt=1,
            status=None,
            outcome=LOST,
            started_at=now(),
            usage=None if cost_usd is not None else Usage(),
            cost_usd=cost_usd,
        )
        for position in batches:
            self.lane.run.budget.spend(call)
            self._mark_counted(position)
        self.lane.run.journal_calls([call] * len(batches), self.call_owner)

    def _mark_counted(self, position: int) -> None:
        """Record that the calls of a batch in doubt are in the journal, so that a resume does not count them again."""
        if self.lane.provider.durability != "process":
            self._append_row(CorpusKind.INTENT, data={"batch": position, "counted": True})

    def can_accept(self, position: int) -> bool:
        """Return True if the hits of a batch can be mapped to memories although its response is lost."""
        return all(self._assumed(self.batch(position), {}).ids.values())

    def count_similar(self, memory: Memory, *, besides: int) -> int:
        """Count the stored memories whose text contains the text of ``memory``, or is contained in this text.

        The batch ``besides`` and batches without a response do not count.
        """
        others = (batch for position, batch in self._batches() if position in self.done - {besides})
        return sum(shares_text(memory.content, other.content) for batch in others for other in batch)

    def batch(self, position: int) -> tuple[Memory, ...]:
        """Return the memories of the batch at this position; empty if there is no such batch."""
        return next((memories for at, memories in self._batches() if at == position), ())

    @property
    def early_memories(self) -> tuple[Memory, ...]:
        """Return the memories that were acknowledged before the ingest was first interrupted; empty if it was not."""
        if not self.before_interruption:
            return ()
        early = {
            whole_id(memory.id)
            for position, some in self._batches()
            if position in self.before_interruption
            for memory in some
        }
        return tuple(memory for memory in self.anonymized.memories if whole_id(memory.id) in early)

    @property
    def sent(self) -> int:
        """Return the number of memories in acknowledged batches; each piece of a split memory counts."""
        return sum(len(memories) for position, memories in self._batches() if position in self.done)

    def with_batches(self, *positions: int, given: Mapping[str, tuple[str, ...]] = NO_IDS) -> Space:
        """Return the namespace with the values that it would have if these batches in doubt were stored.

        With these values, hits of the batches can be mapped to memories, and the batches can be cleared.
        """
        captures = self.space.captures
        for position in positions:
            captures = merge_captures(captures, self._assumed(self.batch(position), given).captures)
        return replace(self.space, captures=captures)

    def _assumed(self, memories: tuple[Memory, ...], given: Mapping[str, tuple[str, ...]]) -> Ingested:
        provider = self.lane.provider
        return provider.assumed(self.space, memories, given) if isinstance(provider, Assumes) else Ingested()

    # ---- inside

    async def _prepare_empty(self) -> None:
        await self._prepare()
        chosen = samples(self.anonymized.memories)
        if self.lane.checks_isolation and chosen:
            await self.lane.first_write.wait_for_turn(self.corpus)
            held = await self._count_held(chosen[-1])
            if held and self._may_be_own:
                await self.lane.provider.clear(self.space)
                await self._prepare()
                held = await self._count_held(chosen[-1])
            data: dict[str, object] = {"held": held}
            if held:
                with suppress(CallError):
                    hits = (await look(self.lane.provider, self.space, chosen[-1].content)).hits
                    data |= self.lane.owner_among(self.corpus, self.space, self.anonymized, hits)
            probe = self.lane.append_probe("emptiness", self.corpus, self.space, passed=not held, data=data)
            if held:
                raise Contaminated(probe_text(probe))

    async def _count_held(self, sample: Memory) -> int:
        return await retry_unreadable(lambda: count_found(self.lane.provider, self.space, sample))

    async def _prepare(self) -> None:
        provider = self.lane.provider
        if isinstance(provider, Prepares):
            self.prepared = await provider.prepare(self.space)
            self.space = replace(self.space, captures=self.prepared)
            if self.prepared:  # without what was captured nothing clears what was made
                await self._intent({})

    @property
    def _may_be_own(self) -> bool:
        """Return True if an earlier process may have written to this new namespace, and the provider can clear it.

        If a process writes no row before it sends a batch, it can end before it wrote any row about the namespace.
        """
        provider = self.lane.provider
        return self.lane.run.resumed and provider.on_unknown == "repeat" and provider.capabilities.clear

    async def _send_all(self, waiting: Iterator[Batch]) -> None:
        delay_s = self.lane.plan.benchmark.config.ingestion.delay_between_batches / 1000
        if delay_s or self.lane.batching.order == "serial":  # side by side no time would lie between two
            await self._send_some(waiting, delay_s)
            return
        async with anyio.create_task_group() as senders:
            for _ in range(PARALLEL_BATCHES):
                senders.start_soon(self._send_some, waiting)

    async def _send_some(self, waiting: Iterator[Batch], delay_s: float = 0) -> None:
        for position, memories in waiting:
            if self.failure is not None or self.lane.is_build_stopped:
                return
            if self.done and delay_s:
                await self.lane.run.stopping.pause_for(delay_s)
            await self._send(position, memories)

    async def _send(self, position: int, memories: tuple[Memory, ...]) -> None:
        if self.lane.provider.durability != "process":
            # durable before it is sent, with all rows before it: a kill leaves only batches without a row in doubt
            await self._intent({"batch": position})
        await self.lane.run.journal.wait_for_room()
        sent = None
        try:
            sent = await self.lane.run.attempt(lambda: self._ingest(memories), self.call_owner)
        finally:
            if sent is None:  # canceled, so its calls are journaled
                self._mark_counted(position)
        if sent.failure is None and sent.value is not None:
            self.last_ack_us = monotonic_us()
            self.lane.first_write.done()
            self._collect(sent.value)
            self.done.add(position)
            data = {"batch": position, "sent": len(memories), **returned(sent.value)}
            self._append_row(CorpusKind.BATCH, data=data, times_us=sent.times_us, calls=sent.calls)
            return
        if self.failure is None or self.failure.kind not in SPOILS:
            self.failure = sent.failure
        self.lane.run.journal_calls(sent.calls, self.call_owner)
        if sent.failure is not None and sent.failure.kind not in DOUBTFUL:
            clean = sent.failure.kind in NOT_STORED
            data = {"clean": True, "batch": position} if clean else {"clean": False}
            self._append_row(CorpusKind.FAILED, failure=sent.failure, data=data)
        else:
            self._mark_counted(position)

    async def _ingest(self, memories: tuple[Memory, ...]) -> Ingested:
        await self._embed_ahead(memories)
        got = await self.lane.provider.ingest(self.space, memories)
        if got.rejected:
            name, reason = next(iter(got.rejected.items()))
            raise IngestFailed(
                f"{name} refused {len(got.rejected)} of {counted(len(memories), 'memor(y|ies)')}: {reason}"
            )
        return got

    async def _embed_ahead(self, memories: tuple[Memory, ...]) -> None:
        """Embed the texts of the next batches in advance, in requests of full size. The embedder caches the vectors."""
        size, embedder = self.lane.batching.embeds, self.lane.models.embedders.get(self.lane.key)
        if not size or embedder is None:
            return
        async with self.embedding:
            while memories[-1].id not in self.embedded:
                window = list(islice(self.upcoming, size * EMBEDDED_AHEAD))
                if not window:
                    return
                texts = [memory.content for memory in window]
                async with anyio.create_task_group() as requests:
                    for start in range(0, len(texts), size):
                        some = texts[start : start + size]
                        requests.start_soon(partial(embedder.embed, some, kind="document"))
                self.embedded.update(memory.id for memory in window)

    async def _finish(self) -> Ingested:
        provider = self.lane.provider
        return await provider.finish(self.space, self.collected.value) if isinstance(provider, Finishes) else Ingested()

    def _batches(self) -> Iterator[Batch]:
        batching = self.lane.batching
        wanted = self.lane.plan.benchmark.config.ingestion.batch_size
        return enumerate(batches(pieces(self.anonymized.memories, batching), batching, wanted=wanted))

    def _collect(self, got: Ingested) -> None:
        self.collected.take(got)
        if got.captures:
            self.space = replace(self.space, captures=merge_captures(self.space.captures, got.captures))

    # ---- rows

    @property
    def call_owner(self) -> CallOwner:
        return CallOwner(self.lane.key, self.corpus, self.space.attempt)

    async def _intent(self, data: Mapping[str, object]) -> None:
        await self.lane.run.journal.append_durable(self._corpus_row(CorpusKind.INTENT, data=data))

    def _append_row(self, kind: CorpusKind, **fields: object) -> None:
        self.lane.run.journal.append(self._corpus_row(kind, **fields))  # type: ignore[arg-type]

    def _corpus_row(self, kind: CorpusKind, data: Mapping[str, object] | None = None, **fields: object) -> CorpusRow:
        """Return a journal row with the values that a later process needs to clear the namespace."""
        prepared = {"prepared": dict(self.prepared)} if self.prepared else {}
        name = {} if self.has_namespace_row else {"namespace": self.space.namespace}
        self.has_namespace_row = True
        data = {**(data or {}), **prepared, **name}
        return self.lane.corpus_row(kind, self.corpus, self.space, data=data, **fields)  # type: ignore[arg-type]
