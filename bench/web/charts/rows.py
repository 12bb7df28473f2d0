"""A chart of rows on one scale: a name, something drawn, and its value as text.

Example::

    RowChart(title="accuracy", rows=(Row(name="bm25", value="0.310", dot=62.0),), ticks=scale.ticks)
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.web.charts.scales import Tick


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar of a histogram, in percents of its row."""

    left: float
    width: float
    height: float
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row; what is None or empty is not drawn."""

    name: str
    value: str = ""
    about: str = ""
    """everything in words, for pointers and readers"""
    group: str = ""
    """rows of one group follow one another under its name"""
    dot: float | None = None
    low: float | None = None
    high: float | None = None
    bars: tuple[Bar, ...] = ()
    rule: float | None = None
    """a line across the row, as a median"""
    area: str = ""
    """a path in percents of the row, from its lower left to its lower right corner"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChart:
    """What a template draws."""

    title: str
    rows: tuple[Row, ...]
    ticks: tuple[Tick, ...]
    height: int = 24
    """of a row, in pixels"""
    axis: str = ""
    """what stands below the ticks"""
