"""The search phase of one item: ask for k, map the hits back, cut; and the three steps of add-delete-verify.

Example::

    result = await search(lane, ready, item)       # a SearchResult; a failure is raised
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.datasets import gold_ids, stands_for
from bench.engine.deleting import delete_and_verify
from bench.engine.isolation import Sentinel
from bench.engine.live import reread
from bench.engine.mapping import mapped, query_of, tell_flags
from bench.engine.oracle import Oracle
from bench.engine.records import SearchResult
from bench.errors import NotReady
from bench.journal import CorpusKind, CorpusRow
from bench.model import Item
from bench.providers import Provider

if TYPE_CHECKING:
    from bench.engine.corpus import Ready
    from bench.engine.lane import OpenLane


async def search(lane: OpenLane, ready: Ready, item: Item) -> SearchResult:
    """Search for one item's question, or run its deletion."""
    if item.deletion is not None:
        return await delete_and_verify(lane, ready, item, item.deletion)
    found = await provider_for(lane, ready, item).search(ready.space, query_of(lane, item, item.question))
    lane.watch(ready.corpus_id, ready.space, ready.content.veil, found.hits)
    if not found.hits and lane.provider.keeps_store and lane.isolated:
        await still_there(lane, ready)
    result = mapped(lane, ready.content.veil, found)
    tell_flags(lane, result)
    return result


async def still_there(lane: OpenLane, ready: Ready) -> None:
    """Look for something that was written: an empty answer is none where the service lost everything.

    Raises:
        NotReady: nothing of the corpus is found; the next resume ingests it anew.
    """
    sentinel = Sentinel(lane.provider, ready.space, ready.content.veil, must_settle=False)
    if await reread(sentinel.found):
        return
    text = f"nothing of {ready.corpus_id} is found any more at {lane.provider.name}: it was lost since it was ingested"
    lane.live.journal.append(
        CorpusRow(
            lane=lane.key,
            corpus=ready.corpus_id,
            attempt=ready.space.attempt,
            kind=CorpusKind.FAILED,
            outcome=NotReady.kind,
            message=text,
            data={"clean": False},
        )
    )
    raise NotReady(text, hint="resume the run: the corpus is ingested anew")


def provider_for(lane: OpenLane, ready: Ready, item: Item) -> Provider:
    """The lane's provider; the oracle is told what holds the evidence of this item."""
    provider = lane.provider
    if not isinstance(provider, Oracle):
        return provider
    veil = ready.content.veil
    wanted = set(gold_ids(item, lane.plan.level, score_retrieval=True))
    holding = [
        memory
        for memory in veil.memories
        if wanted.intersection(stands_for(veil.sources([memory.id]), lane.plan.level))
    ]
    return provider.knowing(holding)
