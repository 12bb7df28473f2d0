"""Compute the coordinates of charts. Templates draw the charts as SVG.

The charts need no script. A `RowChart` has rows on one horizontal scale, each with a name, a drawing and a value as
text. Each function creates one kind of chart:

* ``intervals``: values with their intervals, such as accuracy by provider or question type.
* ``latencies``: one histogram of times per row, on a logarithmic scale, with a line at the median.
* ``progress_chart``: the share of ended items over time, with one row per job.
* ``scatter``: score against cost or time, with one point per job and the Pareto frontier.

Example::

    intervals([ChartValue(name="bm25", value=0.31, low=0.24, high=0.38)], title="accuracy").rows[0].dot      # 62.0
    RowChart(title="accuracy", rows=(ChartRow(name="bm25", value="0.310", dot=62.0),), ticks=scale.ticks)
    intervals([ChartValue(name="bm25", value=0.31, low=0.24, high=0.38, group="temporal")], title="accuracy")
    latencies([("bm25", {"histogram": [(100, 200, 7)], "p50": {"total": 140}, "n": 7})], title="search")
    progress_chart([("bm25", 160, [(1.5, 40), (3.0, 160)])], title="Progress over time")
    scatter([("bm25", 1.2, 0.31), ("oracle", 40.0, 0.36)], title="accuracy against latency", takes="ms")

Horizontal positions are in percent of the width, and vertical positions are in pixels. In a histogram, the bar with the
largest count has the full height of its row.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from bench.visible_text import counted, shorten
from bench.web.documents.run_documents import LatencySpread
from bench.web.formatting import Scale, Tick, anchored, duration, nice_top, plain, scale_from_zero, scale_over, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar of a histogram; its position and size are in percent of its row."""

    left: float
    width: float
    height: float
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartRow:
    """One row of a chart. A field that is None or empty is not drawn."""

    name: str
    value: str = ""
    about: str = ""
    """the content of the row in words, for tooltips and screen readers"""
    group: str = ""
    """name of the group under which the row is shown, together with the other rows of this group"""
    dot: float | None = None
    low: float | None = None
    high: float | None = None
    bars: tuple[Bar, ...] = ()
    rule: float | None = None
    """position of a vertical line in the row, such as the median"""
    area: str = ""
    """the path of a filled area, in percent of the row, from the lower left to the lower right corner"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChart:
    """A chart whose rows share one horizontal scale."""

    title: str
    rows: tuple[ChartRow, ...]
    ticks: tuple[Tick, ...]
    height: int = 24
    """height of a row in pixels"""
    axis: str = ""
    """the text below the ticks"""
    marks: tuple[Tick, ...] = ()
    """dashed vertical lines through all rows, such as the scores of no-memory and of the oracle"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartValue:
    """A value to show in a chart, with its interval; a value that is None gets no row."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    group: str = ""
    n: int | None = None


ReferenceLine = tuple[str, float]
"""name and value of a reference line"""


def intervals(measured: Sequence[ChartValue], *, title: str, lines: Sequence[ReferenceLine] = ()) -> RowChart | None:
    """Return a chart of values with their intervals, one row per value; None if no value is known.

    The scale begins at zero. ``lines`` are drawn through all rows.
    """
    known = [one for one in measured if one.value is not None]
    if not known:
        return None
    scale = scale_from_zero(max(max(one.value or 0, one.high or 0) for one in known))
    marks = anchored([(scale.at(value), f"{name} {value:.2f}") for name, value in lines])
    return RowChart(title=title, rows=tuple(_row(one, scale) for one in known), ticks=scale.ticks, marks=marks)


def _row(one: ChartValue, scale: Scale) -> ChartRow:
    value = one.value or 0.0
    spread = "" if one.low is None or one.high is None else f" [{one.low:.3f}, {one.high:.3f}]"
    count = "" if one.n is None else f", n = {one.n}"
    return ChartRow(
        name=one.name,
        group=one.group,
        value=f"{value:.3f}",
        about=f"{one.name}{f', {one.group}' if one.group else ''}: {value:.4f}{spread}{count}",
        dot=scale.at(value),
        low=None if one.low is None else scale.at(one.low),
        high=None if one.high is None else scale.at(one.high),
    )


def forest(differences: Sequence[ChartValue], *, title: str) -> RowChart | None:
    """Return a chart of differences with their intervals, one row per difference; None if no difference is known.

    Zero is in the middle of the scale.
    """
    known = [one for one in differences if one.value is not None]
    if not known:
        return None
    ends = [abs(end) for one in known for end in (one.value, one.low, one.high) if end is not None]
    top = nice_top(max(ends))
    ticks = anchored([(50 + 50 * part, f"{part * top:+.3g}" if part else "0") for part in (-1, -0.5, 0, 0.5, 1)])
    scale = Scale(low=-top, high=top, ticks=ticks)
    rows = tuple(replace(_row(one, scale), value=f"{one.value or 0.0:+.3f}", rule=50.0) for one in known)
    return RowChart(title=title, rows=rows, ticks=ticks, axis="left of the line B is higher, right of it A")


Bin = tuple[int, int, int]
"""(start, end, count); start and end in microseconds"""
GAP = 0.08
MOST_TICKS = 5


def latencies(spreads: Sequence[tuple[str, LatencySpread]], *, title: str) -> RowChart | None:
    """Return a chart with one histogram of latencies per row; None if nothing was timed."""
    rows = [(name, spread, [one for one in spread.get("histogram", ()) if one[2]]) for name, spread in spreads]
    bins = [one for _, _, found in rows for one in found]
    if not bins:
        return None
    scale = _logarithmic_scale(min(max(1, start) for start, _, _ in bins), max(end for _, end, _ in bins))
    shown = tuple(_latency_row(name, spread, found, scale) for name, spread, found in rows if found)
    return RowChart(title=title, rows=shown, ticks=scale.ticks, height=44)


def _logarithmic_scale(least: int, largest: int) -> Scale:
    """Return a logarithmic scale from ``least`` to ``largest``, both in microseconds.

    At most ``MOST_TICKS`` ticks are shown, at powers of ten.
    """
    low, high = float(least), float(max(largest, least * 10))
    span = math.log10(high / low)
    powers = range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)
    ticks = [(100 * math.log10(10.0**power / low) / span, duration(10.0**power)) for power in powers]
    every = max(1, math.ceil(len(ticks) / MOST_TICKS))
    return Scale(low=low, high=high, ticks=anchored(ticks[::every]), logarithmic=True)


def _latency_row(name: str, spread: LatencySpread, bins: Sequence[Bin], scale: Scale) -> ChartRow:
    fullest = max(count for _, _, count in bins)
    median, slow = spread["p50"]["latency"] or 0.0, spread["p95"]["latency"]
    return ChartRow(
        name=name,
        value=duration(median),
        about=f"{name}: median {duration(median)}, 95th percentile {duration(slow)}, n = {spread['n']}",
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


UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (0.001, "ms"))
Steps = Sequence[tuple[float, int]]
"""(seconds since the run began, number of items that had ended by then)"""


def progress_chart(jobs: Sequence[tuple[str, int, Steps]], *, title: str) -> RowChart | None:
    """Return a chart of the share of ended items over time, one row per job; None if no item has ended.

    ``jobs`` are (name, number of planned items, steps).
    """
    known = [(name, planned, steps) for name, planned, steps in jobs if steps and planned]
    if not known:
        return None
    end = max(steps[-1][0] for _, _, steps in known)
    scale = _time_scale(end)
    rows = tuple(_progress_row(name, planned, steps, scale, end) for name, planned, steps in known)
    return RowChart(title=title, rows=rows, ticks=scale.ticks, height=44, axis="time since the run began")


def _time_scale(end_s: float) -> Scale:
    """Return a scale from zero that includes ``end_s`` seconds.

    The unit of the scale is the largest unit for which ``end_s`` is at least 2, for example minutes for 150 s.
    """
    size, unit = next((one for one in UNITS if end_s >= 2 * one[0]), UNITS[-1])
    scale = scale_from_zero(end_s / size)
    texts = [(tick.at, f"{tick.text} {unit}" if tick.at else "0") for tick in scale.ticks]
    return Scale(low=0.0, high=scale.high * size, ticks=anchored(texts))


def _progress_row(name: str, planned: int, steps: Steps, scale: Scale, end: float) -> ChartRow:
    last, ended = steps[-1]
    return ChartRow(
        name=name,
        value=f"{100 * ended / planned:.0f}%",
        about=f"{name}: {ended} of {counted(planned, 'item(|s)')} after {seconds(last)}",
        area=_area(planned, steps, scale, end),
    )


def _area(planned: int, steps: Steps, scale: Scale, end: float) -> str:
    """Return the SVG path of the area below the steps. Between two steps, the area has a level upper edge."""
    drawn = ["M0 100"]
    for at, ended in steps:
        drawn.append(f"H{scale.at(at):g}V{100 - 100 * ended / planned:.2f}")
    return "".join([*drawn, f"H{scale.at(end):g}V100Z"])


HEIGHT = 260
ABOVE = 16
"""free pixels above the highest value"""
LABEL_CHARS = 18
CHAR = 7
"""maximum width of a character of a label, in pixels"""
NARROW = 270
"""width of the plot on a small phone in pixels; labels that do not overlap at this width never overlap"""
LINE = 15
SHIFTS = (0, LINE, -LINE, 2 * LINE, -2 * LINE, 3 * LINE, -3 * LINE, 4 * LINE, -4 * LINE)
SIDES: tuple[Literal["start", "end"], ...] = ("start", "end")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point of a scatter chart: ``x`` in percent from the left, ``y`` in pixels from the top."""

    label: str
    about: str
    x: float
    y: float
    best: bool
    """True if the point is on the Pareto frontier"""
    side: Literal["start", "end"]
    """the end of the label that is next to the point: with ``start`` the label is on the right of the point"""
    label_y: float
    """vertical position of the label; it differs from ``y`` if the label would cover something there"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """A chart of points with their Pareto frontier."""

    title: str
    takes: str
    points: tuple[Point, ...]
    ticks: tuple[Tick, ...]
    rows: tuple[Tick, ...]
    """ticks of the vertical scale; ``at`` is in pixels"""
    path: str
    logarithmic: bool
    lines: tuple[Tick, ...] = ()
    """dashed horizontal reference lines; ``at`` is in pixels"""
    band: tuple[float, float] | None = None
    """top and height, in pixels, of the range between the scores of no-memory and of the oracle"""
    height: int = HEIGHT


def scatter(
    points: Sequence[tuple[str, float | None, float | None]],
    *,
    title: str,
    takes: str,
    bounds: Collection[str] = (),
    lines: Sequence[ReferenceLine] = (),
) -> Scatter | None:
    """Return a chart of points (name, cost or time, score) with their Pareto frontier.

    Return None if there are fewer than two points and lines together, or if all costs are zero. ``takes`` is the text
    below the horizontal scale. ``bounds`` are names of points that are shown but never on the frontier.
    """
    known = [(name, x, y) for name, x, y in points if x is not None and y is not None]
    if len(known) + len(lines) < 2 or not any(x for _, x, _ in known):
        return None
    across, up = (
        scale_over([x for _, x, _ in known]),
        scale_from_zero(max([y for _, _, y in known] + [y for _, y in lines])),
    )
    best = frontier([(x, y) for name, x, y in known if name not in bounds])
    drawn = [_point(one, across, up, best=one[0] not in bounds and one[1:] in best) for one in known]
    rows = tuple(replace(tick, at=_height(tick.at)) for tick in up.ticks)
    return Scatter(
        title=title,
        takes=takes,
        points=_with_label_places(drawn),
        ticks=across.ticks,
        rows=rows,
        path=_steps(sorted((point.x, point.y) for point in drawn if point.best)),
        logarithmic=across.logarithmic,
        lines=_reference_lines(lines, up),
        band=_band(dict(lines), up),
    )


def _reference_lines(lines: Sequence[ReferenceLine], up: Scale) -> tuple[Tick, ...]:
    """Return the reference lines as ticks. Lines with the same value become one line with all their names."""
    names: dict[str, list[str]] = {}
    for name, value in lines:
        names.setdefault(f"{value:.2f}", []).append(name)
    heights = {f"{value:.2f}": _height(up.at(value)) for _, value in lines}
    return tuple(Tick(at=heights[text], text=f"{', '.join(found)} {text}") for text, found in names.items())


def _band(lines: Mapping[str, float], up: Scale) -> tuple[float, float] | None:
    floor, ceiling = lines.get("no-memory"), lines.get("oracle")
    if floor is None or ceiling is None or ceiling <= floor:
        return None
    return _height(up.at(ceiling)), round(_height(up.at(floor)) - _height(up.at(ceiling)), 1)


def frontier(points: Sequence[tuple[float, float]]) -> set[tuple[float, float]]:
    """Return the points that are on the Pareto frontier.

    A point is on the frontier if no other point has a smaller or equal ``x`` together with a larger or equal ``y``.
    """
    return {(x, y) for x, y in points if not any(px <= x and py >= y and (px, py) != (x, y) for px, py in points)}


def _point(one: tuple[str, float, float], across: Scale, up: Scale, *, best: bool) -> Point:
    name, x, y = one
    down = _height(up.at(y))
    return Point(
        label=shorten(name, LABEL_CHARS),
        about=f"{name}: {y:.4f} at {plain(x)}",
        x=across.at(x),
        y=down,
        best=best,
        side="start",
        label_y=down,
    )


def _height(percent: float) -> float:
    return round(HEIGHT - percent / 100 * (HEIGHT - ABOVE), 1)


def _with_label_places(points: Sequence[Point]) -> tuple[Point, ...]:
    """Return the points with places for their labels.

    A label is as near as possible to its point, without covering another label or point.
    """
    placed: list[Point] = []
    for point in sorted(points, key=lambda one: (one.y, one.x)):
        taken = [_label_box(other) for other in placed] + [_dot_box(other) for other in points if other is not point]
        places = [replace(point, side=side, label_y=round(point.y + shift, 1)) for shift in SHIFTS for side in SIDES]
        inside = [one for one in places if _is_inside(_label_box(one))] or places
        free = (one for one in inside if not any(_overlap(_label_box(one), box) for box in taken))
        placed.append(next(free, inside[-1]))
    return tuple(placed)


Box = tuple[float, float, float, float]
"""left, right, top and bottom in pixels of a plot that is ``NARROW`` wide"""


def _label_box(point: Point) -> Box:
    """Return the rectangle that a point's label covers."""
    at, width = point.x / 100 * NARROW, len(point.label) * CHAR
    left, right = (at + 8, at + 8 + width) if point.side == "start" else (at - 8 - width, at - 8)
    return left, right, point.label_y - LINE / 2, point.label_y + LINE / 2


def _dot_box(point: Point) -> Box:
    at = point.x / 100 * NARROW
    return at - 5, at + 5, point.y - 5, point.y + 5


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def _is_inside(box: Box) -> bool:
    return box[0] >= 0 and box[1] <= NARROW and box[2] >= 0 and box[3] <= HEIGHT


def _steps(line: Sequence[tuple[float, float]]) -> str:
    """Return the SVG path of the frontier, which is drawn as steps."""
    if not line:
        return ""
    return f"M{line[0][0]:g} {line[0][1]:g}" + "".join(f"H{x:g}V{y:g}" for x, y in line[1:])
