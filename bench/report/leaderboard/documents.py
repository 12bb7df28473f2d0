"""A view's tables as JSON and CSV; values are full doubles.

Example::

    json.dumps(board_json("benchmark", tables))
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from bench.journal.results_db import JobSummary, MetricSummary
from bench.report.leaderboard.places import Place
from bench.report.leaderboard.views import Standing, Table
from bench.report.tables import safe_row


def board_json(view: str, tables: Sequence[Table]) -> dict[str, object]:
    """The document of ``bench leaderboard --json``; values are full doubles."""
    return {"view": view, "tables": [_table_json(table) for table in tables]}


def _table_json(table: Table) -> dict[str, object]:
    one_task = len(table.tasks) == 1 and all(len(one.places) == 1 for one in table.standings)
    rows = [
        {**_place_json(one.first), "value": one.value} if one_task else _several_json(one) for one in table.standings
    ]
    names = {place.job.benchmark for one in table.standings for place in one.places}
    benchmark = next(iter(names)) if len(names) == 1 else None
    return {"setting": table.title, "benchmark": benchmark, "rows": rows, "notes": list(table.notes)}


def _several_json(one: Standing) -> dict[str, object]:
    job = one.first.job
    return {
        "provider": job.provider,
        "bound": one.first.bound,
        "models": _models_json(job),
        "track": job.track,
        "value": one.value,
        "places": [{"benchmark": place.job.benchmark, **_place_json(place)} for place in one.places],
    }


def _models_json(job: JobSummary) -> dict[str, object]:
    return {"embedding": job.embedding_model, "answering": job.answering_model, "judge": job.judge_model}


def _place_json(place: Place) -> dict[str, object]:
    job, headline = place.job, place.headline
    return {
        "provider": job.provider,
        "bound": place.bound,
        "provider_type": job.data.get("provider_type"),
        "models": _models_json(job),
        "track": job.track,
        "k": job.data.get("k"),
        "run_id": job.run_id,
        "created_at": job.created_at.isoformat(),
        "n_planned": job.n_planned,
        "n_scored": job.n_scored,
        "cost_usd": job.cost_usd,
        "cost_unknown_calls": job.data.get("cost_unknown_calls"),
        "search_p50_ms": place.search_ms,
        "headline": headline.metric if headline else None,
        "metrics": {one.metric: _metric_json(one) for one in place.metrics if not one.dimension},
        "question_types": {label: _metric_json(one) for label, one in place.by_type().items()},
    }


def _metric_json(one: MetricSummary) -> dict[str, object]:
    names = ("definition", "value", "value_failures_as_zero", "n", "low", "high", "unit")
    return {name: getattr(one, name) for name in names}


def board_csv(tables: Sequence[Table]) -> str:
    """A line a job, metric and label: unrounded; ``table`` counts the tables of the view."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\r\n")
    writer.writerow(("table", "benchmark", "provider", "embedding", "answering", "judge", "track", "run_id", "metric",
                     "definition", "dimension", "label", "value", "n", "low", "high", "bound"))  # fmt: skip
    for at, table in enumerate(tables, start=1):
        for place in (place for one in table.standings for place in one.places):
            job = place.job
            for one in place.metrics:
                writer.writerow(safe_row((at, job.benchmark, job.provider, job.embedding_model, job.answering_model,
                                          job.judge_model, job.track, job.run_id, one.metric, one.definition,
                                          one.dimension, one.label, one.value, one.n, one.low, one.high,
                                          place.bound)))  # fmt: skip
    return sink.getvalue()
