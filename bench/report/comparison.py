"""What a comparison is: rows of three families for each pair of sides. Values only; ``compare`` makes them.

Example::

    found = compare_sides([[a, b]])
    found.comparisons[0].headlines[0].better          # "a", "b" or None
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.report.likeforlike import LikeForLike
from bench.report.rowtests import ALPHA
from bench.report.sides import Side
from bench.report.verdicts import verdict_of
from bench.stats import Comparison

HEADLINE, EXPLORATORY, PERCENTILES = "headline", "exploratory", "percentiles"
FAMILIES = (HEADLINE, EXPLORATORY, PERCENTILES)
TARGET = "conversations like these"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One metric over all paired items, or over one label of them."""

    metric: str
    definition: str
    dimension: str | None
    label: str | None
    lower_is_better: bool
    unit: str | None
    is_ratio: bool
    """delta, interval and mde are ratios minus 1"""
    family: str
    found: Comparison
    noise: float | None = None
    """the judge's own error, where the metric reads its verdicts"""
    p_adjusted: float | None = None
    least_p: float = 0.0
    """the smallest adjusted p that so few pairs or clusters can give"""
    sums: Sequence[float] = field(default=(), repr=False, compare=False)
    """the row's differences, summed by cluster (not clustered: by item) of the pair of sides"""

    @property
    def is_detected(self) -> bool:
        """The difference stands after the correction."""
        return self.p_adjusted is not None and self.p_adjusted < ALPHA and bool(self.found.delta)

    @property
    def better(self) -> str | None:
        """``a`` or ``b`` where a difference is detected."""
        if not self.is_detected or self.found.delta is None:
            return None
        return "a" if (self.found.delta > 0) != self.lower_is_better else "b"

    @property
    def verdict(self) -> str:
        """What may be said of it."""
        return verdict_of(self)

    @property
    def is_tested(self) -> bool:
        """The row has a p and counts in its family."""
        return self.found.p is not None

    @property
    def can_be_decided(self) -> bool:
        """Some difference over as many pairs or clusters could give an adjusted p below alpha."""
        return self.is_detected or self.least_p < ALPHA

    @property
    def mde(self) -> float | None:
        """The smallest detectable difference; None where no difference could be detected."""
        return self.found.mde if self.is_tested and self.can_be_decided else None

    @property
    def is_within_noise(self) -> bool:
        """The judge errs more than the sides differ."""
        return self.noise is not None and self.found.delta is not None and abs(self.found.delta) < self.noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """How the items pair on the headline metric."""

    a: int
    b: int
    paired: int
    excluded: Mapping[str, Mapping[str, int]]
    """side -> reason -> items"""
    flips: Mapping[str, tuple[str, ...]]
    """side -> items on which it is the better one"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairComparison:
    """Side a against side b on one benchmark."""

    a: Side
    b: Side
    like_for_like: LikeForLike
    items: Items
    cluster_by: str | None
    n_clusters: int | None
    judge_noise: float | None
    rows: tuple[Row, ...]
    is_against_first: bool = True
    """a is the side that was named first: the baseline of a gate"""
    notes: tuple[str, ...] = ()

    @property
    def headlines(self) -> tuple[Row, ...]:
        """The rows that carry the question."""
        return self.of(HEADLINE)

    def of(self, family: str) -> tuple[Row, ...]:
        """The rows of one family."""
        return tuple(row for row in self.rows if row.family == family)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparisons:
    """Every pair; the families span all of them."""

    comparisons: tuple[PairComparison, ...]
    forced: bool
    seed: int

    @property
    def family_size(self) -> dict[str, int]:
        """Rows per family that were tested: those that the correction counts."""
        sizes = Counter(row.family for one in self.comparisons for row in one.rows if row.is_tested)
        return {family: sizes[family] for family in FAMILIES}
