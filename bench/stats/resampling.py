"""Seeded bootstrap intervals, for statistics that have no formula (percentiles, skewed means).

Example::

    percentile_interval([12.0, 15.0, 11.0, 90.0], 95, seed=7)
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from typing import Literal

from bench.model import Interval
from bench.stats.descriptive import by_cluster, nearest_rank
from bench.stats.distributions import fair_tail, normal_cdf, normal_quantile

RESAMPLES = 2_000
ORDER_STATISTIC_FROM = 5_000
"""above this n a percentile's interval comes from the ranks themselves"""


def bootstrap_interval(
    values: Sequence[float],
    method: Literal["percentile", "bca"] = "percentile",
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    clusters: Sequence[Hashable] | None = None,
) -> Interval | None:
    """Bootstrap interval of the mean; whole clusters are drawn when given; None where it has no width."""
    groups = [[v] for v in values] if clusters is None else list(by_cluster(values, clusters).values())
    if len(groups) < 2:
        return None
    sums, sizes = [math.fsum(g) for g in groups], [len(g) for g in groups]
    draws = sorted(_resampled_means(sums, sizes, resamples, seed))
    tail = (1 - level) / 2
    low_share, high_share = tail, 1 - tail
    if method == "bca":
        low_share, high_share = _corrected_shares(sums, sizes, draws, tail)
    low, high = _at(draws, low_share), _at(draws, high_share)
    return None if high <= low else Interval(low=low, high=high, level=level, method=f"bootstrap_{method}")


def _resampled_means(sums: list[float], sizes: list[int], resamples: int, seed: int) -> list[float]:
    rng, places = random.Random(seed), range(len(sums))
    means = []
    for _ in range(resamples):
        chosen = rng.choices(places, k=len(sums))
        means.append(math.fsum(sums[i] for i in chosen) / sum(sizes[i] for i in chosen))
    return means


def _corrected_shares(sums: list[float], sizes: list[int], draws: list[float], tail: float) -> tuple[float, float]:
    """Bias-corrected and accelerated shares (Efron 1987), acceleration from the jackknife."""
    total, n = math.fsum(sums), sum(sizes)
    below = (bisect_left(draws, total / n) + bisect_right(draws, total / n)) / 2  # of ties, half lie below
    if below in (0, len(draws)):
        return tail, 1 - tail
    bias = normal_quantile(below / len(draws))
    left_out = [(total - s) / (n - size) for s, size in zip(sums, sizes, strict=True)]
    centre = math.fsum(left_out) / len(left_out)
    square = math.fsum((centre - v) ** 2 for v in left_out)
    acceleration = math.fsum((centre - v) ** 3 for v in left_out) / (6 * square**1.5) if square else 0.0

    def share(z: float) -> float:
        return normal_cdf(bias + (bias + z) / (1 - acceleration * (bias + z)))

    return share(normal_quantile(tail)), share(normal_quantile(1 - tail))


def percentile_interval(
    values: Sequence[float],
    p: float,
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval | None:
    """Interval of a nearest-rank percentile: (cluster) bootstrap, order statistics above n = 5,000."""
    n = len(values)
    if n < 2:
        return None
    if n > ORDER_STATISTIC_FROM:
        return _order_statistic_interval(sorted(values), p, level)
    if clusters is not None and len(set(clusters)) < n:
        if len(set(clusters)) < 2:
            return None
        draws = _cluster_percentiles(values, clusters, p, resamples, seed)
        method = "cluster_bootstrap_percentile"
    else:
        draws = _percentiles(sorted(values), p, resamples, seed)
        method = "bootstrap_percentile"
    draws.sort()
    low, high = _at(draws, (1 - level) / 2), _at(draws, (1 + level) / 2)
    return None if high <= low else Interval(low=low, high=high, level=level, method=method)


def _percentiles(ordered: list[float], p: float, resamples: int, seed: int) -> list[float]:
    """The rank-th smallest of n uniform draws is Beta(rank, n - rank + 1): one draw gives a whole resample."""
    n, rng = len(ordered), random.Random(seed)
    rank = nearest_rank(n, p)
    return [ordered[min(n - 1, int(n * rng.betavariate(rank, n - rank + 1)))] for _ in range(resamples)]


def _cluster_percentiles(
    values: Sequence[float], clusters: Sequence[Hashable], p: float, resamples: int, seed: int
) -> list[float]:
    names = sorted({str(c) for c in clusters})
    place = {name: i for i, name in enumerate(names)}
    pairs = sorted((v, place[str(c)]) for v, c in zip(values, clusters, strict=True))
    sizes = [0] * len(names)
    for _, code in pairs:
        sizes[code] += 1
    rng, codes = random.Random(seed), range(len(names))
    draws = []
    for _ in range(resamples):
        weight = [0] * len(names)
        for code in rng.choices(codes, k=len(names)):
            weight[code] += 1
        total = sum(w * s for w, s in zip(weight, sizes, strict=True))
        draws.append(_weighted_rank(pairs, weight, total, nearest_rank(total, p)))
    return draws


def _weighted_rank(pairs: list[tuple[float, int]], weight: list[int], total: int, rank: int) -> float:
    """The value at ``rank`` when each value counts as often as its cluster was drawn; walks from the nearer end."""
    if rank * 2 <= total:
        seen = 0
        return next(value for value, code in pairs if (seen := seen + weight[code]) >= rank)
    seen = total
    return next(value for value, code in reversed(pairs) if (seen := seen - weight[code]) < rank and weight[code])


def _order_statistic_interval(ordered: list[float], p: float, level: float) -> Interval | None:
    """Ranks n*q -+ z*sqrt(n*q*(1-q)) (normal approximation of the binomial)."""
    n, q = len(ordered), p / 100
    if p == 50:
        low_rank = _median_rank(n, level)
        low, high = ordered[low_rank - 1], ordered[n - low_rank]
    else:
        half = normal_quantile(0.5 + level / 2) * math.sqrt(n * q * (1 - q))
        low = ordered[max(0, math.floor(n * q - half) - 1)]
        high = ordered[min(n - 1, math.ceil(n * q + half))]
    return None if high <= low else Interval(low=low, high=high, level=level, method="order_statistic")


def _median_rank(n: int, level: float) -> int:
    """The largest rank whose tail of fair tosses stays within (1 - level)/2."""
    rank = math.floor(n / 2 - normal_quantile(0.5 + level / 2) * math.sqrt(n) / 2) + 2  # the normal limit, from above
    while rank > 1 and fair_tail(rank - 1, n) > (1 - level) / 2:
        rank -= 1
    return rank


def _at(ordered: Sequence[float], share: float) -> float:
    """Linear quantile of sorted draws."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
