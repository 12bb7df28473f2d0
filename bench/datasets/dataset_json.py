"""Create the JSON objects that ``bench describe`` prints for a dataset. Items and memories are yielded one by one.

Example::

    describe(dataset)                            # counts, types, flags, digests
    for line in item_lines(dataset, selection): ...
    for line in memory_lines(dataset, selection): ...
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from bench.config.benchmark.config import BenchmarkConfig
from bench.config.benchmark.sections import MetricEntry
from bench.config.file import display_path
from bench.config.template import iso_utc
from bench.datasets.dataset import Dataset
from bench.datasets.memories import evidence_level
from bench.datasets.selection import Selection
from bench.metrics.answers.choices import choice_index
from bench.model import Item


def describe(dataset: Dataset) -> dict[str, object]:
    """Return the JSON object that ``bench describe B --json`` prints."""
    config, counts = dataset.config, dataset.counts
    level = evidence_level(config, unit=config.unit, turn_evidence=dataset.turn_evidence)
    return {
        "name": config.name,
        "version": config.version,
        "display_name": config.title,
        "description": config.description,
        "source": config.source,
        "paper": config.paper,
        "license": config.license,
        "tags": list(config.tags),
        "published": config.published.model_dump(mode="json", exclude_defaults=True),
        **({"docs": page} if (page := docs_page(config)) else {}),
        "items": counts.items,
        "corpora": counts.corpora,
        "sessions": counts.sessions,
        "turns": counts.turns,
        "memories": counts.memories,
        "abstention": counts.abstention,
        "with_evidence": counts.scored[level],
        "question_types": dict(counts.question_types),
        "groups": dataset.groups,
        "flags": {flag: counts.flags[flag] for flag in sorted(counts.flags) if counts.flags[flag]},
        "dataset": {
            "path": display_path(dataset.path),
            "sha256": dataset.sha256,
            "content_sha256": dataset.content_sha256,
            **({"files": dict(dataset.files)} if dataset.files else {}),
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


def docs_page(config: BenchmarkConfig) -> str | None:
    """Return the path of a benchmark's documentation page. Only a benchmark with a published score has a page."""
    return f"docs/benchmarks/{config.published.page or config.name}.md" if config.published.score else None


def item_lines(dataset: Dataset, selection: Selection | None = None) -> Iterator[dict[str, object]]:
    """Yield the JSON object of each selected item, as a run would use the item."""
    return (item_line(dataset.item(ref)) for ref in dataset.items(selection))


def item_line(item: Item) -> dict[str, object]:
    """Return the JSON object of one item, with its answers and evidence."""
    return {
        "position": item.position,
        "id": item.id,
        "corpus": item.corpus,
        "question": item.question,
        "answers": list(item.answers),
        "question_type": item.question_type,
        "question_date": _iso_date(item.question_date),
        "abstention": item.abstention,
        "evidence": {
            "sessions": list(item.evidence.sessions),
            "turns": list(item.evidence.turns),
            **({"texts": list(item.evidence.texts)} if item.evidence.texts else {}),
            **({"grades": dict(item.evidence.grades)} if item.evidence.grades else {}),
        },
        "flags": list(item.flags),
        **({"choices": list(item.choices), "choice_answer": _correct_choice(item)} if item.choices else {}),
        **({"rubric": list(item.rubric)} if item.rubric else {}),
    }


def _correct_choice(item: Item) -> str | None:
    """Return the text of the right choice, or None if the item has no choices."""
    right = choice_index(item.choice_answer, item.choices)
    return None if right is None else item.choices[right]


def memory_lines(dataset: Dataset, selection: Selection | None = None) -> Iterator[dict[str, object]]:
    """Yield the JSON object of each memory, in the order in which memories are sent.

    An object contains the text of the memory and the ids of its session and turns.
    """
    corpora = dataset.corpora() if selection is None else _corpora_of(dataset, selection)
    return (memory.as_json() for corpus in corpora for memory in dataset.memories(corpus))


def _corpora_of(dataset: Dataset, selection: Selection) -> Iterator[str]:
    """Yield the corpus id of each selected item, without repetitions."""
    seen: set[str] = set()
    for ref in dataset.items(selection):
        if ref.corpus not in seen:
            seen.add(ref.corpus)
            yield ref.corpus


def _iso_date(when: datetime | None) -> str | None:
    return None if when is None else iso_utc(when)
