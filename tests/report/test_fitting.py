"""A grid in the width that there is: parts with whole numbers, never a cut cell."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bench.report.tables import GAP, Grid, fitted

CELLS = st.text("ab0.", min_size=1, max_size=20)


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    columns = draw(st.integers(1, 8))
    line = st.tuples(*[CELLS] * columns)
    rows = draw(st.lists(line, max_size=4))
    right = tuple(draw(st.sets(st.integers(0, columns - 1))))
    return Grid(title="title | more", head=draw(line), rows=tuple(rows), right=right, notes=("note",))


@given(grid=grids(), width=st.integers(30, 200))
def test_parts_hold_every_column_once_and_fit_where_two_columns_fit(grid: Grid, width: int) -> None:
    parts = fitted(grid, width)
    assert [name for part in parts for name in part.head[1:]] == list(grid.head[1:])
    for part in parts:
        assert part.head[0] == grid.head[0] and len(part.rows) == len(grid.rows)
        numbers = [max(map(len, column)) + GAP for at, column in enumerate(zip(part.head, *part.rows, strict=True))
                   if at == 0 or at in part.right]  # fmt: skip
        assert sum(numbers) <= width or len(part.head) <= 2
    assert [part.notes for part in parts] == [()] * (len(parts) - 1) + [grid.notes]


def test_a_grid_that_fits_stays_whole() -> None:
    grid = Grid(title="t", head=("a", "b"), rows=(("1", "2"),), right=(1,))
    assert fitted(grid, 20) == [grid]


def test_later_parts_say_what_they_continue() -> None:
    grid = Grid(title="demo | k=10", head=("name", "x" * 30, "y" * 30), rows=(), right=(1, 2))
    assert [part.title for part in fitted(grid, 60)] == ["demo | k=10", "demo, continued"]
