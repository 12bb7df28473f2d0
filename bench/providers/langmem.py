"""LangMem's storage: a LangGraph store in this process, searched with embeddings that bench computes.

The store is lost when the process ends, so a resumed run ingests the memories again::

    type: local
    adapter: bench.providers.langmem:LangMem
    client_embeddings: {model: openai/text-embedding-3-small}
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Self

from langgraph.store.memory import InMemoryStore

from bench.config.file import ConfigModel
from bench.model import Found, Hit, Ingested, Memory, Query, Readiness, Space
from bench.providers.adapters import local_of
from bench.providers.embedding import required_embedder
from bench.providers.protocol import ProviderContext, Waiting
from bench.untyped_values import instant, number

if TYPE_CHECKING:
    from bench.config.provider.config import ProviderConfig

CONTENT = "content"
WHEN = "when"
SESSION = "session"
PAGE = 1000


class LangMemLocal(ConfigModel):
    """The settings under ``local:``. LangMem has no settings, so every key in this section is an error."""


class LangMem:
    """A provider that stores memories in LangMem's in-memory store."""

    wait = Waiting()

    def __init__(self, config: ProviderConfig, context: ProviderContext) -> None:
        local_of(config, LangMemLocal)
        self._embedder = required_embedder(config, context.embedder)
        settings = config.client_embeddings
        size = settings.dimensions if settings else None  # required by the type; this store takes any length
        self._store: Any = InMemoryStore(index={"dims": size or 0, "embed": self._embed, "fields": [CONTENT]})

    async def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [list(vector) for vector in await self._embedder.embed(texts, kind="document")]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None: ...

    async def ingest(self, space: Space, memories: Sequence[Memory]) -> Ingested:
        """Store each memory under its id; a memory with the same id is replaced."""
        for memory in memories:
            when = memory.when.isoformat() if memory.when else None
            value = {CONTENT: memory.content, WHEN: when, SESSION: memory.session_id}
            await self._store.aput((space.namespace,), memory.id, value)
        return Ingested(ids={memory.id: (memory.id,) for memory in memories})

    async def ready(self, space: Space, ingested: Ingested) -> Readiness:
        """Return "ready", because a stored memory can be found immediately."""
        return Readiness(state="ready")

    async def search(self, space: Space, query: Query) -> Found:
        """Return the k memories nearest to the question. A blank question finds nothing."""
        if not query.text.strip():
            return Found(requested=query.k)
        items = await self._store.asearch((space.namespace,), query=query.text, limit=query.k)
        hits = tuple(_hit(item) for item in items)
        return Found(hits=hits, requested=query.k, returned=len(hits))

    async def clear(self, space: Space) -> int | None:
        """Delete all memories of the namespace; return how many there were."""
        items = await self._items(space)
        for item in items:
            await self._store.adelete((space.namespace,), item.key)
        return len(items)

    async def count(self, space: Space) -> int:
        """Return the number of memories in the namespace."""
        return len(await self._items(space))

    async def delete(self, space: Space, memory_ids: Sequence[str]) -> None:
        """Delete the memories with these ids."""
        for memory_id in memory_ids:
            await self._store.adelete((space.namespace,), memory_id)

    async def update(self, space: Space, memories: Sequence[Memory]) -> None:
        """Replace the stored memories that have the same ids."""
        await self.ingest(space, memories)

    async def list(self, space: Space, session_id: str | None = None) -> list[Hit]:
        """Return all memories of the namespace, or only those of one session."""
        items = await self._items(space)
        return [_hit(item) for item in items if session_id in (None, item.value[SESSION])]

    async def upstream_version(self) -> str:
        """Return the versions of langmem and langgraph."""
        return f"langmem {version('langmem')}, langgraph {version('langgraph')}"

    async def _items(self, space: Space) -> Sequence[Any]:
        found: list[Any] = []
        while page := await self._store.asearch((space.namespace,), limit=PAGE, offset=len(found)):
            found += page
        return found


def _hit(item: Any) -> Hit:
    when = item.value[WHEN]
    return Hit(
        id=str(item.key),
        content=str(item.value[CONTENT]),
        score=number(item.score),
        source_ids=(str(item.key),),
        when=instant(when),
    )
