"""Scores with and without golds that are known to be doubtful, for a job whose benchmark has an overlay.

Example::

    found = await gold_scores(reader, record, metrics)
    found["accuracy"].raw, found["accuracy"].corrected, found["accuracy"].ceiling

Corrected leaves the listed items out; after a rescore, those with a corrected answer count against that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from bench.journal import Reader
from bench.metrics.overlay import GoldScores, Overlay, Suspect
from bench.metrics.protocol import Measure
from bench.model import Phase
from bench.plan.record import JobRecord

CORRECTED = "corrected"
ANSWER = "answer"


async def gold_scores(reader: Reader, record: JobRecord, metrics: Sequence[Measure]) -> dict[str, GoldScores]:
    """Raw, corrected and ceiling of every answer metric whose values lie in 0..1; empty without an overlay."""
    if record.overlay is None:
        return {}
    overlay = Overlay(
        benchmark=record.benchmark,
        dataset_sha256=str(record.dataset.get("sha256", "")),
        source=record.overlay.source,
        items={item: Suspect(id=item, kind=kind) for item, kind in record.suspects.items()},
    )
    names = [metric.name for metric in metrics if metric.category == ANSWER and not metric.lower_is_better]
    values = await _values(reader, record, names)
    rescored = await _rescored(reader, record)
    return {
        name: overlay.scores(values[name], {item: by_name.get(name) for item, by_name in rescored.items()})
        for name in names
        if values[name] and all(0 <= value <= 1 for value in values[name].values())
    }


async def _values(reader: Reader, record: JobRecord, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Metric -> item -> its mean over the epochs."""
    found: dict[str, dict[str, list[float]]] = {name: {} for name in names}
    async for batch in reader.values(record.key):
        for name in names:
            for item, value in zip(batch.items, batch.values.get(name, ()), strict=False):
                if not math.isnan(value):
                    found[name].setdefault(item, []).append(value)
    return {name: {item: math.fsum(some) / len(some) for item, some in items.items()} for name, items in found.items()}


async def _rescored(reader: Reader, record: JobRecord) -> dict[str, Mapping[str, float]]:
    """Listed item -> metric -> value against the corrected answer, as far as a rescore has found them."""
    found: dict[str, Mapping[str, float]] = {}
    for item in record.suspects:
        for one in await reader.item(record.chain, item):
            scored = one.phases.get(Phase.EVALUATE)
            corrected = None if scored is None else scored.data.get(CORRECTED)
            if isinstance(corrected, Mapping):
                found[item] = {str(name): float(value) for name, value in corrected.items() if value is not None}
    return found


def gold_json(record: JobRecord, scores: Mapping[str, GoldScores]) -> dict[str, object]:
    """What a report says of an overlay; nothing where there is none."""
    if record.overlay is None:
        return {}
    about = {"overlay": record.overlay.name, "sha256": record.overlay.sha256, "source": record.overlay.source}
    metrics = {name: {**asdict(one), "above_ceiling": one.above_ceiling} for name, one in scores.items()}
    return {"gold": {**about, "n_listed": len(record.suspects), "metrics": metrics}}


def gold_notes(scores: Mapping[str, GoldScores]) -> list[str]:
    """One sentence a metric, and a flag where a score needs doubtful golds to be met."""
    return [
        f"{name} raw {one.raw:.4f}, corrected {_shown(one.corrected)}, ceiling {_shown(one.ceiling)} "
        f"({one.n_listed} golds doubted)" + ("; the raw score lies above the ceiling" if one.above_ceiling else "")
        for name, one in scores.items()
        if one.raw is not None
    ]


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
