"""The values of one metric over the rows of a job, and how they fold: the one arithmetic of signing and verifying.

    tally.scored(1.0, [("question_type", "temporal")])
    tally.fold("mean", pending=0)          # (value, value with failures as zero)

Sums are ``math.fsum`` and so blind to the order of the rows.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping

from bench.receipt.schema import Label

NO_LABEL = "(none)"
MACRO = "macro:"

Place = tuple[str, str]
"""A dimension and the label there."""


class Tally:
    """The values of one metric: all of them, and by label."""

    def __init__(self) -> None:
        self.values = array("d")
        self.excluded = 0
        self.failed = 0
        self.labels: dict[tuple[str, str], array[float]] = {}
        self.failed_labels: Counter[tuple[str, str]] = Counter()

    def scored(self, value: float, places: list[tuple[str, str]]) -> None:
        """Count a value, overall and under each label."""
        self.values.append(value)
        for place in places:
            self.labels.setdefault(place, array("d")).append(value)

    def lost(self, places: list[tuple[str, str]]) -> None:
        """Count an item that failed."""
        self.failed += 1
        self.failed_labels.update(places)

    def fold(self, aggregate: str, pending: int) -> tuple[float | None, float | None]:
        """The value, and the value with failed and pending items as zero. ``other`` is folded by nobody here."""
        if aggregate == "mean":
            return mean(self.values), mean(self.values, len(self.values) + self.failed + pending)
        if aggregate.startswith(MACRO):
            dimension = aggregate.removeprefix(MACRO)
            return self._macro(dimension, with_failed=False), self._macro(dimension, with_failed=True)
        return None, None

    def _macro(self, dimension: str, *, with_failed: bool) -> float | None:
        found = {place for place in (*self.labels, *self.failed_labels) if place[0] == dimension}
        means = []
        for place in sorted(found):
            values = self.labels.get(place, array("d"))
            one = mean(values, len(values) + (self.failed_labels[place] if with_failed else 0))
            if one is not None:
                means.append(one)
        return math.fsum(means) / len(means) if means else None

    def labels_of(self, dimension: str) -> dict[str, Label]:
        """Each label's own mean."""
        return {
            label: Label(value=mean(values), n=len(values))
            for (found, label), values in sorted(self.labels.items())
            if found == dimension
        }


def mean(values: array[float], divisor: int | None = None) -> float | None:
    """fsum(values) / divisor, None when that is 0."""
    divisor = len(values) if divisor is None else divisor
    return math.fsum(values) / divisor if divisor else None


def dimensions(breakdown: Iterable[str], aggregate: str) -> tuple[str, ...]:
    """The dimensions under which a metric counts: those of its breakdown and of a macro mean."""
    own = (aggregate.removeprefix(MACRO),) if aggregate.startswith(MACRO) else ()
    return tuple(sorted({*breakdown, *own}))


class Places:
    """Where one row counts; metrics with the same dimensions share the answer."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels
        self._known: dict[tuple[str, ...], list[Place]] = {}

    def under(self, wanted: tuple[str, ...]) -> list[Place]:
        """The row's label in each dimension."""
        found = self._known.get(wanted)
        if found is None:
            found = [(dimension, self._labels.get(dimension, NO_LABEL)) for dimension in wanted]
            self._known[wanted] = found
        return found
