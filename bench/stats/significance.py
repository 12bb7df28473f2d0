"""Tests of a paired difference, Holm's correction and the smallest detectable effect.

Also in this module:

* Westfall and Young's step-down maxT: adjusted p values of several rows over the same conversations or items.

Example::

    mcnemar(b=2, c=11)                 # McNemar(p=0.0225, mid_p=0.0129)
    holm([0.01, 0.04, 0.03])           # [0.03, 0.06, 0.06]
    max_t([[0.4, 0.3, 0.5, 0.2, 0.6, 0.1], [0.1, -0.2, 0.0, 0.1, -0.1, 0.1]])        # [0.03125, 1.0]

All rows of a family use the same sign patterns, so correlated rows cost little power, and few clusters can be enough.
Source: Westfall and Young 1993, algorithm 4.1 (free step-down).
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
"""largest number of clusters whose sign patterns are enumerated"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedT:
    """The mean difference a - b; ``low`` and ``high`` are not clipped; p is None when it cannot be tested."""

    delta: float | None
    """None without pairs"""
    se: float | None
    df: int | None
    p: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class McNemar:
    """The exact two-sided p of the discordant pairs, and the mid-p."""

    p: float
    mid_p: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SignFlip:
    """The exact p over all 2^C sign patterns; ``smallest_p`` is the smallest p that so many clusters can give."""

    p: float
    smallest_p: float


def paired_t(
    a: Sequence[float], b: Sequence[float], clusters: Sequence[Hashable] | None = None, level: float = 0.95
) -> PairedT:
    """Return the paired t test of a - b; with ``clusters``, by the CR1 standard error and C - 1 degrees of freedom."""
    return paired_t_of_differences(differences_of(a, b), clusters, level)


def paired_t_of_differences(
    differences: Sequence[float], clusters: Sequence[Hashable] | None = None, level: float = 0.95
) -> PairedT:
    """Return the paired t test of given differences."""
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
    """Return the exact McNemar test; ``b`` and ``c`` count the pairs that differ in each direction."""
    n, least = b + c, min(b, c)
    tail = fair_tail(least, n)
    return McNemar(p=min(1.0, 2 * tail), mid_p=min(1.0, 2 * tail - fair_point(least, n)))


def sign_flip(a: Sequence[float], b: Sequence[float], clusters: Sequence[Hashable] | None = None) -> SignFlip:
    """Return the exact sign-flip test of the cluster sums of a - b (without clusters: of the pairs).

    Raises:
        ValueError: more than 20 clusters, because 2^C patterns are too many.
    """
    return sign_flip_of_differences(differences_of(a, b), clusters)


def sign_flip_of_differences(differences: Sequence[float], clusters: Sequence[Hashable] | None = None) -> SignFlip:
    """Return the exact sign-flip test of given differences."""
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
    """Return the p values with Holm's step-down correction; None stays None and is not counted."""
    order = sorted((p, i) for i, p in enumerate(pvalues) if p is not None)
    adjusted: list[float | None] = [None] * len(pvalues)
    running = 0.0
    for rank, (p, i) in enumerate(order):
        running = max(running, min(1.0, p * (len(order) - rank)))
        adjusted[i] = running
    return adjusted


def mde(se: float | None, df: float | None = None, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """Return the smallest detectable effect ``(q(1 - alpha/2) + q(power)) * se``; q is normal, or t with ``df``.

    None if the standard error ``se`` is None or 0.
    """
    if se is None or se < DEGENERATE:
        return None
    if df is None:
        return (normal_quantile(1 - alpha / 2) + normal_quantile(power)) * se
    return (t_quantile(1 - alpha / 2, df=df) + t_quantile(power, df=df)) * se


DISAGREEING = 0.3
"""assumed share of items on which two systems differ, before anything is measured"""
CORRELATED = 0.05
"""assumed correlation of items in one corpus, before anything is measured"""
MOST_CLUSTERS = 100_000


def planned_mde(clusters: int, per_cluster: float) -> float | None:
    """Return the smallest detectable difference of two shares for clusters of paired items, before a measurement.

    It uses the paired t over clusters as in `mde`, with a variance from `DISAGREEING` and the design effect of
    `CORRELATED`. None for fewer than two clusters.
    """
    if clusters < 2:
        return None
    design = 1 + (per_cluster - 1) * CORRELATED
    return mde(math.sqrt(DISAGREEING * design / (clusters * per_cluster)), df=clusters - 1)


def clusters_needed(difference: float, per_cluster: float) -> int | None:
    """Return the smallest number of clusters whose `planned_mde` is at most ``difference``; None if there is none."""
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
    """Return a - b for each pair; ValueError for different lengths."""
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} values cannot be paired: expected the same number")
    return list(map(sub, a, b))


EXACT_UP_TO = 14
"""largest number of units whose 2^(units - 1) sign patterns are enumerated"""
PATTERNS = 20_000
"""number of random patterns for more units"""
BLOCKS = 256
"""number of independent signs: with more units, every BLOCKS-th unit has an equal sign, and the test stays valid"""
TIE_TOLERANCE = 1e-12
_GROUP = 8
"""signs per random byte; a table has the sums of its 256 patterns"""


def max_t(rows: Sequence[Sequence[float]], *, seed: int = 0) -> list[float]:
    """Return the adjusted p of each row. A row has one number per unit: the sum of its differences, 0 if it has none.

    The statistic of a row is ``abs(sum) / sqrt(sum of squares)``, under every pattern of the units' signs.
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
    """Return the smallest adjusted p that a row can have with values in ``units`` of ``all_units``."""
    own = math.ldexp(1.0, 1 - max(1, units))
    return own if all_units <= EXACT_UP_TO else max(own, 1 / (1 + PATTERNS))


class _SignPatterns:
    """The sign patterns of a family of tests: all for few units, else a seeded sample."""

    def __init__(self, units: int, seed: int) -> None:
        self._exact = units <= EXACT_UP_TO
        self.patterns = 1 << max(0, units - 1) if self._exact else PATTERNS
        groups = math.ceil(min(units, BLOCKS) / _GROUP)
        drawn = b"" if self._exact else random.Random(seed).randbytes(PATTERNS * groups)
        self._columns = [drawn[at::groups] for at in range(groups)]

    def totals(self, row: Sequence[float]) -> list[float]:
        """Return the sum of a row under every pattern, always in the same order."""
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
        """Return p if ``reached`` patterns have at least the observed maximum; a sample adds the observed pattern."""
        return reached / self.patterns if self._exact else (1 + reached) / (1 + self.patterns)


def _all_sums(first: float, rest: Sequence[float]) -> list[float]:
    """Return the sums over all signs of ``rest``; the sign of ``first`` is fixed, as the other half is its mirror."""
    totals = [first]
    for value in rest:
        totals = [*map(add, totals, repeat(value)), *map(add, totals, repeat(-value))]
    return totals
