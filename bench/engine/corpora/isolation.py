"""Check that searches in one corpus do not find memories of another corpus.

Three checks use no text of a question:

* Emptiness probe: before the ingest, a search in the namespace must find nothing.
* Sentinel: when the index is ready, a search for the start of a memory must find a memory of the corpus.
* Canary, with ``--isolation full``: a search for the start of a memory of another corpus must not find this memory.

In addition, the ids and texts of each hit are compared with those that were sent to other namespaces.

Example::

    ownership = Ownership()
    place = CorpusNamespace(benchmark="demo", corpus="c0", namespace="bench-demo-r1-37...")
    ownership.register(place, anonymized)
    ownership.owner_of(hit, place, anonymized)        # the CorpusNamespace of another corpus, or None

Each result is written to the journal and to the receipt.

A text that several corpora share proves no leak. An id proves no leak if the service counts ids separately in each
namespace.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import anyio

from bench.engine.corpora.anonymizer import AnonymizedCorpus, opaque_id
from bench.errors import CallError, NotCleared, NotReady, Rejected
from bench.model import Found, Hit, Memory, Query, Space
from bench.providers import AtLeast, Counts, Provider
from bench.providers.batching import whole_id
from bench.visible_text import counted

START_CHARS = 200
PROBE_K = 10
DEEP_K = 100
"""number of hits of a thorough search; a memory is missing if such a search for its first words does not find it"""
SHORTEST_TELLING = 20
SPREAD = 5
"""number of additional memories that are checked in the first corpora of a lane"""
NOTHING_FOUND = "searches for its memories found nothing"
CLEARED_LATE_S = (0.0, 0.2, 1.0, 3.0)
"""seconds to wait before each check of a cleared namespace, because a service may clear it late"""


def start_of(text: str) -> str:
    """Return the first words of a memory: up to 200 characters, cut at a space."""
    head = text.strip()[: START_CHARS + 1]
    return head if len(head) <= START_CHARS else head[:START_CHARS].rsplit(None, 1)[0]


def samples(memories: Sequence[Memory]) -> tuple[Memory, ...]:
    """Return the memories for which a sentinel searches: the last, the first and the longest that have text."""
    with_text = [memory for memory in memories if memory.content.strip()]
    if not with_text:
        return ()
    chosen = (with_text[-1], with_text[0], max(with_text, key=lambda memory: len(memory.content)))
    return tuple({memory.id: memory for memory in chosen}.values())


def spread_samples(memories: Sequence[Memory]) -> tuple[Memory, ...]:
    """Return up to ``SPREAD`` evenly spaced memories. A memory with a short text is never returned.

    Short texts are often not distinct.
    """
    long_enough = [memory for memory in memories if len(memory.content.strip()) >= TELLING_CHARS]
    return (
        tuple(long_enough[len(long_enough) * at // (SPREAD + 1)] for at in range(1, SPREAD + 1)) if long_enough else ()
    )


def memories_lost(provider: Provider, corpus: str, *, held: bool) -> NotReady:
    """Return the error for an ingested corpus of which nothing is found; ``held`` is True if this run ingested it."""
    return NotReady(
        f"nothing of {corpus} is found at {provider.name} any more: the service has lost it since the ingest"
        f"{'; the next resume ingests it again' if held else ''}",
        hint="resume the run: the corpus is ingested again" if held else "start a run without --reuse-build",
    )


def early_memories_lost(provider: Provider, corpus: str, number: int) -> NotReady:
    """Return the error for a corpus of which nothing is found that was ingested before an interruption."""
    return NotReady(
        f"{provider.name} has lost what it acknowledged of {corpus} before the ingest was interrupted "
        f"({counted(number, 'memor(y|ies)')}); the next resume ingests the corpus again",
        hint="resume the run: the corpus is ingested again",
    )


async def are_lost(provider: Provider, space: Space, anonymized: AnonymizedCorpus, some: Sequence[Memory]) -> bool:
    """Search for samples of some memories of a corpus; return True if no hit is any of these memories.

    Return False if a hit cannot be assigned to a memory of the corpus, because the service may rewrite memories.
    """
    ids = {whole_id(memory.id) for memory in some}
    chosen = {memory.id: memory for memory in (*samples(some), *spread_samples(some))}
    for memory in chosen.values():
        for hit in (await look(provider, space, memory.content, k=DEEP_K)).hits:
            is_one = (
                not ids.isdisjoint(map(whole_id, hit.source_ids))
                if hit.source_ids
                else any(shares_text(hit.content, memory.content) for memory in some)
            )
            if is_one or not belongs(anonymized, hit):
                return False
    return bool(chosen)


async def look(provider: Provider, space: Space, text: str, *, k: int = PROBE_K) -> Found:
    """Search a namespace for the start of a text."""
    words = start_of(text)
    return await provider.search(space, Query(text=words, k=k, key=opaque_id("p", words)))


async def count_found(provider: Provider, space: Space, memory: Memory) -> int:
    """Return the number of memories in a namespace.

    If the provider cannot count, return the number of hits in a search for ``memory``; 0 if there is no namespace yet.
    """
    if isinstance(provider, Counts):
        return await provider.count(space)
    try:
        found = await look(provider, space, memory.content)
    except Rejected:
        return 0
    return max(found.returned, len(found.hits))


class FirstWriteOrder:
    """The order in which the corpora of a lane are written at the start.

    The first corpus proceeds at once. All other corpora wait before their emptiness probe until the first corpus was
    written. An empty store passes every probe, so a probe before the first write proves nothing.
    """

    def __init__(self) -> None:
        self._first: str | None = None
        self._written = False
        self._changed = anyio.Event()

    async def wait_for_turn(self, corpus: str) -> None:
        """Wait until any corpus of the lane was written; the first caller does not wait."""
        while not self._written and self._first not in (None, corpus):
            await self._changed.wait()
        self._first = self._first or corpus

    def done(self) -> None:
        """Record that a corpus was written, so that all waiting corpora proceed."""
        if not self._written:
            self._written = True
            self._changed.set()

    def leave(self, corpus: str) -> None:
        """Record that a corpus has ended; if it was the first and wrote nothing, another corpus becomes the first."""
        if self._first == corpus and not self._written:
            self._first = None
            self._changed.set()
            self._changed = anyio.Event()


@dataclass(slots=True)
class Sentinel:
    """A check that a corpus is searchable: searches for its sample memories must find memories of the corpus."""

    provider: Provider
    space: Space
    anonymized: AnonymizedCorpus
    must_settle: bool
    """True if the provider has no status call: two results in a row must then be equal"""
    thorough: bool = False
    """True if more sample memories are searched, see ``spread_samples``"""
    is_stopped: Callable[[], bool] = lambda: False
    """returns True if the run was asked to stop, so that no further search is sent"""
    seen: str = ""
    """why the corpus does not count as searchable yet, for messages"""
    _before: object = None
    _seen: dict[str, bool | None] = field(default_factory=dict)
    """memory id -> True if its search found the memory itself; None = the hits could not be mapped"""

    async def found(self) -> bool:
        """Search for each sample memory; return True if a hit belongs to this corpus.

        With ``must_settle``, the result must also be the same as in the previous call. Return True for a corpus without
        text, and False if the run was asked to stop.
        """
        found = 0
        for memory in samples(self.anonymized.memories):
            if self.is_stopped():
                return False
            answer = await self._look(memory)
            if any(belongs(self.anonymized, hit) for hit in answer.hits):
                self.seen = "its memories are found, but the results still change"
                return not self.must_settle or await self._still(answer)
            found += len(answer.hits)
        self.seen = (
            f"searches for its memories found {counted(found, 'hit(|s)')}, but none has their id or text "
            "(a service that rewrites memories needs search.response.id_from with ids; contentHash does not fit)"
            if found
            else NOTHING_FOUND
        )
        return not samples(self.anonymized.memories)

    async def missing(self) -> list[Memory]:
        """Search again for the sample memories that were not found so far; return those that are certainly missing.

        A memory is not certainly missing if its search returned hits that cannot be assigned to this corpus, or if it
        was not searched because the run was asked to stop.
        """
        every = samples(self.anonymized.memories) + (spread_samples(self.anonymized.memories) if self.thorough else ())
        every = tuple({memory.id: memory for memory in every}.values())
        for memory in every:
            if not self._seen.get(memory.id) and not self.is_stopped():
                await self._look(memory, k=DEEP_K)
        return [memory for memory in every if self._seen.get(memory.id) is False]

    async def finds(self, memory: Memory) -> bool:
        """Search for one sample memory; return True unless it is certainly missing."""
        await self._look(memory, k=DEEP_K)
        return self._seen[memory.id] is not False

    @property
    def decided(self) -> int:
        """Return the number of sample memories that were found or are certainly missing."""
        return sum(seen is not None for seen in self._seen.values())

    async def _look(self, memory: Memory, *, k: int = PROBE_K) -> Found:
        answer = await look(self.provider, self.space, memory.content, k=k)
        known = all(belongs(self.anonymized, hit) for hit in answer.hits)
        self._seen[memory.id] = any(_is_hit_of(memory, hit) for hit in answer.hits) or (False if known else None)
        return answer

    async def _still(self, answer: Found) -> bool:
        now: object = tuple((hit.id, *hit.source_ids) for hit in answer.hits)
        if isinstance(self.provider, Counts):
            count = await self.provider.count(self.space)
            now = now if isinstance(count, AtLeast) else count
        before, self._before = self._before, now
        return now == before


async def clear_provably(
    provider: Provider, space: Space, anonymized: AnonymizedCorpus, pause: Callable[[float], Awaitable[None]]
) -> int | None:
    """Clear a namespace, and check that a search no longer finds its memories.

    Return the number of removed memories that the provider reports; None if it reports no number.

    Raises:
        NotCleared: memories of the corpus are still found after a few seconds.
    """
    removed, left = await provider.clear(space), 0
    for pause_s in CLEARED_LATE_S if (chosen := samples(anonymized.memories)) else ():
        await pause(pause_s)
        try:
            found = await look(provider, space, chosen[0].content)
        except CallError:
            return removed
        left = sum(belongs(anonymized, hit) for hit in found.hits)
        if not left:
            return removed
    if left:
        raise NotCleared(f"{space.namespace} was cleared, but a search still finds {left} of its memories")
    return removed


def belongs(anonymized: AnonymizedCorpus, hit: Hit) -> bool:
    """Return True if a hit belongs to this corpus: by its ids or, if it has no ids, by its text."""
    if hit.source_ids:
        return anonymized.knows(hit.source_ids)
    return any(shares_text(hit.content, memory.content) for memory in anonymized.memories)


def _is_hit_of(memory: Memory, hit: Hit) -> bool:
    return whole_id(memory.id) in map(whole_id, hit.source_ids) or shares_text(hit.content, memory.content)


def shares_text(one: str, other: str) -> bool:
    """Return True if one text contains the other; a very short text must be equal to the other."""
    short, long = sorted((one.strip(), other.strip()), key=len)
    return (len(short) >= SHORTEST_TELLING and short in long) or (bool(short) and short == long)


async def foreign_hits(provider: Provider, space: Space, anonymized: AnonymizedCorpus, other: Memory) -> list[Hit]:
    """Search for a memory of another corpus, and return the hits that do not belong to this corpus.

    These are the hits that have the text of the memory, or ids that this corpus does not have.
    """
    answer = await look(provider, space, other.content)
    return [
        hit
        for hit in answer.hits
        if shares_text(hit.content, other.content) or (hit.source_ids and not anonymized.knows(hit.source_ids))
    ]


def foreign_sample(anonymized: AnonymizedCorpus, others: Sequence[Memory]) -> Memory | None:
    """Return the first of the ``others`` whose text this corpus does not contain; None if it contains all texts."""
    for other in others:
        if not any(shares_text(other.content, memory.content) for memory in anonymized.memories):
            return other
    return None


MOST_KEYS = 500_000
"""maximum number of stored keys, about 60 MB; the oldest keys are dropped"""
TELLING_CHARS = 32
"""minimum length of a text that identifies its corpus; a shorter text may occur in two conversations"""
TELLING_ID_CHARS = 16
"""minimum length of a service id that identifies its corpus; shorter ids may be counted in each namespace"""
SEVERAL = -1

Key = tuple[str, str]
"""(kind, value) of an id or text by which a hit is recognized; the kind is sent, given, namespace or text"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusNamespace:
    """The namespace of one corpus at a provider."""

    benchmark: str
    corpus: str
    namespace: str

    def has_corpus_of(self, other: CorpusNamespace) -> bool:
        """Return True if both namespaces are for the same corpus, possibly in different attempts."""
        return (self.benchmark, self.corpus) == (other.benchmark, other.corpus)


@dataclass(slots=True)
class Ownership:
    """The record that assigns each id and text at one provider to a corpus."""

    _owners: dict[int, int] = field(default_factory=dict)
    """hash of a key -> index in ``_places`` of its namespace; ``SEVERAL`` (-1) if several corpora have the key"""
    _places: list[CorpusNamespace] = field(default_factory=list)
    _repeats_ids: bool = False
    """True if the service gave the same id to memories of two corpora, so that its ids prove nothing"""

    def register(self, place: CorpusNamespace, anonymized: AnonymizedCorpus) -> None:
        """Record that these ids and texts are sent for the corpus of this namespace."""
        number = self._number(place)
        self._own(("namespace", place.namespace), number)
        for memory in anonymized.memories:
            self._own(("sent", memory.id), number)
            text = memory.content.strip()
            if len(text) >= TELLING_CHARS:
                self._own(("text", text), number)

    def register_given(self, place: CorpusNamespace, ids: Mapping[str, Sequence[str]]) -> None:
        """Record the ids that the service gave to the memories of a corpus.

        ``ids`` maps the id of a memory to its ids at the service.
        """
        number = self._number(place)
        for memory, given in ids.items():
            for one in given:
                if one != memory and not self._own(("given", one), number):
                    self._repeats_ids = True

    def owner_of(self, hit: Hit, place: CorpusNamespace, anonymized: AnonymizedCorpus) -> CorpusNamespace | None:
        """Return the namespace of another corpus, if the hit provably belongs to this other corpus; otherwise None."""
        if hit.source_ids and anonymized.holds_all(hit.source_ids):
            return None
        for key in self._keys(hit):
            owner = self._other(key, place)
            if owner is not None and not (key[0] == "text" and contains_text(anonymized, key[1])):
                return owner
        return None

    def _keys(self, hit: Hit) -> Iterator[Key]:
        marks = [*hit.source_ids, hit.id, *hit.marks, *(one for one in hit.metadata.values() if isinstance(one, str))]
        for mark in dict.fromkeys(marks):
            yield "sent", whole_id(mark)
            yield "namespace", mark
            if len(mark) >= TELLING_ID_CHARS and not self._repeats_ids:
                yield "given", mark
        text = hit.content.strip()
        if len(text) >= TELLING_CHARS:
            yield "text", text

    def _other(self, key: Key, place: CorpusNamespace) -> CorpusNamespace | None:
        number = self._owners.get(hash(key), SEVERAL)
        if number == SEVERAL or self._places[number].has_corpus_of(place):
            return None
        return self._places[number]

    def _own(self, key: Key, number: int) -> bool:
        """Record that an id or text belongs to a namespace; return False if another corpus has the same id or text."""
        before = self._owners.get(hash(key), number)
        alone = before == number or (before != SEVERAL and self._places[before].has_corpus_of(self._places[number]))
        self._owners[hash(key)] = number if alone else SEVERAL
        if len(self._owners) > MOST_KEYS:
            del self._owners[next(iter(self._owners))]
        return alone

    def _number(self, place: CorpusNamespace) -> int:
        if place not in self._places[-1:]:
            self._places.append(place)
        return len(self._places) - 1


def contains_text(anonymized: AnonymizedCorpus, text: str) -> bool:
    """Return True if any memory of the corpus contains the text."""
    return any(text in memory.content for memory in anonymized.memories)
