"""Paired comparison: the chosen test and interval, the counts, and laws of the result."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import stats
from bench.model import Interval
from bench.stats import Comparison
from bench.stats.paired import ratio, ratio_interval
from tests.rows import each_row

Side = Mapping[str, float | None]


def sides(pairs: list[tuple[float, float]]) -> tuple[dict[str, float | None], dict[str, float | None]]:
    return {str(i): a for i, (a, _) in enumerate(pairs)}, {str(i): b for i, (_, b) in enumerate(pairs)}


def by_cluster(pairs: list[tuple[float, float]], size: int) -> dict[str, int]:
    return {str(i): i // size for i in range(len(pairs))}


MIXED = [(1.0, 0.0), (0.5, 0.5), (0.0, 1.0), (1.0, 0.25), (0.75, 0.0), (0.2, 0.1)]
BINARY = [(1.0, 0.0), (1.0, 1.0), (0.0, 1.0), (1.0, 0.0), (0.0, 0.0), (1.0, 0.0)]


@each_row(
    ("pairs", "size", "test", "method", "n_clusters"),
    [
        (BINARY, None, "mcnemar_exact", "t", None),
        (BINARY, 1, "mcnemar_exact", "t", None),
        (MIXED, None, "paired_t", "t", None),
        (MIXED, 1, "paired_t", "t", None),
        (BINARY, 2, "cluster_sign_flip", "cluster_t", 3),
        (MIXED, 3, "cluster_sign_flip", "cluster_t", 2),
        (MIXED * 7, 2, "cluster_t", "cluster_t", 21),
        (BINARY * 10, 3, "cluster_sign_flip", "cluster_t", 20),
        ([(3.0, 1.0)] * 4, None, "paired_t", None, None),
        ([(1.0, 0.5)] * 4, None, "paired_t", "wilson_degenerate", None),
        ([(1.0, 0.0)], None, "mcnemar_exact", None, None),
        ([(7.0, 3.0)], None, None, None, None),
    ],
)
def test_compare_chooses_test_and_interval_by_the_pairs(
    pairs: list[tuple[float, float]], size: int | None, test: str | None, method: str | None, n_clusters: int | None
) -> None:
    a, b = sides(pairs)
    found = stats.compare(a, b, clusters=None if size is None else by_cluster(pairs, size))
    assert (found.test, found.interval.method if found.interval else None) == (test, method)
    assert (found.n, found.n_clusters) == (len(pairs), n_clusters)
    assert found.note == ""


def test_compare_returns_every_field_with_its_expected_value() -> None:
    """Differences 1, 0, -1, 1, 0, 1: mean 1/3, sum of squares about it 4 - 6/9, SE = sqrt(10/3 / 5 / 6) = 1/3."""
    a, b = sides(BINARY)
    found = stats.compare(a, b)
    assert (found.n, found.excluded) == (6, 0)
    assert (found.a, found.b, found.delta) == (4 / 6, 2 / 6, 2 / 6)
    assert found.se == pytest.approx(1 / 3)
    assert (found.wins, found.losses, found.ties) == (3, 1, 2)
    assert (found.p, found.mid_p, found.smallest_p) == (0.625, 0.375, 2 / 2**6)
    assert found.mde == pytest.approx((1.959963984540054 + 0.8416212335729143) / 3)
    assert found.correlation == -0.25
    assert found.interval is not None
    assert found.interval.high == pytest.approx(1 / 3 + 2.570581835636314 / 3)


def test_compare_pairs_by_id_and_counts_ids_without_a_pair() -> None:
    a: Side = {"q1": 1.0, "q2": None, "q3": 0.0, "only a": 1.0}
    b: Side = {"q3": 1.0, "q2": 1.0, "q1": 0.0, "only b": 0.0, "nothing": None}
    found = stats.compare(a, b)
    assert (found.n, found.excluded) == (2, 4)
    assert (found.a, found.b, found.delta) == (0.5, 0.5, 0.0)


def test_items_without_a_pair_need_no_cluster() -> None:
    found = stats.compare({"x": 1.0, "y": None}, {"x": 0.0, "z": 1.0}, clusters={"x": "c"})
    assert (found.n, found.excluded) == (1, 2)


def test_compare_without_common_items_has_a_note() -> None:
    assert stats.compare({}, {}) == Comparison(n=0, excluded=0, note="no item is scored on both sides")
    assert stats.compare({"x": None}, {"x": 1.0}) == Comparison(n=0, excluded=1, note="no item is scored on both sides")


PAIRS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.integers(0, 3)),
    min_size=1,
    max_size=24,
)


@given(pairs=PAIRS, clustered=st.booleans())
def test_swapping_the_sides_of_compare_reverses_the_signs(
    pairs: list[tuple[float, float, int]], clustered: bool
) -> None:
    a, b = sides([(x, y) for x, y, _ in pairs])
    clusters = {str(i): c for i, (_, _, c) in enumerate(pairs)} if clustered else None
    forth, back = stats.compare(a, b, clusters=clusters), stats.compare(b, a, clusters=clusters)
    assert forth.delta is not None and back.delta == -forth.delta
    assert (forth.wins, forth.losses, forth.ties) == (back.losses, back.wins, back.ties)
    assert forth.wins + forth.losses + forth.ties == forth.n == len(pairs)
    assert (forth.p, forth.se, forth.mde, forth.test) == (back.p, back.se, back.mde, back.test)
    if forth.interval is not None and back.interval is not None:
        assert (forth.interval.low, forth.interval.high) == (-back.interval.high, -back.interval.low)


@given(pairs=PAIRS, data=st.data())
def test_names_and_order_of_items_do_not_change_compare(
    pairs: list[tuple[float, float, int]], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(pairs))))
    named = {f"{place:03}": pairs[at] for place, at in enumerate(order)}
    plain = {f"{at:03}": pair for at, pair in enumerate(pairs)}
    results = [
        stats.compare(
            {i: x for i, (x, _, _) in some.items()},
            {i: y for i, (_, y, _) in some.items()},
            clusters={i: c for i, (_, _, c) in some.items()},
        )
        for some in (plain, named)
    ]
    assert results[0] == results[1]


@given(pairs=PAIRS)
def test_p_and_the_interval_of_the_t_test_agree(
    pairs: list[tuple[float, float, int]],
) -> None:
    found = stats.compare(*sides([(x + 10, y + 10) for x, y, _ in pairs]))
    if found.interval is not None and found.test == "paired_t" and found.p is not None:
        assert (found.p < 0.05) == (not found.interval.low <= 0 <= found.interval.high)


def test_level_alpha_and_power_apply_to_compare() -> None:
    a, b = sides(MIXED)
    usual, other = stats.compare(a, b), stats.compare(a, b, level=0.9, alpha=0.01, power=0.9)
    assert usual.interval is not None and other.interval is not None
    assert (other.interval.level, usual.p) == (0.9, other.p)
    assert other.interval.low > usual.interval.low and other.interval.high < usual.interval.high
    assert other.mde is not None and usual.mde is not None and other.mde > usual.mde


@pytest.mark.parametrize("n", [2, 5, 40])
def test_constant_differences_of_shares_have_a_Wilson_interval(n: int) -> None:
    found, nothing = stats.compare(*sides([(0.75, 0.5)] * n)), stats.interval_wilson(0, n)
    assert nothing is not None and found.interval is not None
    assert found.interval.low == pytest.approx(max(-1.0, 0.25 - nothing.high))
    assert found.interval.high == pytest.approx(min(1.0, 0.25 + nothing.high))
    assert (found.se, found.p, found.mde) == (0.0, 2.0 ** -(n - 1), None)


def test_constant_differences_of_clusters_use_the_number_of_clusters() -> None:
    pairs = [(1.0, 0.0)] * 12
    found, nothing = stats.compare(*sides(pairs), clusters=by_cluster(pairs, 4)), stats.interval_wilson(0, 3)
    assert nothing is not None and found.interval is not None
    assert (found.interval.low, found.interval.high) == (pytest.approx(1 - nothing.high), 1.0)
    assert (found.p, found.smallest_p) == (0.25, 0.25)


def test_equal_sides_have_p_1_and_an_interval_around_0() -> None:
    for pairs in (BINARY, MIXED):
        same = [(x, x) for x, _ in pairs]
        for clusters in (None, by_cluster(same, 2)):
            found = stats.compare(*sides(same), clusters=clusters)
            assert (found.delta, found.p, found.wins, found.losses) == (0.0, 1.0, 0, 0)
            assert found.interval is not None and found.interval.low == -found.interval.high < 0


def test_compare_has_about_5_percent_false_positives() -> None:
    """Equal systems with 12 pairs of noisy values differ significantly about once in twenty rounds."""
    rng, rounds = random.Random(4), 600
    expected = sum(
        (stats.compare(*sides([(rng.gauss(0, 1), rng.gauss(0, 1)) for _ in range(12)])).p or 0) < 0.05
        for _ in range(rounds)
    )
    assert 0.025 <= expected / rounds <= 0.08


def test_compare_with_clusters_has_at_most_9_percent_false_positives() -> None:
    rng, rounds, whole, single = random.Random(6), 300, 0, 0
    for _ in range(rounds):
        pairs = [(d + rng.gauss(0, 0.3), 0.0) for d in [rng.gauss(0, 1) for _ in range(9)] for _ in range(6)]
        whole += (stats.compare(*sides(pairs), clusters=by_cluster(pairs, 6)).p or 0) < 0.05
        single += (stats.compare(*sides(pairs)).p or 0) < 0.05
    assert whole / rounds <= 0.09 < 0.25 < single / rounds


# ----------------------------------------------------------------------------------------- amounts


def test_amounts_of_0_and_1_are_tested_with_a_t_test() -> None:
    left, right = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    share, money = stats.compare_columns(left, right), stats.compare_columns(left, right, shares=False)
    assert (share.test, money.test) == ("mcnemar_exact", "paired_t")
    assert (share.delta, share.interval) == (money.delta, money.interval)
    assert (money.mid_p, money.smallest_p) == (None, None)


@pytest.mark.parametrize("pair", [(0.0, 0.0), (0.0025, 0.001)])
def test_amounts_that_never_vary_have_no_interval(pair: tuple[float, float]) -> None:
    left, right = [pair[0]] * 9, [pair[1]] * 9
    for groups in (None, [n // 3 for n in range(9)]):
        assert stats.compare_columns(left, right, groups, shares=False).interval is None
        assert stats.compare_columns(left, right, groups).interval is not None


# ------------------------------------------------------------------------------------------- times


def compare_times(a: dict[str, float], b: dict[str, float]) -> Comparison:
    """Compare times by the logarithm of their ratio."""
    logs = [{name: math.log(time) for name, time in side.items()} for side in (a, b)]
    return stats.as_ratio(stats.compare(logs[0], logs[1], shares=False))


def test_times_of_one_second_are_tested_with_a_t_test() -> None:
    found = compare_times({"x": 1.0, "y": 1.0}, {"x": 1.0, "y": 1.0})
    assert (found.test, found.delta, found.p, found.interval) == ("paired_t", 0.0, 1.0, None)


def test_compare_times_compares_geometric_means() -> None:
    """Logs differ by log 2, log 4 and log 2: the geometric mean of the ratios is 2 ** (4/3)."""
    found = compare_times({"x": 2.0, "y": 4.0, "z": 6.0}, {"x": 1.0, "y": 1.0, "z": 3.0})
    assert found.delta == pytest.approx(2 ** (4 / 3) - 1)
    assert (found.a, found.b) == (pytest.approx(48 ** (1 / 3)), pytest.approx(3 ** (1 / 3)))
    assert found.note == "geometric means; delta is the ratio minus 1"
    assert found.interval is not None and found.interval.low < found.delta < found.interval.high  # type: ignore[operator]
    assert (1 + found.interval.low) * (1 + found.interval.high) == pytest.approx((1 + (found.delta or 0)) ** 2)


@given(
    pairs=st.lists(st.tuples(st.floats(0.001, 1e6), st.floats(0.001, 1e6)), min_size=2, max_size=12),
    unit=st.sampled_from([1e-3, 60.0, 1e6]),
)
def test_compare_times_does_not_depend_on_the_unit(pairs: list[tuple[float, float]], unit: float) -> None:
    plain, scaled = (compare_times(*sides([(x * u, y * u) for x, y in pairs])) for u in (1.0, unit))
    assert scaled.delta == pytest.approx(plain.delta, rel=1e-7, abs=1e-9)
    assert scaled.p == pytest.approx(plain.p, rel=1e-4, abs=1e-6)


def test_times_have_no_Wilson_interval() -> None:
    found = compare_times({"x": 2.0, "y": 2.0}, {"x": 1.0, "y": 1.0})
    assert (found.delta, found.interval, found.p) == (pytest.approx(1.0), None, 0.5)


def test_ratio_beyond_a_double_is_None() -> None:
    assert ratio(0.0) == 0.0
    assert ratio(709.0) == pytest.approx(math.exp(709.0))
    assert (ratio(710.0), ratio(math.inf)) == (None, None)
    huge = compare_times({"x": 1e300, "y": 1e-300}, {"x": 1e-300, "y": 1e-300})
    assert huge.interval is None and huge.delta is not None


@pytest.mark.parametrize(("low", "high"), [(-1.0, 800.0), (-50.0, -45.0)])
def test_an_unbounded_or_empty_interval_of_ratios_is_None(low: float, high: float) -> None:
    """The end is beyond a double, or both ends round to -100%."""
    assert ratio_interval(Interval(low=low, high=high, level=0.95, method="t")) is None


# ------------------------------------------------------------------------------------------- macro


def test_compare_macro_returns_the_expected_difference_and_interval() -> None:
    """Two labels of differences (1, 0) and (0, 0, 1, 1): both 1/2 with SE 1/2 and sqrt(1/12); n - 1 = 5."""
    found = stats.compare_macro([([1, 0], [0, 0], None), ([1, 0, 1, 1], [1, 0, 0, 0], None)])
    se = math.sqrt(1 / 4 + 1 / 12) / 2
    assert (found.delta, found.se) == (0.5, pytest.approx(se))
    assert found.interval is not None and found.interval.high == pytest.approx(0.5 + 2.5705818356363146 * se)
    assert (found.n, found.excluded, found.n_clusters) == (6, 0, None)


def test_compare_macro_with_clusters_uses_their_degrees_of_freedom() -> None:
    labels = [([1, 0, 1, 1], [0, 0, 1, 0], ["a", "a", "b", "b"]), ([1, 0, 0, 1], [0, 0, 1, 1], ["a", "b", "b", "c"])]
    found = stats.compare_macro(labels, excluded=3)
    assert (found.n_clusters, found.excluded, found.test) == (3, 3, "macro_t")
    assert found.interval is not None and found.se is not None and found.delta is not None
    assert found.interval.high == pytest.approx(found.delta + 4.302652729749462 * found.se)
    assert found.mde == pytest.approx((4.302652729749462 + 1.0606601717798214) * found.se)


@each_row(
    ("labels", "note"),
    [
        ([], "no item is scored on both sides"),
        ([([], [], None)], "no item is scored on both sides"),
        ([([1], [0], None)], "not testable: a label of one item or cluster"),
        ([([1, 0], [0, 0], None), ([1], [0], None)], "not testable: a label of one item or cluster"),
        ([([1, 0, 1], [0, 0, 0], ["a", "a", "a"])], "not testable: a label of one item or cluster"),
        ([([1, 1], [0, 0], None), ([1, 1], [1, 1], None)], "not testable: no difference varies"),
    ],
)
def test_compare_macro_notes_why_it_cannot_test(labels: list[object], note: str) -> None:
    found = stats.compare_macro(labels)  # type: ignore[arg-type]
    assert (found.note, found.p, found.interval, found.mde) == (note, None, None, None)


def test_labels_have_equal_weight_in_compare_macro_in_any_order() -> None:
    labels = [([1.0, 0.5, 0.25], [0.5, 0.5, 0.0], None), ([0.0, 1.0], [0.5, 0.25], None), ([1.0] * 9, [0.9] * 9, None)]
    forth, back = stats.compare_macro(labels), stats.compare_macro(labels[::-1])
    assert forth == back
    assert forth.delta == pytest.approx((0.25 + 0.125 + 0.1) / 3)
