"""Means, standard errors and percentiles. The order of the values has no effect.

Example::

    percentile([10, 20, 30, 40], 95)                  # 40: the nearest rank
    stderr_clustered([1, 0, 1, 1], ["a", "a", "b", "b"])
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import chain, groupby, repeat
from typing import Literal

DEGENERATE = 1e-15
"""a standard error smaller than this share of the mean is only a rounding error and counts as 0"""


def mean(values: Sequence[float]) -> float | None:
    """Return the arithmetic mean; None if there are no values."""
    return math.fsum(values) / len(values) if values else None


def stderr(values: Sequence[float]) -> float | None:
    """Return the standard error of the mean, from the variance with n - 1; None if n < 2."""
    n = len(values)
    if n < 2:
        return None
    centre = math.fsum(values) / n
    return above_rounding(math.sqrt(math.fsum((d := v - centre) * d for v in values) / (n - 1) / n), centre)


def above_rounding(se: float, centre: float) -> float:
    """Return ``se``, or 0 if ``se`` is so small that it is only a rounding error of the mean ``centre``."""
    return se if se > DEGENERATE * abs(centre) else 0.0


def stderr_clustered(
    values: Sequence[float], clusters: Sequence[Hashable], *, correction: Literal["cr0", "cr1"] = "cr1"
) -> float | None:
    """Return the cluster-robust standard error of the mean; None if there are fewer than two clusters.

    The formula is ``sqrt(C/(C-1) * sum(S_c^2)) / n`` for C clusters and n values. S_c is the sum of the deviations from
    the mean in cluster c. With ``cr0``, the factor C/(C-1) is omitted.
    """
    groups, centre = by_cluster(values, clusters).values(), mean(values)
    count = len(groups)
    if centre is None or count < 2:
        return None
    sums = [math.fsum(chain(members, repeat(-centre, len(members)))) for members in groups]
    factor = count / (count - 1) if correction == "cr1" else 1.0
    return above_rounding(math.sqrt(factor * math.fsum(s * s for s in sums)) / len(values), centre)


def by_cluster(values: Sequence[float], clusters: Sequence[Hashable]) -> dict[Hashable, list[float]]:
    """Return cluster -> its values, with clusters in the order of their first value.

    ``clusters`` has the cluster of each value.
    """
    if len(values) != len(clusters):
        raise ValueError(
            f"the values and clusters cannot be paired: got {len(values)} and {len(clusters)}, expected the same number"
        )
    members: dict[Hashable, list[float]] = {}
    start = 0
    for cluster, run in groupby(clusters):
        end = start + len(list(run))
        members.setdefault(cluster, []).extend(values[start:end])
        start = end
    return members


def are_binary(values: Sequence[float]) -> bool:
    """Return True when all values are 0 or 1."""
    if any(value not in (0, 1) for value in values[:32]):
        return False  # most columns that are not binary report it at once
    return values.count(0) + values.count(1) == len(values)


def are_bounded(values: Sequence[float]) -> bool:
    """Return True when all values are in 0..1."""
    return not values or (min(values) >= 0 and max(values) <= 1)


def percentile(
    values: Sequence[float], p: float, method: Literal["nearest_rank", "linear"] = "nearest_rank"
) -> float | None:
    """Return the p-th percentile (p in 0..100); None if there are no values.

    With ``nearest_rank``, this is the value at rank ceil(p*n/100). With ``linear``, values between two ranks are
    interpolated. A p of 99.9 means exactly 999/1000.
    """
    if not 0 <= p <= 100:
        raise ValueError(f"percentile {p} is not in 0..100")
    if not values:
        return None
    ordered = sorted(values)
    if method == "nearest_rank":
        return ordered[nearest_rank(len(ordered), p) - 1]
    if method != "linear":
        raise ValueError(f"unknown percentile method {method!r}")
    place = Fraction(str(p)) * (len(ordered) - 1) / 100
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * float(place - below)


def nearest_rank(n: int, p: float) -> int:
    """Return the 1-based rank of the p-th percentile in n sorted values: ceil(p*n/100), at least 1."""
    above, below = _fraction(p)
    return max(1, -(-above * n // below))


@lru_cache(maxsize=64)
def _fraction(p: float) -> tuple[int, int]:
    """Return ``p`` percent as an exact fraction: numerator and denominator."""
    return (Fraction(str(p)) / 100).as_integer_ratio()
