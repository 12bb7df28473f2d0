"""How far several raters agree beyond chance: Cohen's kappa for two, Krippendorff's alpha for more.

Example::

    cohen_kappa([1, 0, 1, 1], [1, 0, 0, 1])                    # 0.5
    krippendorff_alpha([[1, 1, None], [0, 0, 0], [1, 0, 1]])   # a row an item, a column a rater
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def cohen_kappa(a: Sequence[object], b: Sequence[object]) -> float | None:
    """(observed - expected) / (1 - expected) of two raters' labels; None without items or without chance."""
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} ratings do not pair")
    n = len(a)
    if not n:
        return None
    observed = sum(x == y for x, y in zip(a, b, strict=True))
    left, right = Counter(a), Counter(b)
    expected = sum(left[label] * right[label] for label in left)
    return None if expected == n * n else (observed * n - expected) / (n * n - expected)


def krippendorff_alpha(ratings: Sequence[Sequence[object | None]]) -> float | None:
    """Nominal alpha; None stands for a missing rating; items rated once say nothing (Krippendorff 2011)."""
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
