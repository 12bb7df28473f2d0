"""A provider that returns k random memories: the lower bound of a ranking. The result depends on seed and question
only."""

from __future__ import annotations

from random import Random as Generator

from bench.model import Hit, Query, Space
from bench.providers.builtin.base import BuiltInProvider
from bench.providers.builtin.store import NamespaceFile


class Random(BuiltInProvider):
    """The provider ``builtin:random``, seeded by (seed, item)."""

    keeps_store = False

    async def hits(self, space: Space, store: NamespaceFile, query: Query) -> list[Hit]:
        """Return a random sample without repeats, in the order drawn."""
        rows = await store.all()
        generator = Generator(f"{self.context.seed}:{query.key or query.text}")
        return [row.hit() for row in generator.sample(rows, min(query.k, len(rows)))]
