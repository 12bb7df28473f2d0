"""Charts: positions, labels without overlap, and no mark without a value."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.web.charts import (
    NARROW,
    ChartValue,
    _label_box,
    _overlap,
    frontier,
    intervals,
    latencies,
    progress_chart,
    scatter,
)
from bench.web.documents.run_documents import EDGES, histogram, latency_spread
from bench.web.formatting import nice_top, scale_from_zero, scale_over

POSITIVE = st.floats(min_value=1e-6, max_value=1e9)


@given(POSITIVE)
def test_a_scale_ends_at_a_round_number_at_or_above_the_largest_value(value: float) -> None:
    top = nice_top(value)
    assert value * 0.999999 <= top <= 2.1 * value
    assert scale_from_zero(value).at(value) <= 100


@given(st.lists(POSITIVE, min_size=1, max_size=20))
def test_a_scale_places_values_inside_and_in_order(values: list[float]) -> None:
    scale = scale_over(values)
    places = [scale.at(value) for value in sorted(values)]
    assert all(0 <= place <= 100 for place in places) and places == sorted(places)
    assert {tick.anchor for tick in scale.ticks if tick.at == 0} <= {"start"}


def test_a_scale_is_logarithmic_if_positive_values_differ_much() -> None:
    assert scale_over([0.01, 1.0, 100.0]).logarithmic and not scale_over([2.0, 40.0]).logarithmic
    assert not scale_over([0.0, 1000.0]).logarithmic, "zero has no power"


def test_an_interval_chart_draws_only_values() -> None:
    chart = intervals(
        [ChartValue(name="a", value=0.5, low=0.25, high=1.0), ChartValue(name="b", value=None)], title="t"
    )
    assert chart is not None
    (row,) = chart.rows
    assert (row.low, row.dot, row.high, row.value) == (25, 50, 100, "0.500")
    assert intervals([ChartValue(name="b", value=None)], title="t") is None


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 1)), min_size=1, max_size=12))
def test_the_frontier_is_exactly_the_points_that_no_point_dominates(points: list[tuple[float, float]]) -> None:
    best = frontier(points)
    assert best
    for x, y in points:
        beaten = any(px <= x and py >= y and (px, py) != (x, y) for px, py in points)
        assert ((x, y) in best) is not beaten


@pytest.mark.parametrize("count", [2, 5, 8])
def test_labels_of_close_points_do_not_overlap(count: int) -> None:
    points = [(f"provider-{at}", 10.0 + at / 10, 0.5 + at / 100) for at in range(count)]
    chart = scatter(points, title="t", takes="ms")
    assert chart is not None and len(chart.points) == count
    for one, other in combinations(chart.points, 2):
        assert not _overlap(_label_box(one), _label_box(other)), (one, other)
    for point in chart.points:
        left, right, _, _ = _label_box(point)
        assert left >= 0 and right <= NARROW


def test_scatter_returns_none_below_two_points_or_without_x_values() -> None:
    assert scatter([("a", 1.0, 0.5)], title="t", takes="USD") is None
    assert scatter([("a", 0.0, 0.5), ("b", 0.0, 0.6)], title="t", takes="USD") is None
    assert scatter([("a", None, 0.5), ("b", 2.0, 0.6)], title="t", takes="USD") is None


def test_latency_charts_share_one_axis_and_scale_to_their_largest_bin() -> None:
    quick, slow = ([{"total": us}] * 9 + [{"total": us * 2}] for us in (120, 90_000))
    chart = latencies(
        [("quick", latency_spread(quick, 10)), ("slow", latency_spread(slow, 10)), ("none", {})], title="t"
    )
    assert chart is not None
    first, second = chart.rows
    assert max(bar.height for bar in first.bars) == max(bar.height for bar in second.bars) == 100
    assert first.rule is not None and second.rule is not None and first.rule < second.rule
    assert first.value == "120 µs" and second.value == "90 ms"


@given(st.lists(st.integers(0, 2 * EDGES[-1]), max_size=50))
def test_a_histogram_counts_each_value_once(column: list[int]) -> None:
    assert sum(count for _, _, count in histogram(sorted(column))) == len(column)


def test_progress_is_drawn_as_steps_up_to_the_last_ended_item() -> None:
    chart = progress_chart([("a", 100, [(60.0, 50), (3600.0, 51), (7200.0, 100)]), ("b", 100, [])], title="t")
    assert chart is not None
    (row,) = chart.rows
    assert row.value == "100%" and row.area.startswith("M0 100H") and row.area.endswith("V100Z")
    assert [tick.text for tick in chart.ticks] == ["0", "0.5 h", "1 h", "1.5 h", "2 h"]
    assert progress_chart([("b", 100, [])], title="t") is None
