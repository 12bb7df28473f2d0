"""Compare the times of two systems on the same items: compute and test the ratio of their percentiles.

With up to 20 clusters, whole clusters are resampled. Each resample gives a log ratio, and the spread of all log ratios
gives the standard error of a t test. For C clusters, the test has C - 1 degrees of freedom. A plain bootstrap of ten
clusters would find a difference between equal systems in 8 of 100 comparisons (perf/significance.py).

With more clusters, or without clusters, the standard error comes from the confidence interval of each
system's percentile, and from the correlation of the times above the percentiles::

    percentile_ratio([120.0, 90.0, 300.0], [100.0, 80.0, 310.0], 95).delta
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from operator import gt, lt, mul, sub

from bench.model import Interval
from bench.stats.correlation import pearson
from bench.stats.descriptive import DEGENERATE, nearest_rank, percentile, stderr, stderr_clustered
from bench.stats.distributions import normal_quantile, t_quantile, t_two_sided
from bench.stats.intervals import RESAMPLES, cluster_draws, percentile_interval
from bench.stats.paired import Comparison, ratio, ratio_interval
from bench.stats.significance import mde

MAX_RESAMPLED_CLUSTERS = 20
"""largest number of clusters for which whole clusters are resampled"""
MIN_BEYOND = 5
"""if fewer items than this are beyond the percentile, nothing is tested"""


def percentile_ratio(
    left: Sequence[float],
    right: Sequence[float],
    p: float,
    groups: Sequence[Hashable] | None = None,
    *,
    excluded: int = 0,
    level: float = 0.95,
    alpha: float = 0.05,
    power: float = 0.8,
    seed: int = 0,
) -> Comparison:
    """Compare the p-th percentile (0..100, nearest rank) of the times of two systems; times must be above 0.

    ``delta``, ``interval`` and ``mde`` of the result are ratios minus 1.
    """
    a, b = percentile(left, p), percentile(right, p)
    if a is None or b is None:
        return Comparison(n=0, excluded=excluded, note="no item is scored on both sides")
    base = _descriptive(left, right, a, b, excluded)
    count = len(set(groups)) if groups is not None else len(left)
    clustered = groups is not None and count < len(left)
    if clustered:
        base = replace(base, n_clusters=count)
    if count < 2 or a <= 0 or b <= 0:
        few = "one cluster" if clustered else "fewer than two items"
        why = few if count < 2 else "a time is not above 0"
        return replace(base, note=f"not testable: {why}")
    if clustered and groups is not None and count <= MAX_RESAMPLED_CLUSTERS:
        return _resampled_test(base, left, right, p, groups, level=level, alpha=alpha, power=power, seed=seed)
    kept = groups if clustered else None
    return _marginal_test(base, left, right, p, kept, level=level, alpha=alpha, power=power, seed=seed)


def _descriptive(left: Sequence[float], right: Sequence[float], a: float, b: float, excluded: int) -> Comparison:
    wins, losses = sum(map(gt, left, right)), sum(map(lt, left, right))
    return Comparison(
        n=len(left),
        excluded=excluded,
        a=a,
        b=b,
        delta=a / b - 1 if b else None,
        wins=wins,
        losses=losses,
        ties=len(left) - wins - losses,
        correlation=pearson(left, right),
    )


# ------------------------------------------------------------- whole clusters drawn


@dataclass(frozen=True, slots=True)
class _SortedSide:
    """The sorted times of one system, for all items and for each cluster."""

    values: list[float]
    clusters: list[list[float]]
    counts: dict[int, list[int]] = field(default_factory=dict)
    """cache: index in ``values`` -> for each cluster, the number of its values up to the value at this index"""

    def at(self, weight: Sequence[int], rank: int) -> float:
        """Return the value at ``rank`` if the values of each cluster occur ``weight`` times."""

        def drawn(place: int) -> int:
            return sum(map(mul, weight, self._counts_at(place)))

        return self.values[bisect_left(range(len(self.values) - 1), rank, key=drawn)]

    def _counts_at(self, place: int) -> list[int]:
        if place not in self.counts:
            value = self.values[place]
            self.counts[place] = [bisect_right(own, value) for own in self.clusters]
        return self.counts[place]


def _sorted_side(values: Sequence[float], groups: Sequence[Hashable], order: Sequence[Hashable]) -> _SortedSide:
    own: dict[Hashable, list[float]] = {group: [] for group in order}
    for value, group in zip(values, groups, strict=True):
        own[group].append(value)
    return _SortedSide(sorted(values), [sorted(own[group]) for group in order])


def _resampled_test(
    base: Comparison,
    left: Sequence[float],
    right: Sequence[float],
    p: float,
    groups: Sequence[Hashable],
    *,
    level: float,
    alpha: float,
    power: float,
    seed: int,
) -> Comparison:
    order = sorted(set(groups), key=str)
    sides = _sorted_side(left, groups, order), _sorted_side(right, groups, order)
    sizes = list(map(len, sides[0].clusters))
    logs = []
    for weight in cluster_draws(len(order), RESAMPLES, seed):
        rank = nearest_rank(sum(map(mul, weight, sizes)), p)
        drawn = sides[0].at(weight, rank), sides[1].at(weight, rank)
        if min(drawn) <= 0:
            return replace(base, note="not testable: a time is not above 0")
        logs.append(math.log(drawn[0] / drawn[1]))
    mean = math.fsum(logs) / len(logs)
    spread = math.sqrt(math.fsum((x - mean) ** 2 for x in logs) / (len(logs) - 1))
    se = spread * math.sqrt(len(order) / (len(order) - 1))
    return _with_test(base, se, df=len(order) - 1, level=level, alpha=alpha, power=power, method="cluster_bootstrap")


# ------------------------------------------------------- two marginal intervals joined


def _marginal_test(
    base: Comparison,
    left: Sequence[float],
    right: Sequence[float],
    p: float,
    groups: Sequence[Hashable] | None,
    *,
    level: float,
    alpha: float,
    power: float,
    seed: int,
) -> Comparison:
    """Test the log ratio of two percentiles by t. The standard error comes from ``_influences`` of both sides.

    Without clusters, Var(log ratio) = s_a^2 + s_b^2 - 2 r s_a s_b. Here s_a and s_b are the standard errors from the
    interval of each percentile. r is the correlation of two events per item: the time of a is above a's percentile, and
    the time of b is above b's percentile.
    """
    beyond = int(len(left) * min(p, 100 - p) / 100)
    if beyond < MIN_BEYOND:
        return replace(base, note=f"not testable: fewer than {MIN_BEYOND} items beyond the percentile")
    parts = [_influences(side, at, p, level, seed) for side, at in ((left, base.a), (right, base.b))]
    if parts[0] is None or parts[1] is None:
        return replace(base, note="not testable: a percentile that does not vary")
    moves = list(map(sub, parts[0], parts[1]))
    se = stderr(moves) if groups is None else stderr_clustered(moves, groups)
    df = beyond - 1 if groups is None else min(beyond, len(set(groups))) - 1
    return _with_test(base, se or 0.0, df=df, level=level, alpha=alpha, power=power, method="order_statistic")


def _influences(side: Sequence[float], at: float | None, p: float, level: float, seed: int) -> list[float] | None:
    """Return the influence of each value on the logarithm of the percentile ``at``.

    The influence is 0 for values up to the percentile, and a constant for values above. The result is None if the
    percentile has no usable confidence interval.
    """
    found = percentile_interval(side, p, level=level, seed=seed)
    if at is None or found is None or found.low <= 0:
        return None
    above = [x > at for x in side]
    share = sum(above) / len(above)
    if not share:
        return None
    error = math.sqrt(share * (1 - share) / (len(above) - 1))
    scale = math.log(found.high / found.low) / (2 * normal_quantile(0.5 + level / 2)) / error
    return [scale if one else 0.0 for one in above]


def _with_test(
    base: Comparison, se: float, *, df: int, level: float, alpha: float, power: float, method: str
) -> Comparison:
    """Return the comparison with the t test and the interval of the ratio; ``df`` = degrees of freedom."""
    if se < DEGENERATE or base.a is None or base.b is None:
        return replace(base, note="not testable: a percentile that does not vary")
    log = math.log(base.a / base.b)
    half = se * t_quantile(0.5 + level / 2, df=df)
    effect = mde(se, df, alpha, power)
    return replace(
        base,
        se=se,
        interval=ratio_interval(Interval(low=log - half, high=log + half, level=level, method=method)),
        p=t_two_sided(log / se, df=df),
        test=method,
        mde=None if effect is None else ratio(effect),
        note="delta is the ratio minus 1",
    )
