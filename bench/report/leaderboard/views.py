"""The views of the board: which places share a table. Only what can be compared stands under one another.

``benchmark`` a table a setting; ``type`` the same by question type; ``provider`` models fixed, a column a benchmark;
``model`` provider fixed, answering models under one another; ``overall`` macro over benchmarks, only providers that
have all::

    tables_of(board, "benchmark")[0].standings[0].first.job.provider        # who is first
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.report.leaderboard.places import Place


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


def _rank(one: Standing) -> tuple[bool, float, str]:
    """Bounds come after everything that ranks."""
    value = math.inf if one.value is None else one.value if one.first.lower_is_better else -one.value
    return one.first.bound, value, one.first.job.provider


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
            standings=_ranked(group) if len({place.task for place in group}) == 1 else _rows_by_provider(group),
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
