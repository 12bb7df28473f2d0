"""The gate ``--fail-on-regression METRIC:POINTS``: is a later side worse than the first by more than was allowed.

Example::

    [one.text for one in gated(found, points=2) if one.missed]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.report.comparison import Comparisons, PairComparison, Row
from bench.report.verdicts import UNDECIDED, amount, sampled

ROUNDING = 1e-12
"""0.8 - 0.5 is no more than 0.3"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated:
    """One later side against the first on one gated metric."""

    missed: bool
    text: str


def gated(found: Comparisons, points: float) -> Iterator[Gated]:
    """Gate each headline row of each pair with the first side.

    A row without a number misses the gate too; equal results never do.
    """
    for one in found.comparisons:
        if one.is_against_first:
            yield from (_gated(one, row, points) for row in one.headlines)


def _gated(one: PairComparison, row: Row, points: float) -> Gated:
    who = f"{row.metric} of {one.b.name} against {one.a.name}"
    delta, interval = row.found.delta, row.found.interval
    if delta is None:
        return Gated(missed=True, text=f"gate missed: {who}: {row.found.note or 'no number'}")
    worse = -delta if row.lower_is_better else delta
    missed = worse > points / 100 + ROUNDING
    span = f" [{amount(row, interval.low)}, {amount(row, interval.high)}]" if interval else ""
    told = f"{who}: A - B = {amount(row, delta, sign=True)}{span}, allowed {points:g} points"
    few = f"; {UNDECIDED}: {sampled(row)}" if row.is_tested and not row.can_be_decided else ""
    return Gated(missed=missed, text=f"{'regression' if missed else 'no regression'}: {told}{few}")
