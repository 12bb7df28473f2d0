"""Measure each attempt of a call, and write one row per attempt in the call log.

``recording`` collects these rows inside its `with` block, including the rows of child tasks.

Example::

    with recording() as calls:
        await provider.search(space, query)
    sum(call.provider_us for call in calls)

Calls of an inner `with` block are also added to the list of the outer block.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import urlsplit

from bench.errors import MappingError
from bench.http.endpoint import Endpoint
from bench.http.message import AttemptTimes, ReportedUsage, Request, Timings
from bench.http.rate_limiter import RateLimiter
from bench.model import Call

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_encode_ascii = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


@dataclass(slots=True, eq=False)
class CallState:
    """The state of one call over all its attempts.

    Call `dispatch` when an attempt is sent, and `row` when it ends. Call `reset_times` before the next attempt.
    """

    endpoint: Endpoint
    request: Request
    limiter: RateLimiter
    body: bytes | None
    """the request body, encoded once; None if the request has no body"""
    since: float
    """monotonic time in seconds at which the current attempt began, including its wait for a slot"""
    limiter_s: float = 0.0
    attempts: int = 0
    lost: int = 0
    refused: int = 0
    deadline: float | None = None
    """monotonic time in seconds at which the call must end; None before the first attempt is sent"""
    sent_at: float = 0.0
    started_at: datetime | None = None
    """time at which the current attempt was sent; None if it was not sent yet"""
    stamps: AttemptTimes = field(default_factory=AttemptTimes)
    received: int = 0
    """size of the last response body in bytes"""

    @property
    def tokens(self) -> int:
        """Return the number of tokens that the request needs from a limit of tokens per minute."""
        return self.request.tokens

    @property
    def patience_s(self) -> float:
        """Return how long the call may wait, in seconds. If the wait would be longer, the call fails at once."""
        return self.endpoint.call_s

    @property
    def label(self) -> str:
        """Return method and path of the request. The query is left out, because it may contain a key."""
        return f"{self.request.method} {_path(self.request.url)}"

    def dispatch(self) -> None:
        """Record that the request is sent now, and set the deadline at the first attempt."""
        self.sent_at = time.perf_counter()
        self.started_at = datetime.now(UTC)
        if self.deadline is None:
            self.deadline = self.sent_at + self.endpoint.call_s

    def attempt_s(self, override_s: float | None) -> float:
        """Return the timeout of this attempt in seconds. It is at most the time that is left for the whole call."""
        attempt_s = override_s or self.request.timeout_s or self.endpoint.timeouts.attempt_s
        left_s = (self.deadline or self.sent_at) - self.sent_at
        return attempt_s if attempt_s <= left_s else max(0.001, left_s)

    def timings(self) -> Timings:
        """Split the attempt's time into waiting for a slot, waiting for the limiter, network and provider."""
        stamps = self.stamps
        ended = stamps.ended or time.perf_counter()
        whole_us = round((ended - self.since) * 1e6)
        limiter_us = round(self.limiter_s * 1e6) if self.limiter_s else 0
        provider_us = round(stamps.provider_s() * 1e6)
        wire_us = round((ended - stamps.begun) * 1e6) if stamps.begun else 0
        return Timings(
            queue_us=max(0, whole_us - limiter_us - wire_us),
            limiter_us=limiter_us,
            network_us=max(0, wire_us - provider_us),
            provider_us=provider_us,
        )

    def library_timings(self) -> Timings:
        """Split the time of a call that another library made. All time after waiting for the limits is provider
        time.
        """
        limiter_us = round(self.limiter_s * 1e6)
        return Timings(
            queue_us=max(0, round((self.sent_at - self.since) * 1e6) - limiter_us),
            limiter_us=limiter_us,
            provider_us=round((time.perf_counter() - self.sent_at) * 1e6),
        )

    def row(self, status: int | None, outcome: str, timings: Timings, reported: ReportedUsage | None) -> Call:
        """Return the call log row of the attempt that has just ended."""
        return Call(
            endpoint=self.endpoint.name,
            role=self.endpoint.role,
            attempt=self.attempts,
            status=status,
            outcome=outcome,
            started_at=self.started_at or datetime.now(UTC),
            queue_us=timings.queue_us,
            limiter_us=timings.limiter_us,
            network_us=timings.network_us,
            provider_us=timings.provider_us,
            request_bytes=len(self.body or b""),
            response_bytes=self.received,
            model=reported.model if reported else None,
            usage=reported.usage if reported else None,
            cost_usd=reported.cost_usd if reported else self.endpoint.price_usd if outcome == "ok" else None,
        )

    def reset_times(self) -> None:
        """Reset all times for the next attempt of the call."""
        self.since = time.perf_counter()
        self.limiter_s = 0.0
        self.started_at = None
        self.received = 0
        self.stamps = AttemptTimes()


def encoded_body(endpoint: Endpoint, request: Request) -> bytes | None:
    """Return the body of the request as bytes, or None if the request has no body.

    Raises:
        MappingError: the body cannot be written as JSON.
    """
    if request.json is None:
        return request.body
    try:
        text = _encode(request.json)
    except (TypeError, ValueError) as error:
        raise MappingError(
            f"{endpoint.name}: the request body cannot be written as JSON: {error}",
            hint=f"correct the request body in the config or adapter of {endpoint.name}",
        ) from error
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate: legal in JSON only as an escape
        return _encode_ascii(request.json).encode()


@lru_cache(maxsize=1024)
def _path(url: str) -> str:
    return urlsplit(url).path or "/"


class recording:  # noqa: N801 - used as the statement `with recording()`
    """Collect the attempts that are made inside the `with` block, in the order in which they end.

    ``on_call`` is called with each attempt as soon as it ends. An inner block uses the function of the outer block.
    """

    __slots__ = ("_token", "calls", "on_call")
    calls: list[Call]
    _token: Token[recording | None]

    def __init__(self, on_call: Callable[[Call], None] | None = None) -> None:
        self.on_call = on_call

    def __enter__(self) -> list[Call]:
        outer = _open.get()
        if outer is not None and self.on_call is None:
            self.on_call = outer.on_call
        self.calls = []
        self._token = _open.set(self)
        return self.calls

    def __exit__(self, *_exc: object) -> None:
        _open.reset(self._token)
        outer = _open.get()
        if outer is not None:
            outer.calls.extend(self.calls)


_open: ContextVar[recording | None] = ContextVar("recording", default=None)


def record(call: Call) -> None:
    """Append an attempt to the list of the innermost open `recording`. Do nothing if no `recording` is open."""
    innermost = _open.get()
    if innermost is not None:
        innermost.calls.append(call)
        if innermost.on_call is not None:
            innermost.on_call(call)


def is_recording() -> bool:
    """Return True if a `recording` is open, so that rows of the call log are needed."""
    return _open.get() is not None
