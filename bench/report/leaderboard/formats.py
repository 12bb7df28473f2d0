"""Write the leaderboard's tables as JSON, as CSV, and for the terminal, Markdown and HTML.

Example::

    json.dumps(board_json("benchmark", tables))
    board_grids(tables_of(board, "overall"), "overall")

Numbers in JSON and CSV are not rounded.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Generic, TypedDict, TypeVar

from bench.journal.results_db import JobSummary, MetricSummary
from bench.report.leaderboard.standings import (
    RankedJob,
    RankingTable,
    Standing,
    column_title,
    distinct_texts,
    summary_sentences,
    value_with_interval,
)
from bench.report.tables import Grid, number, safe_row
from bench.untyped_values import Json, utc_text


class BoardMetric(TypedDict):
    """The value of a metric, with the lower and the upper end of its interval."""

    definition: str
    value: float | None
    value_failures_as_zero: float | None
    n: int
    low: float | None
    high: float | None
    unit: str | None


class PlaceDocument(TypedDict):
    """One job in a table of the leaderboard."""

    provider: str
    bound: bool
    provider_type: object
    models: Mapping[str, str | None]
    track: str
    k: object
    run_id: str
    created_at: str
    n_planned: int
    n_scored: int
    cost_usd: str | None
    cost_unknown_calls: object
    search_p50_ms: float | None
    headline: str | None
    metrics: Mapping[str, BoardMetric]
    question_types: Mapping[str, BoardMetric]


class JobRow(PlaceDocument):
    """One job, as a row of the table of its benchmark."""

    value: float | None


BoardRows = TypeVar("BoardRows")


class TableDocument(TypedDict, Generic[BoardRows]):
    """One table of the leaderboard."""

    setting: str
    benchmark: str | None
    rows: list[BoardRows]
    notes: list[str]


def board_json(view: str, tables: Sequence[RankingTable]) -> Json:
    """Return the document of ``bench leaderboard --json``; numbers are not rounded."""
    return {"view": view, "tables": [table_json(table) for table in tables]}


def table_json(table: RankingTable) -> TableDocument[JobRow | Json]:
    """Return a table as JSON; its rows are jobs if the table shows one benchmark, otherwise lists of jobs."""
    one_task = len(table.tasks) == 1 and all(len(one.places) == 1 for one in table.standings)
    names = {place.job.benchmark for one in table.standings for place in one.places}
    return {
        "setting": table.title,
        "benchmark": next(iter(names)) if len(names) == 1 else None,
        "rows": [row_json(one) if one_task else _jobs_row_json(one) for one in table.standings],
        "notes": list(table.notes),
    }


def row_json(one: Standing) -> JobRow:
    """Return a row of the leaderboard as JSON; the row has a single job."""
    return {**_place_json(one.first), "value": one.value}


def _jobs_row_json(one: Standing) -> Json:
    job = one.first.job
    return {
        "provider": job.provider,
        "bound": one.first.is_control,
        "models": _models_json(job),
        "track": job.track,
        "value": one.value,
        "places": [{"benchmark": place.job.benchmark, **_place_json(place)} for place in one.places],
    }


def _models_json(job: JobSummary) -> Mapping[str, str | None]:
    return {"embedding": job.embedding_model, "answering": job.answering_model, "judge": job.judge_model}


def _place_json(place: RankedJob) -> PlaceDocument:
    job, headline = place.job, place.headline
    return {
        "provider": job.provider,
        "bound": place.is_control,
        "provider_type": job.data.get("provider_type"),
        "models": _models_json(job),
        "track": job.track,
        "k": job.data.get("k"),
        "run_id": job.run_id,
        "created_at": utc_text(job.created_at),
        "n_planned": job.n_planned,
        "n_scored": job.n_scored,
        "cost_usd": job.cost_usd,
        "cost_unknown_calls": job.data.get("cost_unknown_calls"),
        "search_p50_ms": place.search_ms,
        "headline": headline.metric if headline else None,
        "metrics": {one.metric: _metric_json(one) for one in place.metrics if not one.dimension},
        "question_types": {label: _metric_json(one) for label, one in place.by_type().items()},
    }


def _metric_json(one: MetricSummary) -> BoardMetric:
    return {
        "definition": one.definition,
        "value": one.value,
        "value_failures_as_zero": one.value_failures_as_zero,
        "n": one.n,
        "low": one.low,
        "high": one.high,
        "unit": one.unit,
    }


def board_csv(tables: Sequence[RankingTable]) -> str:
    """Return the tables as CSV, with one line per job, metric and label.

    The column ``table`` is the number of the table in the view, from 1.
    """
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
                                          place.is_control)))  # fmt: skip
    return sink.getvalue()


NOTHING = "there is no complete valid run yet: use bench run, or bench results --rebuild to read the journals again"


def board_grids(tables: Sequence[RankingTable], view: str) -> list[Grid]:
    """Return the tables of a view for the terminal, Markdown and HTML pages."""
    if not tables:
        return [Grid(title="Leaderboard", head=("provider",), rows=(), notes=(NOTHING,))]
    draw: Mapping[str, Callable[[RankingTable], Grid]] = {
        "type": _type_grid,
        "model": partial(_grid, named=False),
        "provider": _matrix_grid,
        "overall": _matrix_grid,
    }
    return [draw.get(view, _grid)(table) for table in tables]


def _grid(table: RankingTable, *, named: bool = True) -> Grid:
    first = table.standings[0].first
    name = first.headline.metric if first.headline else "no metric"
    who = ("provider", "embedding") if named else ("answering model",)
    return Grid(
        title=table.title,
        head=(*who, name, "failures as 0", "n", "search p50 (ms)", "USD", "run"),
        rows=tuple(_row(one.first, named=named) for one in table.standings),
        right=tuple(range(len(who), len(who) + 5)),
        notes=(*summary_sentences(table), *table.notes),
    )


def _row(place: RankedJob, *, named: bool) -> tuple[str, ...]:
    headline = place.headline
    return (
        *((place.name, place.job.embedding_model or "none") if named else (place.models[0],)),
        value_with_interval(headline),
        "-" if headline is None else number(headline.value_failures_as_zero, headline.unit),
        "0" if headline is None else str(headline.n),
        number(place.search_ms, "ms"),
        place.cost,
        place.job.run_id,
    )


def _type_grid(table: RankingTable) -> Grid:
    """Return a table with one row per question type and provider.

    The rows of a question type begin with the best provider.
    """
    found = [
        (label, one, place)
        for place in (standing.first for standing in table.standings)
        for label, one in place.by_type().items()
        if one.value is not None
    ]
    found.sort(key=lambda row: (row[0], row[2].is_control, row[2].best_first(row[1].value), row[2].job.provider))
    name = table.standings[0].first.headline
    return Grid(
        title=table.title,
        head=("question type", "provider", name.metric if name else "no metric", "n"),
        rows=tuple((label, place.name, value_with_interval(one), str(one.n)) for label, one, place in found),
        right=(2, 3),
        notes=(*summary_sentences(table), *table.notes),
    )


def _matrix_grid(table: RankingTable) -> Grid:
    columns = {place.task: place for one in table.standings for place in one.places}
    tasks = [task for task in table.tasks if task in columns]
    titles = distinct_texts(list(columns.values()), column_title)
    has_mean = any(one.value is not None and len(one.places) > 1 for one in table.standings)
    rows = []
    for one in table.standings:
        found = {place.task: place for place in one.places}
        cells = [value_with_interval(found[task].headline) if task in found else "-" for task in tasks]
        mean = [number(one.value)] if has_mean else []
        rows.append((one.first.name, one.first.job.embedding_model or "none", *mean, *cells))
    head = ("provider", "embedding", *(["mean"] if has_mean else []), *(titles[task] for task in tasks))
    return Grid(
        title=table.title,
        head=head,
        rows=tuple(rows),
        right=tuple(range(2, len(head))),
        notes=(*summary_sentences(table), *table.notes),
    )
