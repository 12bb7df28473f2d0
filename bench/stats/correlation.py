"""Correlation of two columns of equal length, and agreement of raters.

A correlation is None if a column is constant or has fewer than 2 values. Agreement beyond chance is Cohen's kappa for
two raters, and Krippendorff's alpha for more raters.

Example::

    spearman([1, 2, 3], [10, 30, 20])      # 0.5
    cohen_kappa([1, 0, 1, 1], [1, 0, 0, 1])                    # 0.5
    krippendorff_alpha([[1, 1, None], [0, 0, 0], [1, 0, 1]])   # a row per item, a column per rater
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from operator import mul

from bench.stats.descriptive import are_binary


def pearson(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return the linear correlation in -1..1; None if there are fewer than two pairs or a column is constant."""
    n = _paired(x, y)
    if n < 2:
        return None
    if are_binary(x) and are_binary(y):
        return _phi(n, x.count(1), y.count(1), sum(map(mul, x, y)))
    from_x, from_y = _deviations(x), _deviations(y)
    if from_x is None or from_y is None:
        return None
    xx, yy = math.fsum(map(mul, from_x, from_x)), math.fsum(map(mul, from_y, from_y))
    xy = math.fsum(map(mul, from_x, from_y))
    return max(-1.0, min(1.0, xy / (math.sqrt(xx) * math.sqrt(yy))))


def _paired(x: Sequence[float], y: Sequence[float]) -> int:
    """Return the number of pairs.

    Raises:
        ValueError: the columns have different lengths, or a number is NaN or infinite.
    """
    if len(x) != len(y):
        raise ValueError(f"the values cannot be paired: got {len(x)} and {len(y)}, expected the same number")
    if not all(map(math.isfinite, x)) or not all(map(math.isfinite, y)):
        raise ValueError("cannot compute a correlation: a number is not finite")
    return len(x)


def _deviations(values: Sequence[float]) -> list[float] | None:
    """Return the deviations of the values from their mean; None if all values are equal.

    If the range of the values is extreme, all deviations are divided by the largest deviation, so that their squares
    stay in the range of a float.
    """
    low, high = min(values), max(values)
    if low == high:
        return None
    centre = math.fsum(values) / len(values)
    found = [v - centre for v in values]
    if 1e-100 < high - low < 1e100:
        return found
    largest = max(map(abs, found))  # squares would leave the range of a double
    return [v / largest for v in found]


def _phi(n: int, x: int, y: int, both: float) -> float | None:
    """Return the correlation of two columns of zeros and ones; None if a column is constant.

    ``x`` and ``y`` count the ones in each column. ``both`` counts the pairs of two ones.
    """
    spread = x * (n - x) * y * (n - y)
    return (n * both - x * y) / math.sqrt(spread) if spread else None


def spearman(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation in -1..1; equal values get their mean rank.

    The result is None if there are fewer than two pairs or a column is constant.
    """
    _paired(x, y)
    return pearson(_ranks(x), _ranks(y))


def kendall_tau_b(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return Kendall's tau-b, a rank correlation in -1..1; None if all values of one column are equal.

    Tau-b is the number of concordant pairs minus the number of discordant pairs, normalized for ties. The running time
    is quadratic in the number of values.
    """
    balance = untied_x = untied_y = 0
    for i in range(_paired(x, y)):
        for j in range(i):
            sign_x = (x[i] > x[j]) - (x[i] < x[j])
            sign_y = (y[i] > y[j]) - (y[i] < y[j])
            balance += sign_x * sign_y
            untied_x += sign_x * sign_x
            untied_y += sign_y * sign_y
    if not untied_x or not untied_y:
        return None
    return max(-1.0, min(1.0, balance / (math.sqrt(untied_x) * math.sqrt(untied_y))))


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for place in order[start:end]:
            ranks[place] = (start + end + 1) / 2
        start = end
    return ranks


def cohen_kappa(a: Sequence[object], b: Sequence[object]) -> float | None:
    """Return Cohen's kappa of the labels of two raters: (observed - expected) / (1 - expected).

    ``observed`` is the share of items with equal labels, and ``expected`` is this share by chance. The result is None
    if there are no items or if ``expected`` is 1.
    """
    if len(a) != len(b):
        raise ValueError(f"the ratings cannot be paired: got {len(a)} and {len(b)}, expected the same number")
    n = len(a)
    if not n:
        return None
    observed = sum(x == y for x, y in zip(a, b, strict=True))
    left, right = Counter(a), Counter(b)
    expected = sum(left[label] * right[label] for label in left)
    return None if expected == n * n else (observed * n - expected) / (n * n - expected)


def krippendorff_alpha(ratings: Sequence[Sequence[object | None]]) -> float | None:
    """Return Krippendorff's alpha (2011) for nominal ratings: one row per item, one column per rater.

    Missing ratings are None. Items with fewer than two ratings are left out. The result is None if no item is left, or
    if all ratings that are left are equal.
    """
    pairable = [[r for r in row if r is not None] for row in ratings]
    pairable = [row for row in pairable if len(row) > 1]
    totals = Counter(label for row in pairable for label in row)
    n = sum(totals.values())
    chance = n * n - sum(count * count for count in totals.values())
    if not chance:
        return None
    disagreement = 0.0
    for row in pairable:
        counts = Counter(row)
        disagreement += (len(row) ** 2 - sum(c * c for c in counts.values())) / (len(row) - 1)
    return 1 - (n - 1) * disagreement / chance
