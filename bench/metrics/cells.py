"""Where the rows of a fold lie: plain arrays of doubles, one cell for each labels, outcome and reason.

Example::

    cells = pour(rows, width=3)
    by_label(cells, "question_type")["temporal"]
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bench.metrics.facts import NO_LABEL, FoldRow, Labels
from bench.model import FAILED_STATES

NAN = math.nan


@dataclass(slots=True)
class Cell:
    """Rows that share labels, state and reason: values metric by metric inside each row, NaN = none."""

    state: str | None
    labels: Labels
    reason: str
    count: int = 0
    values: array[float] = field(default_factory=lambda: array("d"))
    clusters: array[int] = field(default_factory=lambda: array("l"))
    """a code for each row's corpus; empty when not clustered"""

    @property
    def failed(self) -> bool:
        """error, not_ready or pending."""
        return self.state is None or self.state in FAILED_STATES


def pour(rows: Iterable[FoldRow], width: int, *, clustered: bool = True) -> list[Cell]:
    """Sort rows into cells; the hot loop of a report."""
    cells: dict[tuple[Labels, str | None, str], Cell] = {}
    codes: dict[str, int] = {}
    nothing = array("d", [NAN] * width)
    for _, corpus, _, state, labels, values, reason in rows:
        key = (labels, state, reason)
        cell = cells.get(key)
        if cell is None:
            cell = cells[key] = Cell(state, labels, reason)
        cell.count += 1
        if clustered:
            cell.clusters.append(codes.setdefault(corpus, len(codes)))
        if not values:
            cell.values.extend(nothing)
        elif None in values:
            cell.values.extend([NAN if v is None else v for v in values])
        else:
            cell.values.extend(values)  # type: ignore[arg-type]
    return [cells[key] for key in sorted(cells, key=_order)]


def _order(key: tuple[Labels, str | None, str]) -> tuple[Labels, str, str]:
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
