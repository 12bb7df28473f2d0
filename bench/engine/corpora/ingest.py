"""Ingest one corpus into one namespace, batch by batch, so that a crash leaves only batches in flight in doubt.

Also in this module:

* Wait for the index of a provider, by its status calls and by a sentinel; this uses no ingest slot.

Example::

    end = await IngestPass.after(history, lane, corpus, anonymized).run()     # an Ending
    failure = await IndexWait(lane=lane, corpus=corpus, space=space, anonymized=anonymized, ingested=ingested).wait()

Batches are sent one after the other if the provider requires it (``ingest.order: serial``) or the benchmark wants a
pause between them; else up to `PARALLEL_BATCHES` are in flight. Each is in doubt from its intent to its row.

Journal rows: per batch, a durable intent with its position, then a row with the provider's response; at the end
``ingested``, or ``clean_stop`` when the run stops between two batches. A store in the memory of the process has no
intents, because a resumed run cannot use it.

A timeout is `NotReady`, a failed index `IngestFailed`; neither counts as a wrong answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Literal

import anyio

from bench.engine.corpora.anonymizer import AnonymizedCorpus
from bench.engine.corpora.build_contents import steady, unsearched
from bench.engine.corpora.corpus_state import SPOILS, BatchResponses, CorpusState, returned
from bench.engine.corpora.isolation import (
    Sentinel,
    count_found,
    foreign_hits,
    foreign_sample,
    look,
    samples,
    shares_text,
)
from bench.engine.items.answer import full_context_tokens
from bench.engine.open_lane import OpenLane
from bench.engine.outcome import Failure
from bench.engine.run_context import OCCUPIED, CallOwner, retry_unreadable
from bench.engine.stopping import monotonic_us
from bench.errors import CallError, Contaminated, IngestFailed, NotReady
from bench.journal import CorpusKind, CorpusRow, ProbeRow
from bench.model import Ingested, Memory, Space
from bench.plan.validity import in_words
from bench.providers import Assumes, AtLeast, Counts, Finishes, Prepares, is_reusable, merge_captures
from bench.providers.batching import batches, pieces

PARALLEL_BATCHES = 8
EMBEDDED_AHEAD = 8
"""requests to the embedding model that are sent ahead of the batches with their texts"""
DOUBTFUL = frozenset({"unavailable", "timeout"})
"""kinds of errors after which it is unknown whether the batch was stored"""
NOT_STORED = frozenset({"auth", "quota", "rate_limited", "rejected"})
"""kinds of errors that mean the batch was not stored: the ingest can continue with this batch"""

Batch = tuple[int, tuple[Memory, ...]]
NO_IDS: Mapping[str, tuple[str, ...]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestEnd:
    """The end of an ingest: complete, failed, or, with neither set, stopped between two batches."""

    complete: bool = False
    failure: Failure | None = None

    @property
    def doubtful(self) -> bool:
        return self.failure is not None and self.failure.kind in DOUBTFUL


@dataclass(slots=True, kw_only=True)
class IngestPass:
    """The ingest of the batches of a corpus that are not stored yet."""

    lane: OpenLane
    corpus: str
    space: Space
    anonymized: AnonymizedCorpus
    collected: BatchResponses = field(default_factory=BatchResponses)
    prepared: Mapping[str, object] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    failure: Failure | None = None
    last_ack_us: int = 0
    has_namespace_row: bool = False
    """a row of this attempt contains the name of its namespace"""
    embedding: anyio.Lock = field(default_factory=anyio.Lock)
    embedded: set[str] = field(default_factory=set)
    """ids of the memories whose texts are already embedded"""
    upcoming: Iterator[Memory] = field(default_factory=lambda: iter(()))
    """the memories to send that are not embedded yet"""

    @classmethod
    def after(cls, history: CorpusState, lane: OpenLane, corpus: str, anonymized: AnonymizedCorpus) -> IngestPass:
        """Return the ingest that continues at the state in the journal."""
        return cls(
            lane=lane,
            corpus=corpus,
            space=lane.space(corpus, history),
            anonymized=anonymized,
            collected=history.collected,
            prepared=history.prepared,
            done=set(history.batches),
            has_namespace_row=bool(history.namespace),
        )

    # ---- the steps

    async def check_unoccupied(self) -> Failure | None:
        """Return a failure when the only namespace of a service is not empty.

        No row records the content that was found, so a cleanup does not delete it.
        """
        chosen = samples(self.anonymized.memories)
        if not self.lane.single or not chosen:
            return None
        looked = await self.lane.run.attempt_and_journal(lambda: self._count_held(chosen[-1]), self.call_owner)
        if looked.value:
            held = f"{self.lane.provider.name} has only one namespace, which already contained {looked.value} memories"
            text = f"{held} before this run: nothing was written or deleted; empty it, then resume"
            return Failure(kind=OCCUPIED, message=text, stops_lane=True)
        return looked.failure

    async def set_up(self) -> Failure | None:
        """Set up the namespace and check that it is empty."""
        if self.lane.provider.on_unknown == "reset" or self.lane.single:
            await self._intent({})
        entered = await self.lane.run.attempt_and_journal(self._prepare_empty, self.call_owner)
        if entered.failure is not None:
            self._append_row(CorpusKind.FAILED, failure=entered.failure, data={"clean": False})
        return entered.failure

    async def run(self) -> IngestEnd:
        """Send the missing batches, then call the provider's ``finish`` if it has one."""
        began = monotonic_us()
        done = frozenset(self.done)
        todo = (batch for batch in self._batches() if batch[0] not in done)
        self.upcoming = (memory for at, some in self._batches() if at not in done for memory in some)
        await self._send_all(todo)
        if self.failure is not None:
            return IngestEnd(failure=self.failure)
        if self.lane.is_build_stopped:
            self._append_row(CorpusKind.CLEAN_STOP)
            return IngestEnd()
        finished = await self.lane.run.attempt(self._finish, self.call_owner)
        if finished.failure is not None:
            self.failure = finished.failure
            self.lane.run.journal_calls(finished.calls, self.call_owner)
            if finished.failure.kind not in DOUBTFUL:
                self._append_row(CorpusKind.FAILED, failure=self.failure, data={"clean": False})
            return IngestEnd(failure=self.failure)
        last = finished.value or Ingested()
        self._collect(last)
        times = {"ingest": monotonic_us() - began}
        memories = self.anonymized.memories
        whole = full_context_tokens(memories, dated=self.lane.plan.unit != "session")
        data = {**returned(last), "memories": len(memories), "tokens": whole, "sha256": self.anonymized.sha256}
        self._append_row(CorpusKind.INGESTED, data=data, times=times, calls=finished.calls)
        return IngestEnd(complete=True)

    def accept(self, position: int, given: Mapping[str, tuple[str, ...]]) -> None:
        """Record a batch in doubt as stored; of the lost response only the ids in ``given`` are known."""
        self.done.add(position)
        got = self._assumed(self.batch(position), given)
        self._collect(got)
        self._append_row(CorpusKind.BATCH, data={"batch": position, "found_stored": True, **returned(got)})

    def can_accept(self, position: int) -> bool:
        """Return True when hits of a batch can be mapped without its lost response; else they would count as misses."""
        return all(self._assumed(self.batch(position), {}).ids.values())

    def count_similar(self, memory: Memory, *, besides: int) -> int:
        """Count the memories whose text could be mistaken for this one, in all acknowledged batches but ``besides``."""
        others = (batch for position, batch in self._batches() if position in self.done - {besides})
        return sum(shares_text(memory.content, other.content) for batch in others for other in batch)

    def batch(self, position: int) -> tuple[Memory, ...]:
        """Return the memories of one batch."""
        return next((memories for at, memories in self._batches() if at == position), ())

    @property
    def sent(self) -> int:
        """Return the number of memories in acknowledged batches; each piece of a memory counts."""
        return sum(len(memories) for position, memories in self._batches() if position in self.done)

    def with_batches(self, *positions: int, given: Mapping[str, tuple[str, ...]] = NO_IDS) -> Space:
        """Return the namespace as if these batches in doubt were stored, so that they can be mapped and cleared."""
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
            probe = await self._probe(held, chosen[-1])
            self.lane.run.journal.append(probe)
            if held:
                raise Contaminated(in_words(probe))

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
        """Return True when content in a new namespace may be from an earlier process of this run, and can be cleared.

        Without intents, a process can end after it sent a batch and before it wrote the first row.
        """
        provider = self.lane.provider
        return self.lane.run.resumed and provider.on_unknown == "repeat" and provider.capabilities.clear

    async def _send_all(self, todo: Iterator[Batch]) -> None:
        delay_s = self.lane.plan.benchmark.config.ingestion.delay_between_batches / 1000
        if delay_s or self.lane.batching.order == "serial":  # side by side no time would lie between two
            await self._send_some(todo, delay_s)
            return
        async with anyio.create_task_group() as senders:
            for _ in range(PARALLEL_BATCHES):
                senders.start_soon(self._send_some, todo)

    async def _send_some(self, todo: Iterator[Batch], delay_s: float = 0) -> None:
        for position, memories in todo:
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
        sent = await self.lane.run.attempt(lambda: self._ingest(memories), self.call_owner)
        if sent.failure is None and sent.value is not None:
            self.last_ack_us = monotonic_us()
            self.lane.first_write.done()
            self._collect(sent.value)
            self.done.add(position)
            data = {"batch": position, "sent": len(memories), **returned(sent.value)}
            self._append_row(CorpusKind.BATCH, data=data, times=sent.times_us, calls=sent.calls)
            return
        if self.failure is None or self.failure.kind not in SPOILS:
            self.failure = sent.failure
        self.lane.run.journal_calls(sent.calls, self.call_owner)
        if sent.failure is not None and sent.failure.kind not in DOUBTFUL:
            clean = sent.failure.kind in NOT_STORED
            data = {"clean": True, "batch": position} if clean else {"clean": False}
            self._append_row(CorpusKind.FAILED, failure=sent.failure, data=data)

    async def _ingest(self, memories: tuple[Memory, ...]) -> Ingested:
        await self._embed_ahead(memories)
        got = await self.lane.provider.ingest(self.space, memories)
        if got.rejected:
            name, reason = next(iter(got.rejected.items()))
            raise IngestFailed(f"{name} refused {len(got.rejected)} of {len(memories)} memories: {reason}")
        return got

    async def _embed_ahead(self, memories: tuple[Memory, ...]) -> None:
        """Embed the texts of the next batches ahead in full requests, so that the embedder has them cached."""
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

    def _corpus_row(
        self,
        kind: CorpusKind,
        *,
        failure: Failure | None = None,
        data: Mapping[str, object] | None = None,
        times: Mapping[str, int] | None = None,
        calls: tuple[object, ...] = (),
    ) -> CorpusRow:
        prepared = {"prepared": dict(self.prepared)} if self.prepared else {}
        name = {} if self.has_namespace_row else {"namespace": self.space.namespace}
        self.has_namespace_row = True
        return CorpusRow(
            lane=self.lane.key,
            corpus=self.corpus,
            attempt=self.space.attempt,
            kind=kind,
            outcome=failure.kind if failure else "ok",
            message=failure.message if failure else "",
            data={**(data or {}), **prepared, **name},
            times_us=times or {},
            calls=calls,  # type: ignore[arg-type]
        )

    async def _probe(self, held: int, sample: Memory) -> ProbeRow:
        """Return the row of the emptiness probe; content that was found is checked for its owner."""
        data: dict[str, object] = {"held": held, "namespace": self.space.namespace}
        if held:
            with suppress(CallError):
                hits = (await look(self.lane.provider, self.space, sample.content)).hits
                data |= self.lane.owner_among(self.corpus, self.space, self.anonymized, hits)
        return ProbeRow(
            lane=self.lane.key,
            corpus=self.corpus,
            attempt=self.space.attempt,
            kind="emptiness",
            passed=not held,
            data=data,
        )


GROWTH = 1.5
PATIENCE_S = 30
"""seconds to wait for a single missing memory when the others are found"""


@dataclass(slots=True, kw_only=True)
class IndexWait:
    """The wait for the index of one corpus after its ingest."""

    lane: OpenLane
    corpus: str
    space: Space
    anonymized: AnonymizedCorpus
    ingested: Ingested
    last_ack_us: int = 0
    """time of the last acknowledged batch in microseconds; 0 when an earlier process sent it"""
    status_captures: dict[str, object] = field(default_factory=dict)
    """captures from status calls"""
    pending: str = ""
    """the last status when it was not ready"""

    async def wait(self) -> Failure | None:
        """Wait until the corpus is ready; return the failure, or None.

        After a request to stop, return None without a journal row.
        """
        began = monotonic_us()
        self.lane.thorough_checks_left, thorough = (
            max(0, self.lane.thorough_checks_left - 1),
            self.lane.thorough_checks_left > 0,
        )
        settles = self.lane.provider.wait.by == "sentinel"
        sentinel = Sentinel(self.lane.provider, self.space, self.anonymized, must_settle=settles, thorough=thorough)
        ready = await self._wait_until_searchable(began, sentinel)
        if ready is None:
            return None
        failure = ready if isinstance(ready, Failure) else await self._settle()
        now = monotonic_us()
        times = {"index": now - began}
        if self.last_ack_us:
            times["searchable"] = now - self.last_ack_us
        if failure is None and self._sentinel_wanted:
            counted = await self.lane.run.attempt_and_journal(lambda: self._count(sentinel, began), self._call_owner)
            self._probe("sentinel", passed=True, data=counted.value or {})  # a look that fails costs its count only
        if failure is None:
            data = {"sentinel": self._sentinel_wanted, **self._captures, **await self._contents()}
            self._append_row(CorpusKind.READY, None, data, times)
        else:
            self._append_row(CorpusKind.FAILED, failure, {"clean": failure.kind not in SPOILS}, times)
        return failure

    async def _wait_until_searchable(self, began: int, sentinel: Sentinel) -> Failure | bool | None:
        rule = self.lane.provider.wait
        interval_s = rule.interval_s
        while not self.lane.is_build_stopped:
            looked = await self.lane.run.attempt_and_journal(lambda: self._look(sentinel), self._call_owner)
            if looked.failure is not None or looked.value:
                return looked.failure or True
            if monotonic_us() - began >= rule.timeout_s * 1e6:
                seen = self.pending or sentinel.seen
                text = f"{self.corpus} was not searchable {rule.timeout_s:g} s after its last add"
                return Failure.of(NotReady(f"{text}: {seen}" if seen else text))
            await self.lane.run.stopping.pause_for(interval_s)
            interval_s = min(interval_s * GROWTH, rule.max_interval_s)
        return None

    async def _look(self, sentinel: Sentinel) -> bool:
        """Run one round: status calls, then the sentinel."""
        stands = await retry_unreadable(lambda: self.lane.provider.ready(self.space, self.ingested))
        if stands.state == "failed":
            raise IngestFailed(stands.detail or f"the provider reports that indexing {self.corpus} failed")
        if stands.captures:
            self.status_captures = merge_captures(self.status_captures, stands.captures)
            self.space = sentinel.space = replace(
                self.space, captures=merge_captures(self.space.captures, stands.captures)
            )
        self.pending = stands.detail if stands.state == "pending" else ""
        if stands.state == "pending":
            return False
        if not self._sentinel_wanted:
            return True
        return await retry_unreadable(sentinel.found)

    async def _count(self, sentinel: Sentinel, began: int) -> dict[str, int]:
        """Count the sample memories that the service finds, and retry missing ones while they may still appear.

        After one wait without success, the other corpora of the lane stop at their first retry without success.
        """
        if self.lane.plan.provider.built_in is not None:
            return {}
        missing = await retry_unreadable(sentinel.missing)
        rule = self.lane.provider.wait
        first = {memory.id for memory in samples(self.anonymized.memories)}
        patient = rule.by == "sentinel" and any(memory.id in first for memory in missing)
        until = began + rule.timeout_s * 1e6 if patient else monotonic_us() + min(rule.timeout_s, PATIENCE_S) * 1e6
        pause_s = min(rule.interval_s, rule.timeout_s)
        while missing and not self.lane.is_build_stopped:
            await self.lane.run.stopping.pause_for(pause_s)
            if await retry_unreadable(partial(sentinel.finds, missing[0])):
                missing.pop(0)
            elif self.lane.loses_memories or monotonic_us() >= until:
                self.lane.loses_memories = True
                break
            else:
                pause_s = min(pause_s * GROWTH, rule.max_interval_s, rule.timeout_s)
        looked = sentinel.decided
        if missing and self.lane.is_build_stopped:
            return {}
        return {"looked": looked, "found": looked - len(missing), **self._named(), **await self._count_held()}

    def _named(self) -> dict[str, int]:
        """Count the memories that hits can map to: those with an id that no later memory got too."""
        last = {one: memory_id for memory_id, ids in self.ingested.ids.items() for one in ids}
        return {"memories": len(self.ingested.ids), "named": len(set(last.values()))}

    async def _count_held(self) -> dict[str, int]:
        """Count the memories in the namespace, if the service can; repeat while the number grows."""
        provider, sent = self.lane.provider, len(self.anonymized.memories)
        if not isinstance(provider, Counts):
            return {}
        before, held = -1, await retry_unreadable(lambda: provider.count(self.space))
        while before < held < sent and not (self.lane.loses_memories or self.lane.is_build_stopped):
            await self.lane.run.stopping.pause_for(min(provider.wait.interval_s, provider.wait.timeout_s))
            before, held = held, await retry_unreadable(lambda: provider.count(self.space))
        if held < sent and isinstance(held, AtLeast):
            return {}
        self.lane.loses_memories = self.lane.loses_memories or held < sent
        return {"sent": sent, "held": held}

    async def _contents(self) -> dict[str, object]:
        """Record the contents of a namespace that outlives the run, for runs that reuse it."""
        lane = self.lane
        provider = lane.provider
        if not lane.keeps or not provider.keeps_store or not is_reusable(provider):
            return {}
        record = steady if lane.checks_isolation else unsearched
        look = partial(record, provider, lane.plan.provider.config, self.space, self.anonymized.memories)
        kept = (await lane.run.attempt_and_journal(look, self._call_owner)).value
        return {} if kept is None else {"contents": kept}

    @property
    def _call_owner(self) -> CallOwner:
        return CallOwner(self.lane.key, self.corpus, self.space.attempt)

    @property
    def _captures(self) -> dict[str, object]:
        return {"captures": self.status_captures} if self.status_captures else {}

    @property
    def _sentinel_wanted(self) -> bool:
        provider = self.lane.provider
        return provider.keeps_store and (self.lane.checks_isolation or provider.wait.by == "sentinel")

    async def _settle(self) -> Failure | None:
        await self.lane.run.stopping.pause_for(self.lane.provider.wait.settle_s)
        if not self.lane.checks_canaries:
            return None
        return (await self.lane.run.attempt_and_journal(self._canary, self._call_owner)).failure

    async def _canary(self) -> None:
        other = foreign_sample(self.anonymized, self.lane.samples_of_others(self.corpus))
        if other is None:
            return
        found = await retry_unreadable(lambda: foreign_hits(self.lane.provider, self.space, self.anonymized, other))
        data = self.lane.owner_among(self.corpus, self.space, self.anonymized, found)
        probe = self._probe("canary", passed=not found, data=data)
        if found:
            raise Contaminated(in_words(probe))

    def _probe(self, kind: Literal["sentinel", "canary"], *, passed: bool, data: Mapping[str, object]) -> ProbeRow:
        probe = ProbeRow(
            lane=self.lane.key,
            corpus=self.corpus,
            attempt=self.space.attempt,
            kind=kind,
            passed=passed,
            data={"namespace": self.space.namespace, **data},
        )
        self.lane.run.journal.append(probe)
        return probe

    def _append_row(
        self, kind: CorpusKind, failure: Failure | None, data: dict[str, object], times: dict[str, int]
    ) -> None:
        self.lane.run.journal.append(
            CorpusRow(
                lane=self.lane.key,
                corpus=self.corpus,
                attempt=self.space.attempt,
                kind=kind,
                outcome=failure.kind if failure else "ok",
                message=failure.message if failure else "",
                data=data,
                times_us=times,
            )
        )
