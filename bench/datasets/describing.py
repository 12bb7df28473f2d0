"""What ``bench describe BENCHMARK`` shows, as plain values ready for JSON; everything streams.

::

    describe(dataset)                            # counts, types, flags, digests
    for line in item_lines(dataset, selection): ...
    for line in memory_lines(dataset, selection): ...
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from bench.config.benchmark.judging import MetricEntry
from bench.config.filters import iso
from bench.config.source import show
from bench.datasets.dataset import Dataset
from bench.datasets.selection import Selection
from bench.model import Item


def describe(dataset: Dataset) -> dict[str, object]:
    """The object of ``bench describe B --json``."""
    config, counts = dataset.config, dataset.counts
    return {
        "name": config.name,
        "version": config.version,
        "display_name": config.title,
        "description": config.description,
        "source": config.source,
        "paper": config.paper,
        "license": config.license,
        "tags": list(config.tags),
        "items": counts.items,
        "corpora": counts.corpora,
        "sessions": counts.sessions,
        "turns": counts.turns,
        "memories": counts.memories,
        "question_types": dict(counts.question_types),
        "groups": dataset.groups,
        "flags": {flag: counts.flags[flag] for flag in sorted(counts.flags) if counts.flags[flag]},
        "dataset": {
            "path": show(dataset.path),
            "sha256": dataset.sha256,
            "content_sha256": dataset.content_sha256,
        },
        "k": config.search.default_limit,
        "protocol": config.evaluation.method,
        "paper_reference": config.evaluation.judge_prompts.paper_reference,
        "metrics": [metric.name if isinstance(metric, MetricEntry) else metric for metric in config.metrics],
        "packs": [config.evaluation.pack] if config.evaluation.pack else [],
        "required_capabilities": list(config.required_capabilities),
        "marks": list(config.marks),
        "notes": list(dataset.notes),
    }


def item_lines(dataset: Dataset, selection: Selection | None = None) -> Iterator[dict[str, object]]:
    """One object an item: what a run would ask."""
    return (item_line(dataset.item(ref)) for ref in dataset.items(selection))


def item_line(item: Item) -> dict[str, object]:
    """The line of one item, gold included."""
    return {
        "position": item.position,
        "id": item.id,
        "corpus": item.corpus,
        "question": item.question,
        "answers": list(item.answers),
        "question_type": item.question_type,
        "question_date": _date(item.question_date),
        "abstention": item.abstention,
        "evidence": {"sessions": list(item.evidence.sessions), "turns": list(item.evidence.turns)},
        "flags": list(item.flags),
    }


def memory_lines(dataset: Dataset, selection: Selection | None = None) -> Iterator[dict[str, object]]:
    """One object a memory, in send order: what a built-in provider gets, with the dataset's ids."""
    corpora = dataset.corpora() if selection is None else _corpora_of(dataset, selection)
    return (memory.as_json() for corpus in corpora for memory in dataset.memories(corpus))


def _corpora_of(dataset: Dataset, selection: Selection) -> Iterator[str]:
    """The corpora of the selected items, each once."""
    seen: set[str] = set()
    for ref in dataset.items(selection):
        if ref.corpus not in seen:
            seen.add(ref.corpus)
            yield ref.corpus


def _date(when: datetime | None) -> str | None:
    return None if when is None else iso(when)
