"""Correct a judge's share of right answers. The correction uses labels that people gave to a sample of the answers.

The method is prediction-powered inference (Angelopoulos, Bates, Fannjiang, Jordan and Zrnic 2023, Science 382: 669-674)
with strata (Fisch et al. 2024, "Stratified Prediction-Powered Inference", NeurIPS). A stratum is a group of items with
equal verdicts. The estimate is ``sum of W_h p_h``. W_h is the share of stratum h in all items. p_h is the share of its
labelled items that people call right.

The interval comes from the MOVER method (Zou and Donner 2008, Statistics in Medicine 27: 1693-1702). The method
combines Wilson's limits of all p_h. The finite population factor makes the interval narrower. ``exact`` replaces
Wilson's limits by the limits of Clopper and Pearson (1934, Biometrika 26: 404-413), because Wilson's lower limits are
too high if mistakes are rare::

    corrected_share([Stratum(size=350, labelled=25, right=23, judged=1.0), ...]).value
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from bench.model import Interval
from bench.stats.distributions import beta_cdf
from bench.stats.intervals import interval_wilson


class Stratum(NamedTuple):
    """A group of items with the same verdict of the judge and the same degree of doubt about this verdict."""

    size: int
    labelled: int
    right: int
    """number of labelled items whose answer people call right"""
    judged: float
    """verdict of the judge: 1, 0, or 0.5 = no verdict; only used if the stratum has no labelled item"""


class CorrectedShare(NamedTuple):
    """The corrected share, its confidence interval and the number of human labels."""

    value: float
    interval: Interval
    labelled: int

    @property
    def text(self) -> str:
        """The share and its interval as text, such as "0.8123 [0.7500, 0.8600]"."""
        return f"{self.value:.4f} [{self.interval.low:.4f}, {self.interval.high:.4f}]"


def corrected_share(strata: Sequence[Stratum], level: float = 0.95, *, exact: bool = False) -> CorrectedShare | None:
    """Return the share of right answers, corrected by human labels; None if no item has a label.

    Set ``exact`` for shares near 0, such as the share of mistakes.

    Raises:
        ValueError: a stratum has more labelled items than items, or more right items than labelled items.
    """
    total, labelled = sum(one.size for one in strata), sum(one.labelled for one in strata)
    if not labelled:
        return None
    value = 0.0
    below: list[float] = []
    above: list[float] = []
    for one in strata:
        if not 0 <= one.right <= one.labelled <= one.size:
            raise ValueError(
                f"{one.right} right answers, {one.labelled} labels, {one.size} answers: expected right <= labels "
                "<= answers"
            )
        weight = one.size / total
        share, low, high = _limits(one, level, exact=exact)
        left = math.sqrt((one.size - one.labelled) / (one.size - 1)) if one.size > 1 else float(not one.labelled)
        value += weight * share
        below.append(weight * left * (share - low))
        above.append(weight * left * (high - share))
    low, high = value - math.hypot(*below), value + math.hypot(*above)
    method = "ppi_stratified_mover_exact" if exact else "ppi_stratified_mover"
    found = Interval(low=max(0.0, low), high=min(1.0, high), level=level, method=method)
    return CorrectedShare(value, found, labelled)


def _limits(one: Stratum, level: float, *, exact: bool) -> tuple[float, float, float]:
    found = interval_wilson(one.right, one.labelled, level)
    if found is None:
        return one.judged, 0.0, 1.0
    low, high = clopper_pearson(one.right, one.labelled, level) if exact else (found.low, found.high)
    return one.right / one.labelled, low, high


@lru_cache(maxsize=4096)
def clopper_pearson(right: int, n: int, level: float) -> tuple[float, float]:
    """Return the exact (Clopper-Pearson) lower and upper limit of the share right / n."""
    tail = (1 - level) / 2
    low = 0.0 if right == 0 else _quantile(tail, right, n - right + 1)
    return low, 1.0 if right == n else _quantile(1 - tail, right + 1, n - right)


def _quantile(p: float, a: int, b: int) -> float:
    """Return the p-quantile of the beta distribution with parameters a and b."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if beta_cdf(middle, a, b) < p else (low, middle)
    return (low + high) / 2


def allocation(sizes: Sequence[int], weights: Sequence[float], n: int) -> list[int]:
    """Return how many of n items to label in each stratum, in proportion to size times weight.

    If n is large enough for two labels in every stratum, each stratum gets at least two. A stratum never gets more
    labels than it has items.
    """
    found = [min(size, 2) if n >= 2 * len(sizes) else 0 for size in sizes]
    score = [size * weight for size, weight in zip(sizes, weights, strict=True)]
    while sum(found) < min(n, sum(sizes)):
        open_ = [at for at, size in enumerate(sizes) if found[at] < size]
        at = max(open_, key=lambda at: (score[at] / (found[at] + 1), -at))
        found[at] += 1
    return found
