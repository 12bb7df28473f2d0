"""Where the rows of a fold lie: plain arrays of doubles, one cell for each labels, outcome and reason.

Rows come one by one or as columns; the order in which they come changes nothing.

Example::

    pool = Pool(width=3)
    pool.add_columns(corpora=..., states=..., labels=..., columns=[hits, None, ndcg])
    by_label(pool.cells(), "question_type")["temporal"]
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from bench.metrics.facts import NO_LABEL, FoldRow, Labels
from bench.model import FAILED_STATES

NAN = math.nan
Key = tuple[Labels, str | None, str]
"""labels, state, reason"""


@dataclass(slots=True)
class Cell:
    """Rows that share labels, state and reason: one array a metric, NaN = no value."""

    labels: Labels
    state: str | None
    reason: str
    columns: list[array[float]]
    count: int = 0
    clusters: array[int] = field(default_factory=lambda: array("i"))
    """a code for each row's corpus; empty when not clustered"""

    @property
    def failed(self) -> bool:
        """error, not_ready or pending."""
        return self.state is None or self.state in FAILED_STATES


class Pool:
    """Takes the rows of one job and sorts them into cells; ``width`` is the number of metrics."""

    def __init__(self, width: int, *, clustered: bool = True) -> None:
        self._width = width
        self._clustered = clustered
        self._cells: dict[Key, Cell] = {}
        self._codes: dict[str, int] = {}

    def add(self, row: FoldRow) -> None:
        """Take one row."""
        _, corpus, _, state, labels, values, reason = row
        cell = self._cell((labels, state, reason))
        cell.count += 1
        if self._clustered:
            cell.clusters.append(self._codes.setdefault(corpus, len(self._codes)))
        for place, column in enumerate(cell.columns):
            value = values[place] if values else None
            column.append(NAN if value is None else value)

    def add_columns(
        self,
        *,
        corpora: Sequence[str],
        states: Sequence[str | None],
        labels: Sequence[Labels],
        columns: Sequence[Sequence[float] | None],
        reasons: Sequence[str] | None = None,
    ) -> None:
        """Take many rows at once; a column that is None is NaN throughout."""
        places: dict[Key, list[int]] = {}
        for place, key in enumerate(zip(labels, states, reasons or ("",) * len(states), strict=True)):
            found = places.get(key)
            if found is None:
                places[key] = [place]
            else:
                found.append(place)
        for key, rows in places.items():
            self._take(self._cell(key), rows, corpora, columns)

    def add_pending(self, count: int) -> None:
        """Count items that have not ended."""
        if not count:
            return
        cell = self._cell(((), None, ""))
        cell.count += count
        if self._clustered:
            code = self._codes.setdefault("", len(self._codes))
            cell.clusters.extend([code] * count)
        for column in cell.columns:
            column.extend([NAN] * count)

    def cells(self) -> list[Cell]:
        """The cells in an order that does not depend on the rows' order."""
        return [self._cells[key] for key in sorted(self._cells, key=_order)]

    def _cell(self, key: Key) -> Cell:
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = Cell(*key, columns=[array("d") for _ in range(self._width)])
        return cell

    def _take(
        self, cell: Cell, rows: list[int], corpora: Sequence[str], columns: Sequence[Sequence[float] | None]
    ) -> None:
        cell.count += len(rows)
        pick = itemgetter(*rows) if len(rows) > 1 else None
        if self._clustered:
            codes = self._codes
            names = corpora if len(rows) == len(corpora) else pick(corpora) if pick else (corpora[rows[0]],)
            for name in names:
                if name not in codes:
                    codes[name] = len(codes)
            cell.clusters.extend(map(codes.__getitem__, names))
        for column, given in zip(cell.columns, columns, strict=True):
            if given is None:
                column.extend([NAN] * len(rows))
            elif len(rows) == len(given):
                column.extend(given)
            else:
                column.extend(pick(given) if pick else (given[rows[0]],))


def poured(rows: Iterable[FoldRow], width: int, *, clustered: bool = True) -> Pool:
    """A pool of these rows."""
    pool = Pool(width, clustered=clustered)
    for row in rows:
        pool.add(row)
    return pool


def _order(key: Key) -> tuple[Labels, str, str]:
    labels, state, reason = key
    return labels, state or "", reason


def by_label(cells: Sequence[Cell], dimension: str) -> dict[str, list[Cell]]:
    """Cells by their label of one dimension; those without it under ``(none)``."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(dict(cell.labels).get(dimension, NO_LABEL), []).append(cell)
    return groups


def has_dimension(cells: Sequence[Cell], dimension: str) -> bool:
    """Whether any row has a label of it."""
    return any(dimension == name for cell in cells for name, _ in cell.labels)
