"""Make the query for an item, and map the hits of its search to the ids of the dataset.

Example::

    found = await provider.search(ready.space, query_of(lane, item, item.question))
    search = map_hits(lane, ready.content.anonymized, found)    # a SearchResult

The evidence level of the lane decides whether hits are mapped to ids of sessions or of turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from bench.datasets import RenderedMemory, ranked_ids
from bench.datasets.memories import contained_ids
from bench.engine.corpora.anonymizer import AnonymizedCorpus, opaque_id
from bench.engine.items.phase_results import REDACTED_HITS, SearchResult, hits_without_secrets
from bench.engine.open_lane import OpenLane
from bench.errors import MappingError
from bench.model import (
    DATES_DIFFER,
    DATES_MISSING,
    DATES_RESTORED,
    IN_ORDER,
    QUERY_CUT,
    REPEATED,
    SHARED_MEMORY,
    UNREADABLE,
    WITHOUT_TEXT,
    Found,
    Hit,
    Item,
    Query,
)
from bench.providers.ranking import in_order, reversed_scores, text_flags
from bench.visible_text import counted

OVER_RETURNED = "over_returned"
"""flag: the provider returned more than k hits, of which only the first k are used"""
K_CAPPED = "k_capped"
"""flag: the provider accepts only a k smaller than that of the benchmark"""
DAY_S = 86_400
Sources = Sequence[Sequence[RenderedMemory]]
"""for each hit, the memories to which it refers"""


def query_of(lane: OpenLane, item: Item, text: str) -> Query:
    """Return a query with this text, the date of the item's question, and the k and limits of the benchmark."""
    benchmark = lane.plan.benchmark
    return Query(
        text=text,
        k=benchmark.k,
        when=item.question_date,
        key=opaque_id("q", benchmark.name, item.id),
        threshold=benchmark.config.search.default_threshold,
        include_chunks=benchmark.config.search.include_chunks,
    )


def map_hits(
    lane: OpenLane,
    anonymized: AnonymizedCorpus,
    found: Found,
    *,
    reason: str = "",
    sentences: Mapping[str, str] | None = None,
) -> SearchResult:
    """Convert the hits of a search to a search result: cut to k, mapped to ids of the dataset, with flags.

    If ``sentences`` (the evidence sentences of the item) is given, hits are mapped to these sentences by their text.
    ``reason`` says why retrieval metrics do not apply.
    """
    k = lane.plan.benchmark.k
    kept = tuple(found.hits if lane.provider.unbounded else found.hits[:k])
    # hits that were cut are no misses
    unmapped = found.unmapped if len(kept) == found.returned else [hit.source_ids for hit in kept].count(())
    sources = [anonymized.sources(hit.source_ids) if hit.source_ids else [] for hit in kept]
    kept, dates = date_hits(anonymized, kept, sources)
    if lane.plan.unit == "session":  # its text begins with its date
        dates = tuple(flag for flag in dates if flag != DATES_MISSING)
    slots = None
    if sentences is not None:
        slots = tuple(contained_ids(sentences, "\n".join((hit.content, *hit.chunks))) for hit in kept)
    elif found.ids_available:
        slots = tuple(ranked_ids(sources, level=lane.plan.level, unit=lane.plan.unit))
    flags = [*_flags(lane, found, kept), *empty_text_flags(lane.provider.name, kept, sources)]
    flags += stored_flags(anonymized, kept, sources)
    if len({(hit.id, hit.content) for hit in kept}) < len(kept):
        flags.append(REPEATED)
    if (way := reversed_scores(lane.plan.provider.config, kept)) is not None:
        flags.append(way)
    hits = hits_without_secrets(kept)
    if hits is not kept:
        flags.append(REDACTED_HITS)
        lane.report_once(REDACTED_HITS, f"{lane.provider.name} returned a secret of this run in a hit: it was redacted")
    return SearchResult(
        hits=hits,
        retrieved=None if slots is None else slots[:k],
        beyond=() if slots is None else slots[k:],
        requested=found.requested,
        returned=found.returned,
        unmapped=unmapped,
        flags=(*flags, *found.flags, *dates),
        reason=reason or ("" if slots is not None else "no_source_ids"),
        cost_usd=lane.search_price,
        priced=lane.search_price is not None or lane.plan.provider.config.bills,
    )


def stored_flags(anonymized: AnonymizedCorpus, hits: Sequence[Hit], sources: Sources) -> list[str]:
    """Return flags for a search whose hits are in the order in which they were stored, or have changed texts."""
    alone = [(hit, known[0].memory) for hit, known in zip(hits, sources, strict=True) if len(known) == 1]
    ordered = len(alone) == len(hits) < len(anonymized.memories) and in_order(
        [anonymized.places[one.id] for _, one in alone]
    )
    texts = text_flags([(hit.content, memory.content) for hit, memory in alone if not hit.chunks])
    return [*([IN_ORDER] if ordered else []), *texts]


def date_hits(
    anonymized: AnonymizedCorpus, hits: Sequence[Hit], sources: Sources
) -> tuple[tuple[Hit, ...], tuple[str, ...]]:
    """Give each hit without a date the date of its memory; return the hits, and flags for their dates."""
    dated, flags, missing = list(hits), set[str](), False
    for at, (hit, known) in enumerate(zip(hits, sources, strict=True)):
        own = [one.memory.when for one in known if one.memory.when is not None] if known else []
        if hit.when is not None:
            if own and hit.when not in own and _is_of_another_day(hit.when, own):
                flags.add(DATES_DIFFER)
        elif own:
            dated[at] = replace(hit, when=own[0])
            flags.add(DATES_RESTORED)
        elif not known:
            missing = True
    if missing and anonymized.is_dated:
        flags.add(DATES_MISSING)
    return tuple(dated), tuple(sorted(flags))


def _is_of_another_day(when: datetime, own: Sequence[datetime]) -> bool:
    """Return True if a hit's date differs by more than 24 hours from every date of its memories."""
    return all(abs((when - date).total_seconds()) > DAY_S for date in own)


def empty_text_flags(name: str, hits: Sequence[Hit], sources: Sources) -> tuple[str, ...]:
    """Return a flag if a hit has no text although its memory has one.

    Raises:
        MappingError: no hit has text, although their memories have texts.
    """
    if all(map(str.strip, [hit.content for hit in hits])):
        return ()
    empty = [known for hit, known in zip(hits, sources, strict=True) if not (hit.content.strip() or hit.chunks)]
    lost = [known for known in empty if any(one.memory.content.strip() for one in known)]
    if lost and len(empty) == len(hits):
        raise MappingError(
            f"{name}: every hit has an empty text ({counted(len(hits), 'hit(|s)')}), although its memory has a text",
            hint="correct the path of the text in the provider's config",
        )
    return (WITHOUT_TEXT,) if lost else ()


def report_flags(lane: OpenLane, result: SearchResult) -> None:
    """Report the flags of a search as events; each flag is reported once for each lane."""
    name, config = lane.provider.name, lane.plan.provider.config
    texts = {
        OVER_RETURNED: f"returned more hits than k = {result.requested}: only the first k are used",
        K_CAPPED: f"accepts at most k = {result.requested}, which was requested instead (capabilities.max_k)",
        QUERY_CUT: f"accepts at most {config.capabilities.max_query_chars} characters of a question: longer ones were "
        "cut after a word (capabilities.max_query_chars)",
        UNREADABLE: "returned scores or dates that could not be read: they count as unknown",
        REPEATED: "returned the same hit more than once in a search: the copies displace other memories",
        WITHOUT_TEXT: "returned hits with an empty text, which do not help the answering model",
        DATES_DIFFER: "returned hits whose date differs from the date of their memory: the answering "
        "model sees the dates of the hits (perhaps search.response.when is the time of storing; if the config "
        "has no such field, hits have the dates of their memories)",
        DATES_RESTORED: "returned hits without a date: each has the date of the memory that it maps to",
        DATES_MISSING: "returned hits that have no date and map to no memory: the answering model gets no dates "
        "for them, unlike with other providers",
    }
    for flag in result.flags:
        if flag in texts:
            lane.report_once(flag, f"{name} {texts[flag]}")


def _flags(lane: OpenLane, found: Found, kept: Sequence[Hit]) -> list[str]:
    k = lane.plan.benchmark.k
    ids = [hit.source_ids for hit in kept if hit.source_ids]
    return [
        name
        for name, holds in {
            OVER_RETURNED: found.returned > k and not lane.provider.unbounded,
            K_CAPPED: found.requested < k and not lane.provider.unbounded,
            SHARED_MEMORY: len(set(ids)) < len(ids),
            "unmapped": found.unmapped > 0,
        }.items()
        if holds
    ]
