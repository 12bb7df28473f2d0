"""The base class of the built-in providers, which store memories in files of the run's folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from bench.model import Found, Hit, Ingested, Memory, Query, Readiness, Space
from bench.processor_time import cpu_timed
from bench.providers.adapters import declared_capabilities
from bench.providers.builtin.namespace_file import NamespaceFile, NamespaceFiles
from bench.providers.protocol import Batching, Capabilities, Durability, OnUnknown, ProviderContext, Waiting
from bench.version import __version__

if TYPE_CHECKING:
    from bench.config.provider.config import ProviderConfig


BATCH_ITEMS = 200
"""maximum number of memories that are stored in one transaction"""


class BuiltInProvider(ABC):
    """A provider that stores each namespace in its own SQLite file. Subclasses implement the search."""

    full_text: ClassVar[bool] = False
    """True if the file has a full-text index"""
    keeps_store: ClassVar[bool] = True
    unbounded: ClassVar[bool] = False

    def __init__(self, config: ProviderConfig, context: ProviderContext) -> None:
        self.config = config
        self.context = context
        self.name = config.name
        self.version = __version__
        self.durability: Durability = "file"
        self.capabilities: Capabilities = declared_capabilities(config)
        self.on_unknown: OnUnknown = "repeat"
        self.wait = Waiting()
        self.batching = Batching(max_items=BATCH_ITEMS, in_process=True)
        self.stores = NamespaceFiles(context.run_dir / config.name, full_text=self.full_text)

    async def __aenter__(self) -> Self:
        await self.stores.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stores.__aexit__(*exc)

    @cpu_timed
    async def ingest(self, space: Space, memories: Sequence[Memory]) -> Ingested:
        """Store the memories. A stored memory with the same id is replaced, and keeps its position in the order."""
        async with self.stores.open(space.namespace) as store:
            await store.put(memories)
        return Ingested(ids={memory.id: (memory.id,) for memory in memories})

    async def ready(self, space: Space, ingested: Ingested) -> Readiness:
        """Return "ready", because a row can be found as soon as it is committed."""
        return Readiness(state="ready")

    @cpu_timed
    async def search(self, space: Space, query: Query) -> Found:
        """Return at most k hits from :meth:`hits`. A namespace that does not exist has no hits."""
        if not self.stores.path(space.namespace).exists():
            return Found(requested=query.k)
        async with self.stores.open(space.namespace) as store:
            hits = await self.hits(space, store, query)
        return Found(hits=tuple(hits), requested=query.k, returned=len(hits))

    @abstractmethod
    async def hits(self, space: Space, store: NamespaceFile, query: Query) -> list[Hit]:
        """Return the hits for one query, best first; subclasses implement this."""

    async def clear(self, space: Space) -> int | None:
        """Delete the file of the namespace; return how many memories it had."""
        return await self.stores.remove(space.namespace)

    async def count(self, space: Space) -> int:
        """Return the number of memories in the namespace."""
        if not self.stores.path(space.namespace).exists():
            return 0
        async with self.stores.open(space.namespace) as store:
            return await store.count()

    async def digest(self, space: Space) -> str:
        """Return a hash of everything that is stored in the namespace."""
        async with self.stores.open(space.namespace) as store:
            return await store.digest()

    async def restore(self, space: Space, run_dir: Path) -> None:
        """Replace the namespace by its copy from ``run_dir``, the folder of another run."""
        await self.stores.copy(space.namespace, run_dir)

    async def delete(self, space: Space, memory_ids: Sequence[str]) -> None:
        """Delete the memories with these ids."""
        async with self.stores.open(space.namespace) as store:
            await store.delete(memory_ids)

    async def list(self, space: Space, session_id: str | None = None) -> list[Hit]:
        """Return all memories of the namespace, or only those of one session, in the order of storing."""
        if not self.stores.path(space.namespace).exists():
            return []
        async with self.stores.open(space.namespace) as store:
            return [row.hit() for row in await store.all(session_id)]
