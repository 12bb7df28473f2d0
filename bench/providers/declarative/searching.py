"""Asking: one search, or pages of it, cut to k.

Example::

    found = await Searching.of(wire, config, config.endpoints.search, shape, None).search(space, query)
    found.requested, found.returned, len(found.hits)            # 10, 30, 10
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.config.provider.calls import SearchCall
from bench.model import UNREADABLE, Found, Hit, Query, Space
from bench.providers.adapters import declared_capabilities
from bench.providers.declarative.answer import Answer, Field, compact
from bench.providers.declarative.hits import HitReading, Page
from bench.providers.declarative.request import Wire, Wired
from bench.providers.declarative.variables import Shape, of_space
from bench.providers.embedding import Vectors
from bench.providers.protocol import Capabilities
from bench.providers.query_limits import within_limits

if TYPE_CHECKING:
    from bench.config.provider import ProviderConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Searching:
    """``endpoints.search``, compiled."""

    call: Wired
    reading: HitReading
    shape: Shape
    vectors: Vectors | None
    constants: Mapping[str, str]
    capabilities: Capabilities
    cursor: tuple[Field, str] | None
    """path of the next page's cursor and the query parameter that carries it"""
    max_pages: int
    ids: bool

    @classmethod
    def of(
        cls, wire: Wire, config: ProviderConfig, search: SearchCall, shape: Shape, vectors: Vectors | None
    ) -> Searching:
        """Compile the search of a config."""
        page = search.page
        return cls(
            call=wire.call("search", search, traffic="search", judged="search"),
            reading=HitReading.of(search.response, "search.response", wire=wire, threaded=shape.threaded),
            shape=shape,
            vectors=vectors,
            constants=wire.constants,
            capabilities=declared_capabilities(config),
            cursor=(Field.at("search.page.cursor", page.cursor), page.param) if page else None,
            max_pages=page.max_pages if page else 1,
            ids=config.capabilities.ids and search.response.id_from != "none",
        )

    async def search(self, space: Space, query: Query) -> Found:
        """Give at most k hits; ``returned`` counts what came before the cut."""
        sent, flags = within_limits(query, self.capabilities)
        embedding = query.embedding or (await self.vectors.query(query.text) if self.vectors else None)
        values = of_space(space, self.constants, threaded=self.shape.threaded)
        values |= self.shape.query(sent, embedding=embedding)
        hits, unreadable = await self._pages(space, values, sent.k)
        unmapped = sum(not hit.source_ids for hit in hits)
        return Found(
            hits=tuple(hits[: query.k]),
            requested=sent.k,
            returned=len(hits),
            unmapped=unmapped,
            ids_available=self.ids and (self.reading.sources.declared or unmapped < len(hits) or not hits),
            flags=(*flags, *([UNREADABLE] if unreadable else [])),
        )

    async def _pages(self, space: Space, values: Mapping[str, object], k: int) -> tuple[list[Hit], bool]:
        """All hits up to k and whether a score or date of them could not be read."""
        hits: list[Hit] = []
        unreadable = False
        extra: tuple[tuple[str, str], ...] = ()
        for _ in range(self.max_pages):
            answer = await self.call.send(values, extra)
            page = self.reading.read(answer, space) if answer.ok else Page(())
            hits += page.hits
            unreadable = unreadable or page.unreadable
            cursor = self._next(answer)
            if self.cursor is None or cursor is None or len(hits) >= k:
                break
            extra = ((self.cursor[1], cursor),)
        return hits, unreadable

    def _next(self, answer: Answer) -> str | None:
        if self.cursor is None or not answer.ok:
            return None
        found = self.cursor[0].path.all(answer.tree)
        return compact(found[0]) if found and found[0] not in (None, "", False) else None
