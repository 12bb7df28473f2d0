"""Selection: the same items on every machine, whatever the order of the file."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.datasets.selection import Selection, deal, select
from bench.errors import UsageError


class Items:
    """Items by id, with a type each."""

    name = "toy"

    def __init__(self, *items: tuple[str, str | None]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def id_at(self, index: int) -> str:
        return self.items[index][0]

    def type_at(self, index: int) -> str | None:
        return self.items[index][1]

    def index_of(self, item_id: str) -> int | None:
        return next((n for n, (name, _) in enumerate(self.items) if name == item_id), None)

    def indexes_of_corpus(self, corpus_id: str) -> list[int] | None:
        return [0, 1] if corpus_id == "c" else None

    def known_types(self) -> list[str]:
        return sorted({kind for _, kind in self.items if kind})


TOY = Items(*((f"i{n}", "ab"[n % 3 == 0]) for n in range(12)))


def ids(selection: Selection, items: Items = TOY) -> list[str]:
    return [items.id_at(index) for index in select(items, selection)]


def test_ranges_count_from_one_and_include_both_ends() -> None:
    assert ids(Selection(start=2, end=4)) == ["i1", "i2", "i3"]
    assert ids(Selection(start=12, end=99)) == ["i11"]


def test_the_range_comes_before_filters_and_the_limit_last() -> None:
    assert ids(Selection(start=2, end=8, question_types=("b",), limit=1)) == ["i3"]
    assert ids(Selection(items=("i9", "i2"), items_of=("c",))) == ["i0", "i1", "i2", "i9"]


@given(st.integers(1, 200), st.integers(1, 20))
def test_shards_cover_everything_once(total: int, count: int) -> None:
    ranges = [Selection(shard=(n, count)).range(total) for n in range(1, count + 1)]
    assert [index for start, end in ranges for index in range(start, end)] == list(range(total))


@given(st.permutations(TOY.items), st.integers(0, 12), st.integers())
def test_a_sample_does_not_depend_on_the_order_of_the_file(order, size, seed) -> None:
    selection = Selection(sample=size, seed=seed)
    assert set(ids(selection, Items(*order))) == set(ids(selection))
    assert len(ids(selection)) == size


def test_a_sample_takes_the_smallest_keys_of_each_type() -> None:
    def key(name: str) -> str:
        return hashlib.sha256(f"3|toy|{name}".encode()).hexdigest()

    of_b = sorted((name for name, kind in TOY.items if kind == "b"), key=key)[:2]
    chosen = ids(Selection(sample=2, per_type=True, seed=3))
    assert [name for name in chosen if dict(TOY.items)[name] == "b"] == sorted(of_b, key=lambda name: int(name[1:]))
    assert len(chosen) == 4


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 50), min_size=1), st.integers(0, 120))
def test_shares_add_up_and_never_exceed_a_type(sizes: dict[str, int], sample: int) -> None:
    shares = deal(Counter(sizes), sample)
    assert sum(shares.values()) == min(sample, sum(sizes.values()))
    assert all(shares[name] <= size for name, size in sizes.items())


@pytest.mark.parametrize(
    ("selection", "part"),
    [
        (Selection(items=("nobody",)), 'no item "nobody"'),
        (Selection(items_of=("d",)), 'no corpus "d"'),
        (Selection(question_types=("bb",)), 'no question type "bb"'),
        (Selection(start=3, end=2), "holds no item"),
        (Selection(start=0), "holds no item"),
        (Selection(shard=(3, 2)), "no shard 3/2"),
        (Selection(shard=(1, 2), start=1), "exclude each other"),
    ],
)
def test_what_cannot_be_selected(selection: Selection, part: str) -> None:
    with pytest.raises(UsageError, match=part):
        ids(selection)
