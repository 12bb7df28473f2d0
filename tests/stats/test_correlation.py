"""Correlations: agreement with scipy, invariance, ties, NaN and very large numbers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.stats import kendall_tau_b, pearson, spearman
from tests.rows import each_row

ALL = (pearson, spearman, kendall_tau_b)
COLUMNS = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=2, max_size=20)


@each_row(
    ("x", "y", "r", "rho", "tau"),
    [
        ([1, 2, 3, 4, 5, 6, 7], [2, 1, 4, 3, 7, 5, 6], 0.8214285714285715, 0.8214285714285715, 0.6190476190476191),
        ([1, 1, 2, 2, 3], [1, 2, 2, 3, 3], 0.7857142857142855, 0.8055555555555555, 0.75),
        ([1, 2, 3], [10, 20, 30], 1.0, 1.0, 1.0),
        ([1, 2, 3], [30, 20, 10], -1.0, -1.0, -1.0),
        ([1, 2, 3], [1, 100, 10_000], 0.8703016761014581, 1.0, 1.0),
        ([0, 0, 1, 1], [0, 1, 0, 1], 0.0, 0.0, 0.0),
        ([0, 1, 1, 1], [0, 0, 1, 1], 0.5773502691896258, 0.5773502691896258, 0.5773502691896258),
    ],
)
def test_correlations_agree_with_scipy(x: list[float], y: list[float], r: float, rho: float, tau: float) -> None:
    assert [measure(x, y) for measure in ALL] == [pytest.approx(v, abs=1e-12) for v in (r, rho, tau)]


@given(pairs=COLUMNS, factor=st.sampled_from([1e-300, 1e-160, 1e-9, 3.0, 1e160, 1e300]), turn=st.sampled_from([1, -1]))
def test_correlations_do_not_depend_on_the_unit(pairs: list[tuple[int, int]], factor: float, turn: int) -> None:
    x, y = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    for measure in ALL:
        plain, scaled = measure(x, y), measure([v * factor * turn for v in x], y)
        assert (plain is None) == (scaled is None)
        if plain is not None and scaled is not None:
            assert scaled == pytest.approx(plain * turn, abs=1e-9)


@given(pairs=COLUMNS, shift=st.sampled_from([-1000, 7, 1_000_000]))
def test_correlations_do_not_depend_on_the_origin(pairs: list[tuple[int, int]], shift: int) -> None:
    x, y = [a for a, _ in pairs], [b for _, b in pairs]
    for measure in ALL:
        plain, moved = measure(x, y), measure([v + shift for v in x], y)
        assert (plain is None) == (moved is None)
        assert plain is None or moved == pytest.approx(plain, abs=1e-9)


@given(pairs=COLUMNS, data=st.data())
def test_correlations_do_not_depend_on_the_order_of_pairs(pairs: list[tuple[int, int]], data: st.DataObject) -> None:
    mixed = data.draw(st.permutations(pairs))
    for measure in ALL:
        forth = measure([a for a, _ in pairs], [b for _, b in pairs])
        back = measure([a for a, _ in mixed], [b for _, b in mixed])
        assert (forth is None and back is None) or forth == pytest.approx(back, abs=1e-12)


@given(pairs=COLUMNS)
def test_rank_correlations_do_not_change_under_a_monotonic_function(pairs: list[tuple[int, int]]) -> None:
    x, y = [float(a) for a, _ in pairs], [b for _, b in pairs]
    for measure in (spearman, kendall_tau_b):
        plain, bent = measure(x, y), measure([math.exp(v) for v in x], y)
        assert (plain is None and bent is None) or plain == pytest.approx(bent, abs=1e-12)


@given(pairs=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=30))
def test_pearson_of_binary_values_agrees_with_the_general_formula(pairs: list[tuple[bool, bool]]) -> None:
    x, y = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    counted, long_way = pearson(x, y), pearson([2 * v for v in x], [2 * v for v in y])
    assert (counted is None and long_way is None) or counted == pytest.approx(long_way, abs=1e-12)


@each_row("measure", ALL)
@each_row(("x", "y"), [([], []), ([1.0], [2.0]), ([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]), ([1.0, 2.0], [5.5, 5.5])])
def test_a_constant_column_has_no_correlation(measure: object, x: list[float], y: list[float]) -> None:
    assert callable(measure)
    assert measure(x, y) is None


@each_row("measure", ALL)
@each_row("wrong", [math.nan, math.inf, -math.inf])
def test_correlations_refuse_values_that_are_not_finite(measure: object, wrong: float) -> None:
    assert callable(measure)
    for x, y in (([1.0, wrong, 3.0], [1.0, 2.0, 3.0]), ([1.0, 2.0, 3.0], [1.0, 2.0, wrong])):
        with pytest.raises(ValueError) as caught:
            measure(x, y)
        assert str(caught.value) == "cannot compute a correlation: a number is not finite"


@pytest.mark.parametrize("measure", ALL)
def test_correlations_refuse_columns_of_different_length(measure: object) -> None:
    assert callable(measure)
    with pytest.raises(ValueError) as caught:
        measure([1.0, 2.0], [1.0])
    assert str(caught.value) == "the values cannot be paired: got 2 and 1, expected the same number"
