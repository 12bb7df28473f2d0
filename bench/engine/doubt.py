"""Batches in doubt: sent, perhaps, and nothing came back. Are they stored? Asked before anything is thrown away.

Example::

    settled = await settle(ingest, doubts=[7])      # True: sent again or accepted; False: nobody can tell; a Failure

What the provider answers decides, in this order: how much the namespace holds, then whether a search finds the
memories of the batch by their ids. Only where neither tells is a namespace cleared.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

from bench.engine.isolation import look
from bench.engine.live import Attempt, Failure, reread
from bench.model import Memory, Space
from bench.providers import Counts
from bench.providers.batching import whole_id

if TYPE_CHECKING:
    from bench.engine.ingesting import Ingest

LOOKS = 3
"""as often a count must stay the same before what is missing counts as not stored"""
LEAST_PAUSE_S = 0.3


async def settle(ingest: Ingest, doubts: Collection[int]) -> bool | Failure:
    """Accept the batches that are stored, leave the others to be sent; False when that cannot be told.

    A failure when the provider is not there at all: it cannot be cleared either, so the doubt stays.
    """
    if ingest.lane.provider.on_unknown == "repeat":
        return True
    stored = await _by_count(ingest, doubts)
    if stored is None:
        stored = await _by_search(ingest, doubts)
    if stored is None or isinstance(stored, Failure):
        return stored or False
    if not all(ingest.can_accept(position) for position in stored):
        return False
    for position in sorted(stored):
        ingest.accept(position)
    return True


async def _by_count(ingest: Ingest, doubts: Collection[int]) -> set[int] | Failure | None:
    """All of them or none, where the number of memories says so; None where it says neither."""
    provider, live = ingest.lane.provider, ingest.lane.live
    if not isinstance(provider, Counts):
        return None
    before, sizes = ingest.sent, sum(len(ingest.batch(position)) for position in doubts)
    for number in range(LOOKS):
        if number:
            await live.stopping.pause_for(max(LEAST_PAUSE_S, provider.wait.interval_s))
        counted = await live.aside(lambda: reread(lambda: provider.count(ingest.space)), ingest.ledger)
        if counted.value is None:
            return _away(counted)
        if counted.value == before + sizes:
            return set(doubts)
        if counted.value != before:
            return None
    return set()


async def _by_search(ingest: Ingest, doubts: Collection[int]) -> set[int] | Failure | None:
    """The batches that are found by their ids; None where one is not and that proves nothing.

    It proves something of a provider whose adds are searchable at once, while what was acknowledged last is found.
    """
    stored = set[int]()
    for position in doubts:
        seen = await _seen(ingest, position)
        if isinstance(seen, Failure) or seen is None:
            return seen
        if seen:
            stored.add(position)
        elif not await _is_missing(ingest, position):
            return None
    return stored


async def _is_missing(ingest: Ingest, position: int) -> bool:
    """Look again and again, and each time for a batch too that is known to be there."""
    if ingest.lane.provider.wait.by != "nothing" or not ingest.done:
        return False
    for _ in range(LOOKS - 1):
        await ingest.lane.live.stopping.pause_for(LEAST_PAUSE_S)
        if await _seen(ingest, max(ingest.done)) is not True or await _seen(ingest, position) is not False:
            return False
    return True


async def _seen(ingest: Ingest, position: int) -> bool | Failure | None:
    """Whether the first and the last memory of a batch are found by their ids; None when only one is, or on errors."""
    space, memories = ingest.with_batch(position), ingest.batch(position)
    found = set[bool]()
    for memory in {one.id: one for one in (*memories[:1], *memories[-1:])}.values():
        looked = await ingest.lane.live.aside(partial(reread, partial(_finds, ingest, space, memory)), ingest.ledger)
        if looked.value is None:
            return _away(looked)
        found.add(looked.value)
    return found.pop() if len(found) == 1 else None


async def _finds(ingest: Ingest, space: Space, memory: Memory) -> bool:
    found = await look(ingest.lane.provider, space, memory.content)
    return any(whole_id(memory.id) in map(whole_id, hit.source_ids) for hit in found.hits)


def _away(looked: Attempt[int] | Attempt[bool]) -> Failure | None:
    return looked.failure if looked.unreached else None
