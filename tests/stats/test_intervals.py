"""Intervals: the chosen method, agreement with scipy, and coverage."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import stats
from bench.model import Interval
from bench.stats import Tally
from bench.stats.descriptive import above_rounding
from tests.rows import each_row

WILSON = [
    (0, 1, 0.0, 0.7934506856227626),
    (1, 1, 0.20654931437723745, 1.0),
    (0, 10, 0.0, 0.27753279986288926),
    (1, 10, 0.017876213095072896, 0.4041500267952385),
    (5, 10, 0.236593090512564, 0.7634069094874361),
    (9, 10, 0.5958499732047615, 0.9821237869049271),
    (10, 10, 0.7224672001371109, 1.0),
    (3, 7, 0.1582198552514697, 0.7495416354723428),
    (1047, 1540, 0.6561468485587663, 0.702698288572859),
]


def near(found: Interval | None, low: float, high: float, method: str) -> None:
    assert found is not None
    assert (found.low, found.high) == (pytest.approx(low, rel=1e-12), pytest.approx(high, rel=1e-12))
    assert (found.method, found.level) == (method, 0.95)


@each_row(("successes", "n", "low", "high"), WILSON)
def test_interval_wilson_agrees_with_scipy(successes: int, n: int, low: float, high: float) -> None:
    near(stats.interval_wilson(successes, n), low, high, "wilson")
    near(stats.interval([1] * successes + [0] * (n - successes)), low, high, "wilson")


@given(n=st.integers(1, 10_000), data=st.data())
def test_interval_wilson_is_symmetric_in_successes_and_failures(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    forth, back = stats.interval_wilson(k, n), stats.interval_wilson(n - k, n)
    assert forth is not None and back is not None
    assert forth.low == pytest.approx(1 - back.high, abs=1e-12)
    assert 0 <= forth.low <= k / n <= forth.high <= 1
    assert forth.low < forth.high


@given(n=st.integers(1, 200), k=st.integers(0, 199))
def test_a_larger_sample_narrows_the_Wilson_interval(n: int, k: int) -> None:
    k = min(k, n)
    once, twice = stats.interval_wilson(k, n), stats.interval_wilson(2 * k, 2 * n)
    assert once is not None and twice is not None
    assert twice.high - twice.low < once.high - once.low


def test_the_Wilson_interval_of_ten_million_trials_is_accurate() -> None:
    found = stats.interval_wilson(3 * 10**6, 10**7)
    assert found is not None
    assert found.high - found.low == pytest.approx(2 * 1.959964 * math.sqrt(0.21 / 10**7), rel=1e-5)


def test_interval_wilson_of_0_trials_is_None() -> None:
    assert stats.interval_wilson(0, 0) is None


@each_row(("successes", "n"), [(5, 3), (-1, 3), (3.0000001, 3), (math.nan, 3)])
def test_interval_wilson_refuses_more_successes_than_trials(successes: float, n: int) -> None:
    with pytest.raises(ValueError) as caught:
        stats.interval_wilson(successes, n)
    assert str(caught.value) == f"{successes} successes in {n} trials: expected 0 to {n}"


@pytest.mark.parametrize("level", [95, 1.0, 1.5])
def test_an_invalid_level_is_refused(level: float) -> None:
    for values in ([0.2, 0.4, 0.7], [1, 0, 1]):
        with pytest.raises(ValueError):
            stats.interval(values, level=level)


@each_row(
    ("values", "se", "low", "high"),
    [
        ([1, 2, 3, 4, 5], 0.7071067811865476, 1.0367568385224428, 4.963243161477557),
        ([0.1, 0.4, 0.4], 0.1, -0.13026527297494628, 0.7302652729749463),
        ([10, 20], 5.0, -48.531023680873474, 78.53102368087347),
        ([3.5, 3.5, 9.0, -2.0], 2.2453655975512468, -3.64575544993811, 10.645755449938111),
    ],
)
def test_interval_t_agrees_with_scipy(values: list[float], se: float, low: float, high: float) -> None:
    assert stats.stderr(values) == pytest.approx(se, rel=1e-14)
    near(stats.interval_t(values), low, high, "t")


def test_interval_clips_shares_to_0_and_1_and_interval_t_does_not() -> None:
    plain, chosen = stats.interval_t([0.1, 0.4, 0.4]), stats.interval([0.1, 0.4, 0.4])
    assert plain is not None and plain.low < 0
    near(chosen, 0.0, plain.high, "t")
    outside = stats.interval([0.1, 0.4, 1.4])
    assert outside is not None and outside.low < 0


def test_interval_cluster_has_its_expected_value() -> None:
    """Mean 1/2; deviations of the clusters 1, 0, -1; SE = sqrt(3/2 * 2) / 8; t with 2 degrees of freedom."""
    values, clusters = [1, 1, 1, 0, 0, 1, 0, 0], ["a", "a", "b", "b", "b", "b", "c", "c"]
    se = math.sqrt(3 / 2 * 2) / 8
    assert stats.stderr_clustered(values, clusters) == pytest.approx(se, rel=1e-14)
    assert stats.stderr_clustered(values, clusters, correction="cr0") == pytest.approx(math.sqrt(2) / 8, rel=1e-14)
    half = 4.302652729749462 * se
    near(stats.interval_cluster(values, clusters), 0.5 - half, 0.5 + half, "cluster_t")
    near(stats.interval(values, clusters), 0.0, 1.0, "cluster_t")


@given(values=st.lists(st.floats(-100, 100), min_size=2, max_size=20))
def test_clusters_of_one_item_give_the_unclustered_interval(values: list[float]) -> None:
    names = [f"c{i}" for i in range(len(values))]
    assert stats.stderr_clustered(values, names) == pytest.approx(stats.stderr(values), rel=1e-9, abs=1e-12)
    assert stats.interval(values, names) == stats.interval(values)


@given(values=st.lists(st.sampled_from([0, 1]), min_size=4, max_size=20))
def test_copies_of_items_within_clusters_do_not_reduce_the_standard_error(values: list[int]) -> None:
    once = stats.stderr(values)
    tripled = stats.stderr_clustered(
        [v for v in values for _ in range(3)], [i for i in range(len(values)) for _ in "abc"]
    )
    assert tripled == pytest.approx(once, rel=1e-9, abs=1e-12)


@given(values=st.lists(st.floats(0.5, 100), min_size=3, max_size=12), scale=st.sampled_from([1e-3, 0.5, 8.0, 1e6]))
def test_interval_t_scales_with_its_values(values: list[float], scale: float) -> None:
    found, scaled = stats.interval_t(values), stats.interval_t([v * scale for v in values])
    assert found is not None and scaled is not None
    size = scale * max(values)
    assert scaled.low == pytest.approx(found.low * scale, rel=1e-7, abs=1e-9 * size)
    assert scaled.high == pytest.approx(found.high * scale, rel=1e-7, abs=1e-9 * size)


EQUAL = [0.0, 0.1, 1.0, 7.7, 1234.56, 99999.9, 1e15 / 3, -2.2]


@each_row("value", EQUAL)
@each_row("n", [2, 3, 6, 7, 10, 30, 49])
def test_equal_values_have_standard_error_0_at_any_magnitude(value: float, n: int) -> None:
    pairs = [i // 2 for i in range(n)]
    assert stats.stderr([value] * n) == 0.0
    assert stats.stderr_clustered([value] * n, pairs) in (0.0, None)
    found = stats.interval([value] * n), stats.interval([value] * n, pairs)
    if 0 < value < 1:
        assert found[0] is not None and found[0].method == "wilson_degenerate"
    elif not 0 <= value <= 1:
        assert found == (None, None)


def test_above_rounding_treats_a_spread_below_rounding_error_as_0() -> None:
    assert above_rounding(1e-16, 1.0) == 0.0
    assert above_rounding(1e-16, 0.0) == 1e-16
    assert above_rounding(2e-15, -1.0) == 2e-15
    assert above_rounding(1e-6, 1e10) == 0.0


@pytest.mark.parametrize(
    ("values", "clusters", "m", "share"),
    [
        ([0.25] * 8, None, 8, 0.25),
        ([1, 1, 1, 1], ["a", "a", "b", "b"], 2, 1.0),
        ([0, 1, 0, 1, 0, 1], ["a", "a", "b", "b", "c", "c"], 3, 0.5),
    ],
)
def test_shares_without_spread_have_a_Wilson_interval_of_their_mean(
    values: list[float], clusters: list[str] | None, m: int, share: float
) -> None:
    wilson = stats.interval_wilson(share * m, m)
    assert wilson is not None
    near(stats.interval(values, clusters), wilson.low, wilson.high, "wilson_degenerate")


@each_row(
    ("values", "clusters"),
    [
        ([], None),
        ([], []),
        ([0.5], None),
        ([7.0], None),
        ([3.0, 3.0], None),
        ([1, 0, 1], ["a", "a", "a"]),
        ([0.5, 0.1], ["a", "a"]),
        ([5.0, 5.0, 5.0], ["a", "a", "b"]),
    ],
)
def test_interval_is_None_for_fewer_than_two_values_or_clusters(
    values: list[float], clusters: list[str] | None
) -> None:
    assert stats.interval(values, clusters) is None


@each_row("values", [[0.0] * 6, [1.0] * 6, [0.0025] * 6])
@each_row("clusters", [None, ["a", "a", "b", "b", "c", "c"]])
def test_amounts_that_never_vary_have_no_share_interval(values: list[float], clusters: list[str] | None) -> None:
    tally = Tally.of(values, clusters)
    assert stats.interval_of(tally, shares=False) is None
    assert stats.interval_of(tally) is not None


def test_amounts_of_0_and_1_have_a_t_interval() -> None:
    near(stats.interval_of(Tally.of([0.0, 1.0, 1.0, 1.0]), shares=False), 0.0, 1.0, "t")
    varied = Tally.of([0.001, 0.002, 0.004])
    assert stats.interval_of(varied, shares=False) == stats.interval_of(varied)


def test_interval_t_and_interval_cluster_need_two_values_or_clusters() -> None:
    assert stats.interval_t([1.0]) is None and stats.stderr([1.0]) is None
    assert stats.interval_cluster([1.0, 2.0], ["a", "a"]) is None
    assert stats.interval_cluster([], []) is None
    assert stats.mean([]) is None


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_interval_refuses_values_that_are_not_finite(wrong: float) -> None:
    for clusters in (None, ["a", "a", "b"]):
        with pytest.raises((ValueError, OverflowError)):
            stats.interval([wrong, 1.0, 0.5], clusters)


def coverage(rounds: int, hits: int) -> float:
    return hits / rounds


@each_row("n", [2, 3, 8, 25])
def test_interval_t_covers_the_mean_95_percent_of_the_time(n: int) -> None:
    rng, rounds = random.Random(n), 800
    found = [stats.interval_t([rng.gauss(10, 3) for _ in range(n)]) for _ in range(rounds)]
    held = sum(one is not None and one.low <= 10 <= one.high for one in found)
    assert 0.925 <= coverage(rounds, held) <= 0.975


@pytest.mark.parametrize("n", [5, 12, 40])
def test_interval_wilson_covers_a_share_95_percent_of_the_time_on_average(n: int) -> None:
    """By the exact binomial weights, averaged over the shares: no simulation is needed."""
    intervals = [stats.interval_wilson(k, n) for k in range(n + 1)]
    total = 0.0
    shares = [(i + 0.5) / 200 for i in range(200)]
    for share in shares:
        for k, one in enumerate(intervals):
            assert one is not None
            if one.low <= share <= one.high:
                total += math.comb(n, k) * share**k * (1 - share) ** (n - k)
    assert 0.94 <= total / len(shares) <= 0.97


def test_a_clustered_interval_covers_the_mean_where_an_unclustered_one_does_not() -> None:
    rng, rounds, held, plain = random.Random(11), 500, 0, 0
    for _ in range(rounds):
        shifts = [rng.gauss(0, 1) for _ in range(10)]
        values = [shift + rng.gauss(0, 0.5) for shift in shifts for _ in range(8)]
        clusters = [c for c in range(10) for _ in range(8)]
        one, other = stats.interval(values, clusters), stats.interval(values)
        held += one is not None and one.low <= 0 <= one.high
        plain += other is not None and other.low <= 0 <= other.high
    assert 0.92 <= coverage(rounds, held) <= 0.98
    assert coverage(rounds, plain) < 0.7


def macro(groups: list[list[float]], clusters: list[list[int]] | None = None) -> Interval | None:
    """Return the interval of the mean of the group means."""
    names = clusters or [None] * len(groups)
    return stats.interval_macro_of([stats.Tally.of(group, own) for group, own in zip(groups, names, strict=True)])


def test_interval_macro_covers_the_mean_of_the_label_means() -> None:
    rng, rounds, held = random.Random(12), 400, 0
    truth = (0.2 + 0.5 + 0.9) / 3
    for _ in range(rounds):
        groups = [[float(rng.random() < p) for _ in range(n)] for p, n in ((0.2, 60), (0.5, 30), (0.9, 45))]
        found = macro(groups)
        held += found is not None and found.low <= truth <= found.high
    assert 0.92 <= coverage(rounds, held) <= 0.98


def test_interval_macro_does_not_depend_on_the_order_of_labels() -> None:
    groups = [[1.0, 0.0, 1.0], [0.25, 0.5], [0.0, 0.0, 1.0, 1.0]]
    assert macro(groups) == macro(groups[::-1])
    assert macro([*groups, []]) == macro(groups)


def test_interval_macro_uses_the_Wilson_width_for_a_label_of_one_item() -> None:
    found = macro([[1.0], [0.0, 1.0, 1.0, 0.0]])
    one, other = stats.interval_wilson(1, 1), stats.stderr([0.0, 1.0, 1.0, 0.0])
    assert one is not None and other is not None and found is not None
    error = math.hypot((one.high - one.low) / (2 * 1.959963984540054), other) / 2
    assert found.low == pytest.approx(0.75 - 2.7764451051977934 * error, rel=1e-9)
    assert (found.high, found.method) == (1.0, "macro_t")


def test_interval_macro_is_None_for_a_label_of_one_item_outside_0_and_1() -> None:
    assert macro([[7.0], [1.0, 3.0]]) is None
    assert macro([[2.0, 2.0], [5.0, 5.0]]) is None


def test_interval_macro_of_labels_without_spread_is_a_Wilson_interval() -> None:
    found, wilson = macro([[1.0, 1.0], [1.0, 1.0, 1.0]]), stats.interval_wilson(5, 5)
    assert wilson is not None
    near(found, wilson.low, wilson.high, "wilson_degenerate")
