"""The oracle: returns exactly the memories that hold the evidence. The upper bound of every retrieval number.

It belongs to the engine because the engine alone holds gold; plug-ins have no such door. It keeps no store, so
probe, sentinel and canary do not apply to it::

    found = await Oracle(seed=0).knowing(evidence_memories).search(space, query)
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from bench.model import Found, Hit, Ingested, Memory, Query, Readiness, Space
from bench.providers import Batching, Capabilities, Durability, OnUnknown, Waiting
from bench.providers.builtin.work import measured


class Oracle:
    """A provider like every other, but for `knowing`."""

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

    def knowing(self, evidence: Sequence[Memory]) -> Oracle:
        """Give the oracle of one item."""
        return Oracle(evidence)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def ingest(self, space: Space, memories: Sequence[Memory]) -> Ingested:
        return Ingested(ids={memory.id: (memory.id,) for memory in memories})

    async def ready(self, space: Space, ingested: Ingested) -> Readiness:
        return Readiness(state="ready")

    @measured
    async def search(self, space: Space, query: Query) -> Found:
        hits = tuple(
            Hit(id=memory.id, content=memory.content, source_ids=(memory.id,), when=memory.when)
            for memory in self._evidence
        )
        return Found(hits=hits[: query.k], requested=query.k, returned=len(hits))

    async def clear(self, space: Space) -> int | None:
        return 0
