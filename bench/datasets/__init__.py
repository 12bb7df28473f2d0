"""Data of benchmarks: files become items and corpora, checked once and read on demand.

::

    from bench.datasets import Selection, memories, open_benchmark

    dataset = open_benchmark(config, workspace)
    dataset.counts.items, dataset.sha256, dataset.content_sha256
    for ref in dataset.items(Selection(limit=10)):
        item, corpus = dataset.item(ref), dataset.corpus(ref.corpus)
        sent = memories(config, corpus)

Where things are: ``download`` and ``data_file`` get a file and check its digest, ``row_reader`` streams it,
``parser`` makes items (``questions``, ``evidence``) and corpora (``history``) of its rows, ``dates`` reads their
dates; ``inspection`` and ``index`` remember where each is, ``dataset`` reads it on demand, ``selection`` chooses,
``memories`` is what a provider may see. May not be added here: anything that knows a run, a provider or a model.
"""

from __future__ import annotations

from bench.config.template import render_turn
from bench.datasets.dataset import Dataset, ItemRef, open_benchmark
from bench.datasets.evidence import Gap, coverage_gaps, require_coverage
from bench.datasets.memories import Level, RenderedMemory, evidence_level, gold_ids, memories, ranks, stands_for
from bench.datasets.selection import Selection

__all__ = [
    "Dataset",
    "Gap",
    "ItemRef",
    "Level",
    "RenderedMemory",
    "Selection",
    "coverage_gaps",
    "evidence_level",
    "gold_ids",
    "memories",
    "open_benchmark",
    "ranks",
    "render_turn",
    "require_coverage",
    "stands_for",
]
