"""Search memories by the exact cosine similarity of their embeddings. Any OpenAI-compatible endpoint can compute the
embeddings.

Vectors are stored as 32-bit floats in the SQLite file of their namespace::

    bench run --providers vector --embedding-model openai/text-embedding-3-small
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from operator import mul
from typing import TYPE_CHECKING

from bench.model import Hit, Ingested, Memory, Query, Space
from bench.processor_time import cpu_timed
from bench.providers.builtin.base import BuiltInProvider
from bench.providers.builtin.namespace_file import NamespaceFile, StoredMemory
from bench.providers.embedding import normalized, question_vector, required_embedder
from bench.providers.protocol import ProviderContext

if TYPE_CHECKING:
    from bench.config.provider.config import ProviderConfig

READ_NAMESPACES = 4
"""maximum number of namespaces whose vectors are kept in memory"""


class Vector(BuiltInProvider):
    """The provider ``builtin:vector``: finds the memories whose vectors are nearest to the question's vector."""

    def __init__(self, config: ProviderConfig, context: ProviderContext) -> None:
        super().__init__(config, context)
        self._embedder = required_embedder(config, context.embedder)
        self._read: dict[str, list[tuple[StoredMemory, array[float]]]] = {}

    @cpu_timed
    async def ingest(self, space: Space, memories: Sequence[Memory]) -> Ingested:
        """Embed the memories, and store them with their vectors."""
        vectors = await self._embedder.embed([memory.content for memory in memories], kind="document")
        packed = [array("f", normalized(vector)).tobytes() for vector in vectors]
        async with self.stores.open(space.namespace) as store:
            await store.put(memories, packed)
        self._read.pop(space.namespace, None)
        return Ingested(ids={memory.id: (memory.id,) for memory in memories})

    async def hits(self, space: Space, store: NamespaceFile, query: Query) -> list[Hit]:
        """Return the k memories nearest to the question by cosine. A blank question finds nothing.

        Memories at equal distance are in the order in which they were stored.
        """
        if not query.text.strip():
            return []
        wanted = array("f", normalized(query.embedding or await question_vector(self._embedder, query.text)))
        rows = await self._rows(space.namespace, store)
        scored = sorted(((sum(map(mul, wanted, vector)), row) for row, vector in rows), key=lambda pair: -pair[0])
        return [row.hit(score) for score, row in scored[: query.k]]

    async def clear(self, space: Space) -> int | None:
        """Delete the namespace with its vectors; return how many memories it had."""
        self._read.pop(space.namespace, None)
        return await super().clear(space)

    async def delete(self, space: Space, memory_ids: Sequence[str]) -> None:
        """Delete the memories with these ids."""
        self._read.pop(space.namespace, None)
        await super().delete(space, memory_ids)

    async def _rows(self, namespace: str, store: NamespaceFile) -> list[tuple[StoredMemory, array[float]]]:
        known = self._read.get(namespace)
        if known is None:
            known = [(row, array("f", packed)) for row, packed in await store.embeddings()]
            self._read[namespace] = known
            while len(self._read) > READ_NAMESPACES:
                del self._read[next(iter(self._read))]
        return known
