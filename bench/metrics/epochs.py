"""Repeats of one item become one row before anything is folded.

An item has a value when one of its epochs has; it is failed when none of them ended. What was spent is added up
over all epochs, failed ones too: a repeat costs as much as the first.

Example::

    rows, spread = reduced(rows, metrics_names, "mean")      # spread: mean within-item deviation by metric
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from bench.metrics.facts import FoldRow
from bench.model import FAILED_STATES, State

Reducer = Literal["mean", "mode", "max"]


def reduced(
    rows: Iterable[FoldRow], names: Sequence[str], reducer: Reducer, added: Collection[str] = ()
) -> tuple[list[FoldRow], dict[str, float]]:
    """One row an item, and for each metric the mean within-item standard deviation; ``added`` names the sums."""
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
        values = [
            _spent(epochs, place) if name in added else reduce(columns[place], reducer)
            for place, name in enumerate(names)
        ]
        items.append(_one(epochs, values))
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
    mean = math.fsum(values) / len(values)
    return min(max(mean, min(values)), max(values))  # rounding must not move equal repeats


def _failed(row: FoldRow) -> bool:
    return row[3] is None or row[3] in FAILED_STATES


def _column(epochs: Sequence[FoldRow], place: int) -> list[float]:
    found = (row[5][place] for row in epochs if row[5] and not _failed(row))
    return [value for value in found if value is not None]


def _spent(epochs: Sequence[FoldRow], place: int) -> float | None:
    """The sum over all epochs; None where one that ended is unknown."""
    if any(not row[5] or row[5][place] is None for row in epochs if not _failed(row)):
        return None
    known = [value for row in epochs if row[5] and (value := row[5][place]) is not None]
    return math.fsum(known) if known else None


def _one(epochs: Sequence[FoldRow], values: list[float | None]) -> FoldRow:
    ended = [row for row in epochs if not _failed(row)]
    state = _most_common([row[3] for row in ended]) if ended else _most_common([row[3] for row in epochs])
    first = (ended or list(epochs))[0]
    return FoldRow(first[0], first[1], 1, state, first[4], values, first[6])


def _most_common(states: Sequence[str | None]) -> str | None:
    """Of a tie, the state that is not correct, then the first by name."""
    counts = Counter(states)
    return min(counts, key=lambda state: (-counts[state], state == State.CORRECT, state or ""))
