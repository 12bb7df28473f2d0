"""Ranges as sets of positions: union, gaps, counts, and selection by parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.datasets import Selection
from bench.datasets.selection import select
from bench.errors import UsageError
from bench.plan.ranges import Ranges, count_covered, gaps_of, union_of

TOTAL = 20
RANGES = st.tuples(st.integers(1, TOTAL), st.integers(1, TOTAL)).map(lambda pair: (min(pair), max(pair)))
PARTS = st.lists(RANGES, min_size=1, max_size=4)


def positions(ranges: Sequence[tuple[int, int]], total: int = TOTAL) -> set[int]:
    spans = ranges or [(1, total)]
    return {at for start, end in spans for at in range(start, end + 1) if at <= total}


@given(st.lists(PARTS.map(tuple), min_size=1, max_size=3))
def test_union_of_is_sorted_disjoint_and_complete(parts: list[Ranges]) -> None:
    joined = union_of(parts, TOTAL)
    assert positions(joined) == set().union(*map(positions, parts))
    assert all(before[1] + 1 < after[0] for before, after in pairwise(joined))
    assert union_of(reversed(parts), TOTAL) == joined
    assert union_of([joined, *parts], TOTAL) == joined


@given(PARTS)
def test_gaps_of_are_the_positions_without_a_range(parts: list[tuple[int, int]]) -> None:
    gaps = gaps_of(tuple(parts), TOTAL)
    missing = set(range(1, TOTAL + 1)) - positions(parts)
    assert (positions(gaps) if gaps else set()) == missing
    assert gaps_of(union_of([tuple(parts)], TOTAL), TOTAL) == gaps


@given(PARTS, st.integers(1, 2 * TOTAL))
def test_count_covered_counts_positions_within_the_total(parts: list[tuple[int, int]], total: int) -> None:
    assert count_covered(tuple(parts), total) == len(positions(parts, total))


def test_no_range_means_all_positions() -> None:
    assert (union_of([()], 9), union_of([((1, 2),), ()], 9), gaps_of((), 9), count_covered((), 9)) == ((), (), (), 9)
    assert union_of([((1, 4),), ((5, 9),)], 9) == ()


@dataclass
class Numbers:
    """A benchmark of twenty items in two types and four corpora."""

    name: str = "numbers"
    types: tuple[str, ...] = field(default=tuple("ab" * 10))

    def __len__(self) -> int:
        return len(self.types)

    def id_at(self, index: int) -> str:
        return f"q{index}"

    def type_at(self, index: int) -> str | None:
        return self.types[index]

    def index_of(self, item_id: str) -> int | None:
        return int(item_id[1:])

    def indexes_of_corpus(self, corpus_id: str) -> list[int] | None:
        return [index for index in range(len(self)) if index // 5 == int(corpus_id)]

    def known_types(self) -> list[str]:
        return ["a", "b"]


@given(
    parts=PARTS,
    flags=st.sampled_from(
        [{}, {"limit": 2}, {"sample": 3, "seed": 4}, {"question_types": ("a",)}, {"items_of": ("1", "3"), "limit": 1}]
    ),
)
def test_a_selection_of_parts_is_the_union_of_their_selections(
    parts: list[tuple[int, int]], flags: dict[str, int]
) -> None:
    alone = [Selection(**flags, start=start, end=end) for start, end in parts]  # type: ignore[arg-type]
    together = list(select(Numbers(), Selection(**flags, parts=tuple(parts))))  # type: ignore[arg-type]
    assert together == sorted({index for one in alone for index in select(Numbers(), one)})


@pytest.mark.parametrize("part", [(0, 3), (4, 3)])
def test_an_invalid_part_is_rejected(part: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match="contains no item"):
        select(Numbers(), Selection(parts=(part,)))
