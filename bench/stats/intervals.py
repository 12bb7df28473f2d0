"""Confidence intervals of a mean: which one fits, and each by itself.

``interval`` chooses in this order: cluster t, Wilson, t, their degenerate forms, nothing. It clips to
0..1 where all values lie there and is never of zero width.

Example::

    interval([1, 1, 0, 1], clusters=["a", "a", "b", "b"]).method     # "cluster_t"
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from bench.model import Interval
from bench.stats.descriptive import DEGENERATE, are_binary, are_bounded, mean, stderr, stderr_clustered
from bench.stats.distributions import normal_quantile, t_quantile


def interval_wilson(successes: float, n: int, level: float = 0.95) -> Interval | None:
    """Wilson score interval of a share; ``successes`` may be fractional; None when n = 0."""
    if n <= 0:
        return None
    z = normal_quantile(0.5 + level / 2)
    share = successes / n
    scale = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / scale
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / scale
    low = 0.0 if successes <= 0 else max(0.0, centre - half)
    high = 1.0 if successes >= n else min(1.0, centre + half)
    return Interval(low=low, high=high, level=level, method="wilson")


def interval_t(values: Sequence[float], level: float = 0.95) -> Interval | None:
    """Student t interval of the mean with n - 1 degrees of freedom; None when n < 2. Not clipped."""
    se, centre = stderr(values), mean(values)
    if se is None or centre is None:
        return None
    return around(centre, se, df=len(values) - 1, level=level, method="t")


def interval_cluster(values: Sequence[float], clusters: Sequence[Hashable], level: float = 0.95) -> Interval | None:
    """Cluster-robust t interval (CR1, C - 1 degrees of freedom); None with one cluster. Not clipped."""
    se, centre = stderr_clustered(values, clusters), mean(values)
    if se is None or centre is None:
        return None
    return around(centre, se, df=len(set(clusters)) - 1, level=level, method="cluster_t")


def interval(
    values: Sequence[float], clusters: Sequence[Hashable] | None = None, level: float = 0.95
) -> Interval | None:
    """The interval that fits the data (metrics.md 8), or None where none can be given."""
    if not values:
        return None
    bounded = are_bounded(values)
    count = len(set(clusters)) if clusters is not None else len(values)
    if clusters is not None and count < len(values):
        if count < 2:
            return None
        return _t_or_degenerate(values, interval_cluster(values, clusters, level), count, bounded, level)
    if are_binary(values):
        return interval_wilson(math.fsum(values), len(values), level)
    return _t_or_degenerate(values, interval_t(values, level), len(values), bounded, level)


def interval_macro(
    groups: Sequence[Sequence[float]],
    clusters: Sequence[Sequence[Hashable]] | None = None,
    level: float = 0.95,
) -> Interval | None:
    """Interval of the mean of group means: ``sqrt(sum(SE^2)) / groups``, t with C - 1 or n - 1.

    A group of one item or one cluster has no error of its own: in 0..1 half the width of its Wilson
    interval stands in for it, otherwise there is no interval. Errors that are all 0 give the degenerate form.
    """
    filled = [i for i, group in enumerate(groups) if group]
    n = sum(len(groups[i]) for i in filled)
    pooled = {c for i in filled for c in clusters[i]} if clusters is not None else set()
    clustered = clusters is not None and len(pooled) < n
    count = len(pooled) if clustered else n
    if count < 2:
        return None
    errors = [_group_error(groups[i], clusters[i] if clustered and clusters else None, level) for i in filled]
    known = [error for error in errors if error is not None]
    if len(known) < len(errors):
        return None
    means = [math.fsum(groups[i]) / len(groups[i]) for i in filled]
    bounded = all(are_bounded(groups[i]) for i in filled)
    se = math.sqrt(math.fsum(e * e for e in known)) / len(filled)
    if se < DEGENERATE:
        return _degenerate(means, count, level) if bounded else None
    found = around(math.fsum(means) / len(means), se, df=count - 1, level=level, method="macro_t")
    return clip(found, 0, 1) if bounded else found


def _group_error(values: Sequence[float], clusters: Sequence[Hashable] | None, level: float) -> float | None:
    se = stderr(values) if clusters is None else stderr_clustered(values, clusters)
    if se is not None:
        return se
    if not are_bounded(values):
        return None
    count = len(values) if clusters is None else len(set(clusters))
    wilson = interval_wilson(math.fsum(values) / len(values) * count, count, level)
    return None if wilson is None else (wilson.high - wilson.low) / (2 * normal_quantile(0.5 + level / 2))


def _t_or_degenerate(
    values: Sequence[float], found: Interval | None, count: int, bounded: bool, level: float
) -> Interval | None:
    if found is None:
        return None
    if found.high - found.low < DEGENERATE:
        return _degenerate(values, count, level) if bounded else None
    return clip(found, 0, 1) if bounded else found


def _degenerate(values: Sequence[float], count: int, level: float) -> Interval | None:
    wilson = interval_wilson(math.fsum(values) / len(values) * count, count, level)
    if wilson is None:
        return None
    return Interval(low=wilson.low, high=wilson.high, level=level, method="wilson_degenerate")


def around(centre: float, se: float, *, df: float, level: float, method: str) -> Interval:
    """``centre`` -+ the t quantile times ``se``."""
    half = t_quantile(0.5 + level / 2, df=df) * se
    return Interval(low=centre - half, high=centre + half, level=level, method=method)


def clip(found: Interval, low: float, high: float) -> Interval:
    """The interval cut to low..high."""
    return Interval(low=max(low, found.low), high=min(high, found.high), level=found.level, method=found.method)
