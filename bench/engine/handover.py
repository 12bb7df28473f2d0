"""From the pool that prepares corpora to the workers that ask their items: a bounded handover.

A corpus is handed over once, whole; its items come from one shared iterator, so no task and no queue entry exists
for an item, and memory stays flat however many there are::

    await handover.put(ready)              # a preparing worker; waits until item workers take the corpus up
    while (work := await handover.take()) is not None: ...     # an item worker: (ready, item reference)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

import anyio

ReadyT = TypeVar("ReadyT")
RefT = TypeVar("RefT")


class Handover(Generic[ReadyT, RefT]):
    """At most ``bound`` corpora wait here; closed when every preparing worker has ended."""

    def __init__(self, *, bound: int) -> None:
        self._waiting: deque[tuple[ReadyT, Iterator[RefT]]] = deque()
        self._current: tuple[ReadyT, Iterator[RefT]] | None = None
        self._bound = bound
        self._closed = False
        self._changed = anyio.Event()

    async def put(self, ready: ReadyT, items: Iterator[RefT]) -> None:
        """Hand a corpus over; wait while ``bound`` of them have not been taken up."""
        while len(self._waiting) >= self._bound and not self._closed:
            await self._changed.wait()
        self._waiting.append((ready, items))
        self._wake()

    def close(self) -> None:
        """Say that nothing more comes: workers end when what is there is done."""
        self._closed = True
        self._wake()

    def drop(self) -> None:
        """Forget what waits and close: the lane stops."""
        self._waiting.clear()
        self._current = None
        self.close()

    async def take(self) -> tuple[ReadyT, RefT] | None:
        """Give the next item of a ready corpus, None when there will be no more."""
        while True:
            if self._current is not None:
                ready, items = self._current
                if (ref := next(items, None)) is not None:
                    return ready, ref
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
