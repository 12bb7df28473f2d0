"""Find out whether the provider stored the batches that may have been sent, but have no response.

Example::

    settled = await resolve_doubts(ingest, doubts=[7])      # True: resolved; False: cannot be determined; or a Failure

If the provider's config has ``on_unknown: repeat``, the batch is sent again. Otherwise, the provider is asked for the
number of memories in the namespace. If this number does not give the answer, the module searches for the memories of
the batch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import TypeVar

from bench.engine.corpora.ingest import IngestPass
from bench.engine.corpora.isolation import DEEP_K, look, shares_text
from bench.engine.outcome import Failure
from bench.engine.run_context import Attempt, retry_unreadable
from bench.model import Hit, Memory, Space
from bench.providers import AtLeast, Counts
from bench.providers.batching import whole_id

LOOKS = 3
"""number of equal counts, or of searches without a hit, after which a batch counts as not stored"""
LEAST_PAUSE_S = 0.3
Ids = Mapping[str, tuple[str, ...]]
"""memory id -> its ids at the provider"""
Value = TypeVar("Value")


async def resolve_doubts(
    ingest: IngestPass, doubts: Collection[int], uncounted: Collection[int] = ()
) -> bool | Failure:
    """Find out which batches in doubt were stored, and record them; the other batches will be sent again.

    Return True if the ingest can continue, and False if it stays unknown whether a batch was stored. If the provider
    cannot be reached, return the failure; the batches then stay in doubt. With ``on_unknown: repeat``, return True
    without asking the provider; all batches in doubt will be sent again.

    The cost of the batches ``uncounted`` is not in the journal yet, so it is added here: the price of a stored batch,
    nothing for a batch that was not stored, and otherwise an unknown cost.
    """
    if ingest.lane.provider.on_unknown == "repeat":
        ingest.count_lost(uncounted, cost_usd=None)
        return True
    stored = await _by_count(ingest, doubts)
    if stored is None:
        stored = await _by_search(ingest, doubts)
    if isinstance(stored, Failure):
        return stored
    if stored is None:
        ingest.count_lost(uncounted, cost_usd=None)
        return False
    given: dict[int, Ids] = {}
    for position in sorted(stored):
        ids = {} if ingest.can_accept(position) else await _recover_ids(ingest, position, doubts)
        if isinstance(ids, Failure):
            return ids
        if ids is None:
            ingest.count_lost(uncounted, cost_usd=None)
            return False
        given[position] = ids
    ingest.count_lost(stored.intersection(uncounted), cost_usd=ingest.lane.add_price)
    for position, ids in given.items():
        ingest.accept(position, ids)
    return True


async def _by_count(ingest: IngestPass, doubts: Collection[int]) -> set[int] | Failure | None:
    """Find out by the number of memories in the namespace whether the batches in doubt were stored.

    Return the batches in doubt if all were stored, an empty set if none was stored, and None if the number proves
    neither. If the provider cannot be reached, return the failure.
    """
    provider, run = ingest.lane.provider, ingest.lane.run
    if not isinstance(provider, Counts):
        return None
    before, sizes = ingest.sent, sum(len(ingest.batch(position)) for position in doubts)
    for number in range(LOOKS):
        if number:
            await run.stopping.pause_for(max(LEAST_PAUSE_S, provider.wait.interval_s))
        counted = await run.attempt_and_journal(
            lambda: retry_unreadable(lambda: provider.count(ingest.space)), ingest.call_owner
        )
        if counted.value is None:
            return _unreached_failure(counted)
        if counted.value == before + sizes:
            return set(doubts)
        if counted.value != before or isinstance(counted.value, AtLeast):
            return None
    return set()


async def _by_search(ingest: IngestPass, doubts: Collection[int]) -> set[int] | Failure | None:
    """Return the batches in doubt that were stored, as searches show.

    Return None if the result is unclear for a batch. If the provider cannot be reached, return the failure.

    A batch that is not found counts as not stored under two conditions. The provider makes memories searchable at once.
    Searches find the last acknowledged batch.
    """
    stored = set[int]()
    for position in doubts:
        seen = await _find_batch(ingest, position, doubts)
        if isinstance(seen, Failure) or seen is None:
            return seen
        if seen:
            stored.add(position)
        elif not await _is_missing(ingest, position, doubts):
            return None
    return stored


async def _is_missing(ingest: IngestPass, position: int, doubts: Collection[int]) -> bool:
    """Return True if repeated searches find a batch that is known to be stored, but not the batch at ``position``."""
    if ingest.lane.provider.wait.by != "nothing" or not ingest.done:
        return False
    known = max(ingest.done)
    for _ in range(LOOKS - 1):
        await ingest.lane.run.stopping.pause_for(LEAST_PAUSE_S)
        if (
            await _find_batch(ingest, known, doubts) is not True
            or await _find_batch(ingest, position, doubts) is not False
        ):
            return False
    return True


async def _find_batch(
    ingest: IngestPass, position: int, doubts: Collection[int], given: Ids | None = None
) -> bool | Failure | None:
    """Search for the first and the last memory of a batch.

    Return True if both memories are found, False if neither is found, and None if the result is unclear. If the
    provider cannot be reached, return the failure. ``given`` has the ids of the memories at the provider, if they are
    known.
    """
    space = ingest.with_batches(position, given=given or {})
    memories = _distinct_memories(ingest, position, doubts)
    found = set[bool | None]()
    for memory in {one.id: one for one in (*memories[:1], *memories[-1:])}.values():
        looked = await _search_memory(ingest, space, memory)
        if looked.value is None:
            return _unreached_failure(looked)
        found.add(_is_among(ingest, position, memory, looked.value, by_text=given is None))
    return found.pop() if len(found) == 1 else None


def _distinct_memories(ingest: IngestPass, position: int, doubts: Collection[int]) -> list[Memory]:
    """Return the memories of one batch that share no text with other batches in doubt. Blank memories are left out."""
    others = [memory for one in doubts if one != position for memory in ingest.batch(one)]
    return [
        memory
        for memory in ingest.batch(position)
        if memory.content.strip() and not any(shares_text(memory.content, other.content) for other in others)
    ]


def _is_among(
    ingest: IngestPass, position: int, memory: Memory, hits: tuple[Hit, ...], *, by_text: bool
) -> bool | None:
    """Return True if one of the hits is the memory.

    A hit with the id of the memory is the memory. If hits have no ids, the hits with the text of the memory are
    counted. If there are more such hits than memories with this text in other batches, one of the hits is the memory.
    Return None if the search may not have returned all hits with this text.
    """
    if any(whole_id(memory.id) in map(whole_id, hit.source_ids) for hit in hits):
        return True
    same = [hit for hit in hits if shares_text(hit.content, memory.content)]
    if not by_text or all(hit.source_ids for hit in same):
        return False
    alike = ingest.count_similar(memory, besides=position)
    most = min(DEEP_K, ingest.lane.provider.capabilities.max_k or DEEP_K)
    return None if len(same) < alike or alike >= most else len(same) > alike


async def _recover_ids(ingest: IngestPass, position: int, doubts: Collection[int]) -> Ids | Failure | None:
    """Return the ids that the provider gave to the memories of a stored batch, from hits with the same texts.

    Return None if the ids are unclear, because texts are repeated or a memory is not found by its new id.
    """
    space, batch, found = ingest.with_batches(position), ingest.batch(position), dict[str, tuple[str, ...]]()
    if len(_distinct_memories(ingest, position, doubts)) < len(batch):
        return None
    for memory in batch:
        looked = await _search_memory(ingest, space, memory)
        if looked.value is None:
            return _unreached_failure(looked)
        found[memory.id] = tuple(
            hit.id for hit in looked.value if not hit.source_ids and hit.content.strip() == memory.content.strip()
        )
    ids = [one for some in found.values() for one in some]
    if not all(found.values()) or len(set(ids)) < len(ids):
        return None
    leads_back = await _find_batch(ingest, position, doubts, found)
    return leads_back if isinstance(leads_back, Failure) else found if leads_back else None


async def _search_memory(ingest: IngestPass, space: Space, memory: Memory) -> Attempt[tuple[Hit, ...]]:
    async def hits() -> tuple[Hit, ...]:
        return (await look(ingest.lane.provider, space, memory.content, k=DEEP_K)).hits

    return await ingest.lane.run.attempt_and_journal(partial(retry_unreadable, hits), ingest.call_owner)


def _unreached_failure(looked: Attempt[Value]) -> Failure | None:
    return looked.failure if looked.unreached else None
