"""Points of what is gained against what it takes, with the frontier of those that nothing beats on both.

Example::

    scatter([("bm25", 1.2, 0.31), ("oracle", 40.0, 0.36)], title="accuracy against latency", takes="ms")
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from bench.web.charts.scales import Scale, Tick, from_zero, over, plain

HEIGHT = 260
ABOVE = 16
"""pixels that stay free above the highest value"""
LABEL_CHARS = 18
CHAR = 7
"""pixels of a character, at most"""
NARROW = 270
"""pixels of the plot on a small phone: labels that do not meet there meet nowhere"""
LINE = 15
SHIFTS = (0, LINE, -LINE, 2 * LINE, -2 * LINE, 3 * LINE, -3 * LINE, 4 * LINE, -4 * LINE)
SIDES: tuple[Literal["start", "end"], ...] = ("start", "end")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point: across in percent, down in pixels."""

    label: str
    about: str
    x: float
    y: float
    best: bool
    """nothing else takes no more and is no worse"""
    side: Literal["start", "end"]
    """where its label begins: right of the point, or ends: left of it"""
    label_y: float
    """above or below the point where something else is in the way"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """What a template draws."""

    title: str
    takes: str
    points: tuple[Point, ...]
    ticks: tuple[Tick, ...]
    rows: tuple[Tick, ...]
    """the scale at the left; ``at`` in pixels"""
    path: str
    logarithmic: bool
    height: int = HEIGHT


def scatter(
    points: Sequence[tuple[str, float | None, float | None]],
    *,
    title: str,
    takes: str,
    bounds: Collection[str] = (),
) -> Scatter | None:
    """(name, what it takes, how good); None with fewer than two points or where nothing takes anything.

    ``bounds`` are names of points that are shown and never on the frontier.
    """
    known = [(name, x, y) for name, x, y in points if x is not None and y is not None]
    if len(known) < 2 or not any(x for _, x, _ in known):
        return None
    across, up = over([x for _, x, _ in known]), from_zero(max(y for _, _, y in known))
    best = frontier([(x, y) for name, x, y in known if name not in bounds])
    drawn = [_point(one, across, up, best=one[0] not in bounds and one[1:] in best) for one in known]
    rows = tuple(replace(tick, at=_down(tick.at)) for tick in up.ticks)
    return Scatter(
        title=title,
        takes=takes,
        points=_apart(drawn),
        ticks=across.ticks,
        rows=rows,
        path=_steps(sorted((point.x, point.y) for point in drawn if point.best)),
        logarithmic=across.logarithmic,
    )


def frontier(points: Sequence[tuple[float, float]]) -> set[tuple[float, float]]:
    """The points for which no other takes no more and is no worse, and better in one of the two."""
    return {(x, y) for x, y in points if not any(px <= x and py >= y and (px, py) != (x, y) for px, py in points)}


def _point(one: tuple[str, float, float], across: Scale, up: Scale, *, best: bool) -> Point:
    name, x, y = one
    down = _down(up.at(y))
    return Point(
        label=name if len(name) <= LABEL_CHARS else f"{name[: LABEL_CHARS - 1]}…",
        about=f"{name}: {y:.4f} at {plain(x)}",
        x=across.at(x),
        y=down,
        best=best,
        side="start",
        label_y=down,
    )


def _down(percent: float) -> float:
    return round(HEIGHT - percent / 100 * (HEIGHT - ABOVE), 1)


def _apart(points: Sequence[Point]) -> tuple[Point, ...]:
    """Give each label the nearest place where it lies on no other label and on no other point."""
    placed: list[Point] = []
    for point in sorted(points, key=lambda one: (one.y, one.x)):
        taken = [_box(other) for other in placed] + [_dot(other) for other in points if other is not point]
        places = [replace(point, side=side, label_y=round(point.y + shift, 1)) for shift in SHIFTS for side in SIDES]
        inside = [one for one in places if _is_inside(_box(one))] or places
        free = (one for one in inside if not any(_meet(_box(one), box) for box in taken))
        placed.append(next(free, inside[-1]))
    return tuple(placed)


Box = tuple[float, float, float, float]
"""left, right, top, bottom in pixels of a narrow plot"""


def _box(point: Point) -> Box:
    """Where a point's label lies."""
    at, width = point.x / 100 * NARROW, len(point.label) * CHAR
    left, right = (at + 8, at + 8 + width) if point.side == "start" else (at - 8 - width, at - 8)
    return left, right, point.label_y - LINE / 2, point.label_y + LINE / 2


def _dot(point: Point) -> Box:
    at = point.x / 100 * NARROW
    return at - 5, at + 5, point.y - 5, point.y + 5


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def _is_inside(box: Box) -> bool:
    return box[0] >= 0 and box[1] <= NARROW and box[2] >= 0 and box[3] <= HEIGHT


def _steps(line: Sequence[tuple[float, float]]) -> str:
    """A path along the frontier: what is reachable without taking more."""
    if not line:
        return ""
    return f"M{line[0][0]:g} {line[0][1]:g}" + "".join(f"H{x:g}V{y:g}" for x, y in line[1:])
