"""Ranges of positions: joined, looked through for gaps, counted, all against plain sets of numbers."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.plan.ranges import Ranges, covered, gaps_of, union_of

TOTAL = 30
RANGES = st.lists(
    st.tuples(st.integers(1, TOTAL), st.integers(1, TOTAL)).map(lambda pair: (min(pair), max(pair))), max_size=5
).map(tuple)


def positions(ranges: Ranges, total: int = TOTAL) -> set[int]:
    """What ranges stand for: no range is everything."""
    if not ranges:
        return set(range(1, total + 1))
    return {place for start, end in ranges for place in range(start, end + 1)}


@pytest.mark.parametrize(
    ("parts", "union"),
    [
        ([((1, 30),), ((20, 50),)], ((1, 50),)),
        ([((1, 10),), ((11, 20),)], ((1, 20),)),
        ([((1, 10),), ((12, 20),)], ((1, 10), (12, 20))),
        ([((12, 20),), ((1, 10),)], ((1, 10), (12, 20))),
        ([((5, 9),), ((6, 7),)], ((5, 9),)),
        ([((1, 60),), ((61, 100),)], ()),
        ([((1, 3),), ()], ()),
        ([((4, 4),), ((4, 4),)], ((4, 4),)),
    ],
)
def test_ranges_are_joined_where_they_touch(parts: list[Ranges], union: Ranges) -> None:
    assert union_of(parts, 100) == union


@pytest.mark.parametrize(
    ("ranges", "gaps"),
    [
        ((), ()),
        (((1, 50),), ((51, 100),)),
        (((2, 99),), ((1, 1), (100, 100))),
        (((1, 10), (5, 20), (40, 100)), ((21, 39),)),
        (((40, 100), (1, 10)), ((11, 39),)),
        (((1, 100),), ()),
    ],
)
def test_a_gap_is_named_by_its_first_and_last_position(ranges: Ranges, gaps: Ranges) -> None:
    assert gaps_of(ranges, 100) == gaps


@given(parts=st.lists(RANGES, min_size=1, max_size=4))
def test_a_union_covers_what_its_parts_cover_and_overlaps_nowhere(parts: list[Ranges]) -> None:
    joined = union_of(parts, TOTAL)
    assert positions(joined) == set().union(*(positions(part) for part in parts))
    assert all(end + 1 < start for (_, end), (start, _) in pairwise(joined))
    assert union_of([joined], TOTAL) == joined == union_of(reversed(parts), TOTAL)


@given(ranges=RANGES)
def test_ranges_and_their_gaps_are_everything_and_share_nothing(ranges: Ranges) -> None:
    gaps = gaps_of(ranges, TOTAL)
    missing = positions(gaps) if gaps else set()
    assert positions(ranges) | missing == set(range(1, TOTAL + 1))
    assert not positions(ranges) & missing


@given(ranges=RANGES, total=st.integers(1, TOTAL))
def test_what_is_covered_of_a_shorter_benchmark_is_counted_to_its_own_end(ranges: Ranges, total: int) -> None:
    assert covered(ranges, total) == len(positions(ranges) & set(range(1, total + 1)))
