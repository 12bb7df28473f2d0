"""How a run went: the share of a job's items that had ended, over the time since the run began, a row a job.

A level stretch is time in which nothing ended: a pause, a slow provider, a limit::

    pace([("bm25", 160, [(1.5, 40), (3.0, 160)])], title="Progress over time")
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.web.charts.rows import Row, RowChart
from bench.web.charts.scales import Scale, anchored, from_zero
from bench.web.text import seconds

UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (0.001, "ms"))
Steps = Sequence[tuple[float, int]]
"""(seconds since the run began, items that had ended by then)"""


def pace(jobs: Sequence[tuple[str, int, Steps]], *, title: str) -> RowChart | None:
    """(name, items planned, steps) of each job; None where nothing ended."""
    known = [(name, planned, steps) for name, planned, steps in jobs if steps and planned]
    if not known:
        return None
    end = max(steps[-1][0] for _, _, steps in known)
    scale = _clock(end)
    rows = tuple(_row(name, planned, steps, scale, end) for name, planned, steps in known)
    return RowChart(title=title, rows=rows, ticks=scale.ticks, height=44, axis="time since the run began")


def _clock(end_s: float) -> Scale:
    """From zero, in the largest unit of which at least two have passed."""
    size, unit = next((one for one in UNITS if end_s >= 2 * one[0]), UNITS[-1])
    scale = from_zero(end_s / size)
    texts = [(tick.at, f"{tick.text} {unit}" if tick.at else "0") for tick in scale.ticks]
    return Scale(low=0.0, high=scale.high * size, ticks=anchored(texts))


def _row(name: str, planned: int, steps: Steps, scale: Scale, end: float) -> Row:
    last, ended = steps[-1]
    return Row(
        name=name,
        value=f"{100 * ended / planned:.0f} %",
        about=f"{name}: {ended} of {planned} items after {seconds(last)}",
        area=_area(planned, steps, scale, end),
    )


def _area(planned: int, steps: Steps, scale: Scale, end: float) -> str:
    """A staircase: between two steps nothing is known to have ended."""
    drawn = ["M0 100"]
    for at, ended in steps:
        drawn.append(f"H{scale.at(at):g}V{100 - 100 * ended / planned:.2f}")
    return "".join([*drawn, f"H{scale.at(end):g}V100Z"])
