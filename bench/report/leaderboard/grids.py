"""A view's tables as grids for the terminal, Markdown and the static page; each says first what it shows.

Example::

    board_grids(tables_of(board, "overall"), "overall")
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.journal.results_db import MetricSummary
from bench.report.leaderboard.places import Place
from bench.report.leaderboard.saying import saying, spanned
from bench.report.leaderboard.views import Table
from bench.report.tables import Grid, number

NOTHING = "no complete valid run yet: bench run makes one, bench results --rebuild reads the journals anew"


def board_grids(tables: Sequence[Table], view: str) -> list[Grid]:
    """The tables of a view as grids."""
    if not tables:
        return [Grid(title="Leaderboard", head=("provider",), rows=(), notes=(NOTHING,))]
    draw = {"type": _type_grid, "model": _model_grid, "provider": _matrix_grid, "overall": _matrix_grid}
    return [draw.get(view, _grid)(table) for table in tables]


def _grid(table: Table, *, named: bool = True) -> Grid:
    first = table.standings[0].first
    name = first.headline.metric if first.headline else "no metric"
    who = ("provider", "embedding") if named else ("answering model",)
    return Grid(
        title=table.title,
        head=(*who, name, "failures as 0", "n", "search p50 (ms)", "USD", "run"),
        rows=tuple(_row(one.first, named=named) for one in table.standings),
        right=tuple(range(len(who), len(who) + 5)),
        notes=(*saying(table), *table.notes),
    )


def _model_grid(table: Table) -> Grid:
    return _grid(table, named=False)


def _row(place: Place, *, named: bool) -> tuple[str, ...]:
    headline = place.headline
    return (
        *((place.name, place.job.embedding_model or "none") if named else (place.models[0],)),
        spanned(headline),
        "-" if headline is None else number(headline.value_failures_as_zero, headline.unit),
        "0" if headline is None else str(headline.n),
        number(place.search_ms, "ms"),
        place.cost,
        place.job.run_id,
    )


def _type_grid(table: Table) -> Grid:
    """A row a type and provider, the best of each type first: fits any width."""
    found = [
        (label, one, place)
        for place in (standing.first for standing in table.standings)
        for label, one in place.by_type().items()
        if one.value is not None
    ]
    found.sort(key=lambda row: (row[0], row[2].bound, _merit(row[1], row[2]), row[2].job.provider))
    name = table.standings[0].first.headline
    return Grid(
        title=table.title,
        head=("question type", "provider", name.metric if name else "no metric", "n"),
        rows=tuple((label, place.name, spanned(one), str(one.n)) for label, one, place in found),
        right=(2, 3),
        notes=(*saying(table), *table.notes),
    )


def _merit(one: MetricSummary, place: Place) -> float:
    value = one.value or 0.0
    return value if place.lower_is_better else -value


def _matrix_grid(table: Table) -> Grid:
    columns = {place.task: place for one in table.standings for place in one.places}
    tasks = [task for task in table.tasks if task in columns]
    has_mean = any(one.value is not None and len(one.places) > 1 for one in table.standings)
    rows = []
    for one in table.standings:
        found = {place.task: place for place in one.places}
        cells = [spanned(found[task].headline) if task in found else "-" for task in tasks]
        mean = [number(one.value)] if has_mean else []
        rows.append((one.first.name, one.first.job.embedding_model or "none", *mean, *cells))
    head = ("provider", "embedding", *(["mean"] if has_mean else []), *(_column(columns[task]) for task in tasks))
    return Grid(
        title=table.title,
        head=head,
        rows=tuple(rows),
        right=tuple(range(2, len(head))),
        notes=(*saying(table), *table.notes),
    )


def _column(place: Place) -> str:
    metric = place.headline.metric if place.headline else "no metric"
    return f"{place.job.benchmark} k={place.job.data.get('k')} {metric}"
