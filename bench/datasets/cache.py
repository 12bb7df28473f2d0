"""A small cache that is bounded by the size of what it holds, oldest use out first.

::

    cache = SizedCache[str](limit=4_000_000)
    cache.get(7, lambda: ("text", 4))       # makes it once, then gives it back
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


FEW = 12
"""a dozen large values may fill the whole limit ..."""
MANY_SHARE = 8
"""... but many small ones only an eighth of it: parsed, they weigh several times their text"""


class SizedCache(Generic[Value]):
    """Keeps the last used values while their sizes stay under the limit; the newest always stays."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self._kept: OrderedDict[int, tuple[Value, int]] = OrderedDict()

    def get(self, key: int, make: Callable[[], tuple[Value, int]]) -> Value:
        """Give the value of a key; ``make`` gives a value and its size."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key][0]
        value, size = make()
        self._kept[key] = (value, size)
        self.size += size
        while len(self._kept) > 1 and self._over():
            _, (_, dropped) = self._kept.popitem(last=False)
            self.size -= dropped
        return value

    def _over(self) -> bool:
        return self.size > self.limit or (len(self._kept) > FEW and self.size > self.limit / MANY_SHARE)
