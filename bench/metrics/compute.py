"""One row's vector of values: computed once, when its evaluate phase ends, and stored.

Example::

    values(metrics, row)       # {"hit_at_5": 1.0, "accuracy": None}
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.errors import EvaluatorFailed
from bench.metrics.fold import item_metrics
from bench.metrics.protocol import LARGEST, Measure
from bench.model import Row


def values(metrics: Sequence[Measure], row: Row) -> dict[str, float | None]:
    """Every item metric's value of a row, None = does not apply.

    Raises EvaluatorFailed where a metric gives NaN, infinity or more: an error of that item.
    """
    return {metric.name: value(metric, row) for metric in item_metrics(metrics)}


def value(metric: Measure, row: Row) -> float | None:
    """One metric's value of a row."""
    found = metric.score(row)
    if found is not None and not abs(found) <= LARGEST:
        raise EvaluatorFailed(f"metric {metric.name} gave {found} for item {row.item_id}")
    return found
