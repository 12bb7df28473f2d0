"""Values with their intervals, a row each, from zero: accuracy by provider, or by question type and provider.

Example::

    intervals([Measured(name="bm25", value=0.31, low=0.24, high=0.38, group="temporal")], title="accuracy")
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.web.charts.rows import Row, RowChart
from bench.web.charts.scales import Scale, from_zero


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A value to show; without one there is no row."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    group: str = ""
    n: int | None = None


def intervals(measured: Sequence[Measured], *, title: str) -> RowChart | None:
    """The chart; None where nothing has a value."""
    known = [one for one in measured if one.value is not None]
    if not known:
        return None
    scale = from_zero(max(max(one.value or 0, one.high or 0) for one in known))
    return RowChart(title=title, rows=tuple(_row(one, scale) for one in known), ticks=scale.ticks)


def _row(one: Measured, scale: Scale) -> Row:
    value = one.value or 0.0
    spread = "" if one.low is None or one.high is None else f" [{one.low:.3f}, {one.high:.3f}]"
    count = "" if one.n is None else f", n = {one.n}"
    return Row(
        name=one.name,
        group=one.group,
        value=f"{value:.3f}",
        about=f"{one.name}{f', {one.group}' if one.group else ''}: {value:.4f}{spread}{count}",
        dot=scale.at(value),
        low=None if one.low is None else scale.at(one.low),
        high=None if one.high is None else scale.at(one.high),
    )
