"""Probabilities and quantiles for statistical tests: normal, Student t, fair coin tosses and beta distribution.

Example::

    t_quantile(0.975, df=9)     # 2.2621571628
    t_two_sided(2.26, df=9)     # 0.05018
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_STANDARD = NormalDist()
_EXACT_BINOMIAL = 10_000
"""largest n for which binomial probabilities are computed with exact integers"""


def normal_cdf(x: float) -> float:
    """Return P(Z <= x) of the standard normal distribution."""
    return _STANDARD.cdf(x)


def normal_quantile(p: float) -> float:
    """Return the x with P(Z <= x) = p for the standard normal distribution; p must be above 0 and below 1."""
    return _STANDARD.inv_cdf(p)


def t_two_sided(t: float, *, df: float) -> float:
    """Return P(|T| >= |t|) of Student's t distribution with ``df`` degrees of freedom."""
    if math.isinf(t):
        return 0.0
    return beta_cdf(df / (df + t * t), df / 2, 0.5)


@lru_cache(maxsize=1024)
def t_quantile(p: float, *, df: float) -> float:
    """Return the x with P(T <= x) = p for Student's t distribution with ``df`` degrees of freedom.

    p must be above 0 and below 1. The result has nine correct digits for up to a million degrees of freedom.
    """
    if not 0 < p < 1 or not df > 0:
        raise ValueError(
            f"p = {p} with {df} degrees of freedom: expected 0 < p < 1, and more than 0 degrees of freedom"
        )
    if p == 0.5:
        return 0.0
    if p < 0.5:
        return -t_quantile(1 - p, df=df)
    tail = 2 * (1 - p)
    low, high = 0.0, 2.0
    while t_two_sided(high, df=df) > tail:
        low, high = high, high * 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if t_two_sided(middle, df=df) > tail:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def fair_tail(k: int, n: int) -> float:
    """Return the probability of at most k heads in n fair coin tosses."""
    if k < 0:
        return 0.0
    if k >= n:
        return 1.0
    if n > _EXACT_BINOMIAL:
        return beta_cdf(0.5, n - k, k + 1)
    term = total = 1
    for i in range(k):
        term = term * (n - i) // (i + 1)
        total += term
    return total / (1 << n)


def fair_point(k: int, n: int) -> float:
    """Return the probability of exactly k heads in n fair coin tosses."""
    if n > _EXACT_BINOMIAL:
        return math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2))
    return math.comb(n, k) / (1 << n)


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return the cumulative beta distribution, which is the regularized incomplete beta function I_x(a, b)."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _beta_fraction(x, a, b) / a
    return 1 - front * _beta_fraction(1 - x, b, a) / b


def _beta_fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction for I_x(a, b) by the modified Lentz method (Numerical Recipes, 6.4)."""
    tiny = 1e-300
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1), tiny)
    result = d
    for m in range(1, 100_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / _away_from_zero(1 + even * d, tiny)
        c = _away_from_zero(1 + even / c, tiny)
        result *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / _away_from_zero(1 + odd * d, tiny)
        c = _away_from_zero(1 + odd / c, tiny)
        result *= d * c
        if abs(d * c - 1) < 1e-16:
            break
    return result


def _away_from_zero(x: float, tiny: float) -> float:
    return x if abs(x) > tiny else tiny
