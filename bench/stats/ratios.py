"""How many times a percentile of one side is that of the other, over paired times (metrics.md 9).

Few clusters are drawn as whole; elsewhere the two marginal intervals are joined through the correlation of
the two sides above their percentile::

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
from bench.stats.descriptive import nearest_rank, percentile
from bench.stats.distributions import normal_cdf, normal_quantile
from bench.stats.resampling import RESAMPLES, percentile_interval

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
        logs.append(math.log(sides[0].at(weight, rank) / sides[1].at(weight, rank)))
    logs.sort()
    mean = math.fsum(logs) / len(logs)
    se = math.sqrt(math.fsum((x - mean) ** 2 for x in logs) / (len(logs) - 1))
    tail = round((1 - level) / 2 * len(logs))
    low, high = logs[tail], logs[-1 - tail]
    above = sum(x > 0 for x in logs) + sum(x == 0 for x in logs) / 2
    beyond = min(above, len(logs) - above)
    return _told(
        base,
        (low, high),
        p=min(1.0, 2 * (beyond + 1) / (len(logs) + 1)),
        smallest_p=2 / (len(logs) + 1),
        se=se,
        level=level,
        alpha=alpha,
        power=power,
        method="cluster_bootstrap",
    )


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
    if se == 0:
        return replace(base, note="not testable: a percentile that does not vary")
    log = math.log(base.a / base.b)
    return _told(
        base,
        (log - z * se, log + z * se),
        p=2 * normal_cdf(-abs(log) / se),
        smallest_p=None,
        se=se,
        level=level,
        alpha=alpha,
        power=power,
        method="order_statistic",
    )


def _told(
    base: Comparison,
    logs: tuple[float, float],
    *,
    p: float,
    smallest_p: float | None,
    se: float,
    level: float,
    alpha: float,
    power: float,
    method: str,
) -> Comparison:
    low, high = (math.expm1(x) for x in logs)
    effect = (normal_quantile(1 - alpha / 2) + normal_quantile(power)) * se
    return replace(
        base,
        se=se,
        interval=Interval(low=low, high=high, level=level, method=method) if low < high else None,
        p=p,
        test=method,
        smallest_p=smallest_p,
        mde=math.expm1(effect) if effect else None,
        note="delta is the ratio minus 1",
    )
