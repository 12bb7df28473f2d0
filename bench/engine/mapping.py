"""Between an item and a provider: the question as it may be seen, and what the hits stand for.

Example::

    found = await provider.search(ready.space, query_of(lane, item, item.question))
    result = mapped(lane, ready.content.veil, found)    # a SearchResult

Each hit's memory ids become the dataset's session or turn ids at the evidence level of the lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from bench.datasets import RenderedMemory, ranks
from bench.engine.incoming import REDACTED_HITS, hits_without_secrets
from bench.engine.opaque import Veil, opaque
from bench.engine.records import SearchResult
from bench.errors import MappingError
from bench.model import (
    DATES_DIFFER,
    DATES_MISSING,
    DATES_RESTORED,
    QUERY_CUT,
    UNREADABLE,
    WITHOUT_TEXT,
    Found,
    Hit,
    Item,
    Query,
)
from bench.providers.ranking import reversed_scores

if TYPE_CHECKING:
    from bench.engine.lane import OpenLane

OVER_RETURNED = "over_returned"
"""the provider sent more than k; cut, and flagged"""
K_CAPPED = "k_capped"
"""the provider takes a smaller k only"""

DAY_S = 86_400

Sources = Sequence[Sequence[RenderedMemory]]
"""for each hit the memories that it stands for"""


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
    kept = tuple(found.hits if lane.provider.unbounded else found.hits[:k])
    sources = [veil.sources(hit.source_ids) if hit.source_ids else [] for hit in kept]
    kept, dates = dated(veil, kept, sources)
    if lane.plan.unit == "session":  # its text begins with its date
        dates = tuple(flag for flag in dates if flag != DATES_MISSING)
    slots = None
    if found.ids_available:
        slots = tuple(ranks(sources, level=lane.plan.level, unit=lane.plan.unit))
    flags = [*_flags(lane, found, kept), *textless(lane.provider.name, kept, sources)]
    if (way := reversed_scores(lane.plan.provider.config, kept)) is not None:
        flags.append(way)
    hits = hits_without_secrets(kept)
    if hits is not kept:
        flags.append(REDACTED_HITS)
        lane.tell_once(REDACTED_HITS, f"{lane.provider.name} returned a secret of this run in a hit: it was redacted")
    return SearchResult(
        hits=hits,
        retrieved=None if slots is None else slots[:k],
        beyond=() if slots is None else slots[k:],
        requested=found.requested,
        returned=found.returned,
        unmapped=found.unmapped,
        flags=(*flags, *found.flags, *dates),
        reason=reason or ("" if found.ids_available else "no_source_ids"),
        cost_usd=lane.search_price,
        priced=lane.search_price is not None or lane.plan.provider.config.bills,
    )


def dated(veil: Veil, hits: Sequence[Hit], sources: Sources) -> tuple[tuple[Hit, ...], tuple[str, ...]]:
    """Give each hit without a date that of its memory, so that every provider's context is dated alike; and flags."""
    found, flags = list(hits), set[str]()
    for at, (hit, known) in enumerate(zip(hits, sources, strict=True)):
        own = [one.memory.when for one in known if one.memory.when is not None] if known else []
        if hit.when is not None:
            if own and hit.when not in own and _is_of_another_day(hit.when, own):
                flags.add(DATES_DIFFER)
        elif own:
            found[at] = replace(hit, when=own[0])
            flags.add(DATES_RESTORED)
        elif not known:
            flags.add(DATES_MISSING)
    if not veil.is_dated:
        flags.discard(DATES_MISSING)
    return tuple(found), tuple(sorted(flags))


def _is_of_another_day(when: datetime, own: Sequence[datetime]) -> bool:
    """More than a time zone apart from each memory that a hit stands for."""
    return all(abs((when - date).total_seconds()) > DAY_S for date in own)


def textless(name: str, hits: Sequence[Hit], sources: Sources) -> tuple[str, ...]:
    """Flag hits without text, unless the memory itself has none.

    Raises:
        MappingError: no hit of the answer has any.
    """
    if all(map(str.strip, [hit.content for hit in hits])):
        return ()
    empty = [known for hit, known in zip(hits, sources, strict=True) if not (hit.content.strip() or hit.chunks)]
    lost = [known for known in empty if any(one.memory.content.strip() for one in known)]
    if lost and len(empty) == len(hits):
        raise MappingError(f"{name}: the text of all {len(hits)} hits is empty, that of their memories is not")
    return (WITHOUT_TEXT,) if lost else ()


def tell_flags(lane: OpenLane, result: SearchResult) -> None:
    """Say under the table, once a lane, what was odd about its searches."""
    name, config = lane.provider.name, lane.plan.provider.config
    texts = {
        OVER_RETURNED: f"returned more than k = {result.requested}: cut to k",
        K_CAPPED: f"takes no more than k = {result.requested}: asked for that many (capabilities.max_k)",
        QUERY_CUT: f"takes at most {config.capabilities.max_query_chars} characters of a question: longer ones were "
        "cut at a word (capabilities.max_query_chars)",
        UNREADABLE: "returned scores or dates that could not be read: they count as unknown",
        WITHOUT_TEXT: "returned hits whose text is empty: the answering model sees nothing of them",
        DATES_DIFFER: "returned hits that are dated on another day than the memory that they map to: the answering "
        "model sees those dates (search.response.when may name the time of storing; left out, hits have the dates of "
        "their memories)",
        DATES_RESTORED: "returned hits without a date: each has the date of the memory that it maps to",
        DATES_MISSING: "returned hits without a date that map to no memory: the answering model does not see when "
        "they were said, as it does with other providers",
    }
    for flag in result.flags:
        if flag in texts:
            lane.tell_once(flag, f"{name} {texts[flag]}")


def _flags(lane: OpenLane, found: Found, kept: Sequence[Hit]) -> list[str]:
    k = lane.plan.benchmark.k
    ids = [hit.source_ids for hit in kept if hit.source_ids]
    return [
        name
        for name, holds in {
            OVER_RETURNED: found.returned > k and not lane.provider.unbounded,
            K_CAPPED: found.requested < k and not lane.provider.unbounded,
            "duplicates": len(set(ids)) < len(ids),
            "unmapped": found.unmapped > 0,
        }.items()
        if holds
    ]
