"""How long something took, a histogram a row over one axis in powers of ten, with the median as a line.

Every row is as high as its fullest bin, so that shapes can be compared whatever the number of calls::

    latencies([("bm25", {"histogram": [(100, 200, 7)], "p50": {"total": 140}, "n": 7})], title="search")
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

from bench.web.charts.rows import Bar, Row, RowChart
from bench.web.charts.scales import Scale, anchored
from bench.web.text import duration

Bin = tuple[int, int, int]
"""from, to (microseconds), how many"""
GAP = 0.08
MOST_TICKS = 5


def latencies(spreads: Sequence[tuple[str, Mapping[str, object]]], *, title: str) -> RowChart | None:
    """The chart; None where nothing was timed."""
    rows = [(name, spread, _bins(spread)) for name, spread in spreads]
    bins = [one for _, _, found in rows for one in found]
    if not bins:
        return None
    scale = _decades(min(max(1, start) for start, _, _ in bins), max(end for _, end, _ in bins))
    shown = tuple(_row(name, spread, found, scale) for name, spread, found in rows if found)
    return RowChart(title=title, rows=shown, ticks=scale.ticks, height=44)


def _bins(spread: Mapping[str, object]) -> list[Bin]:
    return [one for one in cast("Sequence[Bin]", spread.get("histogram") or ()) if one[2]]


def _decades(least: int, largest: int) -> Scale:
    """From bin to bin, with a tick at each power of ten, or fewer."""
    low, high = float(least), float(max(largest, least * 10))
    span = math.log10(high / low)
    powers = range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)
    ticks = [(100 * math.log10(10.0**power / low) / span, duration(10.0**power)) for power in powers]
    every = max(1, math.ceil(len(ticks) / MOST_TICKS))
    return Scale(low=low, high=high, ticks=anchored(ticks[::every]), logarithmic=True)


def _row(name: str, spread: Mapping[str, object], bins: Sequence[Bin], scale: Scale) -> Row:
    fullest = max(count for _, _, count in bins)
    median = cast("Mapping[str, int]", spread["p50"])["latency"]
    slow = cast("Mapping[str, int]", spread["p95"])["latency"]
    return Row(
        name=name,
        value=duration(median),
        about=f"{name}: half took {duration(median)} or less, 95 % {duration(slow)} or less, n = {spread['n']}",
        bars=tuple(_bar(one, fullest, scale) for one in bins),
        rule=scale.at(median),
    )


def _bar(one: Bin, fullest: int, scale: Scale) -> Bar:
    start, end, count = one
    left, right = scale.at(max(1, start)), scale.at(end)
    return Bar(
        left=left,
        width=round((right - left) * (1 - GAP), 2),
        height=round(100 * count / fullest, 1),
        about=f"{duration(start)} to {duration(end)}: {count}",
    )
