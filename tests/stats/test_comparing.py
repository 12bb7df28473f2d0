"""Two sides item by item: which test is chosen, what is counted, what the numbers must obey."""

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
def test_the_pairs_choose_test_and_interval(
    pairs: list[tuple[float, float]], size: int | None, test: str | None, method: str | None, n_clusters: int | None
) -> None:
    a, b = sides(pairs)
    found = stats.compare(a, b, clusters=None if size is None else by_cluster(pairs, size))
    assert (found.test, found.interval.method if found.interval else None) == (test, method)
    assert (found.n, found.n_clusters) == (len(pairs), n_clusters)
    assert found.note == ""


def test_every_field_by_hand() -> None:
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


def test_ids_pair_by_name_and_what_does_not_pair_is_counted() -> None:
    a: Side = {"q1": 1.0, "q2": None, "q3": 0.0, "only a": 1.0}
    b: Side = {"q3": 1.0, "q2": 1.0, "q1": 0.0, "only b": 0.0, "nothing": None}
    found = stats.compare(a, b)
    assert (found.n, found.excluded) == (2, 4)
    assert (found.a, found.b, found.delta) == (0.5, 0.5, 0.0)


def test_clusters_of_items_that_do_not_pair_need_no_name() -> None:
    found = stats.compare({"x": 1.0, "y": None}, {"x": 0.0, "z": 1.0}, clusters={"x": "c"})
    assert (found.n, found.excluded) == (1, 2)


def test_nothing_in_common_says_why() -> None:
    assert stats.compare({}, {}) == Comparison(n=0, excluded=0, note="no item is scored on both sides")
    assert stats.compare({"x": None}, {"x": 1.0}) == Comparison(n=0, excluded=1, note="no item is scored on both sides")


PAIRS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.integers(0, 3)),
    min_size=1,
    max_size=24,
)


@given(pairs=PAIRS, clustered=st.booleans())
def test_turning_the_sides_round_turns_every_sign(pairs: list[tuple[float, float, int]], clustered: bool) -> None:
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
def test_names_and_their_order_change_no_bit(pairs: list[tuple[float, float, int]], data: st.DataObject) -> None:
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
def test_p_below_alpha_and_an_interval_without_0_go_together_for_the_t_test(
    pairs: list[tuple[float, float, int]],
) -> None:
    found = stats.compare(*sides([(x + 10, y + 10) for x, y, _ in pairs]))
    if found.interval is not None and found.test == "paired_t" and found.p is not None:
        assert (found.p < 0.05) == (not found.interval.low <= 0 <= found.interval.high)


def test_level_alpha_and_power_reach_their_numbers() -> None:
    a, b = sides(MIXED)
    usual, other = stats.compare(a, b), stats.compare(a, b, level=0.9, alpha=0.01, power=0.9)
    assert usual.interval is not None and other.interval is not None
    assert (other.interval.level, usual.p) == (0.9, other.p)
    assert other.interval.low > usual.interval.low and other.interval.high < usual.interval.high
    assert other.mde is not None and usual.mde is not None and other.mde > usual.mde


@pytest.mark.parametrize("n", [2, 5, 40])
def test_shares_that_always_differ_alike_have_the_wilson_bound_of_nothing_around_them(n: int) -> None:
    found, nothing = stats.compare(*sides([(0.75, 0.5)] * n)), stats.interval_wilson(0, n)
    assert nothing is not None and found.interval is not None
    assert found.interval.low == pytest.approx(max(-1.0, 0.25 - nothing.high))
    assert found.interval.high == pytest.approx(min(1.0, 0.25 + nothing.high))
    assert (found.se, found.p, found.mde) == (0.0, 2.0 ** -(n - 1), None)


def test_clusters_that_always_differ_alike_use_their_own_number() -> None:
    pairs = [(1.0, 0.0)] * 12
    found, nothing = stats.compare(*sides(pairs), clusters=by_cluster(pairs, 4)), stats.interval_wilson(0, 3)
    assert nothing is not None and found.interval is not None
    assert (found.interval.low, found.interval.high) == (pytest.approx(1 - nothing.high), 1.0)
    assert (found.p, found.smallest_p) == (0.25, 0.25)


def test_equal_sides_are_no_evidence_of_anything() -> None:
    for pairs in (BINARY, MIXED):
        same = [(x, x) for x, _ in pairs]
        for clusters in (None, by_cluster(same, 2)):
            found = stats.compare(*sides(same), clusters=clusters)
            assert (found.delta, found.p, found.wins, found.losses) == (0.0, 1.0, 0, 0)
            assert found.interval is not None and found.interval.low == -found.interval.high < 0


def test_a_difference_keeps_its_level_of_error_when_nothing_differs() -> None:
    """Equal systems, 12 pairs of noisy values: told apart about once in twenty."""
    rng, rounds = random.Random(4), 600
    told = sum(
        (stats.compare(*sides([(rng.gauss(0, 1), rng.gauss(0, 1)) for _ in range(12)])).p or 0) < 0.05
        for _ in range(rounds)
    )
    assert 0.025 <= told / rounds <= 0.08


def test_few_clusters_keep_the_level_where_pairs_alone_would_not() -> None:
    rng, rounds, whole, single = random.Random(6), 300, 0, 0
    for _ in range(rounds):
        pairs = [(d + rng.gauss(0, 0.3), 0.0) for d in [rng.gauss(0, 1) for _ in range(9)] for _ in range(6)]
        whole += (stats.compare(*sides(pairs), clusters=by_cluster(pairs, 6)).p or 0) < 0.05
        single += (stats.compare(*sides(pairs)).p or 0) < 0.05
    assert whole / rounds <= 0.09 < 0.25 < single / rounds


# ----------------------------------------------------------------------------------------- amounts


def test_zeros_and_ones_of_money_are_amounts_and_no_shares() -> None:
    left, right = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    share, money = stats.compare_columns(left, right), stats.compare_columns(left, right, shares=False)
    assert (share.test, money.test) == ("mcnemar_exact", "paired_t")
    assert (share.delta, share.interval) == (money.delta, money.interval)
    assert (money.mid_p, money.smallest_p) == (None, None)


@pytest.mark.parametrize("pair", [(0.0, 0.0), (0.0025, 0.001)])
def test_money_that_never_varies_has_no_interval_of_a_share(pair: tuple[float, float]) -> None:
    left, right = [pair[0]] * 9, [pair[1]] * 9
    for groups in (None, [n // 3 for n in range(9)]):
        assert stats.compare_columns(left, right, groups, shares=False).interval is None
        assert stats.compare_columns(left, right, groups).interval is not None


# ------------------------------------------------------------------------------------------- times


def test_times_of_one_second_have_logarithms_of_0_and_are_no_zeros_and_ones() -> None:
    found = stats.compare_times({"x": 1.0, "y": 1.0}, {"x": 1.0, "y": 1.0})
    assert (found.test, found.delta, found.p, found.interval) == ("paired_t", 0.0, 1.0, None)


def test_times_by_hand() -> None:
    """Logs differ by log 2, log 4 and log 2: the geometric mean of the ratios is 2 ** (4/3)."""
    found = stats.compare_times({"x": 2.0, "y": 4.0, "z": 6.0}, {"x": 1.0, "y": 1.0, "z": 3.0})
    assert found.delta == pytest.approx(2 ** (4 / 3) - 1)
    assert (found.a, found.b) == (pytest.approx(48 ** (1 / 3)), pytest.approx(3 ** (1 / 3)))
    assert found.note == "geometric means; delta is the ratio minus 1"
    assert found.interval is not None and found.interval.low < found.delta < found.interval.high  # type: ignore[operator]
    assert (1 + found.interval.low) * (1 + found.interval.high) == pytest.approx((1 + (found.delta or 0)) ** 2)


@given(
    pairs=st.lists(st.tuples(st.floats(0.001, 1e6), st.floats(0.001, 1e6)), min_size=2, max_size=12),
    unit=st.sampled_from([1e-3, 60.0, 1e6]),
)
def test_a_ratio_of_times_knows_no_unit(pairs: list[tuple[float, float]], unit: float) -> None:
    plain, scaled = (stats.compare_times(*sides([(x * u, y * u) for x, y in pairs])) for u in (1.0, unit))
    assert scaled.delta == pytest.approx(plain.delta, rel=1e-7, abs=1e-9)
    assert scaled.p == pytest.approx(plain.p, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("wrong", [0.0, -1.0, None])
def test_a_time_that_has_no_logarithm_is_excluded(wrong: float | None) -> None:
    found = stats.compare_times({"x": 1.0, "y": wrong, "z": 2.0}, {"x": 1.0, "y": 5.0, "z": 1.0})
    assert (found.n, found.excluded) == (2, 1)


def test_times_that_do_not_pair_stay_unsaid() -> None:
    assert stats.compare_times({"x": 0.0}, {"x": 1.0}) == Comparison(
        n=0, excluded=1, note="no item is scored on both sides"
    )


def test_the_wilson_bound_of_shares_is_never_one_of_times() -> None:
    found = stats.compare_times({"x": 2.0, "y": 2.0}, {"x": 1.0, "y": 1.0})
    assert (found.delta, found.interval, found.p) == (pytest.approx(1.0), None, 0.5)


def test_a_ratio_beyond_a_double_is_none() -> None:
    assert ratio(0.0) == 0.0
    assert ratio(709.0) == pytest.approx(math.exp(709.0))
    assert (ratio(710.0), ratio(math.inf)) == (None, None)
    huge = stats.compare_times({"x": 1e300, "y": 1e-300}, {"x": 1e-300, "y": 1e-300})
    assert huge.interval is None and huge.delta is not None


@pytest.mark.parametrize(("low", "high"), [(-1.0, 800.0), (-50.0, -45.0)])
def test_an_endless_or_empty_interval_of_ratios_is_none(low: float, high: float) -> None:
    """Beyond a double; or so far below 1 that both ends round to -100 %."""
    assert ratio_interval(Interval(low=low, high=high, level=0.95, method="t")) is None


# ------------------------------------------------------------------------------------------- macro


def test_a_macro_comparison_by_hand() -> None:
    """Two labels of differences (1, 0) and (0, 0, 1, 1): both 1/2 with SE 1/2 and sqrt(1/12); n - 1 = 5."""
    found = stats.compare_macro([([1, 0], [0, 0], None), ([1, 0, 1, 1], [1, 0, 0, 0], None)])
    se = math.sqrt(1 / 4 + 1 / 12) / 2
    assert (found.delta, found.se) == (0.5, pytest.approx(se))
    assert found.interval is not None and found.interval.high == pytest.approx(0.5 + 2.5705818356363146 * se)
    assert (found.n, found.excluded, found.n_clusters) == (6, 0, None)


def test_a_macro_comparison_of_clusters_has_their_degrees_of_freedom() -> None:
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
def test_a_macro_comparison_that_cannot_be_tested_says_which_part_fails(labels: list[object], note: str) -> None:
    found = stats.compare_macro(labels)  # type: ignore[arg-type]
    assert (found.note, found.p, found.interval, found.mde) == (note, None, None, None)


def test_labels_weigh_alike_and_their_order_does_not_matter() -> None:
    labels = [([1.0, 0.5, 0.25], [0.5, 0.5, 0.0], None), ([0.0, 1.0], [0.5, 0.25], None), ([1.0] * 9, [0.9] * 9, None)]
    forth, back = stats.compare_macro(labels), stats.compare_macro(labels[::-1])
    assert forth == back
    assert forth.delta == pytest.approx((0.25 + 0.125 + 0.1) / 3)
