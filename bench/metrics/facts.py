"""The light rows that a fold reads: what is left of an item, a corpus, a job once its values are stored.

Example::

    FoldRow("q1", "conv-26", 1, "correct", (("question_type", "temporal"),), (1.0, None), "no_evidence")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bench.model import Row

Labels = tuple[tuple[str, str], ...]

NO_LABEL = "(none)"
"""the label of an item that lacks a dimension"""


class FoldRow(NamedTuple):
    """One item of one epoch; any tuple of this shape will do."""

    item_id: str
    corpus: str
    """its cluster"""
    epoch: int
    state: str | None
    """None = pending"""
    labels: Labels
    """sorted (dimension, label) pairs"""
    values: Sequence[float | None]
    """in the order of the metrics; may be empty for an item that failed"""
    reason: str = ""
    """why a metric may not apply, e.g. no_evidence"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusFacts:
    """What ingesting one corpus took; ``failed`` = it never became ready."""

    corpus: str
    failed: bool = False
    times_us: Mapping[str, int] = field(default_factory=dict)
    """``ingest``, its parts as ``ingest.network``, and ``searchable``"""
    memories: int | None = None
    tokens: int | None = None
    cost_usd: str | None = None
    """decimal text, None = unknown"""
    priced: bool = True
    """False: ingest made no call that has a price"""

    def row(self) -> Row:
        """The same facts in the shape that metrics read."""
        return Row(
            benchmark="",
            corpus=self.corpus,
            item_id=self.corpus,
            times_us=self.times_us,
            tokens={"ingest": self.tokens, "memories": self.memories},
            costs_usd={"ingest": self.cost_usd} if self.priced else {},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What belongs to a job as a whole."""

    ingest_wall_us: int | None = None
    ingest_concurrency: int | None = None
    token_methods: Mapping[str, tuple[str, bool]] = field(default_factory=dict)
    """role -> (``usage``, a tokenizer's name or ``chars/4``, or two of them; whether any of it is an estimate)"""
    price_methods: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """role -> name and version of the price table, or ``prices``, or both; absent where nothing had a price"""
    corpora: Sequence[CorpusFacts] = ()
    judged: bool = False
    """a judge decides how items end, so that one without its verdict is lost"""


def labels_of(labels: Mapping[str, str]) -> Labels:
    """The hashable form of a row's labels."""
    return tuple(sorted(labels.items()))


def all_labels_of(many: Sequence[Mapping[str, str]]) -> list[Labels]:
    """The hashable forms of many rows' labels; equal label sets that are one object are read once."""
    names = list(map(id, many))
    forms = {name: labels_of(labels) for name, labels in dict(zip(names, many, strict=True)).items()}
    return list(map(forms.__getitem__, names))
