"""The search phase of one item: request k hits, map them back, cut them; and the steps of add-delete-verify.

Also in this module:

* The query for a provider, and the mapping of its hits to dataset ids.
* Add-delete-verify: three steps in the search phase that check that a deleted memory is not found any more.
* The oracle: a provider that returns exactly the memories with the evidence, the upper bound of retrieval metrics.

Example::

    result = await search(lane, ready, item)       # a SearchResult; a failure is raised
    found = await provider.search(ready.space, query_of(lane, item, item.question))
    result = map_hits(lane, ready.content.anonymized, found)    # a SearchResult
    found = await Oracle().with_evidence(evidence_memories).search(space, query)

Each hit's memory ids become the dataset's session or turn ids at the evidence level of the lane.

Steps of add-delete-verify:

1. A search must find the content; otherwise the item is unscored (``not_found_before_delete``).
2. An intent is made durable, then the memories of the target are deleted.
3. The verification search runs; the deletion check reads its hits.

A run that was killed between 2 and the end of 3 deletes again on resume and skips step 1, because the content may
already be deleted.

The oracle is part of the engine, because only the engine has the gold evidence; plug-ins never get it. The oracle has
no store, so the isolation checks do not apply to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Self

from bench.datasets import RenderedMemory, gold_ids, ids_at_level, ranked_ids
from bench.datasets.memories import contained_ids, evidence_sentences
from bench.engine.corpora.anonymizer import AnonymizedCorpus, opaque_id
from bench.engine.corpora.isolation import Sentinel
from bench.engine.items.phase_results import REDACTED_HITS, SearchResult, hits_without_secrets
from bench.engine.open_lane import OpenLane, ReadyCorpus
from bench.engine.run_context import retry_unreadable
from bench.errors import MappingError, NotReady, Unsupported
from bench.journal import CorpusKind, CorpusRow, Event
from bench.model import (
    DATES_DIFFER,
    DATES_MISSING,
    DATES_RESTORED,
    ERROR_HIT,
    IN_ORDER,
    NO_HITS,
    QUERY_CUT,
    QUESTION_FOUND,
    REPEATED,
    SHARED_MEMORY,
    UNREADABLE,
    WITHOUT_TEXT,
    Deletion,
    Found,
    Hit,
    Ingested,
    Item,
    Memory,
    Query,
    Readiness,
    Space,
)
from bench.models.answer_text import is_error_text
from bench.providers import Batching, Capabilities, Deletes, Durability, Lists, OnUnknown, Provider, Waiting
from bench.providers.builtin.store import cpu_timed
from bench.providers.ranking import in_order, reversed_scores, text_flags

OVER_RETURNED = "over_returned"
"""flag: the provider returned more than k hits, which were cut"""
K_CAPPED = "k_capped"
"""flag: the provider only accepts a smaller k"""

DAY_S = 86_400

Sources = Sequence[Sequence[RenderedMemory]]
"""the memories that each hit refers to"""


def query_of(lane: OpenLane, item: Item, text: str) -> Query:
    """Return a query with this text and with the k, date and limits of the item's benchmark."""
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
    """Return the search result with hits cut to k and mapped to dataset ids or evidence sentences, with flags."""
    k = lane.plan.benchmark.k
    kept = tuple(found.hits if lane.provider.unbounded else found.hits[:k])
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
        unmapped=found.unmapped,
        flags=(*flags, *found.flags, *dates),
        reason=reason or ("" if slots is not None else "no_source_ids"),
        cost_usd=lane.search_price,
        priced=lane.search_price is not None or lane.plan.provider.config.bills,
    )


def stored_flags(anonymized: AnonymizedCorpus, hits: Sequence[Hit], sources: Sources) -> list[str]:
    """Return flags for hits in the order of storing, and for hits whose text differs from the memory."""
    alone = [(hit, known[0].memory) for hit, known in zip(hits, sources, strict=True) if len(known) == 1]
    ordered = len(alone) == len(hits) < len(anonymized.memories) and in_order(
        [anonymized.places[one.id] for _, one in alone]
    )
    texts = text_flags([(hit.content, memory.content) for hit, memory in alone if not hit.chunks])
    return [*([IN_ORDER] if ordered else []), *texts]


def date_hits(
    anonymized: AnonymizedCorpus, hits: Sequence[Hit], sources: Sources
) -> tuple[tuple[Hit, ...], tuple[str, ...]]:
    """Give hits without a date the date of their memory, so that all contexts have dates; return hits and flags."""
    found, flags, missing = list(hits), set[str](), False
    for at, (hit, known) in enumerate(zip(hits, sources, strict=True)):
        own = [one.memory.when for one in known if one.memory.when is not None] if known else []
        if hit.when is not None:
            if own and hit.when not in own and _is_of_another_day(hit.when, own):
                flags.add(DATES_DIFFER)
        elif own:
            found[at] = replace(hit, when=own[0])
            flags.add(DATES_RESTORED)
        elif not known:
            missing = True
    if missing and anonymized.is_dated:
        flags.add(DATES_MISSING)
    return tuple(found), tuple(sorted(flags))


def _is_of_another_day(when: datetime, own: Sequence[datetime]) -> bool:
    """Return True when a hit's date is more than 24 hours from all dates of its memories; zones may differ."""
    return all(abs((when - date).total_seconds()) > DAY_S for date in own)


def empty_text_flags(name: str, hits: Sequence[Hit], sources: Sources) -> tuple[str, ...]:
    """Return a flag for hits without text, unless the memory has none either.

    Raises:
        MappingError: no hit has text.
    """
    if all(map(str.strip, [hit.content for hit in hits])):
        return ()
    empty = [known for hit, known in zip(hits, sources, strict=True) if not (hit.content.strip() or hit.chunks)]
    lost = [known for known in empty if any(one.memory.content.strip() for one in known)]
    if lost and len(empty) == len(hits):
        raise MappingError(f"{name}: all {len(hits)} hits have an empty text, although their memories have one")
    return (WITHOUT_TEXT,) if lost else ()


def report_flags(lane: OpenLane, result: SearchResult) -> None:
    """Report the flags of a lane's searches as events, once per lane."""
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
        "model sees the dates of the hits (perhaps search.response.when is the time of storing; without it, "
        "hits have the dates of "
        "their memories)",
        DATES_RESTORED: "returned hits without a date: each has the date of the memory that it maps to",
        DATES_MISSING: "returned hits that have no date and map to no memory: the answering model does not see when "
        "they were said, as it does with other providers",
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


INTENT = "delete_intent"
MISSING = "not_found_before_delete"


async def delete_and_verify(lane: OpenLane, ready: ReadyCorpus, item: Item, deletion: Deletion) -> SearchResult:
    """Run the three steps and return the result of the verification search.

    If step 1 does not find the content, return its result with the reason ``not_found_before_delete``.
    """
    provider, space = lane.provider, ready.space
    if not isinstance(provider, Deletes):
        raise Unsupported(f"{provider.name} cannot delete a memory")
    pause_s = _pause_s(lane)
    targets = ready.content.anonymized.ids_of_session(deletion.target)
    if (item.id, ready.space.attempt) not in lane.deletions_begun:
        before = await provider.search(space, query_of(lane, item, deletion.verify_query))
        lane.watch(ready.corpus_id, space, ready.content.anonymized, before.hits)
        if not _holds_content(before, deletion, targets):
            return map_hits(lane, ready.content.anonymized, before, reason=MISSING)
        await lane.run.stopping.pause_for(pause_s)
        data = {"item": item.id, "attempt": ready.space.attempt}
        await lane.run.journal.append_durable(Event(kind=INTENT, scope=lane.key, data=data))
    await provider.delete(space, targets)
    await lane.run.stopping.pause_for(pause_s)
    after = await provider.search(space, query_of(lane, item, deletion.verify_query))
    lane.watch(ready.corpus_id, space, ready.content.anonymized, after.hits)
    return map_hits(lane, ready.content.anonymized, after)


def deletions_begun(events: list[tuple[int, Event]], lane: str) -> set[tuple[str, int]]:
    """Return the deletions that an earlier process began: (item, number of the attempt to ingest its corpus)."""
    return {
        (str(event.data["item"]), int(str(event.data["attempt"])))
        for _, event in events
        if event.kind == INTENT and event.scope == lane
    }


def _pause_s(lane: OpenLane) -> float:
    rule = lane.plan.benchmark.config.deletion
    return 0.0 if rule is None else rule.phase_delay_ms / 1000


def _holds_content(found: Found, deletion: Deletion, targets: tuple[str, ...]) -> bool:
    """Return True when a search finds the content to delete."""
    wanted = deletion.deleted_content.strip().lower()
    return any(set(targets) & set(hit.source_ids) or (wanted and wanted in hit.content.lower()) for hit in found.hits)


class Oracle:
    """A provider that returns the evidence of one item, see `knowing`."""

    name = "oracle"
    version = "1"
    durability: Durability = "service"
    capabilities = Capabilities()
    keeps_store = False
    unbounded = False
    on_unknown: OnUnknown = "repeat"
    wait = Waiting()
    batching = Batching()

    def __init__(self, evidence: Sequence[Memory] = ()) -> None:
        self._evidence = tuple(evidence)

    def with_evidence(self, evidence: Sequence[Memory]) -> Oracle:
        """Return the oracle of one item."""
        return Oracle(evidence)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def ingest(self, space: Space, memories: Sequence[Memory]) -> Ingested:
        return Ingested(ids={memory.id: (memory.id,) for memory in memories})

    async def ready(self, space: Space, ingested: Ingested) -> Readiness:
        return Readiness(state="ready")

    @cpu_timed
    async def search(self, space: Space, query: Query) -> Found:
        hits = tuple(
            Hit(id=memory.id, content=memory.content, source_ids=(memory.id,), when=memory.when)
            for memory in self._evidence
        )
        return Found(hits=hits[: query.k], requested=query.k, returned=len(hits))

    async def clear(self, space: Space) -> int | None:
        return 0


async def search(lane: OpenLane, ready: ReadyCorpus, item: Item) -> SearchResult:
    """Search for one item's question, or run its deletion."""
    if item.deletion is not None:
        return await delete_and_verify(lane, ready, item, item.deletion)
    found = await provider_for(lane, ready, item).search(ready.space, query_of(lane, item, item.question))
    lane.watch(ready.corpus_id, ready.space, ready.content.anonymized, found.hits)
    if not found.hits and lane.provider.keeps_store and lane.checks_isolation:
        await require_stored(lane, ready)
    sentences = evidence_sentences(item, ready.content.turn_texts) if lane.plan.level == "text" else None
    result = map_hits(lane, ready.content.anonymized, found, sentences=sentences)
    if lane.provider.keeps_store and lane.plan.provider.built_in is None:
        result = replace(result, flags=(*result.flags, *_service_flags(result)), replied=found.replied)
    asked = item.question.strip()
    if [hit for hit in result.hits if asked in hit.content and not hit.source_ids and hit.content.strip() == asked]:
        result = replace(result, flags=(*result.flags, QUESTION_FOUND))
    report_flags(lane, result)
    if result.hits and result.reason == "no_source_ids" and _wants_ids(lane):
        lane.report_once(
            "no_source_ids",
            f"{lane.provider.name} returned hits that cannot be mapped to memories: there are no retrieval metrics; "
            "correct search.response.id_from, or write id_from: none",
        )
    return replace(result, stored=await listed_texts(lane, ready, item)) if lane.lists_stored else result


def _service_flags(result: SearchResult) -> list[str]:
    """Return flags for a search of a service that returned no hits, or an error as its only hit."""
    if not result.hits:
        return [NO_HITS]
    only = result.hits[0]
    is_error = len(result.hits) == 1 and not only.source_ids and is_error_text(only.content)
    return [ERROR_HIT] if is_error else []


async def listed_texts(lane: OpenLane, ready: ReadyCorpus, item: Item) -> tuple[str, ...] | None:
    """Return the texts that a provider lists for an item's evidence sessions; None if it cannot list.

    If no listed memory can be mapped to a session, return all texts.
    """
    provider = lane.provider
    if not isinstance(provider, Lists):
        return None
    listed, wanted = await provider.list(ready.space), set(item.evidence.sessions)
    whose = [
        {name for one in ready.content.anonymized.sources(hit.source_ids) for name in one.sessions} for hit in listed
    ]
    if wanted and any(whose):
        listed = [hit for hit, names in zip(listed, whose, strict=True) if names & wanted]
    return tuple(hit.content for hit in hits_without_secrets(tuple(listed)))


def _wants_ids(lane: OpenLane) -> bool:
    """Return True for a config with endpoints that does not declare that hits cannot be mapped."""
    config = lane.plan.provider.config
    return (
        config.endpoints is not None and config.capabilities.ids and config.endpoints.search.response.id_from != "none"
    )


async def require_stored(lane: OpenLane, ready: ReadyCorpus) -> None:
    """Search for a stored memory after an empty result, to detect a service that lost its data.

    Raises:
        NotReady: no memory of the corpus is found; the next resume ingests it again.
    """
    sentinel = Sentinel(lane.provider, ready.space, ready.content.anonymized, must_settle=False)
    if await retry_unreadable(sentinel.found):
        return
    text = (
        f"nothing of {ready.corpus_id} is found at {lane.provider.name} any more: the service has lost it since the "
        "ingest"
    )
    lane.run.journal.append(
        CorpusRow(
            lane=lane.plan.build,
            corpus=ready.corpus_id,
            attempt=ready.space.attempt,
            kind=CorpusKind.FAILED,
            outcome=NotReady.kind,
            message=text,
            data={"clean": False},
        )
    )
    hint = "resume the run: the corpus is ingested again" if ready.held else "start a run without --reuse-build"
    raise NotReady(text, hint=hint)


def provider_for(lane: OpenLane, ready: ReadyCorpus, item: Item) -> Provider:
    """Return the lane's provider; the oracle also gets the evidence of the item."""
    provider = lane.provider
    if not isinstance(provider, Oracle):
        return provider
    anonymized = ready.content.anonymized
    wanted = set(gold_ids(item, lane.plan.level, score_retrieval=True))
    sentences = evidence_sentences(item, ready.content.turn_texts)

    def told(memory: Memory) -> tuple[str, ...]:
        if lane.plan.level == "text":
            return contained_ids(sentences, memory.content)
        return ids_at_level(anonymized.sources([memory.id]), lane.plan.level)

    holding = [memory for memory in anonymized.memories if wanted.intersection(told(memory))]
    return provider.with_evidence(holding)
