"""How many times a percentile of one side is that of the other, over paired times (metrics.md 9).

Few clusters are drawn as whole, and the draws give the error of a t test with C - 1 degrees of freedom: taken as
they are, the tails of ten clusters told equal systems apart in 8 of 100 comparisons (perf/significance.py).
Elsewhere the two marginal intervals are joined through the correlation of the two sides above their percentile::

    percentile_ratio([120.0, 90.0, 300.0], [100.0, 80.0, 310.0], 95).delta
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from operator import gt, lt

from bench.model import Interval
from bench.stats.comparing import Comparison
from bench.stats.correlation import pearson
from bench.stats.descriptive import DEGENERATE, nearest_rank, percentile
from bench.stats.distributions import normal_cdf, normal_quantile, t_quantile, t_two_sided
from bench.stats.resampling import RESAMPLES, percentile_interval
from bench.stats.significance import mde

FEW = 20
"""up to this many clusters are resampled as they are"""


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
    """Compare a nearest-rank percentile of positive paired times; delta, interval and mde are ratio - 1."""
    a, b = percentile(left, p), percentile(right, p)
    if a is None or b is None:
        return Comparison(n=0, excluded=excluded, note="no item is scored on both sides")
    base = _counted(left, right, a, b, excluded)
    count = len(set(groups)) if groups is not None else len(left)
    clustered = groups is not None and count < len(left)
    if clustered:
        base = replace(base, n_clusters=count)
    if count < 2 or a <= 0 or b <= 0:
        why = "one cluster" if clustered else "fewer than two items" if count < 2 else "a time is not above 0"
        return replace(base, note=f"not testable: {why}")
    if clustered and groups is not None and count <= FEW:
        return _drawn(base, left, right, p, groups, level=level, alpha=alpha, power=power, seed=seed)
    kept = groups if clustered else None
    return _joined(base, left, right, p, kept, level=level, alpha=alpha, power=power, seed=seed)


def _counted(left: Sequence[float], right: Sequence[float], a: float, b: float, excluded: int) -> Comparison:
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
class _Sorted:
    """One side: every value in order, and each cluster's own values in order."""

    values: list[float]
    clusters: list[list[float]]

    def at(self, weight: Sequence[int], rank: int) -> float:
        """The value at ``rank`` when each cluster counts ``weight`` times: a search over the values."""
        drawn = [(w, own) for w, own in zip(weight, self.clusters, strict=True) if w]
        low, high = 0, len(self.values) - 1
        while low < high:
            middle = (low + high) // 2
            value = self.values[middle]
            if sum(w * bisect_right(own, value) for w, own in drawn) >= rank:
                high = middle
            else:
                low = middle + 1
        return self.values[low]


def _sorted(values: Sequence[float], groups: Sequence[Hashable], order: Sequence[Hashable]) -> _Sorted:
    own: dict[Hashable, list[float]] = {group: [] for group in order}
    for value, group in zip(values, groups, strict=True):
        own[group].append(value)
    return _Sorted(sorted(values), [sorted(own[group]) for group in order])


def _drawn(
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
    sides = _sorted(left, groups, order), _sorted(right, groups, order)
    rng, places = random.Random(seed), range(len(order))
    logs = []
    for _ in range(RESAMPLES):
        weight = [0] * len(order)
        for place in rng.choices(places, k=len(order)):
            weight[place] += 1
        rank = nearest_rank(sum(w * len(own) for w, own in zip(weight, sides[0].clusters, strict=True)), p)
        drawn = sides[0].at(weight, rank), sides[1].at(weight, rank)
        if min(drawn) <= 0:
            return replace(base, note="not testable: a time is not above 0")
        logs.append(math.log(drawn[0] / drawn[1]))
    mean = math.fsum(logs) / len(logs)
    spread = math.sqrt(math.fsum((x - mean) ** 2 for x in logs) / (len(logs) - 1))
    se = spread * math.sqrt(len(order) / (len(order) - 1))
    return _told(base, se, df=len(order) - 1, level=level, alpha=alpha, power=power, method="cluster_bootstrap")


# ------------------------------------------------------- two marginal intervals joined


def _joined(
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
    """Var(log ratio) = s_a^2 + s_b^2 - 2 r s_a s_b; s from the marginal intervals, r of the exceedances."""
    z = normal_quantile(0.5 + level / 2)
    found = [percentile_interval(side, p, groups, level, seed=seed) for side in (left, right)]
    if base.a is None or base.b is None or any(one is None or one.low <= 0 for one in found):
        return replace(base, note="not testable: a percentile that does not vary")
    errors = [math.log(one.high / one.low) / (2 * z) for one in found if one is not None]
    above = [float(x > base.a) for x in left], [float(x > base.b) for x in right]
    shared = pearson(*above) or 0.0
    se = math.sqrt(max(0.0, errors[0] ** 2 + errors[1] ** 2 - 2 * shared * errors[0] * errors[1]))
    return _told(base, se, df=None, level=level, alpha=alpha, power=power, method="order_statistic")


def _told(
    base: Comparison, se: float, *, df: int | None, level: float, alpha: float, power: float, method: str
) -> Comparison:
    """Test and interval of the log ratio: normal, or t with the clusters' degrees of freedom."""
    if se < DEGENERATE or base.a is None or base.b is None:
        return replace(base, note="not testable: a percentile that does not vary")
    log = math.log(base.a / base.b)
    half = se * (normal_quantile(0.5 + level / 2) if df is None else t_quantile(0.5 + level / 2, df=df))
    effect = mde(se, df, alpha, power)
    return replace(
        base,
        se=se,
        interval=Interval(low=math.expm1(log - half), high=math.expm1(log + half), level=level, method=method),
        p=2 * normal_cdf(-abs(log) / se) if df is None else t_two_sided(log / se, df=df),
        test=method,
        mde=None if effect is None else math.expm1(effect),
        note="delta is the ratio minus 1",
    )
