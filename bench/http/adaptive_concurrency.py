"""Limit the number of requests in flight, to a fixed number or to a number that adapts to the endpoint.

With ``--concurrency auto``, each endpoint has an `AdaptiveSlots`. Its window is the number of requests that may be in
flight. The window grows while requests succeed, as in TCP, and is halved when the endpoint refuses a request with a
429. If the refusal names a time to wait, the window becomes one.
"""

from __future__ import annotations

from anyio import CapacityLimiter, WouldBlock

CEILING = 256
"""maximum number of requests in flight over all endpoints, with ``--concurrency auto``"""
START = 2
SLOW_STEP = 1 / 32
"""number of slots added per round trip, while the number of slots is near that at the last refusal"""


class Slots:
    """A fixed number of slots, given out in the order of the requests. ``holder`` is the object that has a slot."""

    def __init__(self, size: int) -> None:
        self._limiter = CapacityLimiter(size)

    @property
    def size(self) -> int:
        """Return the number of slots, free or taken."""
        return int(self._limiter.total_tokens)

    @property
    def taken(self) -> int:
        """Return the number of slots that are taken."""
        return self._limiter.borrowed_tokens

    def take_now(self, holder: object) -> bool:
        """Take a slot if one is free and no other caller is waiting. Return True if a slot was taken."""
        try:
            self._limiter.acquire_on_behalf_of_nowait(holder)
        except WouldBlock:
            return False
        return True

    async def take(self, holder: object) -> None:
        """Wait until a slot is free, and take it."""
        if not self.take_now(holder):
            await self._limiter.acquire_on_behalf_of(holder)

    def give_back(self, holder: object) -> None:
        """Release the slot that ``holder`` has taken."""
        self._limiter.release_on_behalf_of(holder)


class AdaptiveSlots(Slots):
    """Slots whose number adapts to the number of requests that the server accepts at the same time."""

    def __init__(self, ceiling: int = CEILING) -> None:
        super().__init__(min(START, ceiling))
        self._ceiling = ceiling
        self._window = float(self.size)
        self._threshold = float(ceiling)
        self._refused_at = float(ceiling)
        self._settled_at = float("-inf")

    def accepted(self, *, sent_at: float) -> None:
        """Count a response without a refusal (429). Call this directly after the slot of the request was released.

        The number of slots grows only if all slots were taken, and if the request was sent more than one round trip
        after the last reduction.
        """
        if self.taken + 1 < self.size or sent_at < self._settled_at:
            return
        self._resize(self._window + self._step())

    def refused(self, *, sent_at: float, now: float, with_wait: bool) -> None:
        """Reduce the number of slots after a refusal (429). If the server said how long to wait, ``with_wait`` is true.

        A refusal is ignored if its request was sent before the last reduction, or within one round trip after it.
        """
        if sent_at < self._settled_at:
            return
        # requests sent within one round trip after the reduction still compete with earlier ones
        self._settled_at = now + (now - sent_at)
        self._refused_at = self._window
        self._threshold = max(1.0, self._window / 2)
        self._resize(1.0 if with_wait else self._threshold)

    def _step(self) -> float:
        if self._window < self._threshold:
            return 1.0
        per_round = SLOW_STEP if abs(self._window - self._refused_at) <= 1 else 1.0
        return per_round / self._window

    def _resize(self, window: float) -> None:
        self._window = min(max(1.0, window), float(self._ceiling))
        self._limiter.total_tokens = int(self._window)
