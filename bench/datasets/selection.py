"""Select the items of a run by range, filters, sample and limit, in this order. The result has file order.

Positions count the items of the whole benchmark from 1, in file order. A sample is stratified by question type: the
method of largest remainder decides how many items of each type are taken. Within a type, the items with the smallest
keys are taken. The key of an item is the SHA-256 of ``SEED|BENCHMARK|ITEM_ID``::

    Selection(sample=20, seed=7)
    Selection(shard=(2, 4), question_types=("temporal",), limit=10)
"""

from __future__ import annotations

import hashlib
import heapq
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from bench.config.file import did_you_mean
from bench.errors import UsageError
from bench.visible_text import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The command-line flags that select the items of a run. By default, all items are selected."""

    start: int | None = None
    """position of the first item, counted from 1"""
    end: int | None = None
    """position of the last item, counted from 1; this item is included"""
    shard: tuple[int, int] | None = None
    """(i, n): the i-th of n ranges of about equal size; i counts from 1"""
    items: tuple[str, ...] = ()
    items_of: tuple[str, ...] = ()
    """ids of corpora; all their items are selected"""
    question_types: tuple[str, ...] = ()
    sample: int | None = None
    per_type: bool = False
    """true if ``sample`` is the number of items per question type"""
    seed: int = 0
    limit: int | None = None
    parts: tuple[tuple[int, int], ...] = ()
    """ranges that replace ``start`` and ``end``; sample and limit apply to each range separately"""

    def range(self, total: int) -> tuple[int, int]:
        """Return the index of the first item in the range, and the index after the last item. Indexes count from 0.

        Raises:
            UsageError: the range or shard is invalid.
        """
        if self.shard is not None:
            return self._shard_range(total)
        start = 1 if self.start is None else self.start
        end = total if self.end is None else self.end
        if self.end is None and self.start is not None and start > total:
            raise UsageError(
                f"--start {start}: the selection has only {counted(total, 'item(|s)')}", hint="give a smaller --start"
            )
        if start < 1 or end < start:
            raise UsageError(
                f"the range {start}..{end} contains no item", hint="use positions from 1; both ends are included"
            )
        return min(start - 1, total), min(end, total)

    def _shard_range(self, total: int) -> tuple[int, int]:
        assert self.shard is not None
        index, count = self.shard
        if self.start is not None or self.end is not None:
            raise UsageError("--shard and --start/--end exclude each other", hint="remove one of the two")
        if not 1 <= index <= count:
            raise UsageError(f"there is no shard {index}/{count}", hint="write a shard from 1/N to N/N")
        return (index - 1) * total // count, index * total // count


class Selectable(Protocol):
    """The properties of a dataset that are needed to select items. Indexes count from 0."""

    @property
    def name(self) -> str: ...
    def __len__(self) -> int: ...
    def id_at(self, index: int) -> str: ...
    def type_at(self, index: int) -> str | None: ...
    def index_of(self, item_id: str) -> int | None: ...
    def indexes_of_corpus(self, corpus_id: str) -> Iterable[int] | None: ...
    def known_types(self) -> Sequence[str]: ...


def select(dataset: Selectable, selection: Selection) -> array[int]:
    """Return the indexes of the selected items, counted from 0, in file order.

    Raises:
        UsageError: the range is invalid, or the selection names an unknown item, corpus or question type.
    """
    if selection.parts:
        ranges = (replace(selection, parts=(), start=start, end=end) for start, end in selection.parts)
        return array("I", sorted({index for one in ranges for index in select(dataset, one)}))
    start, end = selection.range(len(dataset))
    chosen = array("I", (index for index in _filtered(dataset, selection) if start <= index < end))
    if selection.sample is not None:
        chosen = _sampled(dataset, selection, chosen)
    return chosen if selection.limit is None else chosen[: selection.limit]


def _filtered(dataset: Selectable, selection: Selection) -> Iterator[int]:
    kept: Iterable[int] = range(len(dataset))
    if selection.items or selection.items_of:
        ids = split_ids(selection.items, lambda item_id: dataset.index_of(item_id) is not None)
        corpora = split_ids(selection.items_of, lambda corpus: dataset.indexes_of_corpus(corpus) is not None)
        named = {_index_of(dataset, item_id) for item_id in ids}
        named.update(index for corpus in corpora for index in _items_of(dataset, corpus))
        kept = sorted(named)
    types = frozenset(_known_type(dataset, name) for name in selection.question_types)
    return (index for index in kept if not types or dataset.type_at(index) in types)


def split_ids(texts: Iterable[str], is_known: Callable[[str], bool]) -> list[str]:
    """Return the ids in the texts. A text that is not an id itself is split at commas and white space."""
    return [one for text in texts for one in ((text,) if is_known(text) else re.split(r"[,\s]+", text)) if one]


def _index_of(dataset: Selectable, item_id: str) -> int:
    index = dataset.index_of(item_id)
    if index is None:
        raise UsageError(
            f'{dataset.name} has no item "{item_id}"', hint=f"list the ids with: bench describe {dataset.name} --items"
        )
    return index


def _items_of(dataset: Selectable, corpus: str) -> Iterable[int]:
    indexes = dataset.indexes_of_corpus(corpus)
    if indexes is None:
        raise UsageError(
            f'{dataset.name} has no corpus "{corpus}"', hint=f"list the ids with: bench describe {dataset.name} --items"
        )
    return indexes


def _known_type(dataset: Selectable, wanted: str) -> str:
    if wanted not in (known := dataset.known_types()):
        raise UsageError(
            f'{dataset.name} has no question type "{wanted}"{did_you_mean(wanted, known)}',
            hint=f"types: {', '.join(sorted(known)) or 'none'}",
        )
    return wanted


def _sampled(dataset: Selectable, selection: Selection, chosen: array[int]) -> array[int]:
    sample = selection.sample or 0
    sizes = Counter(dataset.type_at(index) or "" for index in chosen)
    shares = dict.fromkeys(sizes, sample) if selection.per_type else allocate_sample(sizes, sample)
    keys: defaultdict[str, list[tuple[bytes, int]]] = defaultdict(list)
    for index in chosen:
        _keep_smallest(
            keys[kind := dataset.type_at(index) or ""],
            shares[kind],
            (_sample_key(selection.seed, dataset.name, dataset.id_at(index)), index),
        )
    return array("I", sorted(-index for kept in keys.values() for _, index in kept))


def _keep_smallest(heap: list[tuple[bytes, int]], size: int, entry: tuple[bytes, int]) -> None:
    """Add a sample key to a heap that keeps only the ``size`` smallest keys.

    Each key is stored with inverted bytes, so that the largest kept key is on top of the heap.
    """
    key, index = entry
    turned = (bytes(255 - byte for byte in key), -index)
    if len(heap) < size:
        heapq.heappush(heap, turned)
    elif heap and turned > heap[0]:
        heapq.heapreplace(heap, turned)


def _sample_key(seed: int, benchmark: str, item_id: str) -> bytes:
    return hashlib.sha256(f"{seed}|{benchmark}|{item_id}".encode()).digest()


def allocate_sample(sizes: Counter[str], sample: int) -> dict[str, int]:
    """Return a map from question type to the number of items to sample, by the method of largest remainder.

    A type never gets more items than it has. The items that remain after rounding down go to the types with the largest
    remainders. Types with equal remainders are taken in the order of their names.
    """
    total = sum(sizes.values())
    wanted = min(sample, total)
    if total == 0:
        return {}
    shares = {name: wanted * size // total for name, size in sizes.items()}
    rest = sorted(sizes, key=lambda name: (-(wanted * sizes[name] % total), name))
    for name in rest[: wanted - sum(shares.values())]:
        shares[name] += 1
    return shares
