"""Compare the scores of two systems on the same items: difference, interval and significance test.

``compare_macro`` gives each label, such as a question type, the same weight.

Example::

    result = compare({"q1": 1, "q2": 0, "q3": 1}, {"q1": 1, "q2": 1, "q3": None})
    result.n, result.excluded, result.test        # 2, 1, "mcnemar_exact"
    compare_macro([([1, 0], [0, 0], None), ([1, 1], [1, 0], None)]).delta        # 0.5

docs/statistics.md describes the choice of the test.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from operator import gt, lt

from bench.model import Interval
from bench.stats.correlation import pearson
from bench.stats.descriptive import DEGENERATE, are_binary, are_bounded
from bench.stats.distributions import t_two_sided
from bench.stats.intervals import interval_around, interval_wilson
from bench.stats.significance import (
    SIGN_FLIP_LIMIT,
    PairedT,
    differences_of,
    mcnemar,
    mde,
    paired_t_of_differences,
    sign_flip_of_differences,
)

LARGEST_LOG = math.log(sys.float_info.max)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The comparison of systems a and b over the items that both systems scored.

    ``delta`` is a - b for scores, and a / b - 1 for times.
    """

    n: int
    excluded: int
    """number of items that lack a score from at least one of the two systems"""
    a: float | None = None
    b: float | None = None
    delta: float | None = None
    se: float | None = None
    interval: Interval | None = None
    p: float | None = None
    mid_p: float | None = None
    test: str | None = None
    smallest_p: float | None = None
    """smallest p value that this test can give for this number of pairs or clusters; None = no such limit"""
    wins: int = 0
    losses: int = 0
    ties: int = 0
    mde: float | None = None
    correlation: float | None = None
    n_clusters: int | None = None
    note: str = ""


def compare(
    a: Mapping[str, float | None],
    b: Mapping[str, float | None],
    *,
    clusters: Mapping[str, Hashable] | None = None,
    level: float = 0.95,
    alpha: float = 0.05,
    power: float = 0.8,
    shares: bool = True,
) -> Comparison:
    """Pair the values of two systems by item id, and test the difference a - b.

    ``clusters`` has the cluster of each item. Set ``shares`` to False if the values are money or time.
    """
    ids = sorted(i for i in a.keys() & b.keys() if a[i] is not None and b[i] is not None)
    groups = None if clusters is None else [clusters[i] for i in ids]
    excluded = len(a.keys() | b.keys()) - len(ids)
    left, right = _column(a, ids), _column(b, ids)
    return compare_columns(left, right, groups, excluded=excluded, level=level, alpha=alpha, power=power, shares=shares)


def compare_columns(
    left: Sequence[float],
    right: Sequence[float],
    groups: Sequence[Hashable] | None = None,
    *,
    excluded: int = 0,
    level: float = 0.95,
    alpha: float = 0.05,
    power: float = 0.8,
    shares: bool = True,
) -> Comparison:
    """Test the difference left - right of paired values; ``groups`` has the cluster of each pair.

    Set ``shares`` to False if the values are money or time, which are not limited to 0..1.
    """
    if not left:
        return Comparison(n=0, excluded=excluded, note="no item is scored on both sides")
    differences = differences_of(left, right)
    base = _descriptive(left, right, differences, excluded)
    bounded = shares and are_bounded(left) and are_bounded(right)
    settings = _TestSettings(level=level, alpha=alpha, power=power, bounded=bounded)
    count = None if groups is None else len(set(groups))
    if groups is None or count is None or count == len(left):
        return _unclustered(base, left, right, differences, settings)
    if count == 1:
        return replace(base, n_clusters=1, note="not testable: one cluster")
    return _clustered(base, differences, groups, count, settings)


def as_ratio(logs: Comparison) -> Comparison:
    """Convert a comparison of logarithms of times to a comparison of times.

    ``a`` and ``b`` become geometric means. ``delta``, ``interval`` and ``mde`` become ratios minus 1.
    """
    if logs.delta is None or logs.a is None or logs.b is None:
        return logs
    return replace(
        logs,
        a=math.exp(logs.a),
        b=math.exp(logs.b),
        delta=ratio(logs.delta),
        interval=None if logs.interval is None else ratio_interval(logs.interval),
        mde=None if logs.mde is None else ratio(logs.mde),
        note=logs.note or "geometric means; delta is the ratio minus 1",
    )


def ratio(log: float) -> float | None:
    """Return ``exp(log) - 1``; None if the result is too large for a float."""
    return math.expm1(log) if log <= LARGEST_LOG else None


def ratio_interval(logs: Interval) -> Interval | None:
    """Convert an interval of logarithms to an interval of ratios minus 1.

    The result is None if a limit is too large for a float or if the interval has no width.
    """
    low, high = ratio(logs.low), ratio(logs.high)
    return None if low is None or high is None or low >= high else replace(logs, low=low, high=high)


def _column(side: Mapping[str, float | None], ids: Sequence[str]) -> list[float]:
    return [float(value) for i in ids if (value := side[i]) is not None]


def _descriptive(left: Sequence[float], right: Sequence[float], differences: list[float], excluded: int) -> Comparison:
    n = len(left)
    return Comparison(
        n=n,
        excluded=excluded,
        a=math.fsum(left) / n,
        b=math.fsum(right) / n,
        delta=math.fsum(differences) / n,
        wins=sum(map(lt, repeat(0), differences)),
        losses=sum(map(gt, repeat(0), differences)),
        ties=differences.count(0),
        correlation=pearson(left, right),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _TestSettings:
    """The settings of a test; ``bounded`` is true if all values of both systems are shares in 0..1."""

    level: float
    alpha: float
    power: float
    bounded: bool


def _unclustered(
    base: Comparison, left: Sequence[float], right: Sequence[float], differences: list[float], settings: _TestSettings
) -> Comparison:
    pairs = paired_t_of_differences(differences, level=settings.level)
    base = replace(
        base,
        se=pairs.se,
        interval=_difference_interval(pairs, base.n, "t", settings),
        mde=mde(pairs.se, None, settings.alpha, settings.power),
    )
    if settings.bounded and are_binary(left) and are_binary(right):
        exact = mcnemar(base.wins, base.losses)
        smallest = math.ldexp(1.0, 1 - base.n)
        return replace(base, p=exact.p, mid_p=exact.mid_p, test="mcnemar_exact", smallest_p=smallest)
    return replace(base, p=pairs.p, test=None if pairs.p is None else "paired_t")


def _clustered(
    base: Comparison, differences: list[float], groups: Sequence[Hashable], count: int, settings: _TestSettings
) -> Comparison:
    pairs = paired_t_of_differences(differences, groups, settings.level)
    base = replace(
        base,
        se=pairs.se,
        n_clusters=count,
        interval=_difference_interval(pairs, count, "cluster_t", settings),
        mde=mde(pairs.se, count - 1, settings.alpha, settings.power),
    )
    if count > SIGN_FLIP_LIMIT:
        return replace(base, p=pairs.p, test="cluster_t")
    flips = sign_flip_of_differences(differences, groups)
    return replace(base, p=flips.p, test="cluster_sign_flip", smallest_p=flips.smallest_p)


def _difference_interval(pairs: PairedT, count: int, method: str, settings: _TestSettings) -> Interval | None:
    """Return the t interval of the mean difference; None if it cannot be computed.

    If the values are shares and the standard error is 0, the interval is the difference -+ Wilson's upper limit for 0
    successes in ``count`` trials.
    """
    if pairs.se is None or pairs.df is None or pairs.delta is None:
        return None
    if pairs.se >= DEGENERATE:
        return interval_around(pairs.delta, pairs.se, df=pairs.df, level=settings.level, method=method)
    nothing = interval_wilson(0, count, settings.level) if settings.bounded else None
    if nothing is None:
        return None
    low, high = max(-1.0, pairs.delta - nothing.high), min(1.0, pairs.delta + nothing.high)
    return Interval(low=low, high=high, level=settings.level, method="wilson_degenerate")


Pairs = tuple[Sequence[float], Sequence[float], Sequence[Hashable] | None]
"""values of the first system, values of the second system, and clusters, for the items of one label"""


def compare_macro(
    labels: Sequence[Pairs], *, excluded: int = 0, level: float = 0.95, alpha: float = 0.05, power: float = 0.8
) -> Comparison:
    """Compare two systems by a t test; the score of a system is the mean of its label means.

    The standard error is ``sqrt(sum(SE^2)) / labels``. There are C - 1 degrees of freedom for C clusters, or n - 1 for
    n pairs without clusters. If a label has only one pair or one cluster, there is no test.
    """
    filled = [pairs for pairs in labels if len(pairs[0])]
    if not filled:
        return Comparison(n=0, excluded=excluded, note="no item is scored on both sides")
    parts = [compare_columns(left, right, groups, level=level) for left, right, groups in filled]
    base = _macro_totals(parts, excluded)
    clusters = {c for _, _, groups in filled if groups is not None for c in groups}
    clustered = bool(clusters) and len(clusters) < base.n
    count = len(clusters) if clustered else base.n
    errors = [part.se for part in parts if part.se is not None]
    if count < 2 or len(errors) < len(parts):
        return replace(
            base, n_clusters=count if clustered else None, note="not testable: a label of one item or cluster"
        )
    se = math.sqrt(math.fsum(e * e for e in errors)) / len(parts)
    base = replace(base, se=se, n_clusters=count if clustered else None)
    if se < DEGENERATE or base.delta is None:
        return replace(base, note="not testable: no difference varies")
    return replace(
        base,
        p=t_two_sided(base.delta / se, df=count - 1),
        test="macro_t",
        interval=interval_around(base.delta, se, df=count - 1, level=level, method="macro_t"),
        mde=mde(se, count - 1 if clustered else None, alpha, power),
    )


def _macro_totals(parts: Sequence[Comparison], excluded: int) -> Comparison:
    means = [(part.a, part.b) for part in parts if part.a is not None and part.b is not None]
    a, b = (math.fsum(side) / len(means) for side in zip(*means, strict=True))
    return Comparison(
        n=sum(part.n for part in parts),
        excluded=excluded,
        a=a,
        b=b,
        delta=a - b,
        wins=sum(part.wins for part in parts),
        losses=sum(part.losses for part in parts),
        ties=sum(part.ties for part in parts),
    )
