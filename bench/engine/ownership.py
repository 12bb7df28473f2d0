"""Whose a hit is: what each namespace of a run was sent, by id and by text, so that a leak is seen in a search.

Example::

    ownership = Ownership()
    ownership.register(Place(benchmark="demo", corpus="c0", namespace="bench-demo-r1-37..."), veil)
    ownership.owner_of(hit, place, veil)        # the Place that the hit belongs to, None where nothing proves one

Proof is an id or a namespace that only another corpus was sent, or a text that this corpus does not hold and another
one does. A text that several corpora share proves nothing, and neither do ids that the service itself numbers anew in
each namespace. Lookups take constant time, and the oldest keys leave when there are too many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bench.engine.opaque import Veil
from bench.model import Hit
from bench.providers.batching import whole_id

MOST_KEYS = 500_000
"""about 60 MB"""
TELLING_CHARS = 32
"""a shorter text may be said in two conversations"""
TELLING_ID_CHARS = 16
"""a shorter id of the service may be a number that it gives out in each namespace"""
SEVERAL = -1

Key = tuple[str, str]
"""kind (sent, given, namespace, text) and what it is"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One corpus at a provider."""

    benchmark: str
    corpus: str
    namespace: str

    def is_of(self, other: Place) -> bool:
        """Say whether both hold the same corpus, perhaps in different attempts."""
        return (self.benchmark, self.corpus) == (other.benchmark, other.corpus)


@dataclass(slots=True)
class Ownership:
    """What the namespaces of one provider were sent."""

    _owners: dict[int, int] = field(default_factory=dict)
    """hash of a key -> number of the place that has it, or SEVERAL"""
    _places: list[Place] = field(default_factory=list)
    _repeats_ids: bool = False
    """the service gave one id to memories of two corpora"""

    def register(self, place: Place, veil: Veil) -> None:
        """Remember the ids and texts that a corpus is sent, and where."""
        number = self._number(place)
        self._own(("namespace", place.namespace), number)
        for memory in veil.memories:
            self._own(("sent", memory.id), number)
            text = memory.content.strip()
            if len(text) >= TELLING_CHARS:
                self._own(("text", text), number)

    def register_given(self, place: Place, ids: Mapping[str, Sequence[str]]) -> None:
        """Remember the ids that the service gave to the memories of a corpus."""
        number = self._number(place)
        for memory, given in ids.items():
            for one in given:
                if one != memory and not self._own(("given", one), number):
                    self._repeats_ids = True

    def owner_of(self, hit: Hit, place: Place, veil: Veil) -> Place | None:
        """Return the other place that a hit provably belongs to."""
        if hit.source_ids and veil.holds_all(hit.source_ids):
            return None
        for key in self._keys(hit):
            owner = self._other(key, place)
            if owner is not None and not (key[0] == "text" and holds(veil, key[1])):
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

    def _other(self, key: Key, place: Place) -> Place | None:
        number = self._owners.get(hash(key), SEVERAL)
        if number == SEVERAL or self._places[number].is_of(place):
            return None
        return self._places[number]

    def _own(self, key: Key, number: int) -> bool:
        """Note whose a key is; False when another corpus has it too."""
        before = self._owners.get(hash(key), number)
        alone = before == number or (before != SEVERAL and self._places[before].is_of(self._places[number]))
        self._owners[hash(key)] = number if alone else SEVERAL
        if len(self._owners) > MOST_KEYS:
            del self._owners[next(iter(self._owners))]
        return alone

    def _number(self, place: Place) -> int:
        if place not in self._places[-1:]:
            self._places.append(place)
        return len(self._places) - 1


def holds(veil: Veil, text: str) -> bool:
    """Say whether a memory of a corpus contains a text."""
    return any(text in memory.content for memory in veil.memories)
