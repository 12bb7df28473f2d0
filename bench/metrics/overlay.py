"""Scores without disputed gold answers, and the highest possible score.

The dataset is never changed; an overlay lists items of one dataset by its digest.

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
    """One item with a disputed gold answer."""

    id: str
    kind: str
    note: str = ""
    corrected_answer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldScores:
    """A score with and without the disputed gold answers; the scores are None when no item is scored."""

    raw: float | None
    corrected: float | None
    """score without the listed items, or with their corrected answers"""
    ceiling: float | None
    """score if every unlisted item is right and every listed one wrong"""
    n: int
    n_listed: int

    @property
    def above_ceiling(self) -> bool:
        """Return True when the raw score is only possible by matching some disputed gold answers."""
        return self.raw is not None and self.ceiling is not None and self.raw > self.ceiling + 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """The items of one dataset whose gold answers are disputed."""

    benchmark: str
    dataset_sha256: str
    source: str
    items: Mapping[str, Suspect] = field(default_factory=dict)

    def scores(
        self, values: Mapping[str, float | None], rescored: Mapping[str, float | None] | None = None
    ) -> GoldScores:
        """Return raw, corrected and ceiling of a 0..1 metric; ``rescored``: values against corrected answers."""
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
