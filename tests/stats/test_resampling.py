"""Percentiles and bootstraps: expected values, seeds, order, clusters, ties, coverage."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import stats
from bench.stats.descriptive import nearest_rank
from bench.stats.distributions import fair_tail
from tests.rows import each_row

P = (0, 1, 25, 50, 75, 90, 99, 100)


@each_row(
    ("values", "nearest", "linear"),
    [
        (
            [15, 20, 35, 40, 50],
            [15, 15, 20, 35, 40, 50, 50, 50],
            [15, 15.2, 20, 35, 40, 46, 49.6, 50],
        ),
        ([3, 1, 2], [1, 1, 1, 2, 3, 3, 3, 3], [1, 1.02, 1.5, 2, 2.5, 2.8, 2.98, 3]),
        ([1, 2, 3, 4], [1, 1, 1, 2, 3, 4, 4, 4], [1, 1.03, 1.75, 2.5, 3.25, 3.7, 3.97, 4]),
        ([7], [7] * 8, [7] * 8),
        ([5, 5, 5], [5] * 8, [5] * 8),
    ],
)
def test_percentile_agrees_with_numpy_for_both_methods(
    values: list[float], nearest: list[float], linear: list[float]
) -> None:
    assert [stats.percentile(values, p) for p in P] == nearest
    assert [stats.percentile(values, p, "linear") for p in P] == [pytest.approx(v, rel=1e-12) for v in linear]


@given(n=st.integers(1, 5_000), tenths=st.integers(0, 1_000))
def test_nearest_rank_is_the_ceiling_of_the_exact_fraction(n: int, tenths: int) -> None:
    assert nearest_rank(n, tenths / 10) == max(1, math.ceil(Fraction(tenths, 1_000) * n))


@each_row(
    ("n", "p", "rank"),
    [
        (1, 0, 1),
        (1, 100, 1),
        (100, 99, 99),
        (101, 99, 100),
        (1000, 99.9, 999),
        (1001, 99.9, 1000),
        (10, 95, 10),
        (20, 95, 19),
    ],
)
def test_nearest_rank_has_its_expected_values(n: int, p: float, rank: int) -> None:
    assert nearest_rank(n, p) == rank


@given(values=st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=30), p=st.floats(0, 100))
def test_a_linear_percentile_is_within_the_values_and_symmetric(values: list[float], p: float) -> None:
    found = stats.percentile(values, p, "linear")
    assert found is not None and min(values) <= found <= max(values)
    assert stats.percentile([-v for v in values], 100 - p, "linear") == pytest.approx(-found, rel=1e-6, abs=1e-3)


def test_percentile_of_no_values_is_None() -> None:
    assert stats.percentile([], 50) is None and stats.percentile([], 50, "linear") is None


@each_row("p", [-0.1, 100.1, math.nan, math.inf])
def test_percentile_refuses_p_outside_0_to_100(p: float) -> None:
    with pytest.raises(ValueError) as caught:
        stats.percentile([1.0], p)
    assert str(caught.value) == f"percentile {p} is not in 0..100"


def test_percentile_refuses_an_unknown_method() -> None:
    with pytest.raises(ValueError) as caught:
        stats.percentile([1.0], 50, "hazen")  # type: ignore[arg-type]
    assert str(caught.value) == "unknown percentile method 'hazen'"


# ---------------------------------------------------------------------------------- bootstrap of a mean

SKEWED = [1.0, 3.0, 2.0, 10.0, 4.0, 7.0, 2.0, 2.0, 30.0, 5.0, 0.0, 4.0]


@pytest.mark.parametrize(("method", "low", "high"), [("percentile", 2.5, 10.833333), ("bca", 3.083333, 13.833333)])
def test_bootstrap_interval_is_close_to_scipy(method: str, low: float, high: float) -> None:
    found = stats.bootstrap_interval(SKEWED, method, seed=1)  # type: ignore[arg-type]
    assert found is not None and found.method == f"bootstrap_{method}"
    assert (found.low, found.high) == (pytest.approx(low, abs=0.35), pytest.approx(high, abs=0.8))


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_a_bootstrap_of_an_even_split_is_symmetric(method: str) -> None:
    """Many draws equal the mean; half of these ties count as below it."""
    found = stats.bootstrap_interval([0.0, 1.0] * 5, method, resamples=4_000)  # type: ignore[arg-type]
    assert found is not None
    assert (found.low, found.high) == (0.2, 0.8)


def test_bootstraps_depend_only_on_their_seed() -> None:
    values = lognormal(40, 3)
    found = [stats.bootstrap_interval(values, seed=seed) for seed in (1, 1, 2)]
    assert found[0] == found[1] != found[2]
    ranked = [stats.percentile_interval(values, 90, seed=seed, resamples=200) for seed in (1, 1, 2, 3)]
    assert ranked[0] == ranked[1] and len(set(ranked)) > 1


def test_a_higher_level_gives_a_wider_bootstrap_interval() -> None:
    for call in (stats.bootstrap_interval, lambda values, level: stats.percentile_interval(values, 50, level=level)):
        narrow, wide = (call(SKEWED, level=level) for level in (0.8, 0.99))
        assert narrow is not None and wide is not None
        assert wide.low <= narrow.low < narrow.high <= wide.high
        assert (narrow.level, wide.level) == (0.8, 0.99)


def test_one_cluster_or_value_has_no_bootstrap() -> None:
    assert stats.bootstrap_interval([1.0, 2.0], clusters=["a", "a"]) is None
    assert stats.bootstrap_interval([1.0]) is None


def test_BCa_of_one_sided_draws_equals_the_percentile_bootstrap() -> None:
    """Two resamples below the mean contain no information on its bias."""
    values = [n / 100 for n in range(30)] + [100.0]
    for seed in range(60):
        plain, corrected = (stats.bootstrap_interval(values, m, resamples=2, seed=seed) for m in ("percentile", "bca"))
        if plain is not None and plain.high < 3:
            assert corrected is not None and (corrected.low, corrected.high) == (plain.low, plain.high)
            return
    pytest.fail("no seed drew twice below the mean")


# ---------------------------------------------------------------------------------- percentiles


def test_percentile_interval_follows_the_distribution_of_ranks() -> None:
    """The median of n values lies at or below the k-th with P(at least half of n draws are among k)."""
    values = [float(n) for n in range(1, 22)]
    found = stats.percentile_interval(values, 50, resamples=8_000, seed=2)
    assert found is not None
    shares = [
        math.fsum(math.comb(21, j) * (k / 21) ** j * (1 - k / 21) ** (21 - j) for j in range(11, 22))
        for k in range(1, 22)
    ]
    assert abs(found.low - next(k + 1 for k, share in enumerate(shares) if share >= 0.025)) <= 1
    assert abs(found.high - next(k + 1 for k, share in enumerate(shares) if share >= 0.975)) <= 1


@given(values=st.lists(st.floats(0, 1e6), min_size=2, max_size=30), p=st.sampled_from([5, 50, 95]))
def test_percentile_interval_is_within_the_values(values: list[float], p: float) -> None:
    found = stats.percentile_interval(values, p, resamples=200)
    if found is not None:
        assert min(values) <= found.low < found.high <= max(values)
        assert found.method == "bootstrap_percentile"


def test_clusters_of_one_value_each_equal_no_clusters() -> None:
    values = lognormal(20, 1)
    names = [f"c{i}" for i in range(20)]
    assert stats.percentile_interval(values, 50, names) == stats.percentile_interval(values, 50)


def test_cluster_names_and_numbers_give_equal_draws() -> None:
    values = [float((i * 37) % 50) for i in range(50)]
    numbers = [i % 7 for i in range(50)]
    assert stats.percentile_interval(values, 90, numbers) == stats.percentile_interval(
        values, 90, list(map(str, numbers))
    )


def test_clusters_that_differ_widen_the_interval_of_a_median() -> None:
    rng = random.Random(5)
    values = [100 * cluster + rng.random() for cluster in range(8) for _ in range(25)]
    clusters = [cluster for cluster in range(8) for _ in range(25)]
    single, whole = stats.percentile_interval(values, 50), stats.percentile_interval(values, 50, clusters)
    assert single is not None and whole is not None
    assert whole.high - whole.low > 1.5 * (single.high - single.low)


@each_row("names", [4, 25])
@each_row("p", [10, 50, 90])
def test_the_percentile_of_drawn_clusters_equals_that_of_their_written_out_values(p: float, names: int) -> None:
    from bench.stats.intervals import _cluster_percentiles, cluster_draws

    rng = random.Random(p)
    values = [rng.choice([1.0, 2.0, 3.0, 5.0, 8.0]) for _ in range(60)]
    clusters = [n % names for n in range(60)]
    order = sorted(range(names), key=str)
    expected = []
    for weight in cluster_draws(names, 50, 7):
        counts = dict(zip(order, weight, strict=True))
        written = sorted(value for value, name in zip(values, clusters, strict=True) for _ in range(counts[name]))
        expected.append(written[nearest_rank(len(written), p) - 1])
    assert _cluster_percentiles(values, clusters, p, 50, 7) == expected


@each_row("level", [0.8, 0.95, 0.99])
@each_row("n", [5_001, 5_002, 5_003, 6_000, 9_999, 10_001, 40_000])
def test_the_order_statistic_interval_of_a_median_is_exact(n: int, level: float) -> None:
    """The widest tail of fair tosses that stays within its half of the error, by the binomial itself."""
    found = stats.percentile_interval([float(i) for i in range(1, n + 1)], 50, level=level)
    assert found is not None and found.method == "order_statistic"
    low = int(found.low)
    assert fair_tail(low - 1, n) <= (1 - level) / 2 < fair_tail(low, n)
    assert found.high == n - low + 1


def test_the_order_statistic_interval_of_a_tail_uses_the_normal_approximation() -> None:
    n = 10_000
    found = stats.percentile_interval([float(i) for i in range(1, n + 1)], 95)
    half = 1.959963984540054 * math.sqrt(n * 0.95 * 0.05)
    assert found is not None
    assert (found.low, found.high) == (math.floor(9_500 - half), math.ceil(9_500 + half) + 1)


@pytest.mark.parametrize(("count", "size", "p"), [(10, 600, 50), (60, 100, 50), (60, 100, 95), (200, 30, 95)])
def test_the_interval_of_many_clustered_values_is_close_to_a_cluster_bootstrap(count: int, size: int, p: float) -> None:
    from bench.stats.intervals import _cluster_percentiles

    rng = random.Random(count)
    shifts = [rng.gauss(0, 0.4) for _ in range(count)]
    clusters = [at for at in range(count) for _ in range(size)]
    values = [math.exp(shifts[at] + rng.gauss(0, 0.5)) for at in clusters]
    found, alone = stats.percentile_interval(values, p, clusters), stats.percentile_interval(values, p)
    assert found is not None and alone is not None and found.method == "cluster_order_statistic"
    draws = sorted(_cluster_percentiles(values, clusters, p, 400, 3))
    ends = draws[10], draws[389]
    assert (found.low, found.high) == (pytest.approx(ends[0], rel=0.1), pytest.approx(ends[1], rel=0.1))
    assert found.high - found.low > 1.5 * (alone.high - alone.low)


def test_many_values_in_one_cluster_have_no_percentile_interval() -> None:
    assert stats.percentile_interval([float(i) for i in range(6_000)], 50, ["a"] * 6_000) is None


@each_row("p", [0.1, 50, 99.9])
def test_the_percentile_interval_of_two_different_clusters_is_within_the_values(p: float) -> None:
    values = [float(i) for i in range(6_000)]
    found = stats.percentile_interval(values, p, [i < 3_000 for i in range(6_000)])
    assert found is not None and 0 <= found.low < found.high <= 5_999


@pytest.mark.parametrize("p", [0, 100])
def test_percentiles_0_and_100_have_no_order_statistic_interval(p: float) -> None:
    assert stats.percentile_interval([float(i) for i in range(6_000)], p) is None


def test_equal_values_have_no_percentile_interval() -> None:
    assert stats.percentile_interval([3.0] * 6_000, 50) is None
    assert stats.percentile_interval([3.0] * 60, 50, [i % 6 for i in range(60)]) is None


def test_order_statistics_are_used_above_ORDER_STATISTIC_FROM_values() -> None:
    values = [float(i) for i in range(stats.ORDER_STATISTIC_FROM + 1)]
    above = stats.percentile_interval(values, 50, resamples=50)
    below = stats.percentile_interval(values[:-1], 50, resamples=50)
    assert above is not None and below is not None
    assert (above.method, below.method) == ("order_statistic", "bootstrap_percentile")


def test_a_bootstrap_of_a_median_covers_it_at_least_90_percent_of_the_time() -> None:
    rng, rounds, held = random.Random(9), 300, 0
    for _ in range(rounds):
        found = stats.percentile_interval(
            [rng.expovariate(1) for _ in range(40)], 50, resamples=200, seed=rng.randrange(10**6)
        )
        held += found is not None and found.low <= math.log(2) <= found.high
    assert 0.9 <= held / rounds <= 0.99


# ---------------------------------------------------------------------------------- ratios


def test_percentile_ratio_has_its_expected_values() -> None:
    left, right = [float(i) for i in range(101, 301)], [float(i) for i in range(1, 201)]
    found = stats.percentile_ratio(left, right, 50)
    assert (found.a, found.b, found.delta) == (200.0, 100.0, 1.0)
    assert (found.n, found.wins, found.losses, found.ties) == (200, 200, 0, 0)
    assert found.correlation == pytest.approx(1.0)
    assert found.note == "delta is the ratio minus 1"


@each_row(
    ("left", "right", "groups", "note"),
    [
        ([], [], None, "no item is scored on both sides"),
        ([5.0], [4.0], None, "not testable: fewer than two items"),
        ([5.0, 6.0], [4.0, 4.0], ["a", "a"], "not testable: one cluster"),
        ([0.0, 0.0], [4.0, 4.0], None, "not testable: a time is not above 0"),
        ([4.0, 4.0], [0.0, 0.0], None, "not testable: a time is not above 0"),
        ([5.0, 6.0], [4.0, 4.0], None, "not testable: fewer than 5 items beyond the percentile"),
        ([5.0] * 30, [4.0] * 30, None, "not testable: a percentile that does not vary"),
        ([5.0] * 30, [4.0] * 30, [i % 3 for i in range(30)], "not testable: a percentile that does not vary"),
        (
            [2.0] * 15 + [5.0] * 15,
            [0.0] * 14 + [1.0] * 16,
            [i % 3 for i in range(30)],
            "not testable: a time is not above 0",
        ),
    ],
)
def test_percentile_ratio_notes_why_it_cannot_test(
    left: list[float], right: list[float], groups: list[object] | None, note: str
) -> None:
    found = stats.percentile_ratio(left, right, 50, groups)
    assert (found.note, found.p, found.interval, found.mde) == (note, None, None, None)


def test_percentile_ratio_does_not_test_a_percentile_that_is_the_largest_value() -> None:
    left = [float(i) for i in range(1, 91)] + [500.0] * 10
    found = stats.percentile_ratio(left, [float(i) for i in range(1, 101)], 95)
    assert (found.a, found.p, found.note) == (500.0, None, "not testable: a percentile that does not vary")


def lognormal(n: int, seed: int) -> list[float]:
    rng = random.Random(seed)
    return [rng.lognormvariate(3, 0.7) for _ in range(n)]


@pytest.mark.parametrize("groups", [None, [i % 8 for i in range(120)], [i % 40 for i in range(120)]])
def test_percentile_ratio_is_reproducible_and_does_not_depend_on_the_unit(groups: list[int] | None) -> None:
    left, right = lognormal(120, 1), lognormal(120, 2)
    plain = stats.percentile_ratio(left, right, 50, groups, seed=3)
    assert plain == stats.percentile_ratio(left, right, 50, groups, seed=3)
    scaled = stats.percentile_ratio([v * 1024 for v in left], [v * 1024 for v in right], 50, groups, seed=3)
    assert (scaled.delta, scaled.p) == (pytest.approx(plain.delta), pytest.approx(plain.p))
    assert (plain.n_clusters, plain.test) == (
        None if groups is None else len(set(groups)),
        "cluster_bootstrap" if groups is not None and len(set(groups)) <= 20 else "order_statistic",
    )


def test_correlated_pairs_reduce_the_error_of_percentile_ratio() -> None:
    left = lognormal(400, 4)
    rng = random.Random(5)
    bound = stats.percentile_ratio([v * rng.lognormvariate(0, 0.05) for v in left], left, 50)
    loose = stats.percentile_ratio(lognormal(400, 6), left, 50)
    assert bound.se is not None and loose.se is not None and bound.se < loose.se / 2


def test_level_and_power_apply_to_percentile_ratio() -> None:
    left, right = lognormal(200, 7), lognormal(200, 8)
    usual = stats.percentile_ratio(left, right, 50, excluded=4)
    other = stats.percentile_ratio(left, right, 50, level=0.5, power=0.95)
    assert usual.excluded == 4
    assert usual.interval is not None and other.interval is not None
    assert usual.interval.low < other.interval.low < other.interval.high < usual.interval.high
    assert usual.mde is not None and other.mde is not None and other.mde > usual.mde
