"""The leaderboard: the newest complete valid job of each provider and models; only comparable rows share a table.

Example::

    board = await load_board(Path("."), ["locomo"])
    board_grids(tables_of(board, "benchmark"), "benchmark")

Views: ``benchmark`` (a table a setting), ``type`` (the same by question type), ``provider`` (models fixed, a column a
benchmark), ``model`` (provider fixed), ``overall`` (macro over benchmarks, only providers that have all).
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.errors import UsageError
from bench.journal.results_db import JobSummary, MetricSummary, ResultsDb
from bench.report.summary import FILE
from bench.report.tables import Grid, number, safe_cell

LATENCIES = ("latency_p50", "latency_p95", "latency")
NOTHING = "no complete valid run yet: bench run makes one, bench results --rebuild reads the journals anew"
SETTINGS = ("k", "context_budget", "level", "selection", "prompts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One job on the board."""

    job: JobSummary
    metrics: tuple[MetricSummary, ...]

    @property
    def headline(self) -> MetricSummary | None:
        """The benchmark's first metric that has a value over all items."""
        names = self.job.data.get("metrics")
        found = {one.metric: one for one in self.metrics if not one.dimension and one.value is not None}
        order = names if isinstance(names, list) else sorted(found)
        return next((found[name] for name in order if name in found), None)

    def overall(self, *names: str) -> MetricSummary | None:
        """The first of these metrics that it has."""
        found = {one.metric: one for one in self.metrics if not one.dimension}
        return next((found[name] for name in names if name in found), None)

    def by_type(self) -> dict[str, MetricSummary]:
        """The headline by question type."""
        name = self.headline.metric if self.headline else None
        return {one.label: one for one in self.metrics if one.dimension == "question_type" and one.metric == name}

    @property
    def models(self) -> tuple[str, str, str]:
        """Answering, judge, track."""
        return self.job.answering_model or "none", self.job.judge_model or "none", self.job.track

    @property
    def task(self) -> str:
        """Everything but provider and models that must be equal where values stand under one another."""
        job, dataset = self.job, self.job.data.get("dataset")
        content = dataset.get("content_sha256") if isinstance(dataset, Mapping) else None
        shared = [job.benchmark, job.benchmark_version, job.track, content, *(job.data.get(name) for name in SETTINGS)]
        return json.dumps([*shared, self.headline.definition if self.headline else None], sort_keys=True, default=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One row: a place a benchmark, and the number it is ranked by."""

    places: tuple[Place, ...]
    value: float | None

    @property
    def first(self) -> Place:
        return self.places[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows that may be compared; with several ``tasks`` each one is a column."""

    title: str
    tasks: tuple[str, ...]
    standings: tuple[Standing, ...]
    notes: tuple[str, ...] = ()


async def load_board(workspace: Path, benchmarks: Sequence[str] = ()) -> list[Place]:
    """Read the derived database; an absent one is an empty board.

    Raises:
        UsageError: a benchmark of which no run is known.
    """
    path = workspace / "results" / FILE
    if not path.is_file():
        return []
    async with ResultsDb.open(path) as database:
        known = await database.benchmarks()
        for name in benchmarks:
            if name not in known:
                raise UsageError(f"no run of {name} is known", hint=f"there are runs of: {', '.join(known) or 'none'}")
        jobs = [job for name in known if not benchmarks or name in benchmarks for job in await database.newest(name)]
        return [Place(job=job, metrics=await database.metrics(job)) for job in jobs]


# ------------------------------------------------------------------------------- views


def tables_of(board: Sequence[Place], view: str) -> list[Table]:
    """The tables of one view: overall, benchmark, type, provider or model."""
    return VIEWS[view](board)


def _grouped(board: Sequence[Place], key: Callable[[Place], tuple[str, ...]]) -> Iterator[list[Place]]:
    groups: dict[tuple[str, ...], list[Place]] = {}
    for place in board:
        groups.setdefault(key(place), []).append(place)
    yield from (groups[name] for name in sorted(groups))


def _ranked(places: Sequence[Place]) -> tuple[Standing, ...]:
    found = [Standing(places=(place,), value=place.headline.value if place.headline else None) for place in places]
    return tuple(sorted(found, key=_rank))


def _rank(one: Standing) -> tuple[float, str]:
    return math.inf if one.value is None else -one.value, one.first.job.provider


def _by_benchmark(board: Sequence[Place]) -> list[Table]:
    return [
        Table(
            title=f"{_task_title(group[0])} | {_models_title(group[0])}",
            tasks=(group[0].task,),
            standings=_ranked(group),
        )
        for group in _grouped(board, lambda place: (place.task, *place.models))
    ]


def _by_model(board: Sequence[Place]) -> list[Table]:
    """One provider with one embedding model, answering models under one another; the judge is fixed."""
    return [
        Table(
            title=f"{group[0].job.provider} | embedding {group[0].job.embedding_model or 'none'} | "
            f"{_task_title(group[0])} | judge {group[0].models[1]}",
            tasks=(group[0].task,),
            standings=_ranked(group),
        )
        for group in _grouped(
            board,
            lambda place: (place.job.provider, place.job.embedding_model or "", place.task, place.models[1]),
        )
    ]


def _by_provider(board: Sequence[Place]) -> list[Table]:
    """Fixed models, providers under one another, a column a task."""
    return [
        Table(
            title=_models_title(group[0]),
            tasks=tuple(sorted({place.task for place in group})),
            standings=_rows_by_provider(group),
            notes=("only values of one column are comparable",),
        )
        for group in _grouped(board, lambda place: place.models)
    ]


def _rows_by_provider(group: Sequence[Place]) -> tuple[Standing, ...]:
    rows = _grouped(group, lambda place: (place.job.provider, place.job.embedding_model or ""))
    return tuple(Standing(places=tuple(sorted(places, key=lambda one: one.task)), value=None) for places in rows)


def _overall(board: Sequence[Place]) -> list[Table]:
    """Fixed models; of each benchmark the task that most providers did; the mean over all benchmarks."""
    benchmarks = sorted({place.job.benchmark for place in board})
    return [_overall_table(group, benchmarks) for group in _grouped(board, lambda place: place.models)]


def _overall_table(group: Sequence[Place], benchmarks: Sequence[str]) -> Table:
    tasks = {place.job.benchmark: _commonest(group, place.job.benchmark) for place in group}
    chosen = [place for place in group if place.task == tasks[place.job.benchmark] and place.headline is not None]
    rows, missing = [], []
    for one in _rows_by_provider(chosen):
        names = [place.job.benchmark for place in one.places]
        lacking = [name for name in benchmarks if name not in names]
        values = [place.headline.value for place in one.places if place.headline and place.headline.value is not None]
        if lacking:
            missing.append(f"{one.first.job.provider} is not here: it has no {', '.join(lacking)}")
        else:
            rows.append(Standing(places=one.places, value=math.fsum(values) / len(values)))
    return Table(
        title=f"overall: mean over {', '.join(benchmarks)} | {_models_title(group[0])}",
        tasks=tuple(sorted(tasks.values())),
        standings=tuple(sorted(rows, key=_rank)),
        notes=("the mean of each benchmark's headline metric, every benchmark weighs the same", *missing),
    )


def _commonest(group: Sequence[Place], benchmark: str) -> str:
    counts: dict[str, int] = {}
    for place in group:
        if place.job.benchmark == benchmark:
            counts[place.task] = counts.get(place.task, 0) + 1
    return min(counts, key=lambda task: (-counts[task], task))


VIEWS: Mapping[str, Callable[[Sequence[Place]], list[Table]]] = {
    "overall": _overall,
    "benchmark": _by_benchmark,
    "type": _by_benchmark,
    "provider": _by_provider,
    "model": _by_model,
}


# ------------------------------------------------------------------------------- grids


def board_grids(tables: Sequence[Table], view: str) -> list[Grid]:
    """The tables of a view as grids."""
    if not tables:
        return [Grid(title="Leaderboard", head=("provider",), rows=(), notes=(NOTHING,))]
    draw = {"type": _type_grid, "model": _model_grid, "provider": _matrix_grid, "overall": _matrix_grid}
    return [draw.get(view, _grid)(table) for table in tables]


def _task_title(place: Place) -> str:
    job = place.job
    parts = [f"{job.benchmark} {job.benchmark_version}", f"k={job.data.get('k')}", f"track {job.track}"]
    selection = job.data.get("selection")
    if isinstance(selection, Mapping) and selection:
        parts.append(", ".join(f"{name}={value}" for name, value in selection.items()))
    return " | ".join(parts)


def _models_title(place: Place) -> str:
    answering, judge, track = place.models
    return f"answering {answering} | judge {judge}" + ("" if track == "uniform" else f" | track {track}")


def _grid(table: Table, *, named: bool = True) -> Grid:
    first = table.standings[0].first
    name = first.headline.metric if first.headline else "no metric"
    who = ("provider", "embedding") if named else ("answering model",)
    return Grid(
        title=table.title,
        head=(*who, name, "failures as 0", "n", "latency ms", "USD", "run"),
        rows=tuple(_row(one.first, named=named) for one in table.standings),
        right=tuple(range(len(who), len(who) + 5)),
        notes=table.notes,
    )


def _model_grid(table: Table) -> Grid:
    return _grid(table, named=False)


def _row(place: Place, *, named: bool) -> tuple[str, ...]:
    headline, latency = place.headline, place.overall(*LATENCIES)
    return (
        *((place.job.provider, place.job.embedding_model or "none") if named else (place.models[0],)),
        _spanned(headline),
        "-" if headline is None else number(headline.value_failures_as_zero, headline.unit),
        "0" if headline is None else str(headline.n),
        "-" if latency is None else number(latency.value, latency.unit),
        place.job.cost_usd or "-",
        place.job.run_id,
    )


def _spanned(one: MetricSummary | None) -> str:
    if one is None:
        return "-"
    bounds = "" if one.low is None else f" [{number(one.low, one.unit)}, {number(one.high, one.unit)}]"
    return number(one.value, one.unit) + bounds


def _type_grid(table: Table) -> Grid:
    """A row a type and provider, the best of each type first: fits any width."""
    found = [
        (label, one, place.job.provider)
        for place in (standing.first for standing in table.standings)
        for label, one in place.by_type().items()
        if one.value is not None
    ]
    found.sort(key=lambda row: (row[0], -(row[1].value or 0), row[2]))
    name = table.standings[0].first.headline
    return Grid(
        title=table.title,
        head=("question type", "provider", name.metric if name else "no metric", "n"),
        rows=tuple((label, provider, _spanned(one), str(one.n)) for label, one, provider in found),
        right=(2, 3),
        notes=table.notes,
    )


def _matrix_grid(table: Table) -> Grid:
    columns = {place.task: place for one in table.standings for place in one.places}
    tasks = [task for task in table.tasks if task in columns]
    has_mean = any(one.value is not None for one in table.standings)
    rows = []
    for one in table.standings:
        found = {place.task: place for place in one.places}
        cells = [_spanned(found[task].headline) if task in found else "-" for task in tasks]
        mean = [number(one.value)] if has_mean else []
        rows.append((one.first.job.provider, one.first.job.embedding_model or "none", *mean, *cells))
    head = ("provider", "embedding", *(["mean"] if has_mean else []), *(_column(columns[task]) for task in tasks))
    return Grid(title=table.title, head=head, rows=tuple(rows), right=tuple(range(2, len(head))), notes=table.notes)


def _column(place: Place) -> str:
    metric = place.headline.metric if place.headline else "no metric"
    return f"{place.job.benchmark} k={place.job.data.get('k')} {metric}"


# ----------------------------------------------------------------------------- documents


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
        "provider_type": job.data.get("provider_type"),
        "models": _models_json(job),
        "track": job.track,
        "k": job.data.get("k"),
        "run_id": job.run_id,
        "created_at": job.created_at.isoformat(),
        "n_planned": job.n_planned,
        "n_scored": job.n_scored,
        "cost_usd": job.cost_usd,
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
                     "definition", "dimension", "label", "value", "n", "low", "high"))  # fmt: skip
    for at, table in enumerate(tables, start=1):
        for place in (place for one in table.standings for place in one.places):
            job = place.job
            for one in place.metrics:
                writer.writerow((at, safe_cell(job.benchmark), safe_cell(job.provider), job.embedding_model,
                                 job.answering_model, job.judge_model, job.track, job.run_id, one.metric,
                                 one.definition, one.dimension, safe_cell(one.label), one.value, one.n, one.low,
                                 one.high))  # fmt: skip
    return sink.getvalue()
