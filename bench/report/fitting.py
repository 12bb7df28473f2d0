"""A grid laid out for a width: in as many parts as it takes, so that no number is ever cut.

Example::

    for part in fitted(grid, 80):
        print(part.title, part.head)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bench.report.tables import Grid

GAP = 3
"""characters between two columns"""
WORDS = 16
"""a column of words may be folded down to this"""


def fitted(grid: Grid, width: int) -> list[Grid]:
    """Part the columns where a line would be too long; the first column leads every part, notes end the last."""
    columns = list(range(1, len(grid.head)))
    groups: list[list[int]] = [[]]
    for column in columns:
        if groups[-1] and _wide(grid, [0, *groups[-1], column]) > width:
            groups.append([])
        groups[-1].append(column)
    if len(groups) == 1:
        return [grid]
    last = len(groups) - 1
    return [_part(grid, [0, *group], place=at, last=at == last) for at, group in enumerate(groups)]


def _wide(grid: Grid, columns: Sequence[int]) -> int:
    return sum(_least(grid, column) + GAP for column in columns)


def _least(grid: Grid, column: int) -> int:
    """Numbers and the first column stay on one line; words may be folded."""
    longest = max(len(row[column]) for row in (grid.head, *grid.rows))
    return longest if column == 0 or column in grid.right else min(longest, WORDS)


def _part(grid: Grid, columns: Sequence[int], *, place: int, last: bool) -> Grid:
    return replace(
        grid,
        title=grid.title if place == 0 else f"{grid.title.partition(' | ')[0]}, continued",
        head=tuple(grid.head[column] for column in columns),
        rows=tuple(tuple(row[column] for column in columns) for row in grid.rows),
        right=tuple(at for at, column in enumerate(columns) if column in grid.right),
        notes=grid.notes if last else (),
    )
