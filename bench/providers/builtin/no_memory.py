"""A provider that stores nothing and finds nothing. It shows the score of the answering model alone."""

from __future__ import annotations

from collections.abc import Sequence

from bench.model import Found, Hit, Ingested, Memory, Query, Space
from bench.processor_time import cpu_timed
from bench.providers.builtin.base import BuiltInProvider
from bench.providers.builtin.namespace_file import NamespaceFile


class NoMemory(BuiltInProvider):
    """The provider ``builtin:no-memory``, which stores nothing."""

    keeps_store = False

    @cpu_timed
    async def ingest(self, space: Space, memories: Sequence[Memory]) -> Ingested:
        """Accept the memories without storing them."""
        return Ingested(ids={memory.id: () for memory in memories})

    @cpu_timed
    async def search(self, space: Space, query: Query) -> Found:
        """Return no hits. The value of every retrieval metric is then 0."""
        return Found(requested=query.k)

    async def hits(self, space: Space, store: NamespaceFile, query: Query) -> list[Hit]:
        """Return no hits for any query."""
        return []
