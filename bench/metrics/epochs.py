"""Repeats of one item become one row before anything is folded.

An item has a value when one of its epochs has; it is failed when no epoch gave a value of any metric and
one of them failed.

Example::

    rows, spread = reduced(rows, metrics_names, "mean")      # spread: mean within-item deviation by metric
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from bench.metrics.facts import FoldRow
from bench.model import FAILED_STATES

Reducer = Literal["mean", "mode", "max"]


def reduced(rows: Iterable[FoldRow], names: Sequence[str], reducer: Reducer) -> tuple[list[FoldRow], dict[str, float]]:
    """One row an item, and for each metric the mean within-item standard deviation."""
    repeats: dict[tuple[str, str], list[FoldRow]] = {}
    for row in rows:
        repeats.setdefault((row[1], row[0]), []).append(row)
    deviations: dict[str, list[float]] = {name: [] for name in names}
    items = []
    for key in sorted(repeats):
        epochs = sorted(repeats[key], key=lambda row: row[2])
        columns = [_column(epochs, place) for place in range(len(names))]
        for name, column in zip(names, columns, strict=True):
            if len(column) > 1:
                deviations[name].append(statistics.stdev(column))
        items.append(_one(epochs, [reduce(column, reducer) for column in columns]))
    return items, {name: math.fsum(found) / len(found) for name, found in deviations.items() if found}


def reduce(values: Sequence[float], reducer: Reducer) -> float | None:
    """One value of an item's repeats; ties of ``mode`` go to the lower value."""
    if not values:
        return None
    if reducer == "max":
        return max(values)
    if reducer == "mode":
        counts = Counter(values)
        return min(counts, key=lambda value: (-counts[value], value))
    return math.fsum(values) / len(values)


def _failed(row: FoldRow) -> bool:
    return row[3] is None or row[3] in FAILED_STATES


def _column(epochs: Sequence[FoldRow], place: int) -> list[float]:
    found = (row[5][place] for row in epochs if row[5] and not _failed(row))
    return [value for value in found if value is not None]


def _one(epochs: Sequence[FoldRow], values: list[float | None]) -> FoldRow:
    ended = [row for row in epochs if not _failed(row)]
    state = _most_common([row[3] for row in ended]) if ended else _most_common([row[3] for row in epochs])
    first = (ended or list(epochs))[0]
    return FoldRow(first[0], first[1], 1, state, first[4], values, first[6])


def _most_common(states: Sequence[str | None]) -> str | None:
    counts = Counter(states)
    return min(counts, key=lambda state: (-counts[state], state or ""))
