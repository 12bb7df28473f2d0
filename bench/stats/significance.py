"""Tests of a paired difference, Holm's correction and the smallest detectable effect.

Example::

    mcnemar(b=2, c=11)                 # McNemar(p=0.0225, mid_p=0.0129)
    holm([0.01, 0.04, 0.03])           # [0.03, 0.06, 0.06]
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from operator import sub

from bench.stats.descriptive import DEGENERATE, by_cluster, mean, stderr, stderr_clustered
from bench.stats.distributions import fair_point, fair_tail, normal_quantile, t_quantile, t_two_sided

SIGN_FLIP_LIMIT = 20
"""more clusters than this are not enumerated"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedT:
    """Mean difference a - b; ``low`` and ``high`` are not clipped; p is None where it cannot be tested."""

    delta: float | None
    """None of no pairs"""
    se: float | None
    df: int | None
    p: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class McNemar:
    """Exact two-sided p of the discordant pairs, and the mid-p beside it."""

    p: float
    mid_p: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SignFlip:
    """Exact p over all 2^C sign patterns; ``smallest_p`` is the least this many clusters can give."""

    p: float
    smallest_p: float


def paired_t(
    a: Sequence[float], b: Sequence[float], clusters: Sequence[Hashable] | None = None, level: float = 0.95
) -> PairedT:
    """Paired t test of a - b; with ``clusters`` the CR1 error and C - 1 degrees of freedom."""
    return t_of(differences_of(a, b), clusters, level)


def t_of(differences: Sequence[float], clusters: Sequence[Hashable] | None = None, level: float = 0.95) -> PairedT:
    """As ``paired_t`` over the differences."""
    delta = mean(differences)
    if delta is not None and not math.isfinite(delta):
        raise ValueError("no test of numbers that are not finite")
    if clusters is None:
        se, df = stderr(differences), len(differences) - 1
    else:
        se, df = stderr_clustered(differences, clusters), len(set(clusters)) - 1
    if se is None or delta is None:
        return PairedT(delta=delta, se=None, df=None, p=None, low=None, high=None)
    half = t_quantile(0.5 + level / 2, df=df) * se
    return PairedT(delta=delta, se=se, df=df, p=_p_of(delta, se, df), low=delta - half, high=delta + half)


def _p_of(delta: float, se: float, df: int) -> float:
    if se < DEGENERATE:
        return 1.0 if abs(delta) < DEGENERATE else 2.0**-df  # t says 0 of two equal differences; their signs do not
    return t_two_sided(delta / se, df=df)


def mcnemar(b: int, c: int) -> McNemar:
    """Exact McNemar test: ``b`` and ``c`` count the pairs that differ, each way."""
    n, least = b + c, min(b, c)
    tail = fair_tail(least, n)
    return McNemar(p=min(1.0, 2 * tail), mid_p=min(1.0, 2 * tail - fair_point(least, n)))


def sign_flip(a: Sequence[float], b: Sequence[float], clusters: Sequence[Hashable] | None = None) -> SignFlip:
    """Exact sign-flip test of the cluster sums of a - b (without clusters: of the pairs).

    Raises ValueError above 20 clusters: 2^C patterns are no longer enumerated.
    """
    return flips_of(differences_of(a, b), clusters)


def flips_of(differences: Sequence[float], clusters: Sequence[Hashable] | None = None) -> SignFlip:
    """As ``sign_flip`` over the differences."""
    groups = by_cluster(differences, clusters).values() if clusters is not None else [[d] for d in differences]
    sums = sorted(math.fsum(group) for group in groups)
    if len(sums) > SIGN_FLIP_LIMIT:
        raise ValueError(f"{len(sums)} clusters: the exact sign flip takes at most {SIGN_FLIP_LIMIT}")
    if not sums:
        return SignFlip(p=1.0, smallest_p=1.0)
    observed = abs(math.fsum(sums))
    least = observed - 1e-12 * max(1.0, observed)
    totals = [sums[0]]  # one sign is fixed: the other half of the patterns is its mirror image
    for value in sums[1:]:
        totals = [t + value for t in totals] + [t - value for t in totals]
    extreme = sum(1 for t in totals if abs(t) >= least)
    return SignFlip(p=extreme / len(totals), smallest_p=1 / len(totals))


def holm(pvalues: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction; a None stays None and does not count."""
    order = sorted((p, i) for i, p in enumerate(pvalues) if p is not None)
    adjusted: list[float | None] = [None] * len(pvalues)
    running = 0.0
    for rank, (p, i) in enumerate(order):
        running = max(running, min(1.0, p * (len(order) - rank)))
        adjusted[i] = running
    return adjusted


def mde(se: float | None, df: float | None = None, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """Smallest detectable effect ``(q(1 - alpha/2) + q(power)) * se``; q is normal, or t when ``df`` is given."""
    if se is None or se < DEGENERATE:
        return None
    if df is None:
        return (normal_quantile(1 - alpha / 2) + normal_quantile(power)) * se
    return (t_quantile(1 - alpha / 2, df=df) + t_quantile(power, df=df)) * se


def differences_of(a: Sequence[float], b: Sequence[float]) -> list[float]:
    """a - b, pair by pair; ValueError where they do not pair."""
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} values do not pair")
    return list(map(sub, a, b))
