"""Metrics: compute the value of one item, and combine the values of many items into a result with an interval.

This package needs no run, no files of a run and no network.

Example::

    from bench import metrics

    metrics.score("recall_at_5", retrieved=["a", "b"], relevant={"b"})       # 1.0
    metrics.resolve("p95_latency_ms").definition                             # "latency_p95/1"

``protocol`` defines a metric, and ``registry`` finds a metric by its name. ``retrieval``, ``answers``, ``latency`` and
``pricing`` contain the metrics. ``fold`` combines values into a ``Measurement``.
"""

from __future__ import annotations

from bench.metrics.api import measure, resolve, score
from bench.metrics.fold import DIMENSIONS, fold, item_metrics, value, values
from bench.metrics.fold_input import CorpusFacts, FoldRow, FoldTable, JobFacts, labels_of
from bench.metrics.pricing import cost, price_table
from bench.metrics.protocol import Measure, Metric, MetricInfo
from bench.metrics.registry import catalog, registry
from bench.metrics.selection import MetricSpec, dimension_name, evaluators_needed, open_metrics

__all__ = [
    "DIMENSIONS",
    "CorpusFacts",
    "FoldRow",
    "FoldTable",
    "JobFacts",
    "Measure",
    "Metric",
    "MetricInfo",
    "MetricSpec",
    "catalog",
    "cost",
    "dimension_name",
    "evaluators_needed",
    "fold",
    "item_metrics",
    "labels_of",
    "measure",
    "names",
    "open_metrics",
    "price_table",
    "registry",
    "resolve",
    "score",
    "value",
    "values",
]


def names() -> list[str]:
    """Return every metric name and alias, sorted. The name of a metric that needs a cutoff ends in ``_at_K``."""
    return sorted(registry().names())
