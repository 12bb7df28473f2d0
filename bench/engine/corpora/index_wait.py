"""Wait until an ingested corpus is searchable. The checks are status calls and searches for some of its memories.

Example::

    failure = await IndexWait(lane=lane, corpus=corpus, space=space, anonymized=anonymized, ingested=ingested).wait()

If the wait takes too long, the failure is `NotReady`. If the provider reports a failed index, the failure is
`IngestFailed`. Neither failure counts as a wrong answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from bench.engine.corpora.anonymizer import AnonymizedCorpus
from bench.engine.corpora.build_contents import steady, unsearched
from bench.engine.corpora.corpus_state import SPOILS
from bench.engine.corpora.isolation import (
    NOTHING_FOUND,
    Sentinel,
    are_lost,
    early_memories_lost,
    foreign_hits,
    foreign_sample,
    memories_lost,
    samples,
)
from bench.engine.open_lane import OpenLane
from bench.engine.outcome import Failure
from bench.engine.run_context import CallOwner, retry_unreadable
from bench.engine.stopping import monotonic_us
from bench.errors import Contaminated, IngestFailed, NotReady, Rejected
from bench.events import log
from bench.journal import CorpusKind
from bench.model import Ingested, Memory, Space
from bench.plan.validity import probe_text
from bench.providers import AtLeast, Counts, is_reusable, merge_captures

GROWTH = 1.5
DELETED = (
    "check that the service indexes its memories, and that no copy of this run has deleted them; then resume the run"
)
PATIENCE_S = 30
"""seconds to wait for missing sample memories after the corpus is searchable"""


@dataclass(slots=True, kw_only=True)
class IndexWait:
    """The wait until one corpus is searchable after its ingest."""

    lane: OpenLane
    corpus: str
    space: Space
    anonymized: AnonymizedCorpus
    ingested: Ingested
    last_ack_us: int = 0
    """monotonic time of the last acknowledged batch in microseconds; 0 if an earlier process sent this batch"""
    early: Sequence[Memory] = ()
    """memories that were acknowledged before the ingest was interrupted; empty if it was not"""
    status_captures: dict[str, object] = field(default_factory=dict)
    """values that were captured from the responses to status calls"""
    lost: bool = False
    """True if the service has lost the memories, so that they must be ingested again"""
    lost_early: bool = False
    """True if it has lost those that it acknowledged before the ingest was interrupted"""
    pending: str = ""
    """detail of the last status response, if it was pending; otherwise empty"""

    async def wait(self) -> Failure | None:
        """Wait until the corpus is ready, and record this in the journal; if the wait fails, return the failure.

        If the run is asked to stop, return None and record nothing.
        """
        began = monotonic_us()
        thorough = self.lane.thorough_checks_left > 0
        self.lane.thorough_checks_left -= thorough
        settles = self.lane.provider.wait.by == "sentinel"
        sentinel = Sentinel(
            self.lane.provider,
            self.space,
            self.anonymized,
            must_settle=settles,
            thorough=thorough,
            is_stopped=lambda: self.lane.is_build_stopped,
        )
        timeout_s = self.lane.provider.wait.timeout_s
        with self.lane.run.progress.waiting_for_index(self.lane.key, self.corpus, timeout_s):
            ready = await self._wait_until_searchable(began, sentinel)
        if ready is None:
            return None
        failure = ready if isinstance(ready, Failure) else await self._settle() or await self._check_early()
        now = monotonic_us()
        times = {"index": now - began}
        if self.last_ack_us:
            times["searchable"] = now - self.last_ack_us
        data: dict[str, object]
        if failure is None:
            counts = await self._counts(sentinel, began)
            captures = {"captures": self.status_captures} if self.status_captures else {}
            data = {"sentinel": self._sentinel_wanted, **captures, **await self._contents()}
            if self.lane.is_build_stopped:  # the checks may be incomplete; a resume makes them
                return None
            if self._sentinel_wanted:
                self.lane.append_probe("sentinel", self.corpus, self.space, passed=True, data=counts)
        else:
            data = {"clean": failure.kind not in SPOILS and not self.lost}
        kind = CorpusKind.READY if failure is None else CorpusKind.FAILED
        row = self.lane.corpus_row(kind, self.corpus, self.space, failure=failure, data=data, times_us=times)
        self.lane.run.journal.append(row)
        return failure

    async def _wait_until_searchable(self, began: int, sentinel: Sentinel) -> Failure | bool | None:
        rule = self.lane.provider.wait
        interval_s, logged = rule.interval_s, None
        while not self.lane.is_build_stopped:
            looked = await self.lane.run.attempt_and_journal(lambda: self._look(sentinel), self._call_owner)
            if looked.failure is not None or looked.value:
                return looked.failure or True
            seen = self.pending or sentinel.seen
            if seen != logged:
                log().info("waiting_for_index", timeout_s=rule.timeout_s, seen=seen)
                logged = seen
            is_resumed = not self.last_ack_us
            if is_resumed and self.lane.lost_corpus and seen == NOTHING_FOUND:
                self.lost = True
                return Failure.of(memories_lost(self.lane.provider, self.corpus, held=True))
            if monotonic_us() - began >= rule.timeout_s * 1e6:
                since = "after the resume" if is_resumed else "after its last add"
                text = f"{self.corpus} was not searchable {rule.timeout_s:g} s {since}"
                return Failure.of(NotReady(f"{text}: {seen}" if seen else text, hint=DELETED if is_resumed else None))
            await self.lane.run.stopping.pause_for(interval_s)
            interval_s = min(interval_s * GROWTH, rule.max_interval_s)
        return None

    async def _look(self, sentinel: Sentinel) -> bool:
        """Check once whether the corpus is searchable: first by a status call, then by searches for sample memories."""
        status = await retry_unreadable(lambda: self.lane.provider.ready(self.space, self.ingested))
        if status.state == "failed":
            raise IngestFailed(status.detail or f"the provider reports that indexing {self.corpus} failed")
        if status.captures:
            self.status_captures = merge_captures(self.status_captures, status.captures)
            self.space = sentinel.space = replace(
                self.space, captures=merge_captures(self.space.captures, status.captures)
            )
        self.pending = status.detail if status.state == "pending" else ""
        if status.state == "pending":
            return False
        if not self._sentinel_wanted:
            return True
        return await retry_unreadable(sentinel.found)

    async def _counts(self, sentinel: Sentinel, began: int) -> Mapping[str, int]:
        """Return the counts of `_count`, or an empty mapping if they are not wanted or cannot be read.

        The corpus does not fail if its counts cannot be read.
        """
        if not self._sentinel_wanted:
            return {}
        counted = await self.lane.run.attempt_and_journal(lambda: self._count(sentinel, began), self._call_owner)
        return counted.value or {}

    async def _count(self, sentinel: Sentinel, began: int) -> dict[str, int]:
        """Return how many sample memories were searched and found, and how many memories the service has.

        Missing sample memories are searched again for some time. If one is still missing at the end, all other
        corpora wait less: they stop at the first repeated search that does not find its memory.

        Return an empty mapping for a built-in provider.
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
        # hits map to memories with an id that no later memory got too
        last = {one: memory_id for memory_id, ids in self.ingested.ids.items() for one in ids}
        return {
            "looked": looked,
            "found": looked - len(missing),
            "memories": len(self.ingested.ids),
            "named": len(set(last.values())),
            **await self._count_held(),
        }

    async def _count_held(self) -> dict[str, int]:
        """Return how many memories were sent, and how many of them the service has in the namespace.

        The service is asked again while its number grows. Return an empty mapping if the service cannot count, or only
        knows a lower limit.
        """
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

    async def _check_early(self) -> Failure | None:
        """Return a failure if none of the memories is found that were acknowledged before an interruption.

        The corpus does not fail if the service rejects the searches.
        """
        if not self.early or not self._sentinel_wanted:
            return None
        look = partial(are_lost, self.lane.provider, self.space, self.anonymized, self.early)
        looked = await self.lane.run.attempt_and_journal(lambda: retry_unreadable(look), self._call_owner)
        if not looked.value:
            return looked.failure if looked.failure is not None and looked.failure.kind != Rejected.kind else None
        self.lost = self.lost_early = True
        return Failure.of(early_memories_lost(self.lane.provider, self.corpus, len(self.early)))

    async def _contents(self) -> dict[str, object]:
        """Return a record of the contents of the namespace; empty if no other run may reuse the namespace."""
        lane = self.lane
        provider = lane.provider
        keeps_memories = lane.run.plan.request.cleanup == "never" or not lane.runs_items
        if not keeps_memories or not provider.keeps_store or not is_reusable(provider):
            return {}
        record = partial(steady, is_stopped=lambda: lane.is_build_stopped) if lane.checks_isolation else unsearched
        look = partial(record, provider, lane.plan.provider.config, self.space, self.anonymized.memories)
        kept = (await lane.run.attempt_and_journal(look, self._call_owner)).value
        return {} if kept is None else {"contents": kept}

    @property
    def _call_owner(self) -> CallOwner:
        return CallOwner(self.lane.key, self.corpus, self.space.attempt)

    @property
    def _sentinel_wanted(self) -> bool:
        provider = self.lane.provider
        return provider.keeps_store and (self.lane.checks_isolation or provider.wait.by == "sentinel")

    async def _settle(self) -> Failure | None:
        await self.lane.run.stopping.pause_for(self.lane.provider.wait.settle_s)
        if self.lane.run.plan.request.isolation != "full" or not self.lane.provider.keeps_store:
            return None
        return (await self.lane.run.attempt_and_journal(self._canary, self._call_owner)).failure

    async def _canary(self) -> None:
        others = [memory for name, some in self.lane.samples if name != self.corpus for memory in some]
        other = foreign_sample(self.anonymized, others)
        if other is None:
            return
        found = await retry_unreadable(lambda: foreign_hits(self.lane.provider, self.space, self.anonymized, other))
        data = self.lane.owner_among(self.corpus, self.space, self.anonymized, found)
        probe = self.lane.append_probe("canary", self.corpus, self.space, passed=not found, data=data)
        if found:
            raise Contaminated(probe_text(probe))
