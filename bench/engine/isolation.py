"""Three looks that keep corpora apart: emptiness probe, sentinel read, canary. None ever uses a question's text.

* emptiness, before ingest: the namespace holds nothing; any hit counts, mapped or not;
* sentinel, after index: something that was written can be found, by the start of the last, first or longest memory;
  of a service each of the three is looked for, and how many of them are found is counted;
* canary, with ``--isolation full``: the start of another corpus's memory finds nothing of that corpus.

Each outcome is journaled and goes into the receipt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio

from bench.engine.opaque import Veil, opaque
from bench.errors import Rejected
from bench.model import Found, Hit, Memory, Query, Space
from bench.providers import Counts, Provider
from bench.providers.batching import whole_id

START_CHARS = 200
PROBE_K = 10
SHORTEST_TELLING = 20


def start_of(text: str) -> str:
    """Give the first words of a memory: up to 200 characters, cut at a space."""
    head = text.strip()[: START_CHARS + 1]
    return head if len(head) <= START_CHARS else head[:START_CHARS].rsplit(None, 1)[0]


def samples(memories: Sequence[Memory]) -> tuple[Memory, ...]:
    """Choose what a sentinel looks for: the last, the first and the longest memory with text."""
    spoken = [memory for memory in memories if memory.content.strip()]
    if not spoken:
        return ()
    chosen = (spoken[-1], spoken[0], max(spoken, key=lambda memory: len(memory.content)))
    return tuple({memory.id: memory for memory in chosen}.values())


async def look(provider: Provider, space: Space, text: str) -> Found:
    """Search a namespace for the start of a text."""
    words = start_of(text)
    return await provider.search(space, Query(text=words, k=PROBE_K, key=opaque("p", words)))


async def holdings(provider: Provider, space: Space, memory: Memory) -> int:
    """Count what a namespace holds before anything was put into it; a namespace that does not exist holds nothing."""
    if isinstance(provider, Counts):
        return await provider.count(space)
    try:
        found = await look(provider, space, memory.content)
    except Rejected:
        return 0
    return max(found.returned, len(found.hits))


class FirstWrite:
    """Keeps the emptiness probes of a lane until one corpus was written: in an empty store none can fail."""

    def __init__(self) -> None:
        self._first: str | None = None
        self._written = False
        self._changed = anyio.Event()

    async def turn(self, corpus: str) -> None:
        """Wait until another corpus was written; the first one that asks goes ahead."""
        while not self._written and self._first not in (None, corpus):
            await self._changed.wait()
        self._first = self._first or corpus

    def done(self) -> None:
        """Note that something was written."""
        if not self._written:
            self._written = True
            self._changed.set()

    def leave(self, corpus: str) -> None:
        """Let another corpus go ahead where this one came to its end and wrote nothing."""
        if self._first == corpus and not self._written:
            self._first = None
            self._changed.set()
            self._changed = anyio.Event()


@dataclass(slots=True)
class Sentinel:
    """Looks for a corpus in its own namespace until it is there, and stands still where nothing else can tell."""

    provider: Provider
    space: Space
    veil: Veil
    must_settle: bool
    """no status call exists: count or result must be the same twice"""
    _before: object = None
    _seen: dict[str, bool] = field(default_factory=dict)
    """by sample: whether it was itself among what its search found"""

    async def found(self) -> bool:
        """Try the sample memories once; True when one of them leads to a memory of this corpus."""
        for memory in samples(self.veil.memories):
            answer = await self._look(memory)
            if any(belongs(self.veil, hit) for hit in answer.hits):
                return not self.must_settle or await self._still(answer)
        return not samples(self.veil.memories)

    async def missing(self) -> list[Memory]:
        """Return the sample memories that are not found themselves, after one search for each."""
        every = samples(self.veil.memories)
        for memory in every:
            if memory.id not in self._seen:
                await self._look(memory)
        return [memory for memory in every if not self._seen[memory.id]]

    async def finds(self, memory: Memory) -> bool:
        """Search for one sample memory again."""
        await self._look(memory)
        return self._seen[memory.id]

    async def _look(self, memory: Memory) -> Found:
        answer = await look(self.provider, self.space, memory.content)
        self._seen[memory.id] = any(_is(memory, hit) for hit in answer.hits)
        return answer

    async def _still(self, answer: Found) -> bool:
        now: object = tuple(hit.id for hit in answer.hits)
        if isinstance(self.provider, Counts):
            now = await self.provider.count(self.space)
        before, self._before = self._before, now
        return now == before


def belongs(veil: Veil, hit: Hit) -> bool:
    """Say whether a hit is of this corpus: by its ids, or by its text where it has none."""
    if hit.source_ids:
        return veil.knows(hit.source_ids)
    return any(shares_text(hit.content, memory.content) for memory in veil.memories)


def _is(memory: Memory, hit: Hit) -> bool:
    return whole_id(memory.id) in map(whole_id, hit.source_ids) or shares_text(hit.content, memory.content)


def shares_text(one: str, other: str) -> bool:
    """Say whether one text holds the other; a few characters prove nothing."""
    short, long = sorted((one.strip(), other.strip()), key=len)
    return (len(short) >= SHORTEST_TELLING and short in long) or (bool(short) and short == long)


async def strangers(provider: Provider, space: Space, veil: Veil, other: Memory) -> list[Hit]:
    """Search for another corpus's memory and give the hits that are that memory or map to no memory of this corpus."""
    answer = await look(provider, space, other.content)
    return [
        hit
        for hit in answer.hits
        if shares_text(hit.content, other.content) or (hit.source_ids and not veil.knows(hit.source_ids))
    ]


def foreign_sample(veil: Veil, others: Sequence[Memory]) -> Memory | None:
    """Choose a memory of other corpora whose text this corpus does not hold itself."""
    for other in others:
        if not any(shares_text(other.content, memory.content) for memory in veil.memories):
            return other
    return None
