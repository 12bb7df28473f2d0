"""Tests of a paired difference: agreement with scipy, enumeration and known tables."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import stats
from bench.stats.distributions import normal_quantile, t_quantile
from tests.rows import each_row


def test_paired_t_agrees_with_scipy() -> None:
    found = stats.paired_t([3.0, 5.5, 1.0, 4.0, 2.5], [2.0, 5.0, 1.5, 1.0, 2.0])
    assert (found.delta, found.df) == (pytest.approx(0.9), 4)
    assert found.p == pytest.approx(0.19492947275532, rel=1e-10)
    assert (found.low, found.high) == (pytest.approx(-0.7069837853659954), pytest.approx(2.5069837853659953))


def test_paired_t_with_clusters_has_its_expected_values() -> None:
    """Differences 1, 1, 0, 0 in two clusters: deviations 1 and -1, SE = sqrt(2 * 2) / 4, t = 1 with 1 df: p = 1/2."""
    found = stats.paired_t([1, 1, 0, 0], [0, 0, 0, 0], ["a", "a", "b", "b"])
    assert (found.delta, found.se, found.df) == (0.5, pytest.approx(0.5), 1)
    assert found.p == pytest.approx(0.5, rel=1e-9)


def test_paired_t_without_pairs_gives_None() -> None:
    found = stats.paired_t([], [])
    assert (found.delta, found.se, found.df, found.p, found.low, found.high) == (None,) * 6


def test_paired_t_of_one_pair_has_only_a_difference() -> None:
    found = stats.paired_t([3.0], [1.0])
    assert (found.delta, found.se, found.df, found.p) == (2.0, None, None, None)
    assert stats.paired_t([1.0, 2.0], [0.0, 0.0], ["a", "a"]).p is None


@pytest.mark.parametrize(("differences", "p"), [([0.0, 0.0, 0.0], 1.0), ([2.5, 2.5], 0.5), ([-3.3] * 5, 2**-4)])
def test_equal_differences_are_tested_by_their_signs(differences: list[float], p: float) -> None:
    found = stats.paired_t(differences, [0.0] * len(differences))
    assert (found.se, found.p) == (0.0, p)


@pytest.mark.parametrize("value", [99999.9, 1234.56, 7.7])
def test_a_large_constant_difference_has_standard_error_0(value: float) -> None:
    found = stats.compare({str(i): value for i in range(7)}, {str(i): 0.0 for i in range(7)})
    assert (found.se, found.p, found.interval, found.mde) == (0.0, 2**-6, None, None)


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_tests_refuse_values_that_are_not_finite(wrong: float) -> None:
    with pytest.raises(ValueError) as caught:
        stats.paired_t([wrong, 1.0], [0.0, 0.0])
    assert str(caught.value) == "cannot test: a number is not finite"
    with pytest.raises(ValueError):
        stats.compare({"x": wrong, "y": 1.0}, {"x": 0.0, "y": 0.0})


def test_tests_refuse_sides_of_different_length() -> None:
    for call in (stats.paired_t, stats.sign_flip):
        with pytest.raises(ValueError) as caught:
            call([1.0, 2.0], [1.0])
        assert str(caught.value) == "the values cannot be paired: got 2 and 1, expected the same number"


def enumerated(sums: list[float]) -> float:
    """Return the share of the 2^C sign patterns whose total is at least as far from 0 as the observed one."""
    seen = abs(math.fsum(sums))
    least = seen - 1e-12 * max(1.0, seen)
    totals = [
        abs(math.fsum(s * v for s, v in zip(signs, sums, strict=True))) for signs in product((1, -1), repeat=len(sums))
    ]
    return sum(total >= least for total in totals) / len(totals)


@given(sums=st.lists(st.integers(-6, 6), min_size=1, max_size=9))
def test_sign_flip_enumerates_all_sign_patterns(sums: list[int]) -> None:
    found = stats.sign_flip([float(v) for v in sums], [0.0] * len(sums))
    assert found.p == enumerated([float(v) for v in sums])
    assert found.smallest_p == 2 / 2 ** len(sums)
    assert found.smallest_p <= found.p <= 1


@given(
    pairs=st.lists(st.tuples(st.floats(-1, 1), st.integers(0, 5)), min_size=1, max_size=30),
    seed=st.randoms(use_true_random=False),
)
def test_sign_flip_with_clusters_flips_whole_clusters(pairs: list[tuple[float, int]], seed: object) -> None:
    values, codes = [v for v, _ in pairs], [c for _, c in pairs]
    sums = [math.fsum(v for v, c in pairs if c == code) for code in sorted(set(codes))]
    found = stats.sign_flip(values, [0.0] * len(values), codes)
    assert found.p == enumerated(sums)
    mixed = list(pairs)
    seed.shuffle(mixed)  # type: ignore[attr-defined]
    assert stats.sign_flip([v for v, _ in mixed], [0.0] * len(mixed), [c for _, c in mixed]) == found


def test_sign_flip_has_its_expected_values() -> None:
    """Sums 3, 2, 1: of 8 patterns only +++ and --- reach 6; sums 3, 2, -1 reach 4 in +++ -> 6, ++-, --+, ---."""
    assert stats.sign_flip([3, 2, 1], [0, 0, 0]).p == 2 / 8
    assert stats.sign_flip([3, 2, -1], [0, 0, 0]).p == 4 / 8
    assert stats.sign_flip([0, 0, 0], [0, 0, 0]).p == 1
    assert stats.sign_flip([], []).p == 1


def test_sign_flip_treats_rounding_differences_as_ties() -> None:
    assert stats.sign_flip([0.1, 0.2, 0.3], [0, 0, 0]).p == 2 / 8
    assert stats.sign_flip([0.1, 0.2, -0.3], [0, 0, 0]).p == 1


def test_sign_flip_accepts_at_most_20_clusters() -> None:
    codes = list(range(20))
    assert stats.sign_flip([1.0] * 20, [0.0] * 20, codes).p == 2 / 2**20
    with pytest.raises(ValueError) as caught:
        stats.sign_flip([1.0] * 21, [0.0] * 21, [*codes, 20])
    assert str(caught.value) == "21 clusters are too many: the exact sign-flip test supports at most 20"


@each_row(
    ("b", "c", "p", "mid_p"),
    [
        (0, 0, 1.0, 1.0),
        (0, 1, 1.0, 0.5),
        (1, 1, 1.0, 1.0),
        (0, 5, 2 / 32, 1 / 32),
        (1, 4, 12 / 32, 7 / 32),
        (2, 3, 1.0, 22 / 32),
        (3, 2, 1.0, 22 / 32),
        (2, 11, 0.0224609375, 0.0129394531250),
        (6, 6, 1.0, 1.0),
    ],
)
def test_mcnemar_has_its_expected_values(b: int, c: int, p: float, mid_p: float) -> None:
    """2 P(X <= min) of n fair tosses, at most 1; the mid-p takes P(X = min) off."""
    found = stats.mcnemar(b, c)
    assert (found.p, found.mid_p) == (pytest.approx(p, rel=1e-14), pytest.approx(mid_p, rel=1e-14))


@given(b=st.integers(0, 60), c=st.integers(0, 60))
def test_mcnemar_equals_the_sign_flip_of_the_discordant_pairs(b: int, c: int) -> None:
    found = stats.mcnemar(b, c)
    assert found == stats.mcnemar(c, b)
    assert 0 < found.mid_p <= found.p <= 1
    if b + c <= 12:
        assert found.p == pytest.approx(stats.sign_flip([1.0] * b + [0.0] * c, [0.0] * b + [1.0] * c).p)


@given(b=st.integers(0, 40), n=st.integers(1, 80))
def test_mcnemar_p_falls_with_a_larger_imbalance(b: int, n: int) -> None:
    if 2 * (b + 1) <= n:
        assert stats.mcnemar(b, n - b).p <= stats.mcnemar(b + 1, n - b - 1).p


def test_mcnemar_of_a_million_pairs_is_close_to_the_normal_limit() -> None:
    found = stats.mcnemar(501_000, 499_000)
    z = 1_999 / math.sqrt(1_000_000)
    assert found.p == pytest.approx(math.erfc(z / math.sqrt(2)), rel=1e-4)
    assert found.mid_p < found.p


@each_row(
    ("p", "adjusted"),
    [
        ([], []),
        ([0.04], [0.04]),
        (
            [0.01, 0.04, 0.03, 0.005],
            [0.03, 0.06, 0.06, 0.02],
        ),  # Holm 1979's step-down: 4p, 3p, 2p, p with a running max
        ([0.5, 0.6], [1.0, 1.0]),
        ([0.01, 0.01, 0.01], [0.03, 0.03, 0.03]),
        ([0.02, None, 0.03], [0.04, None, 0.04]),
        ([None, None], [None, None]),
        ([0.0, 1.0], [0.0, 1.0]),
        ([0.9, 0.001, 0.04, 0.04, 0.2], [0.9, 0.005, 0.16, 0.16, 0.4]),
    ],
)
def test_holm_has_its_expected_values(p: list[float | None], adjusted: list[float | None]) -> None:
    found = stats.holm(p)
    assert len(found) == len(adjusted)
    for one, other in zip(found, adjusted, strict=True):
        assert one is other if other is None else one == pytest.approx(other, rel=1e-12)


@given(p=st.lists(st.floats(0, 1), min_size=1, max_size=10), data=st.data())
def test_holm_does_not_depend_on_order_and_is_at_most_Bonferroni(p: list[float], data: st.DataObject) -> None:
    found = stats.holm(p)
    order = data.draw(st.permutations(range(len(p))))
    assert stats.holm([p[i] for i in order]) == [found[i] for i in order]
    for one, adjusted in zip(p, found, strict=True):
        assert adjusted is not None and one <= adjusted <= min(1.0, one * len(p)) + 1e-15


@given(p=st.lists(st.floats(0, 0.9), min_size=1, max_size=8), extra=st.floats(0, 1))
def test_one_more_test_in_holm_never_lowers_a_p(p: list[float], extra: float) -> None:
    alone, among = stats.holm(p), stats.holm([*p, extra])
    assert all(a is not None and b is not None and b >= a for a, b in zip(alone, among[:-1], strict=True))


def test_mde_has_its_expected_values() -> None:
    assert stats.mde(0.02) == pytest.approx(0.02 * (1.959963984540054 + 0.8416212335729143))
    assert stats.mde(0.02, 9) == pytest.approx(0.02 * (2.262157162798205 + 0.8834038596855346))
    assert stats.mde(0.02, power=0.5) == pytest.approx(0.02 * 1.959963984540054)
    assert (stats.mde(None), stats.mde(0.0), stats.mde(9e-16)) == (None, None, None)


@given(se=st.floats(1e-6, 10), df=st.integers(1, 50))
def test_mde_grows_with_smaller_alpha_higher_power_and_fewer_clusters(se: float, df: int) -> None:
    usual = stats.mde(se, df)
    assert usual is not None and usual > (normal_quantile(0.975) + normal_quantile(0.8)) * se
    for larger in (stats.mde(se, df, alpha=0.01), stats.mde(se, df, power=0.9)):
        assert larger is not None and larger > usual
    assert usual == pytest.approx((t_quantile(0.975, df=df) + t_quantile(0.8, df=df)) * se)
