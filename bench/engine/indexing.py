"""Index: wait until a provider is ready, by its own status calls and by a sentinel. Holds no ingest slot.

A time-out is `NotReady`, a failed index `IngestFailed`; neither is ever a wrong answer::

    failure = await Index(lane=lane, corpus=corpus, space=space, veil=veil, ingested=ingested).wait()
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from bench.engine.history import SPOILS
from bench.engine.isolation import Sentinel, foreign_sample, samples, strangers
from bench.engine.live import Failure, Ledger, reread
from bench.engine.opaque import Veil
from bench.engine.stopping import monotonic_us
from bench.errors import Contaminated, IngestFailed, NotReady
from bench.journal import CorpusKind, CorpusRow, Probe
from bench.model import Ingested, Space
from bench.plan.validity import in_words
from bench.providers import merge_captures

if TYPE_CHECKING:
    from bench.engine.lane import OpenLane

GROWTH = 1.5


@dataclass(slots=True, kw_only=True)
class Index:
    """The wait of one corpus attempt."""

    lane: OpenLane
    corpus: str
    space: Space
    veil: Veil
    ingested: Ingested
    last_ack_us: int = 0
    """instant of the last acknowledged batch, 0 when an earlier process saw it"""
    learned: dict[str, object] = field(default_factory=dict)
    """captures that only the status calls showed"""

    async def wait(self) -> Failure | None:
        """Loop until ready; also returns, with nothing journaled, when the run is asked to stop."""
        began = monotonic_us()
        sentinel = Sentinel(
            self.lane.provider, self.space, self.veil, must_settle=self.lane.provider.wait.by == "sentinel"
        )
        ready = await self._loop(began, sentinel)
        if ready is None:
            return None
        failure = ready if isinstance(ready, Failure) else await self._settle()
        now = monotonic_us()
        times = {"index": now - began}
        if self.last_ack_us:
            times["searchable"] = now - self.last_ack_us
        if failure is None and self._sentinel_wanted:
            counted = await self.lane.live.aside(lambda: self._count(sentinel), self._ledger)
            self._probe("sentinel", passed=True, data=counted.value or {})  # a look that fails costs its count only
        if failure is None:
            self._row(CorpusKind.READY, None, {"sentinel": self._sentinel_wanted, **self._captures}, times)
        else:
            self._row(CorpusKind.FAILED, failure, {"clean": failure.kind not in SPOILS}, times)
        return failure

    async def _loop(self, began: int, sentinel: Sentinel) -> Failure | bool | None:
        rule = self.lane.provider.wait
        interval_s = rule.interval_s
        while not self.lane.halted:
            looked = await self.lane.live.aside(lambda: self._look(sentinel), self._ledger)
            if looked.failure is not None or looked.value:
                return looked.failure or True
            if monotonic_us() - began >= rule.timeout_s * 1e6:
                return Failure.of(NotReady(f"{self.corpus} was not searchable {rule.timeout_s:g} s after its last add"))
            await self.lane.live.stopping.pause_for(interval_s)
            interval_s = min(interval_s * GROWTH, rule.max_interval_s)
        return None

    async def _look(self, sentinel: Sentinel) -> bool:
        """One round: status calls, then the sentinel."""
        stands = await reread(lambda: self.lane.provider.ready(self.space, self.ingested))
        if stands.state == "failed":
            raise IngestFailed(stands.detail or f"the provider says that indexing {self.corpus} failed")
        if stands.captures:
            self.learned = merge_captures(self.learned, stands.captures)
            self.space = sentinel.space = replace(
                self.space, captures=merge_captures(self.space.captures, stands.captures)
            )
        if stands.state == "pending":
            return False
        if not self._sentinel_wanted:
            return True
        return await reread(sentinel.found)

    async def _count(self, sentinel: Sentinel) -> dict[str, int]:
        """Count the samples that a service finds: each is looked for once, then again while that helps."""
        if self.lane.plan.provider.built_in is not None:
            return {}
        every, missing = samples(self.veil.memories), await reread(sentinel.missing)
        rule = self.lane.provider.wait
        pause_s = rule.interval_s if rule.by == "nothing" else min(rule.max_interval_s, rule.timeout_s)
        while missing and not self.lane.halted:
            await self.lane.live.stopping.pause_for(pause_s)
            if not await reread(partial(sentinel.finds, missing[0])):
                break
            missing.pop(0)
        return {} if missing and self.lane.halted else {"looked": len(every), "found": len(every) - len(missing)}

    @property
    def _ledger(self) -> Ledger:
        return Ledger(self.lane.key, self.corpus, self.space.attempt)

    @property
    def _captures(self) -> dict[str, object]:
        return {"captures": self.learned} if self.learned else {}

    @property
    def _sentinel_wanted(self) -> bool:
        provider = self.lane.provider
        return provider.keeps_store and (self.lane.isolated or provider.wait.by == "sentinel")

    async def _settle(self) -> Failure | None:
        await self.lane.live.stopping.pause_for(self.lane.provider.wait.settle_s)
        if not self.lane.canaries:
            return None
        return (await self.lane.live.aside(self._canary, self._ledger)).failure

    async def _canary(self) -> None:
        other = foreign_sample(self.veil, self.lane.samples_of_others(self.corpus))
        if other is None:
            return
        found = await reread(lambda: strangers(self.lane.provider, self.space, self.veil, other))
        data = self.lane.owner_among(self.corpus, self.space, self.veil, found)
        probe = self._probe("canary", passed=not found, data=data)
        if found:
            raise Contaminated(in_words(probe))

    def _probe(self, kind: Literal["sentinel", "canary"], *, passed: bool, data: Mapping[str, object]) -> Probe:
        probe = Probe(
            lane=self.lane.key,
            corpus=self.corpus,
            attempt=self.space.attempt,
            kind=kind,
            passed=passed,
            data={"namespace": self.space.namespace, **data},
        )
        self.lane.live.journal.append(probe)
        return probe

    def _row(self, kind: CorpusKind, failure: Failure | None, data: dict[str, object], times: dict[str, int]) -> None:
        self.lane.live.journal.append(
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
