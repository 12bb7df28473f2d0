"""Significance tests of paired differences, Holm's correction, and the smallest detectable effect.

``max_t`` adjusts the p values of several comparisons that use the same items. It is the step-down maxT method of
Westfall and Young (1993, algorithm 4.1).

Example::

    mcnemar(b=2, c=11)                 # McNemar(p=0.0225, mid_p=0.0129)
    holm([0.01, 0.04, 0.03])           # [0.03, 0.06, 0.06]
    max_t([[0.4, 0.3, 0.5, 0.2, 0.6, 0.1], [0.1, -0.2, 0.0, 0.1, -0.1, 0.1]])        # [0.03125, 1.0]
"""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import add, sub

from bench.stats.descriptive import DEGENERATE, by_cluster, mean, stderr, stderr_clustered
from bench.stats.distributions import fair_point, fair_tail, normal_quantile, t_quantile, t_two_sided

SIGN_FLIP_LIMIT = 20
"""largest number of clusters for which ``sign_flip`` tries all patterns of signs"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedT:
    """The result of a paired t test: mean difference a - b, standard error, p and confidence limits.

    If no test is possible, ``p`` is None. The limits ``low`` and ``high`` are not clipped.
    """

    delta: float | None
    """mean difference; None if there are no pairs"""
    se: float | None
    df: int | None
    p: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class McNemar:
    """The result of McNemar's test: the exact two-sided p and the mid-p."""

    p: float
    mid_p: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SignFlip:
    """The result of a sign-flip test: the exact p over all 2^C patterns of signs for C clusters.

    ``smallest_p`` is the smallest p that is possible with this number of clusters.
    """

    p: float
    smallest_p: float


def paired_t(
    a: Sequence[float], b: Sequence[float], clusters: Sequence[Hashable] | None = None, level: float = 0.95
) -> PairedT:
    """Return the paired t test of the differences a - b.

    If ``clusters`` is given, the test uses the cluster-robust standard error CR1 and C - 1 degrees of freedom for C
    clusters.
    """
    return paired_t_of_differences(differences_of(a, b), clusters, level)


def paired_t_of_differences(
    differences: Sequence[float], clusters: Sequence[Hashable] | None = None, level: float = 0.95
) -> PairedT:
    """Return the paired t test of differences, as ``paired_t`` does for two columns."""
    delta = mean(differences)
    if delta is not None and not math.isfinite(delta):
        raise ValueError("cannot test: a number is not finite")
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
        return 1.0 if abs(delta) < DEGENERATE else 2.0**-df  # t states 0 of two equal differences; their signs do not
    return t_two_sided(delta / se, df=df)


def mcnemar(b: int, c: int) -> McNemar:
    """Return the exact McNemar test.

    ``b`` counts the pairs in which only the first system is right. ``c`` counts the pairs in which only the second is
    right.
    """
    n, least = b + c, min(b, c)
    tail = fair_tail(least, n)
    return McNemar(p=min(1.0, 2 * tail), mid_p=min(1.0, 2 * tail - fair_point(least, n)))


def sign_flip(a: Sequence[float], b: Sequence[float], clusters: Sequence[Hashable] | None = None) -> SignFlip:
    """Return the exact sign-flip test: it flips the sign of the summed difference a - b of each cluster.

    If ``clusters`` is None, each pair is its own cluster.

    Raises:
        ValueError: there are more than 20 clusters, for which all patterns of signs would be too many.
    """
    return sign_flip_of_differences(differences_of(a, b), clusters)


def sign_flip_of_differences(differences: Sequence[float], clusters: Sequence[Hashable] | None = None) -> SignFlip:
    """Return the exact sign-flip test of differences, as ``sign_flip`` does for two columns."""
    groups = by_cluster(differences, clusters).values() if clusters is not None else [[d] for d in differences]
    sums = sorted(math.fsum(group) for group in groups)
    if len(sums) > SIGN_FLIP_LIMIT:
        raise ValueError(
            f"{len(sums)} clusters are too many: the exact sign-flip test supports at most {SIGN_FLIP_LIMIT}"
        )
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
    """Return the p values adjusted by Holm's step-down method. A p value of None stays None and is not counted."""
    order = sorted((p, i) for i, p in enumerate(pvalues) if p is not None)
    adjusted: list[float | None] = [None] * len(pvalues)
    running = 0.0
    for rank, (p, i) in enumerate(order):
        running = max(running, min(1.0, p * (len(order) - rank)))
        adjusted[i] = running
    return adjusted


def mde(se: float | None, df: float | None = None, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """Return the smallest detectable effect: ``(q(1 - alpha/2) + q(power)) * se``.

    q is the quantile of the t distribution with ``df`` degrees of freedom, or of the normal distribution if ``df`` is
    None. The result is None if the standard error ``se`` is None or 0.
    """
    if se is None or se < DEGENERATE:
        return None
    if df is None:
        return (normal_quantile(1 - alpha / 2) + normal_quantile(power)) * se
    return (t_quantile(1 - alpha / 2, df=df) + t_quantile(power, df=df)) * se


DISAGREEING = 0.3
"""share of items on which two systems differ; an assumption for planning"""
CORRELATED = 0.05
"""correlation of items in one corpus; an assumption for planning"""
MOST_CLUSTERS = 100_000


def planned_mde(clusters: int, per_cluster: float) -> float | None:
    """Return the smallest difference of two shares that a planned run can detect; None for fewer than two clusters.

    ``per_cluster`` is the number of items in each cluster. The formula is that of ``mde`` for the paired t test, with
    the variance from ``DISAGREEING`` and the design effect from ``CORRELATED``.
    """
    if clusters < 2:
        return None
    design = 1 + (per_cluster - 1) * CORRELATED
    return mde(math.sqrt(DISAGREEING * design / (clusters * per_cluster)), df=clusters - 1)


def clusters_needed(difference: float, per_cluster: float) -> int | None:
    """Return the smallest number of clusters with which a run can detect ``difference`` between two shares.

    The result is None if 100,000 clusters are not enough.
    """
    low, high = 2, MOST_CLUSTERS
    if (planned_mde(high, per_cluster) or math.inf) > difference:
        return None
    while low < high:
        middle = (low + high) // 2
        if (planned_mde(middle, per_cluster) or math.inf) <= difference:
            high = middle
        else:
            low = middle + 1
    return low


def differences_of(a: Sequence[float], b: Sequence[float]) -> list[float]:
    """Return a - b for each pair; raise ValueError if the columns have different lengths."""
    if len(a) != len(b):
        raise ValueError(f"the values cannot be paired: got {len(a)} and {len(b)}, expected the same number")
    return list(map(sub, a, b))


EXACT_UP_TO = 14
"""largest number of items or clusters for which ``max_t`` tries all patterns of signs"""
PATTERNS = 20_000
"""number of random patterns of signs if there are more items or clusters than ``EXACT_UP_TO``"""
BLOCKS = 256
"""largest number of independent signs; if there are more items or clusters, some share a sign (the test stays valid)"""
TIE_TOLERANCE = 1e-12
_GROUP = 8
"""number of signs that one random byte gives"""


def max_t(rows: Sequence[Sequence[float]], *, seed: int = 0) -> list[float]:
    """Return the adjusted p value of each comparison (row).

    A row has one number for each item or cluster: the sum of its differences, or 0 if it has no differences. The test
    statistic of a row is ``abs(sum) / sqrt(sum of squares)``. Each pattern of signs gives all rows new statistics. The
    p value of a row is the share of patterns in which a new statistic reaches the observed statistic of this row. Only
    the new statistics of this row and of rows with a smaller observed statistic are considered.
    """
    if not rows:
        return []
    signs = _SignPatterns(len(rows[0]), seed)
    scales = [math.sqrt(math.fsum(value * value for value in row)) or 1.0 for row in rows]
    observed = [abs(math.fsum(row)) / scale for row, scale in zip(rows, scales, strict=True)]
    rising = sorted(range(len(rows)), key=observed.__getitem__)
    adjusted = [1.0] * len(rows)
    largest = [0.0] * signs.patterns
    for at in rising:
        scale = scales[at]
        largest = list(map(max, largest, [abs(total) / scale for total in signs.totals(rows[at])]))
        least = observed[at] - TIE_TOLERANCE
        adjusted[at] = signs.share(sum(value >= least for value in largest))
    running = 0.0
    for at in reversed(rising):
        running = adjusted[at] = max(running, adjusted[at])
    return adjusted


def least_max_t(units: int, all_units: int) -> float:
    """Return the smallest p that ``max_t`` can give to a row with few differences.

    The row has ``all_units`` numbers, one for each item or cluster. Only ``units`` of these have differences.
    """
    own = math.ldexp(1.0, 1 - max(1, units))
    return own if all_units <= EXACT_UP_TO else max(own, 1 / (1 + PATTERNS))


class _SignPatterns:
    """The patterns of signs for ``max_t``: all patterns if a row has few numbers, otherwise a random sample."""

    def __init__(self, units: int, seed: int) -> None:
        self._exact = units <= EXACT_UP_TO
        self.patterns = 1 << max(0, units - 1) if self._exact else PATTERNS
        groups = math.ceil(min(units, BLOCKS) / _GROUP)
        drawn = b"" if self._exact else random.Random(seed).randbytes(PATTERNS * groups)
        self._columns = [drawn[at::groups] for at in range(groups)]

    def totals(self, row: Sequence[float]) -> list[float]:
        """Return the sum of a row for each pattern of signs; the order of patterns is the same for all rows."""
        if self._exact:
            return _all_sums(row[0], row[1:])
        blocks = row if len(row) <= BLOCKS else [math.fsum(row[at::BLOCKS]) for at in range(BLOCKS)]
        totals = [0.0] * PATTERNS
        for at, column in enumerate(self._columns):
            group = [*blocks[at * _GROUP : (at + 1) * _GROUP], *repeat(0.0, _GROUP)][:_GROUP]
            half = _all_sums(group[0], group[1:])
            sums = [*half, *(-total for total in half)]
            totals = list(map(add, totals, map(sums.__getitem__, column)))
        return totals

    def share(self, reached: int) -> float:
        """Return the p value: the share of patterns whose statistic is at least the observed one.

        ``reached`` is the number of these patterns. If the patterns are a random sample, the observed pattern counts as
        one more.
        """
        return reached / self.patterns if self._exact else (1 + reached) / (1 + self.patterns)


def _all_sums(first: float, rest: Sequence[float]) -> list[float]:
    """Return the sum of ``first`` and ``rest`` for each pattern of signs of ``rest``; ``first`` keeps its sign."""
    totals = [first]
    for value in rest:
        totals = [*map(add, totals, repeat(value)), *map(add, totals, repeat(-value))]
    return totals
