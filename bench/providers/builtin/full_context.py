"""A provider that returns all memories for every question. It shows the score without any search."""

from __future__ import annotations

from bench.model import Hit, Query, Space
from bench.providers.builtin.base import BuiltInProvider
from bench.providers.builtin.namespace_file import NamespaceFile


class FullContext(BuiltInProvider):
    """The provider ``builtin:full-context``. Its hits are limited only by the answer's context budget."""

    unbounded = True

    async def hits(self, space: Space, store: NamespaceFile, query: Query) -> list[Hit]:
        """Return all memories in the order in which they were stored, without scores."""
        return [row.hit() for row in await store.all()]
