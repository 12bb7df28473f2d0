"""Decide when a request of an endpoint may start, so that the limits of the endpoint are kept.

``parse_wait_s`` reads the time to wait in a ``Retry-After`` or similar header, in seconds.

Example::

    parse_wait_s("3", now=0.0) == 3.0
    parse_wait_s("Thu, 01 Jan 1970 00:00:05 GMT", now=2.0) == 3.0
    parse_wait_s("1m30s", now=0.0) == 90.0

A call passes these steps:

1. The call takes a *place* at the endpoint. The concurrency limit is the number of places.
2. The call waits until it is the first in line.
3. The first call waits until the pause, the interval and the rate of the endpoint allow a request.
4. This call takes one of the slots that all endpoints share, checks step 3 again, and is sent.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from typing import Protocol

import anyio
from aiolimiter import AsyncLimiter

from bench.http.adaptive_concurrency import AdaptiveSlots, Slots
from bench.http.endpoint import Limits
from bench.http.errors import PauseTooLong
from bench.untyped_values import instant, number, whole_number

LATEST_SPAN_S = 10_000_000.0
"""largest number that is read as a time span in seconds; a larger number is a Unix time, above 1e12 in milliseconds"""
LONGEST_WAIT_S = 366 * 86400.0
UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
SPAN = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhd]))+")
SPAN_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def parse_wait_s(text: str, *, now: float) -> float | None:
    """Parse a time span or a point in time; return the seconds from ``now`` (Unix time), at least 0.

    Return None for any other text, and for a wait of more than 366 days, which must be the server's mistake.
    """
    wait_s = _wait_s(text.strip(), now)
    return wait_s if wait_s is not None and wait_s <= LONGEST_WAIT_S else None


def server_time(headers: Mapping[str, str]) -> float:
    """Return the Unix time of the server, from the Date header of a response.

    Return the local time if there is no such header.
    """
    date = instant(headers.get("Date", ""))
    return time.time() if date is None else date.timestamp()


def _wait_s(text: str, now: float) -> float | None:
    if NUMBER.fullmatch(text):
        found = number(text)
        if found is None or found < LATEST_SPAN_S:
            return found
        return max(0.0, (found / 1000 if found > 1e12 else found) - now)
    if SPAN.fullmatch(text):
        return math.fsum((number(value) or 0.0) * UNIT_S[unit] for value, unit in SPAN_PART.findall(text))
    at = instant(text) if number(text) is None else None
    return None if at is None else max(0.0, at.timestamp() - now)


USED_SHARE = 0.98
"""share of the allowed rate that bench uses; the rest is a margin for network jitter"""
BURST_SLACK = 0.5
"""fraction of a call that is added to the burst, so that a late start does not lower the rate. It is below 1, so that
no time window has more calls than allowed.
"""
CHECKS_PER_TOKEN = 50
WAIT_WITHOUT_RESET_S = 1.0
LONGEST_SLEEP_S = 1.0
"""longest single sleep in seconds; after each sleep, the limiter checks whether the pause was extended"""
SHORTEST_CHECK_S = 0.001
TOKEN_BURST_S = 6.0
"""a limit of tokens per minute allows the tokens of this many seconds at one moment"""


class LimitedCall(Protocol):
    """A call that waits until it may start. The limiter adds the waiting time to ``limiter_s``."""

    @property
    def tokens(self) -> int: ...

    @property
    def patience_s(self) -> float: ...

    limiter_s: float


class RateLimiter:
    """Decides when each call of one endpoint may start."""

    def __init__(self, limits: Limits, slots: Slots, *, adaptive: bool, share: float = 1.0) -> None:
        self._slots = slots
        self._interval_s = limits.min_interval_s
        self._feedback = limits.feedback
        self._requests = _request_bucket(limits, share)
        self._tokens = _token_bucket(limits, share)
        self._turn = anyio.Lock(fast_acquire=True)
        """lets at most one call of the endpoint wait for the limiter or for a global slot"""
        self._closed_until = 0.0
        self._unpaced = self._requests is None and self._tokens is None
        self.window = AdaptiveSlots(limits.concurrency or slots.size) if adaptive else None
        self._places: Slots | None = self.window or (Slots(limits.concurrency) if limits.concurrency else None)

    async def enter(self, call: LimitedCall) -> None:
        """Wait until the call may start. Take a place at the endpoint, a slot that all endpoints share, and a rate
        token.

        Raises:
            PauseTooLong: the endpoint is paused for longer than the call's ``patience_s``.
        """
        if self._places is not None:
            await self._places.take(call)
        try:
            if not (self._unpaced and self._is_open() and self._slots.take_now(call)):
                await self._wait_in_line(call)
        except BaseException:
            self._release_place(call)
            raise
        if self._interval_s:
            self.close_for(self._interval_s)

    def leave(self, call: LimitedCall) -> None:
        """Release the call's place at the endpoint, and its slot that all endpoints share."""
        self._slots.give_back(call)
        self._release_place(call)

    def close_for(self, seconds: float) -> None:
        """Let no request of this endpoint start for this many seconds."""
        self._closed_until = max(self._closed_until, time.perf_counter() + seconds)

    def closed_for(self) -> float:
        """Return for how many more seconds the endpoint is paused; rate limits are not considered."""
        return max(0.0, self._closed_until - time.perf_counter())

    def note_quota(self, headers: Mapping[str, str]) -> None:
        """Slow down by the remaining quota that the response headers report.

        The remaining requests are spread over the time until the quota is reset.
        """
        if self._feedback is None:
            return
        left = whole_number(headers.get(self._feedback.remaining, "").strip())
        if left is None:
            return
        reset = headers.get(self._feedback.reset, "") if self._feedback.reset else ""
        reset_s = parse_wait_s(reset, now=server_time(headers)) if reset else None
        if reset_s is not None:
            self.close_for(reset_s / max(1, left))
        elif left == 0:
            self.close_for(WAIT_WITHOUT_RESET_S)

    async def _wait_in_line(self, call: LimitedCall) -> None:
        started, slot_s = time.perf_counter(), 0.0
        async with self._turn:
            await self._take_model_tokens(call.tokens)
            while True:
                await self._until_open(call.patience_s)
                queued_at = time.perf_counter()
                await self._slots.take(call)
                slot_s += time.perf_counter() - queued_at
                if self._is_open() and await self._take_token():
                    break
                self._slots.give_back(call)
        if not (self._unpaced and self._closed_until < started):
            call.limiter_s += time.perf_counter() - started - slot_s

    async def _until_open(self, patience_s: float) -> None:
        while (wait_s := self._wait_s()) > 0:
            if wait_s > patience_s and self.closed_for() > patience_s:
                raise PauseTooLong(wait_s)
            await anyio.sleep(min(wait_s, LONGEST_SLEEP_S))

    def _wait_s(self) -> float:
        """Return the seconds until the next check; 0 if a request may start now.

        During a pause, this is the rest of the pause. Otherwise, it is a small part of the time that the rate limit
        sets between two requests.
        """
        closed_s = self.closed_for()
        bucket = self._requests
        if closed_s or bucket is None or bucket.has_capacity():
            return closed_s
        return max(SHORTEST_CHECK_S, bucket.time_period / bucket.max_rate / CHECKS_PER_TOKEN)

    async def _take_token(self) -> bool:
        """Take a rate token if a token is available. Return True if a token was taken.

        Only the first waiting call may do this.
        """
        if self._requests is None:
            return True
        if not self._requests.has_capacity():
            return False
        await self._requests.acquire()
        return True

    async def _take_model_tokens(self, tokens: int) -> None:
        bucket = self._tokens
        while bucket is not None and tokens > 0:
            portion = min(tokens, bucket.max_rate)
            await bucket.acquire(portion)
            tokens -= int(portion)

    def _is_open(self) -> bool:
        return time.perf_counter() >= self._closed_until

    def _release_place(self, call: LimitedCall) -> None:
        if self._places is not None:
            self._places.give_back(call)


def _request_bucket(limits: Limits, share: float) -> AsyncLimiter | None:
    if limits.rate is None:
        return None
    capacity = max(1.0, limits.burst_size * share) + BURST_SLACK
    return AsyncLimiter(capacity, capacity / (limits.rate * share * USED_SHARE))


def _token_bucket(limits: Limits, share: float) -> AsyncLimiter | None:
    if limits.tpm is None:
        return None
    per_second = limits.tpm * share / 60
    capacity = max(1.0, per_second * TOKEN_BURST_S)
    return AsyncLimiter(capacity, capacity / per_second)
