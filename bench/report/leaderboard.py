"""The leaderboard: the newest complete valid job of each provider and models; only comparable rows share a table.

Example::

    board = await load_board(Path("."), benchmark="locomo")
    for grid in board_grids(board, "benchmark"): ...
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.journal.results_db import JobSummary, MetricSummary, ResultsDb
from bench.report.summary import FILE
from bench.report.tables import Grid, number, safe_cell

LATENCIES = ("latency_p50", "search_latency_p50", "latency_p95")
NOTHING = "no complete valid run yet: bench run makes one, bench results --rebuild reads the journals anew"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One job on the board."""

    job: JobSummary
    metrics: tuple[MetricSummary, ...]

    @property
    def headline(self) -> MetricSummary | None:
        """Its first metric that has a value over all items."""
        return next((one for one in self.metrics if not one.dimension and one.n), None)

    def overall(self, *names: str) -> MetricSummary | None:
        """The first of these metrics that it has."""
        found = {one.metric: one for one in self.metrics if not one.dimension}
        return next((found[name] for name in names if name in found), None)

    def by_type(self) -> list[MetricSummary]:
        """The headline by question type."""
        name = self.headline.metric if self.headline else None
        return [one for one in self.metrics if one.dimension == "question_type" and one.metric == name]

    @property
    def setting(self) -> tuple[str, ...]:
        """What must be equal for two rows to stand in one table."""
        job, dataset = self.job, self.job.data.get("dataset")
        sha = dataset.get("sha256") if isinstance(dataset, Mapping) else None
        shared = (job.benchmark, job.benchmark_version, job.track, job.data.get("k"), job.data.get("selection"), sha)
        models = (job.answering_model or "none", job.judge_model or "none")
        headline = self.headline.definition if self.headline else ""
        return (*(json.dumps(part, sort_keys=True, default=str) for part in shared), *models, headline)


async def load_board(workspace: Path, benchmark: str | None = None) -> list[Place]:
    """Read the derived database; an absent one is an empty board."""
    path = workspace / "results" / FILE
    if not path.is_file():
        return []
    async with ResultsDb.open(path) as database:
        names = [name for name in await database.benchmarks() if benchmark in (None, name)]
        jobs = [job for name in names for job in await database.newest(name)]
        return [Place(job=job, metrics=await database.metrics(job)) for job in jobs]


def tables(board: Sequence[Place]) -> list[list[Place]]:
    """Comparable jobs together, best headline first."""
    groups: dict[tuple[str, ...], list[Place]] = {}
    for place in board:
        groups.setdefault(place.setting, []).append(place)
    return [sorted(group, key=_rank) for _, group in sorted(groups.items())]


def _rank(place: Place) -> tuple[float, str]:
    value = place.headline.value if place.headline else None
    return (-value if value is not None else float("inf"), place.job.provider)


# ------------------------------------------------------------------------------- views


def board_grids(board: Sequence[Place], view: str) -> list[Grid]:
    """The grids of one view: overall, benchmark, type, provider or model."""
    if not board:
        return [Grid(title="Leaderboard", head=("provider",), rows=(), notes=(NOTHING,))]
    return VIEWS[view](board)


def _by_benchmark(board: Sequence[Place]) -> list[Grid]:
    return [
        Grid(title=_title(group[0]), head=_head(group[0]), rows=tuple(_row(place) for place in group), right=RIGHT)
        for group in tables(board)
    ]


RIGHT = (2, 3, 4, 5, 6)


def _head(first: Place) -> tuple[str, ...]:
    name = first.headline.metric if first.headline else "no metric"
    return ("provider", "embedding", name, "failures as 0", "n", "latency ms", "USD", "run")


def _title(place: Place) -> str:
    job = place.job
    parts = [f"{job.benchmark} {job.benchmark_version}", f"k={job.data.get('k')}", f"track {job.track}"]
    parts += [f"answering {job.answering_model or 'none'}", f"judge {job.judge_model or 'none'}"]
    selection = job.data.get("selection")
    if isinstance(selection, Mapping) and selection:
        parts.append(", ".join(f"{name}={value}" for name, value in selection.items()))
    return " | ".join(parts)


def _row(place: Place) -> tuple[str, ...]:
    headline, latency = place.headline, place.overall(*LATENCIES)
    return (
        place.job.provider,
        place.job.embedding_model or "-",
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


def _by_type(board: Sequence[Place]) -> list[Grid]:
    found = []
    for group in tables(board):
        labels = sorted({one.label for place in group for one in place.by_type() if one.n})
        rows = []
        for place in group:
            values = {one.label: one for one in place.by_type()}
            rows.append((place.job.provider, *(_spanned(values.get(label)) for label in labels)))
        head = ("provider", *labels)
        found.append(Grid(title=_title(group[0]), head=head, rows=tuple(rows), right=tuple(range(1, len(head)))))
    return found


def _overall(board: Sequence[Place]) -> list[Grid]:
    """Macro over benchmarks: only providers that have every one of them, under one pair of models and track."""
    names = sorted({place.job.benchmark for place in board})
    by_key: dict[tuple[str, str, str, str], dict[str, Place]] = {}
    for place in board:
        job = place.job
        key = (job.provider, job.answering_model or "none", job.judge_model or "none", job.track)
        by_key.setdefault(key, {})[job.benchmark] = place
    rows = []
    for (provider, answering, judge, track), places in by_key.items():
        values = [places[name].headline for name in names if name in places]
        scores = [one.value for one in values if one is not None and one.value is not None]
        if len(scores) == len(names):
            mean = sum(scores) / len(scores)
            rows.append((mean, (provider, answering, judge, track, number(mean), *(number(one) for one in scores))))
    head = ("provider", "answering", "judge", "track", "macro mean", *names)
    ranked = tuple(row for _, row in sorted(rows, key=lambda pair: (-pair[0], pair[1])))
    note = f"only providers that have all {len(names)} benchmarks; the mean of their headline metrics"
    right = tuple(range(4, len(head)))
    return [Grid(title="overall", head=head, rows=ranked, right=right, notes=(note,))]


def _by(part: Callable[[JobSummary], str], what: str) -> Callable[[Sequence[Place]], list[Grid]]:
    def view(board: Sequence[Place]) -> list[Grid]:
        found = []
        for name in sorted({part(place.job) for place in board}):
            chosen = [place for place in board if part(place.job) == name]
            rows = [
                (
                    place.job.benchmark,
                    place.job.provider,
                    place.job.answering_model or "none",
                    place.job.judge_model or "none",
                    place.headline.metric if place.headline else "-",
                    _spanned(place.headline),
                    place.job.run_id,
                )
                for place in sorted(chosen, key=lambda place: (place.job.benchmark, _rank(place)))
            ]
            head = ("benchmark", "provider", "answering", "judge", "metric", "value", "run")
            note = "rows of different benchmarks, models or metrics are not comparable"
            found.append(Grid(title=f"{what} {name}", head=head, rows=tuple(rows), right=(5,), notes=(note,)))
        return found

    return view


VIEWS: Mapping[str, Callable[[Sequence[Place]], list[Grid]]] = {
    "benchmark": _by_benchmark,
    "type": _by_type,
    "overall": _overall,
    "provider": _by(lambda job: job.provider, "provider"),
    "model": _by(lambda job: job.answering_model or "none", "answering model"),
}


# ----------------------------------------------------------------------------- documents


def board_json(board: Sequence[Place], view: str) -> dict[str, object]:
    """The document of ``bench leaderboard --json``; values are full doubles."""
    return {
        "view": view,
        "tables": [
            {"setting": _title(group[0]), "benchmark": group[0].job.benchmark, "rows": [_place_json(p) for p in group]}
            for group in tables(board)
        ],
    }


def _place_json(place: Place) -> dict[str, object]:
    job = place.job
    return {
        "provider": job.provider,
        "models": {"embedding": job.embedding_model, "answering": job.answering_model, "judge": job.judge_model},
        "track": job.track,
        "run_id": job.run_id,
        "created_at": job.created_at.isoformat(),
        "n_planned": job.n_planned,
        "n_scored": job.n_scored,
        "cost_usd": job.cost_usd,
        "headline": place.headline.metric if place.headline else None,
        "metrics": {
            one.metric: {
                "definition": one.definition,
                "value": one.value,
                "value_failures_as_zero": one.value_failures_as_zero,
                "n": one.n,
                "low": one.low,
                "high": one.high,
                "unit": one.unit,
            }
            for one in place.metrics
            if not one.dimension
        },
    }


def board_csv(board: Sequence[Place]) -> str:
    """A line a job and metric: unrounded."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\r\n")
    writer.writerow(("benchmark", "provider", "embedding", "answering", "judge", "track", "run_id", "metric",
                     "definition", "dimension", "label", "value", "n", "low", "high"))  # fmt: skip
    for place in board:
        job = place.job
        for one in place.metrics:
            writer.writerow((safe_cell(job.benchmark), safe_cell(job.provider), job.embedding_model,
                             job.answering_model, job.judge_model, job.track, job.run_id, one.metric, one.definition,
                             one.dimension, safe_cell(one.label), one.value, one.n, one.low, one.high))  # fmt: skip
    return sink.getvalue()
