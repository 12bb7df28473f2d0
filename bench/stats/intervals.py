"""Confidence intervals of a mean, and bootstrap intervals of percentiles and other statistics.

``interval`` uses the cluster t method if there are clusters, Wilson if all values are 0 or 1, and t otherwise. If all
values are equal and in 0..1, it uses Wilson too (method ``wilson_degenerate``), because t would give a width of 0.

Example::

    interval([1, 1, 0, 1], clusters=["a", "a", "b", "b"]).method     # "cluster_t"
    percentile_interval([12.0, 15.0, 11.0, 90.0], 95, seed=7)
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import mul
from typing import Literal

from bench.model import Interval
from bench.stats.descriptive import DEGENERATE, above_rounding, by_cluster, mean, nearest_rank, stderr, stderr_clustered
from bench.stats.distributions import fair_tail, normal_cdf, normal_quantile, t_quantile
from bench.stats.tally import RunningSums, Tally, clusters_of


def interval_wilson(successes: float, n: int, level: float = 0.95) -> Interval | None:
    """Return the Wilson score interval of the share successes / n; None if n is 0.

    ``successes`` may be a fraction.

    Raises:
        ValueError: ``successes`` is not in 0..n.
    """
    if n <= 0:
        return None
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes in {n} trials: expected 0 to {n}")
    z = normal_quantile(0.5 + level / 2)
    share = successes / n
    scale = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / scale
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / scale
    low = max(0.0, centre - half) if successes else 0.0
    high = min(1.0, centre + half) if successes < n else 1.0
    return Interval(low=low, high=high, level=level, method="wilson")


def interval_t(values: Sequence[float], level: float = 0.95) -> Interval | None:
    """Return the Student t interval of the mean with n - 1 degrees of freedom; None if n < 2.

    The interval is not clipped to 0..1.
    """
    se, centre = stderr(values), mean(values)
    if se is None or centre is None:
        return None
    return interval_around(centre, se, df=len(values) - 1, level=level, method="t")


def interval_cluster(values: Sequence[float], clusters: Sequence[Hashable], level: float = 0.95) -> Interval | None:
    """Return the t interval of the mean with the cluster-robust standard error CR1; None for fewer than 2 clusters.

    For C clusters, there are C - 1 degrees of freedom. The interval is not clipped to 0..1.
    """
    se, centre = stderr_clustered(values, clusters), mean(values)
    if se is None or centre is None:
        return None
    return interval_around(centre, se, df=len(set(clusters)) - 1, level=level, method="cluster_t")


def interval(
    values: Sequence[float], clusters: Sequence[Hashable] | None = None, level: float = 0.95
) -> Interval | None:
    """Return the confidence interval of the mean; None if no interval can be computed, for example for one cluster.

    ``clusters`` has the cluster of each value; None = all values are independent.
    """
    tally = Tally.of(values, clusters)
    return None if tally.clusters == 1 else interval_of(tally, level)


def interval_of(tally: Tally | RunningSums, level: float = 0.95, *, shares: bool = True) -> Interval | None:
    """Return the confidence interval of the mean of stored numbers; None if no interval can be computed.

    Set ``shares`` to False if the values are money or time. If there is only one cluster, the interval treats the items
    of this cluster as independent. Such an interval does not apply to other clusters, so the caller must report this.
    """
    if not tally:
        return None
    count = tally.clusters
    if count is not None and count > 1:
        return _t_or_degenerate(tally, "cluster_t", count, level, shares=shares)
    if shares and tally.binary():
        return interval_wilson(tally.total, tally.n, level)
    return None if tally.n < 2 else _t_or_degenerate(tally, "t", tally.n, level, shares=shares)


def interval_macro_of(groups: Sequence[Tally], level: float = 0.95) -> Interval | None:
    """Return the t interval of the mean of the group means.

    The standard error is ``sqrt(sum(SE^2)) / groups``. There are C - 1 degrees of freedom for C clusters, or n - 1 for
    n values without clusters. If there is only one cluster, its items are treated as independent. A group of one item
    or one cluster has no standard error, so the error is computed from its Wilson interval. If all errors are 0, the
    result is a Wilson interval. A Wilson interval needs values in 0..1; for other values, the result is None instead.
    The result is also None if there is only one value.
    """
    filled = [group for group in groups if group]
    n = sum(group.n for group in filled)
    count = clusters_of(filled) or n
    count = count if count > 1 else n  # one cluster: over its items
    if count < 2:
        return None
    errors = [_group_error(group, level, clustered=count < n) for group in filled]
    known = [error for error in errors if error is not None]
    if len(known) < len(errors):
        return None
    means = [group.total / group.n for group in filled]
    bounded = all(group.bounded() for group in filled)
    se = math.sqrt(math.fsum(e * e for e in known)) / len(filled)
    centre = math.fsum(means) / len(means)
    if se < DEGENERATE:
        return _degenerate(centre, count, level) if bounded else None
    found = interval_around(centre, se, df=count - 1, level=level, method="macro_t")
    return clip(found, 0, 1) if bounded else found


def _group_error(group: Tally, level: float, *, clustered: bool) -> float | None:
    count = len(group.groups) if clustered else group.n
    if count > 1:
        return _standard_error(group, count if clustered else None)
    if not group.bounded():
        return None
    wilson = interval_wilson(group.total / group.n * count, count, level)
    return None if wilson is None else (wilson.high - wilson.low) / (2 * normal_quantile(0.5 + level / 2))


def _standard_error(tally: Tally | RunningSums, clusters: int | None) -> float:
    """Return the standard error of the mean; ``clusters`` is the number of clusters, None = independent values."""
    if clusters is None:
        error = math.sqrt(tally.square() / (tally.n - 1) / tally.n)
    else:
        square = math.fsum(s * s for s in tally.deviations())
        error = math.sqrt(clusters / (clusters - 1) * square) / tally.n
    return above_rounding(error, tally.total / tally.n)


def _t_or_degenerate(
    tally: Tally | RunningSums, method: str, count: int, level: float, *, shares: bool
) -> Interval | None:
    se = _standard_error(tally, count if method == "cluster_t" else None)
    centre, bounded = tally.total / tally.n, tally.bounded()
    if se < DEGENERATE:
        return _degenerate(centre, count, level) if bounded and shares else None
    found = interval_around(centre, se, df=count - 1, level=level, method=method)
    return clip(found, 0, 1) if bounded else found


def _degenerate(centre: float, count: int, level: float) -> Interval | None:
    wilson = interval_wilson(centre * count, count, level)
    return None if wilson is None else replace(wilson, method="wilson_degenerate")


def interval_around(centre: float, se: float, *, df: float, level: float, method: str) -> Interval:
    """Return the interval from ``centre`` - t * ``se`` to ``centre`` + t * ``se``; t is the quantile for ``level``."""
    half = t_quantile(0.5 + level / 2, df=df) * se
    return Interval(low=centre - half, high=centre + half, level=level, method=method)


def clip(found: Interval, low: float, high: float) -> Interval:
    """Return the interval with both limits moved into the range low..high."""
    return Interval(low=max(low, found.low), high=min(high, found.high), level=found.level, method=found.method)


RESAMPLES = 2_000
MAX_CACHED_CLUSTERS = 20
ORDER_STATISTIC_FROM = 5_000
"""with more values than this, the interval of a percentile is computed from ranks, not by bootstrap"""
LARGEST_CHANGE = 500.0
"""largest change of log odds that is used, so that ``math.exp`` does not overflow"""


def bootstrap_interval(
    values: Sequence[float],
    method: Literal["percentile", "bca"] = "percentile",
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    clusters: Sequence[Hashable] | None = None,
) -> Interval | None:
    """Return the bootstrap interval of the mean.

    Return None for fewer than two values or clusters, or if the interval has no width.

    If ``clusters`` is given, whole clusters are drawn, not single values. ``bca`` is the bias-corrected and accelerated
    bootstrap (Efron 1987).
    """
    groups = [[v] for v in values] if clusters is None else list(by_cluster(values, clusters).values())
    if len(groups) < 2:
        return None
    sums, sizes = [math.fsum(g) for g in groups], [len(g) for g in groups]
    draws = sorted(_resampled_means(sums, sizes, resamples, seed))
    tail = (1 - level) / 2
    low_share, high_share = tail, 1 - tail
    if method == "bca":
        low_share, high_share = _corrected_shares(sums, sizes, draws, tail)
    low, high = _quantile(draws, low_share), _quantile(draws, high_share)
    return None if high <= low else Interval(low=low, high=high, level=level, method=f"bootstrap_{method}")


def _resampled_means(sums: list[float], sizes: list[int], resamples: int, seed: int) -> list[float]:
    rng, places = random.Random(seed), range(len(sums))
    means = []
    for _ in range(resamples):
        chosen = rng.choices(places, k=len(sums))
        means.append(math.fsum(sums[i] for i in chosen) / sum(sizes[i] for i in chosen))
    return means


def _corrected_shares(sums: list[float], sizes: list[int], draws: list[float], tail: float) -> tuple[float, float]:
    """Return the levels (0..1) of the two quantiles of ``draws`` that are the limits of a BCa interval (Efron 1987).

    BCa means bias-corrected and accelerated. The acceleration is estimated by the jackknife.
    """
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
    """Return the confidence interval of the p-th percentile (p in 0..100, nearest rank).

    Up to 5,000 values, the method is the bootstrap, with whole clusters if ``clusters`` is given. For more values, the
    interval is computed from ranks. The result is None for fewer than two values, for one cluster, or if the interval
    has no width.
    """
    n = len(values)
    is_clustered = clusters is not None and len(set(clusters)) < n
    if n < 2 or (is_clustered and len(set(clusters or ())) < 2):
        return None
    if n > ORDER_STATISTIC_FROM:
        ordered = sorted(values)
        tally = Tally.of(values, clusters if is_clustered else None)
        return order_statistic_interval(ordered, p, tally.at_most(ordered[nearest_rank(n, p) - 1]), level)
    if clusters is not None and is_clustered:
        draws = _cluster_percentiles(values, clusters, p, resamples, seed)
        method = "cluster_bootstrap_percentile"
    else:
        draws = _percentiles(sorted(values), p, resamples, seed)
        method = "bootstrap_percentile"
    draws.sort()
    low, high = _quantile(draws, (1 - level) / 2), _quantile(draws, (1 + level) / 2)
    return None if high <= low else Interval(low=low, high=high, level=level, method=method)


def _percentiles(ordered: list[float], p: float, resamples: int, seed: int) -> list[float]:
    n = len(ordered)
    return [ordered[place] for place in _resampled_indexes(n, nearest_rank(n, p), resamples, seed)]


@lru_cache(maxsize=16)
def _resampled_indexes(n: int, rank: int, resamples: int, seed: int) -> list[int]:
    """Return, for each resample, the index of the percentile in the n sorted values.

    One number from Beta(rank, n - rank + 1) replaces the drawing of n values. Recent results are cached, because all
    latency metrics of a run need the same indexes.
    """
    rng = random.Random(seed)
    return [min(n - 1, int(n * rng.betavariate(rank, n - rank + 1))) for _ in range(resamples)]


def _cluster_percentiles(
    values: Sequence[float], clusters: Sequence[Hashable], p: float, resamples: int, seed: int
) -> list[float]:
    names = sorted({str(c) for c in clusters})
    code_of = {name: i for i, name in enumerate(names)}
    pairs = sorted((v, code_of[str(c)]) for v, c in zip(values, clusters, strict=True))
    sizes, below = [0] * len(names), [0] * len(names)
    place = nearest_rank(len(pairs), p) - 1
    for at, (_, code) in enumerate(pairs):
        sizes[code] += 1
        below[code] += at < place
    up, down = pairs[place:], pairs[:place][::-1]
    found, ranks = [], _ranks(tuple(sizes), p, resamples, seed)
    known: dict[tuple[int, ...], float] = {}  # few clusters are drawn alike again and again
    for weight, rank in zip(cluster_draws(len(names), resamples, seed), ranks, strict=True):
        value = known.get(weight)
        if value is None:
            missing = rank - sum(map(mul, weight, below))
            value = _value_upwards(up, weight, missing) if missing > 0 else _value_downwards(down, weight, missing)
            if len(names) <= MAX_CACHED_CLUSTERS:
                known[weight] = value
        found.append(value)
    return found


@lru_cache(maxsize=16)
def _ranks(sizes: tuple[int, ...], p: float, resamples: int, seed: int) -> list[int]:
    """Return the rank of the p-th percentile in each resample. ``sizes`` has the number of values of each cluster."""
    draws = cluster_draws(len(sizes), resamples, seed)
    return [nearest_rank(sum(map(mul, weight, sizes)), p) for weight in draws]


def _value_upwards(pairs: list[tuple[float, int]], weight: tuple[int, ...], missing: int) -> float:
    """Count values, from the smallest, and return the value at which the count reaches ``missing``.

    ``pairs`` has (value, cluster), the smallest value first. ``weight`` has the number by which a value of each cluster
    is counted: how often the cluster was drawn.
    """
    for value, code in pairs:
        missing -= weight[code]
        if missing <= 0:
            return value
    raise AssertionError  # a rank is at most the number of values drawn


def _value_downwards(pairs: list[tuple[float, int]], weight: tuple[int, ...], missing: int) -> float:
    """Count values, from the largest, and return the value at which the count exceeds ``-missing``.

    ``pairs`` has (value, cluster), the largest value first. ``weight`` has the number by which a value of each cluster
    is counted: how often the cluster was drawn. ``missing`` is negative or 0.
    """
    for value, code in pairs:
        missing += weight[code]
        if missing > 0:
            return value
    raise AssertionError  # a rank is at least 1


def cluster_draws(count: int, resamples: int, seed: int) -> Iterable[tuple[int, ...]]:
    """Return one tuple per resample: how often this resample draws each cluster.

    For few clusters, the result is cached, because all metrics use the same draws.
    """
    return (
        _cached_draws(count, resamples, seed)
        if count <= MAX_CACHED_CLUSTERS
        else _cluster_draws(count, resamples, seed)
    )


@lru_cache(maxsize=4)
def _cached_draws(count: int, resamples: int, seed: int) -> list[tuple[int, ...]]:
    return list(_cluster_draws(count, resamples, seed))


def _cluster_draws(count: int, resamples: int, seed: int) -> Iterator[tuple[int, ...]]:
    rng, places = random.Random(seed), range(count)
    for _ in range(resamples):
        weight = [0] * count
        for place in rng.choices(places, k=count):
            weight[place] += 1
        yield tuple(weight)


def order_statistic_interval(
    ordered: Sequence[float], p: float, reached: Sequence[tuple[int, int]] | None, level: float = 0.95
) -> Interval | None:
    """Return the interval of a percentile: the values at a lower and an upper rank; None if both values are equal.

    ``reached`` has, for each cluster, the number of values and the number of values up to the percentile. None means
    that there are no clusters.

    With clusters, the ranks come from a cluster-robust interval of the share q = p / 100, on the scale of log odds
    (Woodruff 1952; ``xlogit`` of R's survey package). Without clusters, the ranks for the median are exact. The ranks
    for other percentiles are n*q -+ z*sqrt(n*q*(1-q)), the normal approximation of the binomial.
    """
    n, q = len(ordered), p / 100
    if reached is not None and 0 < p < 100:
        shares = _share_interval(reached, q, level)
        low, high = (ordered[min(n, max(1, math.ceil(n * share))) - 1] for share in shares)
    elif p == 50:
        low_rank = _median_rank(n, level)
        low, high = ordered[low_rank - 1], ordered[n - low_rank]
    else:
        half = normal_quantile(0.5 + level / 2) * math.sqrt(n * q * (1 - q))
        low = ordered[max(0, math.floor(n * q - half) - 1)]
        high = ordered[min(n - 1, math.ceil(n * q + half))]
    method = "order_statistic" if reached is None else "cluster_order_statistic"
    return None if high <= low else Interval(low=low, high=high, level=level, method=method)


def _share_interval(reached: Sequence[tuple[int, int]], q: float, level: float) -> tuple[float, float]:
    """Return the lower and upper limit of the share q, with the cluster-robust standard error CR1.

    ``reached`` has, for each cluster, the number of values and the number of values up to the percentile.
    """
    clusters, n = len(reached), sum(size for size, _ in reached)
    share = sum(count for _, count in reached) / n
    error = math.sqrt(clusters / (clusters - 1) * math.fsum((k - share * size) ** 2 for size, k in reached)) / n
    change = t_quantile(0.5 + level / 2, df=clusters - 1) * error / (q * (1 - q))
    odds, half = q / (1 - q), math.exp(min(change, LARGEST_CHANGE))
    return odds / (odds + half), odds * half / (1 + odds * half)


def _median_rank(n: int, level: float) -> int:
    """Return the lower rank of the exact interval of the median of n values."""
    rank = math.floor(n / 2 - normal_quantile(0.5 + level / 2) * math.sqrt(n) / 2) + 2  # the normal limit, from above
    while rank > 1 and fair_tail(rank - 1, n) > (1 - level) / 2:
        rank -= 1
    return rank


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return the quantile of sorted numbers, with linear interpolation; ``share`` is in 0..1."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
