"""What a comparison is: rows of two families for each pair of sides. Values only; ``compare`` makes them.

Example::

    found = compare_sides([[a, b]])
    found.comparisons[0].headlines[0].better          # "a", "b" or None
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from bench.report.likeforlike import LikeForLike
from bench.report.rowtests import ALPHA
from bench.report.sides import Side
from bench.report.verdicts import verdict_of
from bench.stats import Comparison

HEADLINE, EXPLORATORY = "headline", "exploratory"
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
    p_holm: float | None = None

    @property
    def is_detected(self) -> bool:
        """The difference stands after the correction."""
        return self.p_holm is not None and self.p_holm < ALPHA and bool(self.found.delta)

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
    def can_be_detected(self) -> bool:
        """Some difference could give p < alpha: few clusters have too few sign patterns for that."""
        found = self.found
        return found.test != "cluster_sign_flip" or found.smallest_p is None or found.smallest_p < ALPHA

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
        """Rows a family."""
        sizes = Counter(row.family for one in self.comparisons for row in one.rows)
        return {HEADLINE: sizes[HEADLINE], EXPLORATORY: sizes[EXPLORATORY]}
