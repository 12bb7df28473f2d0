"""One ranked list against its expected ids: slots, gains, coverage.

A hit takes one slot, whatever number of ids it stands for. It is relevant when it covers an expected
id that no earlier hit covered, and its gain is the highest newly covered grade; so a later duplicate
keeps its slot and gains nothing.

Example::

    ranking = Ranking.of([["x", "a"], "a"], {"a": 1})
    ranking.gains          # (1.0, 0.0)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.metrics.normal import several

Ids = Iterable[object]

_COLLECTIONS = (tuple, list, Iterable)
"""what a hit with several ids may be; the abstract class is slow to ask and so comes last"""


@dataclass(frozen=True, slots=True)
class Ranking:
    """``new[i]``: expected ids first covered by slot i; ``gains[i]``: the highest of their grades."""

    new: tuple[int, ...]
    gains: tuple[float, ...]
    grades: tuple[float, ...]
    """the grades of every relevant id, highest first"""

    @classmethod
    def of(
        cls, retrieved: str | Iterable[object], relevant: Mapping[object, float] | Ids, *, collapse: bool = False
    ) -> Ranking | None:
        """Walk the list; None when nothing is relevant. ``collapse`` drops repeats before any cut."""
        return cls.of_slots([slot_ids(entry) for entry in several(retrieved)], graded(relevant), collapse=collapse)

    @classmethod
    def of_slots(
        cls, slots: Sequence[tuple[str, ...]], grades: Mapping[str, float], *, collapse: bool = False
    ) -> Ranking | None:
        """The same for ids that are known to be text."""
        if not grades:
            return None
        if collapse:
            slots = without_repeats(slots)
        covered: set[str] = set()
        new, gains = [], []
        misses = grades.keys().isdisjoint
        for ids in slots:
            if misses(ids):
                new.append(0)
                gains.append(0.0)
                continue
            fresh = {i for i in ids if i in grades} - covered
            covered |= fresh
            new.append(len(fresh))
            gains.append(max((grades[i] for i in fresh), default=0.0))
        return cls(tuple(new), tuple(gains), tuple(sorted(grades.values(), reverse=True)))

    @property
    def expected(self) -> int:
        """R: how many ids are relevant."""
        return len(self.grades)

    @property
    def returned(self) -> int:
        """How many slots there are."""
        return len(self.new)

    def covered(self, k: int | None = None) -> int:
        """Expected ids among the first k slots."""
        return sum(self.new[:k])

    def relevant_slots(self, k: int | None = None) -> int:
        """Slots among the first k that cover something new."""
        return sum(1 for n in self.new[:k] if n)


def slot_ids(entry: object) -> tuple[str, ...]:
    """An entry is an id or a collection of the ids that the hit stands for."""
    if isinstance(entry, str):
        return (entry,)
    if isinstance(entry, _COLLECTIONS):
        return tuple(map(str, entry))
    return (str(entry),)


def graded(relevant: Mapping[object, float] | Ids) -> dict[str, float]:
    """Id -> grade; a grade of 0 or less is not relevant. Raises ValueError for a grade that is not finite."""
    if not isinstance(relevant, Mapping):
        return {str(i): 1.0 for i in several(relevant)}
    if not all(map(math.isfinite, relevant.values())):
        raise ValueError("a grade that is not finite")
    return {str(i): float(grade) for i, grade in relevant.items() if grade > 0}


def without_repeats(slots: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Drop a slot all of whose ids stood earlier; a slot without ids stays."""
    seen: set[str] = set()
    kept = []
    for ids in slots:
        if ids and seen.issuperset(ids):
            continue
        seen.update(ids)
        kept.append(ids)
    return kept
