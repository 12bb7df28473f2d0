"""Counted and listed numbers give bit-identical results."""

from __future__ import annotations

import math
import random
from collections.abc import Hashable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import stats
from bench.stats import ClusterValues, MixedValues, Tally, exact_sum, from_units, to_units
from bench.stats.tally import ALWAYS_COUNTED, UNIT_BITS, clusters_of
from tests.rows import each_row

DOUBLES = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e150, max_value=1e150)
SOME = st.one_of(
    st.lists(DOUBLES, max_size=30),
    st.lists(st.sampled_from([0.0, 1.0]), max_size=30),
    st.lists(st.floats(0, 1), max_size=30),
)


def heap(*pieces: list[float]) -> ClusterValues:
    found = ClusterValues()
    for piece in pieces:
        found.add(piece)
    return found


@given(value=DOUBLES)
def test_to_units_and_from_units_are_exact(value: float) -> None:
    assert Fraction(to_units(value), 2**UNIT_BITS) == Fraction(value)
    assert from_units(to_units(value)) == value


@each_row("value", [5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 0.0, -0.0])
def test_the_smallest_and_largest_doubles_are_exact_units(value: float) -> None:
    assert from_units(to_units(value)) == value


@given(values=SOME)
def test_exact_sum_equals_the_sum_of_fractions_and_rounds_as_fsum(values: list[float]) -> None:
    found = exact_sum(values)
    assert Fraction(found, 2**UNIT_BITS) == sum(map(Fraction, values), Fraction(0))
    assert from_units(found) == math.fsum(values)


@each_row("values", [[math.nan], [1.0, math.nan, 2.0], [math.inf], [-math.inf, 1.0]])
def test_exact_sum_refuses_values_that_are_not_finite(values: list[float]) -> None:
    with pytest.raises(ValueError) as caught:
        exact_sum(values)
    assert str(caught.value) == "cannot compute an exact sum: a number is not finite"


def test_exact_sum_is_exact_for_cancelling_values() -> None:
    assert from_units(exact_sum([1e100, 1.0, -1e100, 5e-324])) == 1.0
    assert exact_sum([1e100, 1.0, -1e100, 5e-324]) == to_units(1.0) + 1
    assert exact_sum([]) == 0


@given(values=SOME, cut=st.integers(0, 30))
def test_ClusterValues_has_exact_sums_for_any_pieces(values: list[float], cut: int) -> None:
    whole, parts = heap(values), heap(values[:cut], values[cut:])
    assert whole.n == parts.n == len(values)
    assert whole.total == parts.total == exact_sum(values)
    centre = math.fsum(values) / len(values) if values else 0.0
    assert whole.square(centre) == parts.square(centre) == exact_sum([(v - centre) * (v - centre) for v in values])


def test_few_distinct_values_are_counted_and_many_are_listed() -> None:
    few, many = heap([0.0, 1.0, 1.0] * 100), heap([n / 7 for n in range(ALWAYS_COUNTED * 3)])
    assert dict(few.counted()) == {0.0: 100, 1.0: 200}
    assert few.different() == {0.0: 100, 1.0: 200}
    assert sorted(many.counted()) == [(n / 7, 1) for n in range(ALWAYS_COUNTED * 3)]
    assert list(many.different()) == [n / 7 for n in range(ALWAYS_COUNTED * 3)]


def test_ClusterValues_accepts_values_after_it_became_a_list() -> None:
    spread = heap([n / 7 for n in range(ALWAYS_COUNTED * 3)])
    before = spread.total
    spread.add([0.5, 0.5])
    assert (spread.n, spread.total) == (ALWAYS_COUNTED * 3 + 2, before + to_units(1.0))
    assert spread.square(0.0) == exact_sum([(n / 7) ** 2 for n in range(ALWAYS_COUNTED * 3)] + [0.25, 0.25])


def parted(values: list[float], codes: list[int], rng: random.Random) -> Tally:
    """Return the same numbers, some in clusters and some as mixed values."""
    by_cluster: dict[int, ClusterValues] = {}
    left: tuple[list[float], list[Hashable]] = ([], [])
    for value, code in zip(values, codes, strict=True):
        if rng.random() < 0.5:
            by_cluster.setdefault(code, ClusterValues()).add([value])
        else:
            left[0].append(value)
            left[1].append(code)
    return Tally(list(by_cluster.items()), [MixedValues(*left)])


@given(
    pairs=st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(0, 4)), min_size=1, max_size=40), seed=st.integers(0, 9)
)
def test_Tally_does_not_depend_on_where_a_value_is_stored(pairs: list[tuple[float, int]], seed: int) -> None:
    values, codes = [value for value, _ in pairs], [code for _, code in pairs]
    plain, mixed = Tally.of(values, codes), parted(values, codes, random.Random(seed))
    assert (mixed.n, mixed.exact_total, mixed.clusters) == (plain.n, plain.exact_total, plain.clusters)
    assert mixed.total == math.fsum(values)
    assert dict(mixed.groups) == dict(plain.groups)
    assert sorted(mixed.deviations()) == sorted(plain.deviations())
    assert mixed.square() == plain.square()
    assert mixed.ordered() == plain.ordered() == sorted(values)
    assert (mixed.bounded(), mixed.binary()) == (plain.bounded(), plain.binary())
    assert stats.interval_of(mixed) == stats.interval_of(plain)
    expected = stats.interval(values) if plain.clusters == 1 else stats.interval(values, codes)
    assert stats.interval_of(plain) == expected, "of one cluster it is the interval over its items"


@given(pairs=st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 3)), max_size=30))
def test_pairs_returns_each_value_with_its_cluster(pairs: list[tuple[float, int]]) -> None:
    tally = parted([v for v, _ in pairs], [c for _, c in pairs], random.Random(3))
    values, clusters = tally.pairs()
    assert clusters is not None
    assert sorted(zip(values, clusters, strict=True)) == sorted(pairs)


def test_a_Tally_without_clusters_has_no_names() -> None:
    tally = Tally.of([1.0, 2.0, 2.0])
    assert (tally.names(), tally.clusters) == (None, None)
    assert tally.pairs() == ([1.0, 2.0, 2.0], None)


def test_deviations_of_clusters_add_up_to_0() -> None:
    tally = Tally.of([0.0, 1.0, 1.0, 0.0, 1.0, 1.0], ["a", "a", "a", "b", "b", "c"])
    assert dict(tally.groups) == {"a": (3, to_units(2.0)), "b": (2, to_units(1.0)), "c": (1, to_units(1.0))}
    found = tally.deviations()
    assert found == [pytest.approx(0.0), pytest.approx(-1 / 3), pytest.approx(1 / 3)]
    assert math.fsum(found) == pytest.approx(0, abs=1e-15)


def test_clusters_of_one_value_each_count_as_no_clusters() -> None:
    assert Tally.of([1.0, 0.0], ["a", "b"]).clusters is None
    assert Tally.of([1.0, 0.0, 1.0], ["a", "b", "a"]).clusters == 2
    assert clusters_of([Tally.of([1.0], ["a"]), Tally.of([1.0], ["a"])]) == 1
    assert clusters_of([Tally.of([1.0], ["a"]), Tally.of([1.0])]) is None
    assert clusters_of([]) is None


def test_an_empty_Tally_is_false_and_has_no_values() -> None:
    empty = Tally([("a", ClusterValues())], [MixedValues([], [])])
    assert not empty
    assert (empty.n, empty.total, empty.ordered(), empty.pairs()) == (0, 0.0, [], ([], []))
    assert empty.bounded() and empty.binary()


@each_row(
    ("values", "bounded", "binary"),
    [
        ([0.0, 1.0], True, True),
        ([0.0, 0.5], True, False),
        ([-0.0, 1.0], True, True),
        ([0.0, 1.0000000000000002], False, False),
        ([-5e-324], False, False),
    ],
)
def test_bounded_and_binary_describe_the_values(values: list[float], bounded: bool, binary: bool) -> None:
    for tally in (Tally.of(values), Tally([("a", heap(values))])):
        assert (tally.bounded(), tally.binary()) == (bounded, binary)


def test_MixedValues_refuses_values_and_clusters_of_different_length() -> None:
    with pytest.raises(ValueError) as caught:
        MixedValues([1.0, 2.0], ["a"])
    assert str(caught.value) == "the values and clusters cannot be paired: got 2 and 1, expected the same number"
