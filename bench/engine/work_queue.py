"""Pass the items of ready corpora from the workers that prepare corpora to the workers that run items.

Example::

    await queue.put(ready, items)       # a preparing worker; waits while the queue is full
    while (work := await queue.take()) is not None: ...     # an item worker: (ready, (lane, item reference))

A queue entry is one corpus with an iterator over its items, so that a hundred thousand items need little memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

import anyio

ReadyT = TypeVar("ReadyT")
ItemT = TypeVar("ItemT")


class WorkQueue(Generic[ReadyT, ItemT]):
    """A queue of at most ``bound`` ready corpora, each with an iterator over its items."""

    def __init__(self, *, bound: int) -> None:
        self._waiting: deque[tuple[ReadyT, Iterator[ItemT]]] = deque()
        self._current: tuple[ReadyT, Iterator[ItemT]] | None = None
        self._bound = bound
        self._closed = False
        self._changed = anyio.Event()

    async def put(self, ready: ReadyT, items: Iterator[ItemT]) -> None:
        """Add a corpus; if the queue is full, wait until a corpus is taken."""
        while len(self._waiting) >= self._bound and not self._closed:
            await self._changed.wait()
        self._waiting.append((ready, items))
        self._wake()

    def close(self) -> None:
        """Declare that no further corpus will be added, so that workers end when the queue is empty."""
        self._closed = True
        self._wake()

    def drop(self) -> None:
        """Discard the waiting corpora and close the queue, because the lane stops."""
        self._waiting.clear()
        self._current = None
        self.close()

    async def take(self) -> tuple[ReadyT, ItemT] | None:
        """Wait for the next item, and return it with its corpus; None if the queue is closed and empty."""
        while True:
            if self._current is not None:
                ready, items = self._current
                if (item := next(items, None)) is not None:
                    return ready, item
                self._current = None
            elif self._waiting:
                self._current = self._waiting.popleft()
                self._wake()
            elif self._closed:
                return None
            else:
                await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
