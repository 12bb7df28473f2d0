"""Compute scores without the items whose gold answer is disputed.

The list of these items is called an overlay. The ceiling
is the highest score that is possible without matching the disputed gold answers.

Example::

    scores = GoldScores.of({"q1": 1.0, "q2": 0.0}, disputed=["q1"])
    scores.raw, scores.corrected, scores.ceiling, scores.above_ceiling
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldScores:
    """The score of a job with and without the items whose gold answer is disputed.

    A score is None if no item is scored.
    """

    raw: float | None
    corrected: float | None
    """score without the disputed items; a disputed item with a corrected answer is scored against the corrected
    answer"""
    ceiling: float | None
    """score of a system that is wrong on all disputed items and right on all items that are not disputed"""
    n: int
    n_listed: int

    @classmethod
    def of(
        cls,
        values: Mapping[str, float | None],
        disputed: Collection[str],
        rescored: Mapping[str, float | None] | None = None,
    ) -> GoldScores:
        """Return the raw score, the corrected score and the ceiling of a metric with values in 0..1.

        ``values`` is item id -> value, and ``disputed`` has the ids of the items with a disputed gold answer.
        ``rescored`` is item id -> value for disputed items whose gold answer was corrected.
        """
        known = {item: value for item, value in values.items() if value is not None}
        listed = known.keys() & set(disputed)
        better = {item: value for item, value in (rescored or {}).items() if value is not None and item in listed}
        rest = [value for item, value in known.items() if item not in listed]
        kept = [*rest, *better.values()]
        n = len(known)
        return cls(
            raw=math.fsum(known.values()) / n if n else None,
            corrected=math.fsum(kept) / len(kept) if kept else None,
            ceiling=(n - len(listed)) / n if n else None,
            n=n,
            n_listed=len(listed),
        )

    @property
    def above_ceiling(self) -> bool:
        """Return True if the raw score is above the ceiling, so disputed gold answers were matched."""
        return self.raw is not None and self.ceiling is not None and self.raw > self.ceiling + 1e-12
