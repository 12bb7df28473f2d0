"""The limit of requests in flight: fixed, or adapted like a TCP window.

``--concurrency auto`` gives each endpoint an `AdaptiveWindow`: it doubles per round until the first refusal
(slow start), then grows by one per round, and slowly near the size that was refused last; a refusal halves it, one
that names a time to wait starts it again at one.
One round is what is in flight at once, so a burst of refusals of one round cuts only once.
"""

from __future__ import annotations

from anyio import CapacityLimiter, WouldBlock

CEILING = 256
"""the most that ``auto`` ever has in flight, over all endpoints"""
START = 2
SLOW_STEP = 1 / 32
"""growth per round near the size that was refused last"""


class Slots:
    """Slots handed out first come, first served; ``holder`` is anyone who will give it back."""

    def __init__(self, size: int) -> None:
        self._limiter = CapacityLimiter(size)

    @property
    def size(self) -> int:
        """Slots there are."""
        return int(self._limiter.total_tokens)

    @property
    def taken(self) -> int:
        """Slots in use."""
        return self._limiter.borrowed_tokens

    def take_now(self, holder: object) -> bool:
        """Take a slot if one is free and no one waits for it."""
        try:
            self._limiter.acquire_on_behalf_of_nowait(holder)
        except WouldBlock:
            return False
        return True

    async def take(self, holder: object) -> None:
        """Wait for a slot."""
        if not self.take_now(holder):
            await self._limiter.acquire_on_behalf_of(holder)

    def give_back(self, holder: object) -> None:
        """Free the slot of ``holder``."""
        self._limiter.release_on_behalf_of(holder)


class AdaptiveWindow(Slots):
    """Slots whose number follows what the server takes."""

    def __init__(self, ceiling: int = CEILING) -> None:
        super().__init__(min(START, ceiling))
        self._ceiling = ceiling
        self._window = float(self.size)
        self._threshold = float(ceiling)
        self._refused_at = float(ceiling)
        self._settled_at = float("-inf")

    def accepted(self, *, sent_at: float) -> None:
        """One answer without push-back, its slot just given back.

        Grow only while the window is what holds us back, and only by answers to what was sent after the last cut.
        """
        if self.taken + 1 < self.size or sent_at < self._settled_at:
            return
        self._resize(self._window + self._step())

    def refused(self, *, sent_at: float, now: float, told_to_wait: bool) -> None:
        """A 429 for a request sent at ``sent_at``; one that the last cut could not yet have spared is not news."""
        if sent_at < self._settled_at:
            return
        # what is sent within a round trip of the cut still meets the crowd of before
        self._settled_at = now + (now - sent_at)
        self._refused_at = self._window
        self._threshold = max(1.0, self._window / 2)
        self._resize(1.0 if told_to_wait else self._threshold)

    def _step(self) -> float:
        if self._window < self._threshold:
            return 1.0
        per_round = SLOW_STEP if abs(self._window - self._refused_at) <= 1 else 1.0
        return per_round / self._window

    def _resize(self, window: float) -> None:
        self._window = min(max(1.0, window), float(self._ceiling))
        self._limiter.total_tokens = int(self._window)
