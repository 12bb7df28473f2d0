"""Charts as positions: templates draw them as SVG, so they need no script and read well in grey and in the dark.

Everything across is a percent of the width that there is, everything down is in pixels, so text keeps its size on any
screen. What a chart shows stands in it as text too: names on the left, values on the right::

    intervals([Measured(name="bm25", value=0.31, low=0.24, high=0.38)], title="accuracy").rows[0].dot      # 62.0
"""

from __future__ import annotations

from bench.web.charts.frontier import Point, Scatter, frontier, scatter
from bench.web.charts.intervals import Measured, intervals
from bench.web.charts.latencies import latencies
from bench.web.charts.pace import pace
from bench.web.charts.rows import Row, RowChart

__all__ = ["Measured", "Point", "Row", "RowChart", "Scatter", "frontier", "intervals", "latencies", "pace", "scatter"]
