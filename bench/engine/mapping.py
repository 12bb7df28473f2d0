"""Between an item and a provider: the question as it may be seen, and what the hits stand for.

Example::

    found = await provider.search(ready.space, query_of(lane, item, item.question))
    result = mapped(lane, ready.content.veil, found)    # a SearchResult

Each hit's memory ids become the dataset's session or turn ids at the evidence level of the lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.datasets import ranks
from bench.engine.opaque import Veil, opaque
from bench.engine.records import SearchResult
from bench.model import Found, Hit, Item, Query

if TYPE_CHECKING:
    from bench.engine.lane import OpenLane

OVER_RETURNED = "over_returned"
"""the provider sent more than k; cut, and flagged"""


def query_of(lane: OpenLane, item: Item, text: str) -> Query:
    """A question as a provider may see it."""
    benchmark = lane.plan.benchmark
    return Query(
        text=text,
        k=benchmark.k,
        when=item.question_date,
        key=opaque("q", benchmark.name, item.id),
        threshold=benchmark.config.search.default_threshold,
        include_chunks=benchmark.config.search.include_chunks,
    )


def mapped(lane: OpenLane, veil: Veil, found: Found, *, reason: str = "") -> SearchResult:
    """Cut to k, map to the dataset's ids, and say what was odd about the answer."""
    k = lane.plan.benchmark.k
    kept = found.hits if lane.provider.unbounded else found.hits[:k]
    slots = None
    if found.ids_available:
        sources = [veil.sources(hit.source_ids) for hit in kept]
        slots = tuple(ranks(sources, level=lane.plan.level, unit=lane.plan.unit))
    return SearchResult(
        hits=tuple(kept),
        retrieved=None if slots is None else slots[:k],
        beyond=() if slots is None else slots[k:],
        requested=found.requested,
        returned=found.returned,
        unmapped=found.unmapped,
        flags=tuple(_flags(lane, found, kept)),
        reason=reason or ("" if found.ids_available else "no_source_ids"),
        cost_usd=lane.search_price,
        priced=lane.search_price is not None or lane.plan.provider.config.type == "hosted",
    )


def _flags(lane: OpenLane, found: Found, kept: Sequence[Hit]) -> list[str]:
    k = lane.plan.benchmark.k
    ids = [hit.source_ids for hit in kept if hit.source_ids]
    return [
        name
        for name, holds in {
            OVER_RETURNED: found.returned > k and not lane.provider.unbounded,
            "k_capped": found.requested < k and not lane.provider.unbounded,
            "duplicates": len(set(ids)) < len(ids),
            "unmapped": found.unmapped > 0,
        }.items()
        if holds
    ]
