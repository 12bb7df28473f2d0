"""The data of benchmarks: items and corpora. They are checked once and then read from their files on demand.

::

    from bench.datasets import Selection, memories, open_benchmark

    dataset = open_benchmark(config, workspace)
    dataset.counts.items, dataset.sha256, dataset.content_sha256
    for ref in dataset.items(Selection(limit=10)):
        item, corpus = dataset.item(ref), dataset.corpus(ref.corpus)
        sent = memories(config, corpus)

``dataset`` is the interface for other packages, and ``draft`` guesses a config for new data. This package must not
depend on runs, providers or models.
"""

from __future__ import annotations

from bench.config.template import render_turn
from bench.datasets.dataset import Dataset, ItemRef, open_benchmark
from bench.datasets.evidence import CoverageGap, coverage_gaps, require_coverage
from bench.datasets.memories import Level, RenderedMemory, evidence_level, gold_ids, ids_at_level, memories, ranked_ids
from bench.datasets.selection import Selection
from bench.model import Corpus, Evidence, Item, Session, Turn

__all__ = [
    "Corpus",
    "CoverageGap",
    "Dataset",
    "Evidence",
    "Item",
    "ItemRef",
    "Level",
    "RenderedMemory",
    "Selection",
    "Session",
    "Turn",
    "coverage_gaps",
    "evidence_level",
    "gold_ids",
    "ids_at_level",
    "memories",
    "open_benchmark",
    "ranked_ids",
    "render_turn",
    "require_coverage",
]
