"""Laws of all statistics."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import stats
from bench.model import Interval
from bench.stats import distributions

VALUES = st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=1, max_size=40)
SHARES = st.lists(st.floats(0, 1, allow_nan=False), min_size=1, max_size=40)
BINARY = st.lists(st.sampled_from([0, 1]), min_size=1, max_size=40)


def shuffled(values: list[float], seed: int) -> list[float]:
    mixed = list(values)
    random.Random(seed).shuffle(mixed)
    return mixed


@given(values=st.one_of(VALUES, SHARES, BINARY), codes=st.lists(st.integers(0, 5), min_size=40, max_size=40))
def test_an_interval_is_finite_and_has_a_width(values: list[float], codes: list[int]) -> None:
    for clusters in (None, codes[: len(values)]):
        found = stats.interval(values, clusters)
        if found is not None:
            assert math.isfinite(found.low) and math.isfinite(found.high)
            assert found.low < found.high


@given(values=st.one_of(SHARES, BINARY), codes=st.lists(st.integers(0, 5), min_size=40, max_size=40))
def test_an_interval_of_shares_is_within_0_and_1_and_contains_the_mean(values: list[float], codes: list[int]) -> None:
    found = stats.interval(values, codes[: len(values)])
    if found is not None:
        assert 0 <= found.low <= found.high <= 1
        centre = math.fsum(values) / len(values)
        assert found.low - 1e-12 <= centre <= found.high + 1e-12


@given(values=VALUES, seed=st.integers(0, 9))
def test_statistics_do_not_depend_on_the_order_of_values(values: list[float], seed: int) -> None:
    mixed = shuffled(values, seed)
    assert stats.mean(values) == stats.mean(mixed)
    assert stats.stderr(values) == stats.stderr(mixed)
    assert stats.interval(values) == stats.interval(mixed)
    assert stats.percentile(values, 95) == stats.percentile(mixed, 95)
    assert stats.percentile_interval(values, 50, resamples=99) == stats.percentile_interval(mixed, 50, resamples=99)


@given(values=VALUES, seed=st.integers(0, 9), codes=st.lists(st.integers(0, 5), min_size=40, max_size=40))
def test_clustered_statistics_do_not_depend_on_the_order_of_values(
    values: list[float], seed: int, codes: list[int]
) -> None:
    clusters = codes[: len(values)]
    order = [int(i) for i in shuffled(list(range(len(values))), seed)]
    mixed, mixed_clusters = [values[i] for i in order], [clusters[i] for i in order]
    assert stats.stderr_clustered(values, clusters) == stats.stderr_clustered(mixed, mixed_clusters)
    found = stats.percentile_interval(values, 90, clusters, resamples=99)
    assert found == stats.percentile_interval(mixed, 90, mixed_clusters, resamples=99)


@given(values=VALUES, p=st.floats(0, 100))
def test_a_nearest_rank_percentile_is_one_of_the_values(values: list[float], p: float) -> None:
    assert stats.percentile(values, p) in values


@given(values=VALUES)
def test_percentiles_grow_with_p(values: list[float]) -> None:
    found = [stats.percentile(values, p) for p in (0, 10, 50, 90, 95, 99, 99.9, 100)]
    assert found == sorted(found)  # type: ignore[type-var]
    assert found[-1] == max(values)


def test_percentile_interval_agrees_with_plain_resampling() -> None:
    rng = random.Random(8)
    values = [rng.lognormvariate(3, 1) for _ in range(300)]
    found = stats.percentile_interval(values, 90, resamples=4_000)
    draws = sorted(float(stats.percentile(rng.choices(values, k=300), 90) or 0) for _ in range(1_000))
    assert found is not None
    assert found.low == pytest.approx(draws[25], rel=0.1)
    assert found.high == pytest.approx(draws[975], rel=0.1)


PAIRS = st.one_of(
    *(
        st.lists(st.tuples(one, one, st.integers(0, 3)), min_size=1, max_size=25)
        for one in (st.sampled_from([0.0, 1.0]), st.floats(0, 1), st.floats(-1e6, 1e6), st.sampled_from([3.0, 7.0]))
    )
)


@given(pairs=PAIRS, clustered=st.booleans(), shares=st.booleans())
def test_comparisons_have_intervals_with_a_width_and_p_between_0_and_1(
    pairs: list[tuple[float, float, int]], clustered: bool, shares: bool
) -> None:
    a, b = ({str(at): pair[side] for at, pair in enumerate(pairs)} for side in (0, 1))
    clusters = {str(at): pair[2] for at, pair in enumerate(pairs)} if clustered else None
    found = stats.compare(a, b, clusters=clusters, shares=shares)
    if found.interval is not None:
        assert found.interval.low < found.interval.high
        assert found.delta is not None
        assert found.interval.low <= found.delta + 1e-9 and found.delta - 1e-9 <= found.interval.high
    assert found.p is None or 0 < found.p <= 1 or found.delta
    assert found.mde is None or found.mde > 0


def test_compare_with_one_cluster_is_not_testable() -> None:
    found = stats.compare({"x": 1.0, "y": 0.0}, {"x": 0.0, "y": 0.0}, clusters={"x": "k", "y": "k"})
    assert found.p is None and found.interval is None
    assert found.note == "not testable: one cluster"


@given(p=st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_never_lowers_a_p_and_preserves_the_order(p: list[float]) -> None:
    adjusted = stats.holm(p)
    assert all(a is not None and a >= x for a, x in zip(adjusted, p, strict=True))
    order = sorted(range(len(p)), key=lambda i: p[i])
    ranked = [adjusted[i] for i in order]
    assert ranked == sorted(ranked)  # type: ignore[type-var]


@given(p=st.floats(0.001, 0.999), df=st.integers(1, 200))
def test_t_quantile_inverts_the_t_distribution(p: float, df: int) -> None:
    x = distributions.t_quantile(p, df=df)
    tail = distributions.t_two_sided(x, df=df) / 2
    assert (1 - tail if x >= 0 else tail) == pytest.approx(p, abs=1e-9)


@given(n=st.integers(1, 300), data=st.data())
def test_fair_tail_agrees_with_beta_cdf(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n - 1))
    assert distributions.fair_tail(k, n) == pytest.approx(distributions.beta_cdf(0.5, n - k, k + 1), rel=1e-9)


@given(
    x=st.lists(st.integers(-5, 5), min_size=2, max_size=15), y=st.lists(st.integers(-5, 5), min_size=15, max_size=15)
)
def test_correlations_are_symmetric_and_between_minus_1_and_1(x: list[float], y: list[float]) -> None:
    other = y[: len(x)]
    for measure in (stats.pearson, stats.spearman, stats.kendall_tau_b):
        found = measure(x, other)
        assert found is None or -1 <= found <= 1
        assert found == pytest.approx(measure(other, x)) if found is not None else measure(other, x) is None


def macro(groups: list[list[float]], clusters: list[list[int]] | None = None) -> Interval | None:
    """Return the interval of the mean of the group means."""
    names = clusters or [None] * len(groups)
    return stats.interval_macro_of([stats.Tally.of(group, own) for group, own in zip(groups, names, strict=True)])


def test_interval_macro_combines_the_standard_errors_of_its_groups() -> None:
    groups = [[1.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 0.0, 1.0]]
    found = macro(groups)
    assert found is not None and found.method == "macro_t"
    errors = [stats.stderr(group) or 0 for group in groups]
    half = distributions.t_quantile(0.975, df=8) * math.hypot(*errors) / 2
    assert found.high == pytest.approx((0.75 + 0.4) / 2 + half)


def test_interval_macro_of_no_values_is_None() -> None:
    assert macro([[], []]) is None


def test_a_group_without_spread_adds_no_error_to_interval_macro() -> None:
    found = macro([[1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 0.0]])
    assert found is not None
    assert found.high == 1
    half = distributions.t_quantile(0.975, df=6) * float(stats.stderr([0.0, 1.0, 1.0, 0.0]) or 0) / 2
    assert found.low == pytest.approx(0.75 - half)


@given(groups=st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), max_size=6), max_size=4), clustered=st.booleans())
def test_interval_macro_is_within_0_and_1_and_has_a_width(groups: list[list[float]], clustered: bool) -> None:
    clusters = [[i % 3 for i in range(len(group))] for group in groups] if clustered else None
    found = macro(groups, clusters)
    assert found is None or 0 <= found.low < found.high <= 1


def test_a_cluster_bootstrap_is_wider_than_one_of_single_values() -> None:
    rng = random.Random(2)
    values = [rng.gauss(cluster, 0.1) for cluster in range(6) for _ in range(10)]
    clusters = [i // 10 for i in range(60)]
    single, whole = stats.bootstrap_interval(values), stats.bootstrap_interval(values, clusters=clusters)
    assert single is not None and whole is not None
    assert whole.high - whole.low > single.high - single.low


def test_a_BCa_bootstrap_is_wider_on_the_side_of_the_long_tail() -> None:
    rng = random.Random(5)
    values = [rng.lognormvariate(0, 1) for _ in range(50)]
    plain, corrected = (stats.bootstrap_interval(values, m, seed=1) for m in ("percentile", "bca"))  # type: ignore[arg-type]
    assert plain is not None and corrected is not None
    assert corrected.high > plain.high


@pytest.mark.parametrize("values", [[], [1.0], [2.0, 2.0, 2.0]])
def test_constant_or_too_few_values_have_no_bootstrap(values: list[float]) -> None:
    assert stats.bootstrap_interval(values) is None
    assert stats.percentile_interval(values, 50) is None


def test_values_in_one_cluster_have_no_percentile_interval() -> None:
    assert stats.percentile_interval([1.0, 2.0, 3.0], 50, ["a", "a", "a"]) is None


def test_a_cluster_bootstrap_of_a_median_contains_it() -> None:
    values = [float(i) for i in range(40)]
    found = stats.percentile_interval(values, 50, [i % 8 for i in range(40)])
    assert found is not None and found.method == "cluster_bootstrap_percentile"
    assert found.low <= 19 <= found.high


def test_stderr_clustered_refuses_clusters_of_different_length() -> None:
    with pytest.raises(ValueError, match="cannot be paired"):
        stats.stderr_clustered([1.0, 0.0], ["a"])
