"""A provider that returns k random memories. It shows the score of a search by chance.

If seed and question are equal, the returned memories are equal too.
"""

from __future__ import annotations

from random import Random as Generator

from bench.model import Hit, Query, Space
from bench.providers.builtin.base import BuiltInProvider
from bench.providers.builtin.namespace_file import NamespaceFile


class Random(BuiltInProvider):
    """The provider ``builtin:random``. The run's seed and the question determine which memories are drawn."""

    keeps_store = False

    async def hits(self, space: Space, store: NamespaceFile, query: Query) -> list[Hit]:
        """Return k random memories without repeats, in the order in which they were drawn."""
        rows = await store.all()
        generator = Generator(f"{self.context.seed}:{query.key or query.text}")
        return [row.hit() for row in generator.sample(rows, min(query.k, len(rows)))]
