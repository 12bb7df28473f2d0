"""A share that a fallible judge gave for all items, corrected by the labels of people for some of them.

Prediction-powered inference (Angelopoulos, Bates, Fannjiang, Jordan and Zrnic 2023, Science 382: 669-674) estimates
``mean of the judge over all + mean of (label - judge) over the labelled``; with strata (Fisch et al. 2024,
"Stratified Prediction-Powered Inference", NeurIPS) the second term is taken per stratum and weighted by its size.
Within a stratum of one verdict the judge is a constant, so the estimate is ``sum of W_h p_h``: the size of stratum h
in all items, times the share that people call right among its labelled ones.

The interval is that of a sum of independent shares by MOVER (Zou and Donner 2008, Statistics in Medicine 27:
1693-1702) from Wilson's limits of each share, with the finite population factor: it stays above zero width where no
label contradicts the judge::

    corrected_share([Stratum(size=350, labelled=25, right=23, judged=1.0), ...]).value
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from bench.model import Interval
from bench.stats.intervals import interval_wilson


class Stratum(NamedTuple):
    """Items with one verdict of the judge and one degree of doubt."""

    size: int
    labelled: int
    right: int
    """of the labelled ones, by the people"""
    judged: float
    """the judge's verdict: 1, 0, or 0.5 where it gave none; is in where nothing is labelled"""


class CorrectedShare(NamedTuple):
    """The corrected share with its interval."""

    value: float
    interval: Interval
    labelled: int

    @property
    def text(self) -> str:
        """Value and interval."""
        return f"{self.value:.4f} [{self.interval.low:.4f}, {self.interval.high:.4f}]"


def corrected_share(strata: Sequence[Stratum], level: float = 0.95) -> CorrectedShare | None:
    """Return the corrected share of right items; None without any label.

    Raises ValueError for more labels than items or more right ones than labels.
    """
    total, labelled = sum(one.size for one in strata), sum(one.labelled for one in strata)
    if not labelled:
        return None
    value = 0.0
    below: list[float] = []
    above: list[float] = []
    for one in strata:
        if not 0 <= one.right <= one.labelled <= one.size:
            raise ValueError(f"{one.right} right of {one.labelled} labelled of {one.size}")
        weight = one.size / total
        share, low, high = _limits(one, level)
        left = math.sqrt((one.size - one.labelled) / (one.size - 1)) if one.size > 1 else float(not one.labelled)
        value += weight * share
        below.append(weight * left * (share - low))
        above.append(weight * left * (high - share))
    low, high = value - math.hypot(*below), value + math.hypot(*above)
    found = Interval(low=max(0.0, low), high=min(1.0, high), level=level, method="ppi_stratified_mover")
    return CorrectedShare(value, found, labelled)


def _limits(one: Stratum, level: float) -> tuple[float, float, float]:
    found = interval_wilson(one.right, one.labelled, level)
    if found is None:
        return one.judged, 0.0, 1.0
    return one.right / one.labelled, found.low, found.high


def allocation(sizes: Sequence[int], weights: Sequence[float], n: int) -> list[int]:
    """Share n labels among strata in proportion to size times weight, at least two each and never above its size."""
    found = [min(size, 2) if n >= 2 * len(sizes) else 0 for size in sizes]
    score = [size * weight for size, weight in zip(sizes, weights, strict=True)]
    while sum(found) < min(n, sum(sizes)):
        open_ = [at for at, size in enumerate(sizes) if found[at] < size]
        at = max(open_, key=lambda at: (score[at] / (found[at] + 1), -at))
        found[at] += 1
    return found
