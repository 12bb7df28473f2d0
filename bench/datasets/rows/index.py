"""Compact tables for the index of a dataset, with a few dozen bytes per item: ids, and the places of rows.

`SizedCache` is a cache that limits the total size of its values.

Example::

    table = IdTable()
    table.add("q1"), table.add("q2"), table.add("q1")      # 0, 1, None: already there
    table[1], table.find("q2")                             # "q2", 1
    cache = SizedCache[str](limit=4_000_000)
    cache.get(7, lambda: ("text", 4))       # "text"; the function is called only if the cache lacks the key
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar
from zlib import crc32

from bench.datasets.rows.row import FileRow

_ABSENT = 0xFFFFFFFF


class IdTable:
    """A list of distinct texts in which a text can be found fast. All texts share one buffer of bytes."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._ends = array("I", [0])
        self._slots = array("I", [_ABSENT]) * 16

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: int) -> str:
        ends = self._ends
        if not 0 <= index < len(ends) - 1:
            raise IndexError(index)
        return self._buffer[ends[index] : ends[index + 1]].decode()

    def __iter__(self) -> Iterator[str]:
        return (self[index] for index in range(len(self)))

    def add(self, text: str) -> int | None:
        """Append a text and return its index. If the table already contains the text, return None."""
        raw = text.encode()
        slot = self._slot(raw)
        if self._slots[slot] != _ABSENT:
            return None
        index = len(self)
        self._slots[slot] = index
        self._buffer += raw
        self._ends.append(len(self._buffer))
        if 4 * (index + 1) > 3 * len(self._slots):
            self._grow()
        return index

    def find(self, text: str) -> int | None:
        """Return the index of a text, or None if the table does not contain the text."""
        index = self._slots[self._slot(text.encode())]
        return None if index == _ABSENT else index

    def _raw(self, index: int) -> bytes:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return bytes(self._buffer[self._ends[index] : self._ends[index + 1]])

    def _slot(self, raw: bytes) -> int:
        """Return the slot of the hash table that contains a text, or the free slot where the text can be added."""
        mask = len(self._slots) - 1
        slot = crc32(raw) & mask
        while (index := self._slots[slot]) != _ABSENT and self._raw(index) != raw:
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        self._slots = array("I", [_ABSENT]) * (2 * len(self._slots))
        mask = len(self._slots) - 1
        for index in range(len(self)):
            slot = crc32(self._raw(index)) & mask
            while self._slots[slot] != _ABSENT:
                slot = (slot + 1) & mask
            self._slots[slot] = index


class RowIndex:
    """The place of each row in its file, the items of each row, and the rows of each corpus."""

    def __init__(self) -> None:
        self.offsets = array("Q")
        self.lengths = array("I")
        self.lines = array("I")
        """line of each row, counted from 1; 0 for formats without lines"""
        self.numbers = array("I")
        """number of each row in its file, counted from 0"""
        self.parts = array("I")
        """number of each row in its document, counted from 0"""
        self.files = array("H")
        self.adds_sessions = bytearray()
        """for each row, 1 if its sessions are added to the corpus, 0 if an earlier row has the same sessions"""
        self.first_item = array("I")
        self.items = 0
        self._next = array("I")
        self._first: array[int] | None = None
        self._last = array("I")

    def __len__(self) -> int:
        return len(self.offsets)

    def add(self, found: FileRow, items: int, corpus: int | None = None, *, adds_sessions: bool = True) -> int:
        """Append a row with ``items`` items, and return the index of the row.

        Rows with the same ``corpus`` belong to one shared corpus.
        """
        row = len(self.offsets)
        self.offsets.append(found.offset)
        self.lengths.append(found.length)
        self.lines.append(found.place.line or 0)
        self.numbers.append(found.place.row)
        self.adds_sessions.append(adds_sessions)
        self.parts.append(found.part)
        self.files.append(found.file)
        self.first_item.append(self.items)
        self.items += items
        if corpus is not None:
            self._link(row, corpus)
        return row

    def _link(self, row: int, corpus: int) -> None:
        if self._first is None:
            self._first = array("I")
        self._next.append(_ABSENT)
        if corpus == len(self._first):
            self._first.append(row)
            self._last.append(row)
        else:
            self._next[self._last[corpus]] = row
            self._last[corpus] = row

    def row_of(self, item: int) -> int:
        """Return the index of the row that contains an item."""
        return bisect_right(self.first_item, item) - 1

    def items_of(self, row: int) -> range:
        """Return the indexes of the items in a row."""
        end = self.first_item[row + 1] if row + 1 < len(self) else self.items
        return range(self.first_item[row], end)

    def rows_of(self, corpus: int) -> Iterator[int]:
        """Yield the indexes of a corpus's rows, in file order."""
        if self._first is None:
            yield corpus
            return
        row = self._first[corpus]
        while row != _ABSENT:
            yield row
            row = self._next[row]


Value = TypeVar("Value")


FEW = 12
"""maximum number of cached values for which the cache can use its whole size limit"""
MANY_SHARE = 8
"""divisor of the size limit for caches with more than `FEW` values; small values need much extra memory"""


class SizedCache(Generic[Value]):
    """A cache that removes the least recently used values if the total size of all values exceeds a limit.

    The newest value always stays.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self._kept: OrderedDict[int, tuple[Value, int]] = OrderedDict()

    def get(self, key: int, make: Callable[[], tuple[Value, int]]) -> Value:
        """Return the value of a key. If the cache lacks the key, ``make`` is called for the value and its size."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key][0]
        value, size = make()
        self._kept[key] = (value, size)
        self.size += size
        while len(self._kept) > 1 and self._is_over_limit():
            _, (_, dropped) = self._kept.popitem(last=False)
            self.size -= dropped
        return value

    def _is_over_limit(self) -> bool:
        return self.size > self.limit or (len(self._kept) > FEW and self.size > self.limit / MANY_SHARE)
