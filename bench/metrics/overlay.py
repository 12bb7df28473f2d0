"""Compute scores without the items whose gold answer is disputed.

The list of these items is called an overlay. It names its dataset by digest and never changes the dataset. The ceiling
is the highest score that is possible without matching the disputed gold answers.

Example::

    doubts = {"q1": Suspect(id="q1", kind="wrong_answer")}
    overlay = Overlay(benchmark="demo", dataset_sha256=digest, source="our audit", items=doubts)
    scores = overlay.scores({"q1": 1.0, "q2": 0.0})
    scores.raw, scores.corrected, scores.ceiling, scores.above_ceiling
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """One item whose gold answer is disputed; ``kind`` is the reason, such as ``wrong_answer``."""

    id: str
    kind: str
    note: str = ""
    corrected_answer: str | None = None


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

    @property
    def above_ceiling(self) -> bool:
        """Return True if the raw score is above the ceiling, so disputed gold answers were matched."""
        return self.raw is not None and self.ceiling is not None and self.raw > self.ceiling + 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """The list of items of one dataset whose gold answers are disputed."""

    benchmark: str
    dataset_sha256: str
    source: str
    items: Mapping[str, Suspect] = field(default_factory=dict)

    def scores(
        self, values: Mapping[str, float | None], rescored: Mapping[str, float | None] | None = None
    ) -> GoldScores:
        """Return the raw score, the corrected score and the ceiling of a metric with values in 0..1.

        ``values`` is item id -> value. ``rescored`` is item id -> value for disputed items whose gold answer was
        corrected.
        """
        known = {item: value for item, value in values.items() if value is not None}
        listed = known.keys() & self.items.keys()
        better = {item: value for item, value in (rescored or {}).items() if value is not None and item in listed}
        rest = [value for item, value in known.items() if item not in listed]
        kept = [*rest, *better.values()]
        n = len(known)
        return GoldScores(
            raw=math.fsum(known.values()) / n if n else None,
            corrected=math.fsum(kept) / len(kept) if kept else None,
            ceiling=(n - len(listed)) / n if n else None,
            n=n,
            n_listed=len(listed),
        )
