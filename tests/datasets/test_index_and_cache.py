"""The compact index and the size-limited cache agree with plain lists and dicts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.datasets.inspection import DatasetIndex
from bench.datasets.rows.index import FEW, MANY_SHARE, IdTable, RowIndex, SizedCache
from bench.datasets.rows.row import FileRow, RowPlace

SIZES = st.lists(st.integers(0, 4), min_size=1, max_size=12)


def test_IdTable_finds_only_added_ids() -> None:
    table = IdTable()
    assert (len(table), list(table), table.find("a"), table.find("")) == (0, [], None, None)
    assert (table.add(""), table.add("a"), table.add("")) == (0, 1, None)
    assert (table.find(""), table.find("a"), table.find("b")) == (0, 1, None)


def test_IdTable_finds_the_index_of_each_of_5000_ids() -> None:
    table = IdTable()
    names = [f"item-{n}" for n in range(5_000)]
    assert [table.add(name) for name in names] == list(range(5_000))
    assert [table.find(name) for name in names] == list(range(5_000))
    assert [table.add(name) for name in names[::7]] == [None] * len(names[::7])
    assert list(table) == names


@pytest.mark.parametrize("index", [-1, 2, 100])
def test_IdTable_raises_IndexError_outside_its_range(index: int) -> None:
    table = IdTable()
    table.add("a"), table.add("b")
    with pytest.raises(IndexError):
        table[index]


def at(offset: int, length: int) -> FileRow:
    return FileRow(place=RowPlace(file="x.jsonl", index=0), offset=offset, length=length, values={})


@given(SIZES)
def test_RowIndex_maps_items_to_rows_and_rows_to_items(sizes: list[int]) -> None:
    rows = RowIndex()
    assert [rows.add(at(10 * n, n), size) for n, size in enumerate(sizes)] == list(range(len(sizes)))
    owner = [row for row, size in enumerate(sizes) for _ in range(size)]
    assert rows.items == len(owner)
    assert [rows.row_of(item) for item in range(len(owner))] == owner
    assert [list(rows.items_of(row)) for row in range(len(sizes))] == [
        [item for item, of in enumerate(owner) if of == row] for row in range(len(sizes))
    ]
    assert [list(rows.rows_of(row)) for row in range(len(sizes))] == [[row] for row in range(len(sizes))]
    assert list(rows.offsets) == [10 * n for n in range(len(sizes))]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=20))
def test_rows_of_one_corpus_stay_in_file_order(wanted: list[int]) -> None:
    numbers: dict[int, int] = {}
    corpora = [numbers.setdefault(name, len(numbers)) for name in wanted]
    rows = RowIndex()
    for row, corpus in enumerate(corpora):
        rows.add(at(row, 1), 1, corpus)
    assert len(rows) == len(wanted)
    for corpus in range(len(numbers)):
        assert list(rows.rows_of(corpus)) == [row for row, of in enumerate(corpora) if of == corpus]


def test_RowIndex_stores_offsets_beyond_4_GB() -> None:
    rows = RowIndex()
    rows.add(at(2**40, 2**32 - 1), 1)
    assert (rows.offsets[0], rows.lengths[0]) == (2**40, 2**32 - 1)


def test_DatasetIndex_accepts_100000_types_and_views() -> None:
    """A field with a different value per item is a poor type, but must not fail."""
    found = DatasetIndex()
    found.type_of.append(100_000)
    found.view_of.append(100_000)
    assert (found.type_of[0], found.view_of[0]) == (100_000, 100_000)


class Made:
    """A cache with the keys of the values that it created, in order."""

    def __init__(self, cache: SizedCache[str]) -> None:
        self.cache = cache
        self.calls: list[int] = []

    def get(self, key: int, size: int) -> str:
        def make() -> tuple[str, int]:
            self.calls.append(key)
            return f"value {key}", size

        return self.cache.get(key, make)


def test_SizedCache_creates_a_value_once() -> None:
    made = Made(SizedCache(100))
    assert [made.get(7, 10) for _ in range(3)] == ["value 7"] * 3
    assert made.calls == [7]


def test_SizedCache_removes_the_least_recently_used_value() -> None:
    made = Made(SizedCache(30))
    for key in (1, 2, 3, 1, 4):
        made.get(key, 10)
    assert made.calls == [1, 2, 3, 4]
    made.get(1, 10), made.get(3, 10)
    assert made.calls == [1, 2, 3, 4], "1 was used again, 2 had to leave"
    made.get(2, 10)
    assert made.calls == [1, 2, 3, 4, 2]


def test_SizedCache_holds_the_newest_value_even_if_it_exceeds_the_limit() -> None:
    made = Made(SizedCache(30))
    made.get(1, 10)
    assert made.get(2, 1_000) == "value 2"
    made.get(2, 1_000)
    assert made.calls == [1, 2]
    assert made.cache.size == 1_000
    made.get(3, 1)
    assert made.cache.size == 1


def test_SizedCache_limits_many_small_values_to_a_share_of_its_size() -> None:
    limit = 8_000
    made = Made(SizedCache(limit))
    for key in range(FEW):
        made.get(key, 500)
    assert made.cache.size == FEW * 500, "a dozen may fill the whole"
    made.get(FEW, 500)
    assert made.cache.size == FEW * 500, "one more, and the oldest leaves"
    for key in range(100, 400):
        made.get(key, 10)
    assert made.cache.size <= limit / MANY_SHARE


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 40)), max_size=60))
def test_the_size_of_SizedCache_is_the_sum_of_its_values(uses: list[tuple[int, int]]) -> None:
    cache: SizedCache[int] = SizedCache(100)
    sizes: dict[int, int] = {}
    for key, size in uses:
        size = sizes.setdefault(key, size)
        assert cache.get(key, lambda key=key, size=size: (key, size)) == key
        assert cache.size <= max(100, size)
    kept = [key for key in sizes if key in cache._kept]
    assert cache.size == sum(sizes[key] for key in kept)
