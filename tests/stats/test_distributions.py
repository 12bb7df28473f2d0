"""Normal, Student t, binomial and beta: agreement with scipy 1.17.1, laws, and refused arguments."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.stats.distributions import beta_cdf, fair_point, fair_tail, normal_cdf, normal_quantile, t_quantile
from bench.stats.distributions import t_two_sided as two_sided
from tests.rows import each_row

QUANTILES = {
    1: (1.3763819204711738, 12.706204736174694, 63.656741162871526),
    2: (1.0606601717798214, 4.302652729749462, 9.924843200918287),
    3: (0.9784723123633042, 3.1824463052837078, 5.840909309733355),
    4: (0.9409645772351816, 2.7764451051977934, 4.604094871349992),
    9: (0.8834038596855346, 2.262157162798205, 3.249835541592126),
    19: (0.8609505502689286, 2.0930240544083087, 2.8609346064649794),
    99: (0.8452670319534972, 1.9842169515864174, 2.626405457280827),
    1539: (0.8418548507714531, 1.961506613709665, 2.579027674774011),
    100_000: (0.8416248279969009, 1.9599877075346095, 2.575878469908375),
}


@each_row("df", QUANTILES)
def test_t_quantile_agrees_with_scipy(df: int) -> None:
    found = [t_quantile(p, df=df) for p in (0.8, 0.975, 0.995)]
    assert found == [pytest.approx(expected, rel=1e-9) for expected in QUANTILES[df]]


@each_row(
    ("t", "df", "expected"),
    [
        (0.0, 7, 1.0),
        (0.5, 1, 0.7048327646991335),
        (2.0, 3, 0.13932596855884305),
        (-1.5, 9, 0.16785065605707505),
        (1.5, 9, 0.16785065605707505),
        (3.0, 30, 0.005389964065651945),
        (12.0, 2, 0.00687293367715846),
        (40.0, 5, 1.8411962171772954e-07),
        (5.0, 1e6, 5.733997870890745e-07),
        (math.inf, 4, 0.0),
        (-math.inf, 4, 0.0),
    ],
)
def test_t_two_sided_agrees_with_scipy(t: float, df: float, expected: float) -> None:
    assert two_sided(t, df=df) == pytest.approx(expected, rel=1e-8)


@given(df=st.integers(1, 10_000), p=st.floats(0.01, 0.99))
def test_t_quantile_is_symmetric_and_wider_than_the_normal_quantile(df: int, p: float) -> None:
    found = t_quantile(p, df=df)
    assert found == pytest.approx(-t_quantile(1 - p, df=df), rel=1e-9, abs=1e-7)
    assert abs(found) >= abs(normal_quantile(p)) - 1e-7


@given(df=st.integers(1, 500))
def test_t_quantile_falls_with_more_degrees_of_freedom(df: int) -> None:
    assert t_quantile(0.975, df=df) > t_quantile(0.975, df=df + 1) > normal_quantile(0.975)


def test_the_median_of_t_and_normal_is_0() -> None:
    assert t_quantile(0.5, df=3) == 0.0
    assert (normal_quantile(0.5), normal_cdf(0.0)) == (0.0, 0.5)


@each_row(("p", "df"), [(1.0, 5), (0.0, 5), (48.0, 5), (-0.5, 5), (math.nan, 5), (0.9, 0), (0.9, -1), (0.9, math.nan)])
def test_t_quantile_refuses_values_outside_its_domain(p: float, df: float) -> None:
    with pytest.raises(ValueError) as caught:
        t_quantile(p, df=df)
    assert str(caught.value) == (
        f"p = {p} with {df} degrees of freedom: expected 0 < p < 1, and more than 0 degrees of freedom"
    )


@each_row(
    ("k", "n", "tail", "point"),
    [
        (0, 1, 0.5, 0.5),
        (2, 10, 0.0546875, 0.0439453125),
        (5, 10, 0.623046875, 0.24609375),
        (40, 100, 0.028443966820490444, 0.010843866711637978),
        (4_900, 10_000, 0.023292763852473225, 0.0010798643294333704),
        (4_950, 10_001, 0.1586673523264976, 0.004791109772154666),
        (49_500, 100_000, 0.0007911799394257577, 1.7000124003180936e-05),
    ],
)
def test_fair_tail_and_fair_point_agree_with_scipy(k: int, n: int, tail: float, point: float) -> None:
    assert fair_tail(k, n) == pytest.approx(tail, rel=1e-8)
    assert fair_point(k, n) == pytest.approx(point, rel=1e-8)


def test_fair_tail_ends_at_0_and_1() -> None:
    assert [fair_tail(k, 4) for k in (-1, 0, 1, 2, 3, 4, 5)] == [0, 1 / 16, 5 / 16, 11 / 16, 15 / 16, 1, 1]
    assert fair_tail(0, 0) == fair_point(0, 0) == 1


@given(n=st.integers(1, 80))
def test_fair_tail_is_the_sum_of_fair_point(n: int) -> None:
    points = [fair_point(k, n) for k in range(n + 1)]
    for k in range(n + 1):
        assert fair_tail(k, n) == pytest.approx(math.fsum(points[: k + 1]), rel=1e-12)


@each_row("n", [9_999, 10_000, 10_001, 10_002])
def test_the_exact_and_approximate_fair_tail_agree_where_they_meet(n: int) -> None:
    half = fair_tail(n // 2 - 50, n)
    assert half == pytest.approx(normal_cdf((n // 2 - 49.5 - n / 2) / (math.sqrt(n) / 2)), rel=1e-3)
    assert fair_tail(n // 2, n) + fair_tail(n - n // 2 - 1, n) == pytest.approx(1, abs=1e-10)


@each_row(
    ("x", "a", "b", "expected"),
    [
        (0.5, 2, 3, 0.6875),
        (0.1, 0.5, 0.5, 0.20483276469913345),
        (0.9, 5, 1, 0.59049),
        (0.3, 20, 40, 0.29982167525229364),
        (0.999, 50, 0.5, 0.7523690199653766),
        (0.5, 5000, 5100, 0.8401528708121381),
        (0.0, 2, 3, 0.0),
        (-0.1, 2, 3, 0.0),
        (1.0, 2, 3, 1.0),
        (1.1, 2, 3, 1.0),
    ],
)
def test_beta_cdf_agrees_with_scipy(x: float, a: float, b: float, expected: float) -> None:
    assert beta_cdf(x, a, b) == pytest.approx(expected, rel=1e-9)


@given(x=st.floats(0.001, 0.999), a=st.floats(0.5, 50), b=st.floats(0.5, 50))
def test_beta_cdf_is_symmetric(x: float, a: float, b: float) -> None:
    assert beta_cdf(x, a, b) + beta_cdf(1 - x, b, a) == pytest.approx(1, abs=1e-9)


@given(x=st.floats(-5, 5))
def test_normal_quantile_inverts_normal_cdf(x: float) -> None:
    assert normal_quantile(normal_cdf(x)) == pytest.approx(x, abs=1e-8)
