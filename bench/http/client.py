"""Send requests with rate limits and retries. Every outgoing request of bench uses `Http`.

Example::

    async with Http(concurrency="auto", rates={"chroma.search": Limits(rps=50)}) as http:
        response = await http.call(endpoint, request)
        http.in_flight, http.oldest_s(), http.refusals

A call that is canceled after it was sent has the outcome ``canceled`` in the call log. It counts as paid, because the
service may complete it.
"""

from __future__ import annotations

import logging
import time
from asyncio import CancelledError
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING, Literal

from bench.errors import CallError
from bench.events import log
from bench.http import call_log
from bench.http import errors as classify
from bench.http.adaptive_concurrency import CEILING, Slots
from bench.http.call_log import CallState, encoded_body
from bench.http.endpoint import Endpoint, Limits
from bench.http.errors import AttemptFailed, PauseTooLong, RequestNotSent, ResponseLost, ResponseTooLarge
from bench.http.message import ReportedUsage, Request, Response, Timings
from bench.http.rate_limiter import RateLimiter, parse_wait_s, server_time
from bench.model import Usage

if TYPE_CHECKING:
    from aiohttp import ClientTimeout

    from bench.http.transport import HttpResponse, Transport

_logger = logging.getLogger("bench")
CANCELED = "canceled"
"""outcome of a call that was canceled after it was sent"""


class Http:
    """The HTTP client of a run; use it with ``async with``.

    ``concurrency``: maximum number of requests in flight over all endpoints, or ``auto``.
    ``rates``: limits that replace the limits of endpoints. A key is the name of an endpoint, or this name without the
    part after its last dot.
    ``share``: this machine's share of every rate, such as 0.5.
    ``attempt_s``: timeout of one attempt in seconds; it replaces the timeouts of requests and endpoints.
    ``repeats_timeouts``: if False, an attempt that timed out is not retried.
    """

    def __init__(
        self,
        *,
        concurrency: int | Literal["auto"] = 10,
        rates: Mapping[str, Limits] | None = None,
        share: float = 1.0,
        attempt_s: float | None = None,
        repeats_timeouts: bool = True,
        random: Random | None = None,
    ) -> None:
        self._adaptive = concurrency == "auto"
        self._slots = Slots(CEILING if concurrency == "auto" else concurrency)
        self._rates = dict(rates or {})
        self._share = share
        self.attempt_s = attempt_s
        """timeout of one attempt in seconds; None = the timeout of the request or of its endpoint"""
        self._repeats_timeouts = repeats_timeouts
        self._random = random or Random()
        self._limiters: dict[str, RateLimiter] = {}
        self._in_flight: dict[CallState, None] = {}
        self._transport: Transport | None = None
        self.refusals = 0
        """number of requests that a rate limit has rejected so far, by status 429 or similar"""

    async def __aenter__(self) -> Http:
        from bench.http.transport import Transport

        self._transport = await Transport().__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._transport is not None:
            await self._transport.__aexit__(*exc)

    @property
    def ceiling(self) -> int:
        """Return the maximum number of requests in flight over all endpoints."""
        return self._slots.size

    @property
    def in_flight(self) -> int:
        """Return the number of requests that were sent and have no response yet."""
        return len(self._in_flight)

    def oldest_s(self) -> float | None:
        """Return the time in seconds since the oldest request in flight was sent; None if no request is in flight."""
        oldest = next(iter(self._in_flight), None)
        return None if oldest is None else time.perf_counter() - oldest.sent_at

    def oldest(self) -> str | None:
        """Return the endpoint name of the oldest request in flight; None if no request is in flight."""
        oldest = next(iter(self._in_flight), None)
        return None if oldest is None else oldest.endpoint.name

    def window(self, endpoint: str) -> int | None:
        """Return how many requests ``auto`` currently allows at an endpoint.

        Return None if the concurrency is not ``auto``, or before the first call of the endpoint.
        """
        limiter = self._limiters.get(endpoint)
        return limiter.window.size if limiter is not None and limiter.window is not None else None

    async def call(self, endpoint: Endpoint, request: Request) -> Response:
        """Send a request and retry it if needed; return the first successful response.

        Raises:
            AuthError, QuotaError, RateLimited, Unavailable, Rejected, MappingError: see the table in
            :mod:`bench.http.errors`; also any error that ``request.read`` raises.
        """
        state = CallState(
            endpoint=endpoint,
            request=request,
            limiter=self._limiter(endpoint),
            body=encoded_body(endpoint, request),
            since=time.perf_counter(),
        )
        try:
            return await self._attempt(state)
        except AttemptFailed as failed:
            if not failed.repeat:
                raise failed.error from failed.__cause__
            first = failed
        return await self._repeat(state, first)

    @asynccontextmanager
    async def admit(self, endpoint: Endpoint, label: str) -> AsyncIterator[None]:
        """Apply the slots, limits and call log of this client to a call that another library makes.

        The other library makes its call inside the `with` block.

        ``label`` names the call in error messages.

        Raises:
            RateLimited: the endpoint is paused for longer than a call may take.
        """
        request = Request("CALL", label)
        state = CallState(
            endpoint=endpoint, request=request, limiter=self._limiter(endpoint), body=None, since=time.perf_counter()
        )
        state.attempts = 1
        try:
            await state.limiter.enter(state)
        except PauseTooLong as signal:
            raise classify.failure_of_silence(endpoint, label, signal, repeatable=False).error from signal
        state.dispatch()
        self._in_flight[state] = None
        outcome = None
        try:
            yield
            outcome = "ok"
        except CallError as error:
            outcome = error.kind
            raise
        except CancelledError:
            _record(state, None, CANCELED, state.library_timings(), _assumed_usage(endpoint))
            raise
        finally:
            del self._in_flight[state]
            state.limiter.leave(state)
            if outcome == "ok" and state.limiter.window is not None:
                state.limiter.window.accepted(sent_at=state.sent_at)
            if outcome is not None:
                _record(state, None, outcome, state.library_timings(), None)

    async def _repeat(self, state: CallState, first: AttemptFailed) -> Response:
        from bench.http.retry import retrying  # tenacity takes its time to load, and a start should not

        known: list[AttemptFailed] = [first]

        async def once() -> Response:
            if known:
                raise known.pop()
            return await self._attempt(state)

        try:
            return await retrying(state, self._random)(once)
        except AttemptFailed as failed:
            raise failed.error from failed.__cause__

    async def _attempt(self, state: CallState) -> Response:
        state.attempts += 1
        try:
            answer = await self._send(state)
            timings = state.timings()
            response = _response(state, answer, timings)
            reported = _read(state, response)
        except AttemptFailed as failed:
            self._count_failure(state, failed)
            _record(state, failed.status, failed.error.kind, state.timings(), failed.reported)
            state.reset_times()
            raise
        except CancelledError:
            _record(state, None, CANCELED, state.timings(), _assumed_usage(state.endpoint))
            raise
        if state.limiter.window is not None:
            state.limiter.window.accepted(sent_at=state.sent_at)
        _record(state, response.status, "ok", timings, reported)
        return response

    async def _send(self, state: CallState) -> HttpResponse:
        """Wait for the limiter, send the request once, and return its response.

        Raises:
            AttemptFailed: no complete response arrived.
        """
        assert self._transport is not None, "Http is used inside `async with`"
        try:
            await state.limiter.enter(state)
            state.dispatch()
            self._in_flight[state] = None
            try:
                return await self._transport.send(
                    state.request,
                    state.body,
                    state.stamps,
                    timing=_timing(state.attempt_s(self.attempt_s), state.endpoint.timeouts.connect_s),
                    max_bytes=state.endpoint.max_response_bytes,
                )
            finally:
                del self._in_flight[state]
                state.limiter.leave(state)
        except (PauseTooLong, RequestNotSent, ResponseLost, ResponseTooLarge) as signal:
            failed = classify.failure_of_silence(
                state.endpoint, state.label, signal, repeatable=state.request.repeatable
            )
            failed.repeat = failed.repeat and (self._repeats_timeouts or failed.error.kind != "timeout")
            raise failed from signal.__cause__

    def _count_failure(self, state: CallState, failed: AttemptFailed) -> None:
        if failed.wait_s is not None:
            state.limiter.close_for(failed.wait_s)
        if not failed.refused:
            state.lost += 1
            return
        state.refused += 1
        self.refusals += 1
        if state.limiter.window is not None:
            with_wait = failed.wait_s is not None
            state.limiter.window.refused(sent_at=state.sent_at, now=time.perf_counter(), with_wait=with_wait)

    def _limiter(self, endpoint: Endpoint) -> RateLimiter:
        limiter = self._limiters.get(endpoint.name)
        if limiter is None:
            own = self._rates.get(endpoint.name) or self._rates.get(endpoint.name.rpartition(".")[0])
            limiter = RateLimiter(endpoint.limits.under(own), self._slots, adaptive=self._adaptive, share=self._share)
            self._limiters[endpoint.name] = limiter
        return limiter


def _assumed_usage(endpoint: Endpoint) -> ReportedUsage:
    """Return the price of a call whose response is lost; if the price is not fixed, the cost is unknown."""
    known = endpoint.price_usd is not None
    return ReportedUsage(cost_usd=endpoint.price_usd) if known else ReportedUsage(usage=Usage())


def _response(state: CallState, answer: HttpResponse, timings: Timings) -> Response:
    state.limiter.note_quota(answer.headers)
    state.received = len(answer.body)
    return Response(
        status=answer.status,
        headers=answer.headers,
        body=answer.body,
        timings=timings,
        attempts=state.attempts,
        request=state.label,
    )


def _read(state: CallState, response: Response) -> ReportedUsage | None:
    """Return the usage that ``request.read`` finds in a successful response.

    Raises:
        AttemptFailed: the status is not a success, or ``request.read`` found an error in the body. It has the usage
            that the response reports.
    """
    request, status = state.request, response.status
    if not (200 <= status < 300 or status in request.ok_statuses):
        text = response.headers.get("Retry-After")
        wait_s = None if text is None else parse_wait_s(text, now=server_time(response.headers))
        failed = classify.failure_of_status(state.endpoint, response, repeatable=request.repeatable, wait_s=wait_s)
        failed.reported = request.read_failed(response) if request.read_failed is not None else None
        raise failed
    try:
        reported = request.read(response) if request.read is not None else None
    except CallError as error:
        raise classify.failure_of_body(error, response, repeatable=request.repeatable) from error
    if reported is not None and reported.error is not None:
        failed = classify.failure_of_body(reported.error, response, repeatable=request.repeatable)
        failed.reported = reported
        raise failed
    return reported


def _record(
    state: CallState, status: int | None, outcome: str, timings: Timings, reported: ReportedUsage | None
) -> None:
    shown = _logger.isEnabledFor(logging.DEBUG)
    if state.started_at is not None and (shown or call_log.is_recording()):
        call = state.row(status, outcome, timings, reported)
        call_log.record(call)
        if shown:
            log().debug(
                "call",
                endpoint=call.endpoint,
                attempt=call.attempt,
                status=status,
                outcome=outcome,
                latency_us=timings.latency_us,
                waited_us=timings.queue_us + timings.limiter_us,
            )


@lru_cache(maxsize=256)
def _timing(total_s: float, connect_s: float) -> ClientTimeout:
    from aiohttp import ClientTimeout

    return ClientTimeout(total=total_s, sock_connect=min(total_s, connect_s))
