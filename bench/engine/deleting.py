"""Add-delete-verify: is what was deleted really gone? Three steps inside the search phase, the delete with an intent.

1. a search must find the content; otherwise the item is unscored (``not_found_before_delete``), never a pass;
2. the memories of the target are deleted; an intent is durable before;
3. the verification search, whose hits the deletion check looks through.

A run that was killed between 2 and the end of 3 deletes again on resume and does not ask step 1 anew, because what it
would look for may be gone for the right reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from bench.engine.mapping import mapped, query_of
from bench.engine.records import SearchResult
from bench.errors import Unsupported
from bench.journal import Event
from bench.model import Deletion, Found, Item
from bench.providers import Deletes

if TYPE_CHECKING:
    from bench.engine.corpus import Ready
    from bench.engine.lane import OpenLane

INTENT = "delete_intent"
MISSING = "not_found_before_delete"


async def delete_and_verify(lane: OpenLane, ready: Ready, item: Item, deletion: Deletion) -> SearchResult:
    """Run the three steps and give the hits of the last one."""
    provider, space = lane.provider, ready.space
    if not isinstance(provider, Deletes):
        raise Unsupported(f"{provider.name} cannot delete a memory")
    pause_s = _pause_s(lane)
    targets = ready.content.veil.ids_of_session(deletion.target)
    if (item.id, ready.space.attempt) not in lane.deletions_begun:
        before = await provider.search(space, query_of(lane, item, deletion.verify_query))
        lane.watch(ready.corpus_id, space, ready.content.veil, before.hits)
        if not _holds(before, deletion, targets):
            return mapped(lane, ready.content.veil, before, reason=MISSING)
        await lane.live.stopping.pause_for(pause_s)
        data = {"item": item.id, "attempt": ready.space.attempt}
        await lane.live.journal.put(Event(kind=INTENT, scope=lane.key, data=data))
    await provider.delete(space, targets)
    await lane.live.stopping.pause_for(pause_s)
    after = await provider.search(space, query_of(lane, item, deletion.verify_query))
    lane.watch(ready.corpus_id, space, ready.content.veil, after.hits)
    return mapped(lane, ready.content.veil, after)


def begun(events: list[tuple[int, Event]], lane: str) -> set[tuple[str, int]]:
    """The deletions that an earlier process began: (item, corpus attempt)."""
    return {
        (cast("str", event.data["item"]), cast("int", event.data["attempt"]))
        for _, event in events
        if event.kind == INTENT and event.scope == lane
    }


def _pause_s(lane: OpenLane) -> float:
    rule = lane.plan.benchmark.config.deletion
    return 0.0 if rule is None else rule.phase_delay_ms / 1000


def _holds(found: Found, deletion: Deletion, targets: tuple[str, ...]) -> bool:
    """Say whether a search shows the content that is to be deleted."""
    wanted = deletion.deleted_content.strip().lower()
    return any(set(targets) & set(hit.source_ids) or (wanted and wanted in hit.content.lower()) for hit in found.hits)
