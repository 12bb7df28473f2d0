"""Repeats of one item become one row before anything is folded.

An item is pending until all of its epochs have ended; then it has a value when one of them has, and it is failed when
all of them failed. What was spent is added up over all epochs, failed ones too: a repeat costs as much as the first.

Example::

    settled([("correct", "ok"), ("error", "timeout")], epochs=2)      # ("correct", "ok")
    rows, spread = reduced(rows, metrics_names, "mean", epochs=2)     # spread: mean within-item deviation by metric
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
Ended = tuple[str, str]
"""state and outcome (``ok`` or the error kind) of what ended"""


def settled(repeats: Sequence[Ended], epochs: int) -> Ended | None:
    """How an item ended, by how its repeats did; None = pending."""
    if len(repeats) < epochs:
        return None
    counting = [one for one in repeats if one[0] not in FAILED_STATES] or repeats
    state = _most_common([state for state, _ in counting])
    return state, _most_common([outcome for one, outcome in counting if one == state])


def reduced(
    rows: Iterable[FoldRow], names: Sequence[str], reducer: Reducer, added: Collection[str] = (), *, epochs: int
) -> tuple[list[FoldRow], dict[str, float]]:
    """One row an item, and for each metric the mean within-item standard deviation; ``added`` names the sums."""
    repeats: dict[tuple[str, str], list[FoldRow]] = {}
    for row in rows:
        repeats.setdefault((row[1], row[0]), []).append(row)
    deviations: dict[str, list[float]] = {name: [] for name in names}
    items = []
    for key in sorted(repeats):
        rows_of = sorted(repeats[key], key=lambda row: row[2])
        columns = [_column(rows_of, place) for place in range(len(names))]
        for name, column in zip(names, columns, strict=True):
            if len(column) > 1:
                deviations[name].append(statistics.stdev(column))
        ended = settled([(row[3], "") for row in rows_of if row[3] is not None], epochs)
        values = [
            _spent(rows_of, place) if name in added else reduce(columns[place] if ended else (), reducer)
            for place, name in enumerate(names)
        ]
        items.append(_one(rows_of, ended[0] if ended else None, values))
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


def _one(repeats: Sequence[FoldRow], state: str | None, values: list[float | None]) -> FoldRow:
    first = next((row for row in repeats if not _failed(row)), repeats[0])
    return FoldRow(first[0], first[1], 1, state, first[4], values, first[6])


def _most_common(names: Sequence[str]) -> str:
    """Of a tie, the one that is not correct, then the first by name."""
    counts = Counter(names)
    return min(counts, key=lambda name: (-counts[name], name == State.CORRECT, name))
