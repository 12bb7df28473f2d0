"""Run the search phase of one item: search for its question, map the hits to memories, and flag suspicious hits.

Example::

    search = await search_item(lane, ready, item)       # a SearchResult; a failure is raised
"""

from __future__ import annotations

from dataclasses import replace

from bench.datasets.memories import evidence_sentences
from bench.engine.corpora.isolation import Sentinel, memories_lost
from bench.engine.items.deletion import delete_and_verify
from bench.engine.items.hit_mapping import map_hits, query_of, report_flags
from bench.engine.items.oracle import provider_for
from bench.engine.items.phase_results import SearchResult, hits_without_secrets
from bench.engine.open_lane import OpenLane, ReadyCorpus
from bench.engine.outcome import Failure
from bench.engine.run_context import retry_unreadable
from bench.journal import CorpusKind
from bench.model import (
    ERROR_HIT,
    NO_HITS,
    QUESTION_FOUND,
    Item,
)
from bench.models.faulty_answers import is_error_text
from bench.providers import Lists


async def search_item(lane: OpenLane, ready: ReadyCorpus, item: Item) -> SearchResult:
    """Search for the question of an item; if the item tests a deletion, run the deletion instead."""
    if item.deletion is not None:
        return await delete_and_verify(lane, ready, item, item.deletion)
    found = await provider_for(lane, ready, item).search(ready.space, query_of(lane, item, item.question))
    lane.check_leak(ready.corpus_id, ready.space, ready.content.anonymized, found.hits)
    if not found.hits and lane.provider.keeps_store and lane.checks_isolation:
        await require_stored(lane, ready)
    sentences = evidence_sentences(item, ready.content.turn_texts) if lane.plan.level == "text" else None
    result = map_hits(lane, ready.content.anonymized, found, sentences=sentences)
    if lane.provider.keeps_store and lane.plan.provider.built_in is None:
        result = replace(result, flags=(*result.flags, *_service_flags(result)), replied=found.replied)
    question = item.question.strip()
    if [
        hit for hit in result.hits if question in hit.content and not hit.source_ids and hit.content.strip() == question
    ]:
        result = replace(result, flags=(*result.flags, QUESTION_FOUND))
    report_flags(lane, result)
    if result.hits and result.reason == "no_source_ids" and _wants_ids(lane):
        lane.report_once(
            "no_source_ids",
            f"{lane.provider.name} returned hits that cannot be mapped to memories: there are no retrieval metrics; "
            "correct search.response.id_from, or write id_from: none",
        )
    return replace(result, listed=await listed_texts(lane, ready, item)) if lane.lists_stored else result


def _service_flags(result: SearchResult) -> list[str]:
    """Return a flag if a service returned no hits, or a single hit whose text is an error message."""
    if not result.hits:
        return [NO_HITS]
    only = result.hits[0]
    is_error = len(result.hits) == 1 and not only.source_ids and is_error_text(only.content)
    return [ERROR_HIT] if is_error else []


async def listed_texts(lane: OpenLane, ready: ReadyCorpus, item: Item) -> tuple[str, ...] | None:
    """Return the stored texts that belong to the evidence sessions of an item; None if the provider cannot list texts.

    Return all stored texts if the item has no evidence sessions, or if the texts cannot be mapped to sessions.
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
    """Return True if the config of the provider promises that its hits can be mapped to memories."""
    config = lane.plan.provider.config
    return (
        config.endpoints is not None and config.capabilities.ids and config.endpoints.search.response.id_from != "none"
    )


async def require_stored(lane: OpenLane, ready: ReadyCorpus) -> None:
    """After a search without hits, check that memories of the corpus are still found.

    Raises:
        NotReady: no memory of the corpus is found, because the service has lost them.
    """
    sentinel = Sentinel(lane.provider, ready.space, ready.content.anonymized, must_settle=False)
    if await retry_unreadable(sentinel.found):
        return
    lane.lost_corpus = True
    lost = memories_lost(lane.provider, ready.corpus_id, held=ready.held)
    failure = Failure.of(lost)
    row = lane.corpus_row(CorpusKind.FAILED, ready.corpus_id, ready.space, failure=failure, data={"clean": False})
    lane.run.journal.append(row)
    raise lost
