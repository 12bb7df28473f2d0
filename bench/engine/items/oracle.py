"""The oracle: a provider that returns exactly the memories that contain the evidence.

Example::

    found = await Oracle().with_evidence(evidence_memories).search(space, query)

The oracle shows the best value that each retrieval metric can have. It is part of the engine, because plug-ins never
get the gold evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from bench.datasets import gold_ids, ids_at_level
from bench.datasets.memories import contained_ids, evidence_sentences
from bench.engine.open_lane import OpenLane, ReadyCorpus
from bench.model import (
    Found,
    Hit,
    Ingested,
    Item,
    Memory,
    Query,
    Readiness,
    Space,
)
from bench.processor_time import cpu_timed
from bench.providers import Batching, Capabilities, Durability, OnUnknown, Provider, Waiting


class Oracle:
    """A provider that returns the evidence of one item. The method `with_evidence` sets this evidence."""

    name = "oracle"
    version = "1"
    durability: Durability = "service"
    capabilities = Capabilities()
    keeps_store = False
    unbounded = False
    on_unknown: OnUnknown = "repeat"
    wait = Waiting()
    batching = Batching()

    def __init__(self, evidence: Sequence[Memory] = ()) -> None:
        self._evidence = tuple(evidence)

    def with_evidence(self, evidence: Sequence[Memory]) -> Oracle:
        """Return an oracle whose searches find these memories, the evidence of one item."""
        return Oracle(evidence)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    @cpu_timed
    async def ingest(self, space: Space, memories: Sequence[Memory]) -> Ingested:
        return Ingested(ids={memory.id: (memory.id,) for memory in memories})

    async def ready(self, space: Space, ingested: Ingested) -> Readiness:
        return Readiness(state="ready")

    @cpu_timed
    async def search(self, space: Space, query: Query) -> Found:
        hits = tuple(
            Hit(id=memory.id, content=memory.content, source_ids=(memory.id,), when=memory.when)
            for memory in self._evidence
        )
        return Found(hits=hits[: query.k], requested=query.k, returned=len(hits))

    async def clear(self, space: Space) -> int | None:
        return 0


def provider_for(lane: OpenLane, ready: ReadyCorpus, item: Item) -> Provider:
    """Return the lane's provider; if it is the oracle, return a copy that finds the evidence of the item."""
    provider = lane.provider
    if not isinstance(provider, Oracle):
        return provider
    anonymized = ready.content.anonymized
    wanted = set(gold_ids(item, lane.plan.level, score_retrieval=True))
    sentences = evidence_sentences(item, ready.content.turn_texts)

    def evidence_ids(memory: Memory) -> tuple[str, ...]:
        if lane.plan.level == "text":
            return contained_ids(sentences, memory.content)
        return ids_at_level(anonymized.sources([memory.id]), lane.plan.level)

    holding = [memory for memory in anonymized.memories if wanted.intersection(evidence_ids(memory))]
    return provider.with_evidence(holding)
