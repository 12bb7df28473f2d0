"""Selection: the same items on every machine, in any order of the file."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.datasets.selection import Selection, allocate_sample, select
from bench.errors import UsageError
from tests.rows import each_row


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


def test_ranges_start_at_one_and_include_both_ends() -> None:
    assert ids(Selection(start=2, end=4)) == ["i1", "i2", "i3"]
    assert ids(Selection(start=12, end=99)) == ["i11"]


def test_the_range_is_applied_before_filters_and_the_limit_last() -> None:
    assert ids(Selection(start=2, end=8, question_types=("b",), limit=1)) == ["i3"]
    assert ids(Selection(items=("i9", "i2"), items_of=("c",))) == ["i0", "i1", "i2", "i9"]


@given(st.integers(1, 200), st.integers(1, 20))
def test_shards_cover_every_item_once(total: int, count: int) -> None:
    ranges = [Selection(shard=(n, count)).range(total) for n in range(1, count + 1)]
    assert [index for start, end in ranges for index in range(start, end)] == list(range(total))


@given(st.permutations(TOY.items), st.integers(0, 12), st.integers())
def test_a_sample_does_not_depend_on_the_order_of_the_file(order, size, seed) -> None:
    selection = Selection(sample=size, seed=seed)
    assert set(ids(selection, Items(*order))) == set(ids(selection))
    assert len(ids(selection)) == size


def test_a_sample_per_type_takes_the_smallest_hash_keys_of_each_type() -> None:
    def key(name: str) -> str:
        return hashlib.sha256(f"3|toy|{name}".encode()).hexdigest()

    of_b = sorted((name for name, kind in TOY.items if kind == "b"), key=key)[:2]
    chosen = ids(Selection(sample=2, per_type=True, seed=3))
    assert [name for name in chosen if dict(TOY.items)[name] == "b"] == sorted(of_b, key=lambda name: int(name[1:]))
    assert len(chosen) == 4


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 50), min_size=1), st.integers(0, 120))
def test_sample_shares_add_up_and_do_not_exceed_a_type(sizes: dict[str, int], sample: int) -> None:
    shares = allocate_sample(Counter(sizes), sample)
    assert sum(shares.values()) == min(sample, sum(sizes.values()))
    assert all(shares[name] <= size for name, size in sizes.items())


@each_row(
    ("selection", "part"),
    [
        (Selection(items=("nobody",)), 'no item "nobody"'),
        (Selection(items_of=("d",)), 'no corpus "d"'),
        (Selection(question_types=("bb",)), 'no question type "bb"'),
        (Selection(start=3, end=2), "contains no item"),
        (Selection(start=0), "contains no item"),
        (Selection(shard=(3, 2)), "no shard 3/2"),
        (Selection(shard=(1, 2), start=1), "exclude each other"),
    ],
)
def test_an_invalid_selection_is_refused(selection: Selection, part: str) -> None:
    with pytest.raises(UsageError, match=part):
        ids(selection)


# ------------------------------------------------------------------ laws of what is selected

SELECTIONS = st.builds(
    Selection,
    start=st.none() | st.integers(1, 6),
    end=st.none() | st.integers(6, 20),
    question_types=st.sampled_from([(), ("a",), ("b",), ("a", "b")]),
    sample=st.none() | st.integers(0, 14),
    per_type=st.booleans(),
    seed=st.integers(0, 3),
    limit=st.none() | st.integers(0, 14),
)


@given(SELECTIONS)
def test_selected_items_are_in_file_order_and_within_the_range(selection: Selection) -> None:
    found = list(select(TOY, selection))
    assert found == sorted(set(found))
    assert all((selection.start or 1) - 1 <= index < (selection.end or 12) for index in found)
    types = {TOY.type_at(index) for index in found}
    assert types <= set(selection.question_types or "ab")
    assert len(found) <= (12 if selection.limit is None else selection.limit)


@given(SELECTIONS)
def test_a_limit_takes_the_first_items_of_the_selection(selection: Selection) -> None:
    assert list(select(TOY, selection)) == list(select(TOY, replace(selection, limit=None)))[: selection.limit]


@given(st.integers(0, 12), st.integers(0, 5))
def test_a_larger_sample_per_type_contains_the_smaller_one(size: int, seed: int) -> None:
    smaller, larger = (set(ids(Selection(sample=n, per_type=True, seed=seed))) for n in (size, size + 1))
    assert smaller <= larger


def test_another_seed_or_benchmark_gives_another_sample() -> None:
    samples = {tuple(ids(Selection(sample=4, seed=seed))) for seed in range(10)}
    assert len(samples) > 5

    class Other(Items):
        name = "other"

    assert {tuple(ids(Selection(sample=4, seed=seed), Other(*TOY.items))) for seed in range(10)} != samples


def test_items_without_a_type_form_their_own_type_in_a_sample() -> None:
    items = Items(*((f"i{n}", None if n < 6 else "a") for n in range(12)))
    chosen = [int(name[1:]) for name in ids(Selection(sample=4), items)]
    assert sum(n < 6 for n in chosen) == 2
    assert len(ids(Selection(sample=2, per_type=True), items)) == 4


@each_row(
    ("sizes", "sample", "shares"),
    [
        ({"a": 3, "b": 3, "c": 3}, 4, {"a": 2, "b": 1, "c": 1}),
        ({"b": 3, "a": 3}, 1, {"a": 1, "b": 0}),
        ({"a": 10, "b": 1}, 2, {"a": 2, "b": 0}),
        ({"a": 5}, 9, {"a": 5}),
        ({"a": 5, "b": 1}, 0, {"a": 0, "b": 0}),
        ({}, 3, {}),
        ({"multi-hop": 282, "temporal": 321, "open-domain": 96, "single-hop": 841, "adversarial": 446}, 20,
         {"multi-hop": 3, "temporal": 3, "open-domain": 1, "single-hop": 8, "adversarial": 5}),
    ],
)  # fmt: skip
def test_sample_shares_use_the_largest_remainder_and_then_the_name(
    sizes: dict[str, int], sample: int, shares: dict[str, int]
) -> None:
    assert allocate_sample(Counter(sizes), sample) == shares


def test_parts_are_selected_separately_and_combined() -> None:
    parts = ((1, 4), (9, 12))
    apart = [ids(Selection(start=start, end=end, sample=2, seed=1)) for start, end in parts]
    assert ids(Selection(parts=parts, sample=2, seed=1)) == [name for one in apart for name in one]
    assert ids(Selection(parts=((1, 3), (2, 4)), limit=2)) == ["i0", "i1", "i2"]


@each_row(
    ("selection", "hint"),
    [
        (Selection(items=("i99",)), "list the ids with: bench describe toy --items"),
        (Selection(items_of=("z",)), "list the ids with: bench describe toy --items"),
        (Selection(question_types=("z",)), "types: a, b"),
        (Selection(start=5, end=4), "use positions from 1; both ends are included"),
        (Selection(shard=(0, 3)), "write a shard from 1/N to N/N"),
        (Selection(shard=(1, 3), end=4), "remove one of the two"),
    ],
)
def test_an_invalid_selection_has_a_hint(selection: Selection, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        ids(selection)
    assert caught.value.hint == hint


def test_an_unknown_question_type_has_a_suggestion_or_the_hint_none() -> None:
    untyped = Items(("i0", None))
    with pytest.raises(UsageError) as caught:
        ids(Selection(question_types=("a",)), untyped)
    assert (str(caught.value), caught.value.hint) == ('toy has no question type "a"', "types: none")
    typed = Items(("i0", "temporal"))
    with pytest.raises(UsageError, match='toy has no question type "temporl"; did you mean "temporal"'):
        ids(Selection(question_types=("temporl",)), typed)
