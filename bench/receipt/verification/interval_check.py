"""Check whether the confidence intervals of a receipt are possible, and whether they follow from the rows.

Example::

    faults = list(interval_faults(score, epochs=1))         # from the receipt alone
    check = IntervalCheck(score, epochs=1)
    check.add(1.0, "corpus-1", [("question_type", "temporal")])
    check.fault()                                           # from the rows; None if the interval follows from them

If items were repeated (epochs), an interval is computed from one value per item, not from the rows. The receipt does
not state how the repeats of an item were combined. So such an interval is not recomputed, and it need not contain the
mean of the rows.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from math import isclose

from bench.metrics.protocol import MAX_VALUE
from bench.model import Interval
from bench.receipt.schema_results import ReceiptInterval, ReceiptScore
from bench.stats import Tally, interval_macro_of, interval_of

TOLERANCE = 1e-9
METHODS = frozenset({"wilson", "wilson_degenerate", "t", "cluster_t", "macro_t"})
"""methods that can be recomputed from the values and corpora of the rows"""
MACRO = "macro:"


def interval_faults(score: ReceiptScore, *, epochs: int, is_share: bool) -> Iterator[str]:
    """Yield the reasons why the interval of a score is impossible. ``is_share``: the values must be in 0..1."""
    stated, value = score.interval, score.value
    if stated is None:
        return
    if not 0 < stated.level < 1:
        yield f"its level {stated.level} is not between 0 and 1"
    if stated.low > stated.high:
        yield "its lower bound is above its upper bound"
    if value is None:
        yield "the score has no value"
    elif epochs == 1 and not stated.low - TOLERANCE <= value <= stated.high + TOLERANCE:
        yield f"it does not contain the value {value}"
    if is_share and not (stated.low >= 0 and stated.high <= 1):
        yield "a share is in 0..1"


class IntervalCheck:
    """Collects the values of one metric with their corpora, and recomputes the interval from them."""

    def __init__(self, score: ReceiptScore, *, epochs: int) -> None:
        self._stated = score.interval
        self._is_macro = score.aggregate.startswith(MACRO)
        self._dimension = score.aggregate.removeprefix(MACRO)
        self._wanted = epochs == 1 and score.aggregate != "other" and _has_known_method(score.interval)
        self._too_large = False
        self._groups: dict[str, tuple[array[float], list[str]]] = {}

    @property
    def is_open(self) -> bool:
        """True if the receipt states an interval that cannot be recomputed."""
        return self._stated is not None and (not self._wanted or self._too_large)

    def add(self, value: float, corpus: str, places: list[tuple[str, str]]) -> None:
        """Add the value of one row. ``places`` has pairs (dimension, label), as a macro mean needs them."""
        if not self._wanted:
            return
        label = dict(places)[self._dimension] if self._is_macro else ""
        values, corpora = self._groups.setdefault(label, (array("d"), []))
        values.append(value)
        corpora.append(corpus)
        self._too_large = self._too_large or abs(value) > MAX_VALUE

    def fault(self) -> str | None:
        """Return as text how the stated interval differs from the interval of the rows.

        The result is None if the intervals are equal, or if the stated interval is missing or cannot be recomputed.
        """
        stated = self._stated
        if stated is None or self.is_open:
            return None
        found = list[Interval]()
        for one in self._candidates(stated):
            if one is not None and one.method == stated.method:
                if _is_close(one.low, stated.low) and _is_close(one.high, stated.high):
                    return None
                found.append(one)
        given = " or ".join(dict.fromkeys(f"[{one.low}, {one.high}]" for one in found))
        return f"[{stated.low}, {stated.high}] ({stated.method}), but the rows give {given or 'none by this method'}"

    def _candidates(self, stated: ReceiptInterval) -> Iterator[Interval | None]:
        """Yield the interval of the rows for each case that the stated method allows.

        There are several cases, because the receipt does not state whether items of one corpus depend on each other,
        and whether the values are shares.
        """
        for clustered in (True, False):
            if (stated.method == "cluster_t" and not clustered) or (stated.method in ("wilson", "t") and clustered):
                continue
            tallies = [Tally.of(values, corpora if clustered else None) for values, corpora in self._groups.values()]
            if self._is_macro:
                yield interval_macro_of(tallies, stated.level)
            else:
                for shares in (True, False):
                    yield from (interval_of(one, stated.level, shares=shares) for one in tallies)


def _has_known_method(stated: ReceiptInterval | None) -> bool:
    return stated is not None and stated.method in METHODS and stated.level > 0 and 0.5 + stated.level / 2 < 1


def _is_close(one: float, other: float) -> bool:
    return isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
