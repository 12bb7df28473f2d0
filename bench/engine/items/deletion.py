"""Run the search phase of an item that tests whether a deleted memory is still found.

1. A search must find the content that will be deleted. If it does not, the item is unscored
   (``not_found_before_delete``).
2. The journal stores the intention, then the memories of the session are deleted.
3. A second search runs, and the evaluator reads its hits.

If the run is killed during step 2 or 3, a resume repeats both steps. It skips step 1, because the content may already
be deleted.
"""

from __future__ import annotations

from bench.engine.items.hit_mapping import map_hits, query_of
from bench.engine.items.phase_results import SearchResult
from bench.engine.open_lane import OpenLane, ReadyCorpus
from bench.errors import Unsupported
from bench.journal import Event
from bench.model import (
    Deletion,
    Found,
    Item,
)
from bench.providers import Deletes

INTENT = "delete_intent"
MISSING = "not_found_before_delete"


async def delete_and_verify(lane: OpenLane, ready: ReadyCorpus, item: Item, deletion: Deletion) -> SearchResult:
    """Delete the memories that ``deletion`` names, and return the result of a search after the deletion.

    If the first search does not find the content, delete nothing, and return the result of this search with the reason
    ``not_found_before_delete``.
    """
    provider, space = lane.provider, ready.space
    if not isinstance(provider, Deletes):
        raise Unsupported(
            f"{provider.name} cannot delete a memory", hint='use a provider with the capability "delete_memory"'
        )
    rule = lane.plan.benchmark.config.deletion
    pause_s = 0.0 if rule is None else rule.phase_delay_ms / 1000
    targets = ready.content.anonymized.ids_of_session(deletion.target)
    if (item.id, ready.space.attempt) not in lane.deletions_begun:
        before = await provider.search(space, query_of(lane, item, deletion.verify_query))
        lane.check_leak(ready.corpus_id, space, ready.content.anonymized, before.hits)
        if not _holds_content(before, deletion, targets):
            return map_hits(lane, ready.content.anonymized, before, reason=MISSING)
        await lane.run.stopping.pause_for(pause_s)
        data = {"item": item.id, "attempt": ready.space.attempt}
        await lane.run.journal.append_durable(Event(kind=INTENT, scope=lane.key, data=data))
    await provider.delete(space, targets)
    await lane.run.stopping.pause_for(pause_s)
    after = await provider.search(space, query_of(lane, item, deletion.verify_query))
    lane.check_leak(ready.corpus_id, space, ready.content.anonymized, after.hits)
    return map_hits(lane, ready.content.anonymized, after)


def deletions_begun(events: list[Event], lane: str) -> set[tuple[str, int]]:
    """Return the deletions that earlier processes began, as (item, number of the attempt to ingest its corpus)."""
    return {
        (str(event.data["item"]), int(str(event.data["attempt"])))
        for event in events
        if event.kind == INTENT and event.scope == lane
    }


def _holds_content(found: Found, deletion: Deletion, targets: tuple[str, ...]) -> bool:
    """Return True if a hit is a memory to delete, or contains the text to delete."""
    wanted = deletion.deleted_content.strip().lower()
    return any(set(targets) & set(hit.source_ids) or (wanted and wanted in hit.content.lower()) for hit in found.hits)
