"""Golds known to be bad: what a score is without them, and how high it could be at all.

The dataset itself is never edited; an overlay names items of one dataset digest.

Example::

    overlay = Overlay.of(tree, dataset_sha256=digest, where="overlays/audit.yaml")
    scores = overlay.scores({"q1": 1.0, "q2": 0.0})
    scores.raw, scores.corrected, scores.ceiling, scores.above_ceiling
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.errors import ConfigError, DataError
from bench.metrics.names import near, or_list

KEYS = ("benchmark", "dataset_sha256", "source", "items")
ITEM_KEYS = ("id", "kind", "note", "corrected_answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """One item whose gold is doubted."""

    id: str
    kind: str
    note: str = ""
    corrected_answer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldScores:
    """A score with and without the doubted golds; None where nothing is scored."""

    raw: float | None
    corrected: float | None
    """the listed items left out, or scored against their corrected answer"""
    ceiling: float | None
    """every unlisted item right, every listed one wrong"""
    n: int
    n_listed: int

    @property
    def above_ceiling(self) -> bool:
        """A raw score that needs some of the doubted golds to be met."""
        return self.raw is not None and self.ceiling is not None and self.raw > self.ceiling + 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """The doubted items of one dataset."""

    benchmark: str
    dataset_sha256: str
    source: str
    items: Mapping[str, Suspect] = field(default_factory=dict)

    @classmethod
    def of(cls, tree: Mapping[str, object], *, dataset_sha256: str | None, where: str) -> Overlay:
        """Read an overlay file's tree.

        Raises ConfigError for a wrong shape and DataError when it speaks of another dataset.
        """
        _check_keys(tree, KEYS, where)
        digest = str(tree.get("dataset_sha256", ""))
        if dataset_sha256 is not None and digest != dataset_sha256:
            raise DataError(
                f"the overlay is for the dataset {digest or '(none)'}, this one is {dataset_sha256}", where=where
            )
        listed = tree.get("items")
        if not isinstance(listed, Sequence) or isinstance(listed, str):
            raise ConfigError("items must be a list", where=where, hint="items: [{id: ..., kind: ...}]")
        items: dict[str, Suspect] = {}
        for place, entry in enumerate(listed):
            suspect = _suspect(entry, f"{where}: items[{place}]")
            if suspect.id in items:
                raise ConfigError(f"item {suspect.id} is listed twice", where=f"{where}: items[{place}]")
            items[suspect.id] = suspect
        return cls(
            benchmark=str(tree.get("benchmark", "")),
            dataset_sha256=digest,
            source=str(tree.get("source", "")),
            items=items,
        )

    def scores(
        self, values: Mapping[str, float | None], rescored: Mapping[str, float | None] | None = None
    ) -> GoldScores:
        """Raw, corrected and ceiling of a 0..1 metric; ``rescored``: values against corrected answers."""
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


def _check_keys(tree: Mapping[str, object], known: Sequence[str], where: str) -> None:
    for key in tree:
        if key not in known:
            close = near(str(key), known)
            text = f'unknown key "{key}"' + (f"; did you mean {or_list(close)}?" if close else "")
            raise ConfigError(text, where=where, hint=f"known keys: {', '.join(known)}")


def _suspect(entry: object, where: str) -> Suspect:
    if not isinstance(entry, Mapping):
        raise ConfigError("an entry must be a map", where=where, hint="{id: ..., kind: ..., note: ...}")
    _check_keys(entry, ITEM_KEYS, where)
    if not entry.get("id") or not entry.get("kind"):
        raise ConfigError("an entry needs id and kind", where=where, hint="{id: ..., kind: ..., note: ...}")
    corrected = entry.get("corrected_answer")
    return Suspect(
        id=str(entry["id"]),
        kind=str(entry["kind"]),
        note=str(entry.get("note") or ""),
        corrected_answer=None if corrected is None else str(corrected),
    )
