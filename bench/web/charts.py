"""Charts as coordinates: templates draw them as SVG, so they need no script and read well in grey and in the dark.

Example::

    dots([("bm25", 0.31, 0.24, 0.38)]).marks[0].x         # where the value stands, 0..100
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

ROW = 26
LEFT, RIGHT, TOP = 190.0, 20.0, 8.0
WIDTH = 640.0
SCATTER_HEIGHT = 300.0
LABEL_CHARS = 26


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A line of the grid with its text."""

    at: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One value: a point, with its interval where there is one."""

    label: str
    text: str
    x: float
    y: float
    low: float | None = None
    high: float | None = None
    frontier: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """What a template draws."""

    width: float
    height: float
    marks: tuple[Mark, ...]
    ticks: tuple[Tick, ...]
    rows: tuple[Tick, ...] = ()
    path: str = ""
    title: str = ""


def dots(rows: Sequence[tuple[str, float | None, float | None, float | None]], title: str = "") -> Chart | None:
    """Values with intervals, a row each, on a scale from zero; None where there is no value."""
    known = [row for row in rows if row[1] is not None]
    if not known:
        return None
    top = nice_top(max(max(value or 0, high or 0) for _, value, _, high in known))
    scale = (WIDTH - LEFT - RIGHT) / top
    marks = []
    for at, (label, value, low, high) in enumerate(known):
        interval = "" if low is None or high is None else f" [{low:.3f}, {high:.3f}]"
        marks.append(
            Mark(
                label=shortened(label),
                text=f"{label}: {value:.4f}{interval}",
                x=round(LEFT + (value or 0) * scale, 1),
                y=TOP + ROW * at + ROW / 2,
                low=None if low is None else round(LEFT + max(low, 0) * scale, 1),
                high=None if high is None else round(LEFT + min(high, top) * scale, 1),
            )
        )
    ticks = [Tick(at=round(LEFT + part * top * scale / 4, 1), text=f"{part * top / 4:.3g}") for part in range(5)]
    return Chart(width=WIDTH, height=TOP + ROW * len(known) + 22, marks=tuple(marks), ticks=tuple(ticks), title=title)


def pareto(points: Sequence[tuple[str, float | None, float | None]], title: str = "") -> Chart | None:
    """(label, what it takes, how good): points with the frontier of those that nothing beats on both."""
    known = [(label, x, y) for label, x, y in points if x is not None and y is not None]
    if len(known) < 2:
        return None
    right, top = nice_top(max(x for _, x, _ in known)), nice_top(max(y for _, _, y in known))
    left, bottom = 48.0, SCATTER_HEIGHT - 36
    best = frontier([(x, y) for _, x, y in known])
    marks = [
        Mark(
            label=shortened(label),
            text=f"{label}: {y:.4f} at {x:.4g}",
            x=round(left + x / right * (WIDTH - left - 110), 1),
            y=round(bottom - y / top * (bottom - 16), 1),
            frontier=(x, y) in best,
        )
        for label, x, y in known
    ]
    line = sorted((mark.x, mark.y) for mark in marks if mark.frontier)
    path = "".join(f"{'L' if at else 'M'}{x} {y} " for at, (x, y) in enumerate(_steps(line)))
    ticks = [
        Tick(at=round(left + part / 4 * (WIDTH - left - 110), 1), text=f"{part * right / 4:.3g}") for part in range(5)
    ]
    rows = [Tick(at=round(bottom - part / 4 * (bottom - 16), 1), text=f"{part * top / 4:.2g}") for part in range(5)]
    return Chart(
        width=WIDTH, height=SCATTER_HEIGHT, marks=tuple(marks), ticks=tuple(ticks), rows=tuple(rows), path=path,
        title=title,
    )  # fmt: skip


def frontier(points: Sequence[tuple[float, float]]) -> set[tuple[float, float]]:
    """The points for which no other takes no more and is no worse, and better in one of the two."""
    return {(x, y) for x, y in points if not any(px <= x and py >= y and (px, py) != (x, y) for px, py in points)}


def bars(histogram: Sequence[tuple[int, int, int]], title: str = "") -> Chart | None:
    """A histogram: (from, to, how many) a bar; ``low`` and ``high`` are its left and right edge."""
    if not histogram:
        return None
    top = max(count for _, _, count in histogram)
    step = (WIDTH - 60) / len(histogram)
    marks = [
        Mark(
            label=edge(start),
            text=f"{edge(start)} to {edge(end)}: {count}",
            x=round(40 + step * at, 1),
            y=round(130 - 110 * count / top, 1),
            low=round(40 + step * at, 1),
            high=round(40 + step * (at + 0.92), 1),
        )
        for at, (start, end, count) in enumerate(histogram)
    ]
    every = max(1, math.ceil(len(histogram) / 8))
    ticks = [Tick(at=mark.x, text=mark.label) for at, mark in enumerate(marks) if at % every == 0]
    rows = (Tick(at=20, text=str(top)), Tick(at=130, text="0"))
    return Chart(width=WIDTH, height=154, marks=tuple(marks), ticks=tuple(ticks), rows=rows, title=title)


def edge(us: int) -> str:
    """A bin's edge with a fitting unit."""
    return f"{us / 1e6:g} s" if us >= 1_000_000 else f"{us / 1e3:g} ms" if us >= 1000 else f"{us} µs"


def nice_top(value: float) -> float:
    """The next round number at or above a value; 1 for what is nothing."""
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(float(f"{step * power:.6g}") for step in (1, 2, 2.5, 4, 5, 8, 10) if step * power >= value * 0.999999)


def shortened(label: str) -> str:
    """A label that fits its column; the whole one stands in the mark's text."""
    return label if len(label) <= LABEL_CHARS else label[: LABEL_CHARS - 1] + "…"


def _steps(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for x, y in points:
        if found:
            found.append((x, found[-1][1]))
        found.append((x, y))
    return found
