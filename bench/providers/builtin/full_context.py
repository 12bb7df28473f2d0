"""A provider that returns every memory in order for any question: the score without a search."""

from __future__ import annotations

from bench.model import Hit, Query, Space
from bench.providers.builtin.base import BuiltInProvider
from bench.providers.builtin.store import NamespaceFile


class FullContext(BuiltInProvider):
    """The provider ``builtin:full-context``: it returns all memories; the answer's context budget then limits them."""

    unbounded = True

    async def hits(self, space: Space, store: NamespaceFile, query: Query) -> list[Hit]:
        """Return all memories in the order of writing, without scores."""
        return [row.hit() for row in await store.all()]
