"""`Http`: the one way out. Slot, limiter, send, classify, then retry or raise.

Example::

    async with Http(concurrency="auto", rates={"chroma.search": Limits(rps=50)}) as http:
        response = await http.call(endpoint, request)
        http.in_flight, http.oldest_s(), http.refusals

A first attempt that succeeds never touches the retry machinery; what may be repeated goes on under tenacity.
A cancelled call leaves no error and no row.
"""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import anyio
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

from bench.errors import CallError, MappingError, RateLimited, Rejected
from bench.events import log, redact
from bench.http import classify, ledger
from bench.http.classify import AttemptFailed
from bench.http.endpoint import Endpoint, Limits
from bench.http.gate import ClosedTooLong, Gate
from bench.http.message import Metered, Request, Response, Timings
from bench.http.retry_after import wait_of
from bench.http.window import CEILING, Slots
from bench.model import Call

if TYPE_CHECKING:
    from aiohttp import ClientTimeout

    from bench.http.transport import Answer, Stamps, Transport

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_encode_ascii = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
_logger = logging.getLogger("bench")
JITTER_AFTER_WAIT_S = 1.0
"""after a Retry-After the calls come back spread over at most this long, so that the herd does not return at once"""


@dataclass(slots=True, eq=False)
class Trip:
    """One call on its way: what its attempts share."""

    endpoint: Endpoint
    request: Request
    gate: Gate
    body: bytes | None
    tokens: int
    since: float
    """monotonic instant from which the current attempt's time is counted"""
    limiter_s: float = 0.0
    attempts: int = 0
    lost: int = 0
    refused: int = 0
    deadline: float | None = None
    """set at the first dispatch: waiting for our own limiter is no fault of the call"""
    sent_at: float = 0.0
    started_at: datetime | None = None
    received: int = 0
    """bytes of the last answer"""

    @property
    def patience_s(self) -> float:
        """A pause that is longer fails the call at once."""
        return self.endpoint.call_s

    @property
    def label(self) -> str:
        """Method and path, never the query: it may hold a key."""
        return f"{self.request.method} {_path(self.request.url)}"


class Http:
    """All traffic of a run; ``async with`` it.

    ``concurrency``: requests in flight over all endpoints, or ``auto``. ``rates``: limits that win over an endpoint's
    own, by endpoint name or by its part before the last dot. ``share``: this machine's part of every rate.
    ``attempt_s``: a deadline of one attempt that wins over every other.
    """

    def __init__(
        self,
        *,
        concurrency: int | Literal["auto"] = 10,
        rates: Mapping[str, Limits] | None = None,
        share: float = 1.0,
        attempt_s: float | None = None,
        random: random.Random | None = None,
    ) -> None:
        self._adaptive = concurrency == "auto"
        self._slots = Slots(CEILING if concurrency == "auto" else concurrency)
        self._rates = dict(rates or {})
        self._share = share
        self._attempt_s = attempt_s
        self._random = random or _unseeded()
        self._gates: dict[str, Gate] = {}
        self._flying: dict[Trip, None] = {}
        self._transport: Transport | None = None
        self.refusals = 0
        """429s and other push-back so far"""

    async def __aenter__(self) -> Http:
        from bench.http.transport import Transport

        self._transport = await Transport().__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._transport is not None:
            await self._transport.__aexit__(*exc)

    @property
    def ceiling(self) -> int:
        """The most requests that can ever be in flight."""
        return self._slots.size

    @property
    def in_flight(self) -> int:
        """Requests that were sent and not answered yet."""
        return len(self._flying)

    def oldest_s(self) -> float | None:
        """Age of the oldest request in flight."""
        oldest = next(iter(self._flying), None)
        return None if oldest is None else time.perf_counter() - oldest.sent_at

    def oldest(self) -> str | None:
        """Endpoint name of the oldest request in flight."""
        oldest = next(iter(self._flying), None)
        return None if oldest is None else oldest.endpoint.name

    def window(self, endpoint: str) -> int | None:
        """What ``auto`` allows an endpoint at this instant; None without auto or before its first call."""
        gate = self._gates.get(endpoint)
        return gate.window.size if gate is not None and gate.window is not None else None

    async def call(self, endpoint: Endpoint, request: Request) -> Response:
        """Send until there is an answer that counts.

        Raises:
            AuthError, QuotaError, RateLimited, Unavailable, Rejected, MappingError: as the table in
                :mod:`bench.http.classify` says; whatever ``request.read`` raises about a body.
        """
        trip = Trip(
            endpoint=endpoint,
            request=request,
            gate=self._gate(endpoint),
            body=_body(endpoint, request),
            tokens=request.tokens,
            since=time.perf_counter(),
        )
        try:
            return await self._attempt(trip)
        except AttemptFailed as failed:
            if not failed.repeat:
                raise failed.error from failed.__cause__
            first = failed
        return await self._repeat(trip, first)

    async def _repeat(self, trip: Trip, first: AttemptFailed) -> Response:
        known: list[AttemptFailed] = [first]

        async def once() -> Response:
            if known:
                raise known.pop()
            return await self._attempt(trip)

        retrying = AsyncRetrying(
            retry=retry_if_exception(lambda error: isinstance(error, AttemptFailed) and error.repeat),
            wait=lambda state: self._wait_s(trip, _failure(state)),
            stop=lambda state: _spent(trip, _failure(state), state.upcoming_sleep),
            before_sleep=lambda state: _tell(trip, _failure(state), state.upcoming_sleep),
            sleep=lambda seconds: _back_off(trip, seconds),
            reraise=True,
        )
        try:
            return await retrying(once)
        except AttemptFailed as failed:
            raise failed.error from failed.__cause__

    async def _attempt(self, trip: Trip) -> Response:
        from bench.http.transport import Stamps

        trip.attempts += 1
        try:
            await trip.gate.enter(trip)
        except ClosedTooLong as closed:
            raise _closed(trip, closed.wait_s) from None
        stamps = Stamps()
        try:
            answer = await self._send(trip, stamps)
            metered, response = self._judge(trip, answer, stamps)
        except AttemptFailed as failed:
            self._note_push_back(trip, failed)
            self._record(trip, stamps, failed.status, failed.error.kind)
            raise
        if trip.gate.window is not None:
            trip.gate.window.accepted(sent_at=trip.sent_at)
        self._record(trip, stamps, answer.status, "ok", response=response, metered=metered)
        return response

    async def _send(self, trip: Trip, stamps: Stamps) -> Answer:
        from bench.http.transport import Lost, NotSent, Parcel, TooLarge

        assert self._transport is not None, "Http is used inside `async with`"
        endpoint = trip.endpoint
        now = trip.sent_at = time.perf_counter()
        trip.started_at = datetime.now(UTC)
        if trip.deadline is None:
            trip.deadline = now + endpoint.call_s
        self._flying[trip] = None
        try:
            return await self._transport.send(
                Parcel(
                    request=trip.request,
                    body=trip.body,
                    stamps=stamps,
                    timing=_timing(trip, now, self._attempt_s),
                    max_bytes=endpoint.max_response_bytes,
                )
            )
        except NotSent as lost:
            if lost.hopeless:
                text = f"{endpoint.name}: {trip.label}: {lost}"
                raise AttemptFailed(Rejected(redact(text)), repeat=False) from lost.__cause__
            raise classify.of_loss(
                endpoint, trip.label, str(lost), timed_out=lost.timed_out, repeat=True
            ) from lost.__cause__
        except Lost as lost:
            raise classify.of_loss(
                endpoint, trip.label, str(lost), timed_out=lost.timed_out, repeat=trip.request.repeatable
            ) from lost.__cause__
        except TooLarge:
            limit = endpoint.max_response_bytes
            error = MappingError(
                f"{endpoint.name}: {trip.label}: the answer is larger than {limit} bytes",
                hint="ask for less, or raise max_response_bytes",
            )
            raise AttemptFailed(error, repeat=False) from None
        finally:
            del self._flying[trip]
            trip.gate.leave(trip)

    def _judge(self, trip: Trip, answer: Answer, stamps: Stamps) -> tuple[Metered | None, Response]:
        request = trip.request
        trip.gate.learn(answer.headers)
        trip.received = len(answer.body)
        response = Response(
            status=answer.status,
            headers=answer.headers,
            body=answer.body,
            timings=_timings(trip, stamps),
            attempts=trip.attempts,
            request=trip.label,
        )
        if not (200 <= answer.status < 300 or answer.status in request.ok_statuses):
            text = answer.headers.get("Retry-After")
            wait_s = None if text is None else wait_of(text, now=time.time())
            raise classify.of_status(trip.endpoint, response, repeatable=request.repeatable, wait_s=wait_s)
        if request.read is None:
            return None, response
        try:
            return request.read(response), response
        except CallError as error:
            raise classify.of_body(error, response, repeatable=request.repeatable) from error

    def _note_push_back(self, trip: Trip, failed: AttemptFailed) -> None:
        if failed.wait_s is not None:
            trip.gate.close_for(failed.wait_s)
        if not failed.refused:
            trip.lost += 1
            return
        trip.refused += 1
        self.refusals += 1
        if trip.gate.window is not None:
            trip.gate.window.refused(
                sent_at=trip.sent_at, now=time.perf_counter(), told_to_wait=failed.wait_s is not None
            )

    def _record(
        self,
        trip: Trip,
        stamps: Stamps,
        status: int | None,
        outcome: str,
        *,
        response: Response | None = None,
        metered: Metered | None = None,
    ) -> None:
        if ledger.wanted() or _logger.isEnabledFor(logging.DEBUG):
            timings = response.timings if response is not None else _timings(trip, stamps)
            _write(
                Call(
                    endpoint=trip.endpoint.name,
                    role=trip.endpoint.role,
                    attempt=trip.attempts,
                    status=status,
                    outcome=outcome,
                    started_at=trip.started_at or datetime.now(UTC),
                    queue_us=timings.queue_us,
                    limiter_us=timings.limiter_us,
                    network_us=timings.network_us,
                    provider_us=timings.provider_us,
                    request_bytes=len(trip.body or b""),
                    response_bytes=trip.received,
                    model=metered.model if metered is not None else None,
                    usage=metered.usage if metered is not None else None,
                    cost_usd=metered.cost_usd if metered is not None else None,
                )
            )
        trip.since = time.perf_counter()
        trip.limiter_s = 0.0
        trip.received = 0

    def _wait_s(self, trip: Trip, failed: AttemptFailed) -> float:
        """Full jitter over a doubling span; after a Retry-After only a little, since the gate keeps the rest."""
        retry = trip.endpoint.retry
        count = trip.refused if failed.refused else trip.lost
        span = min(retry.max_delay_s, retry.delay_s * 2.0 ** (count - 1))
        if failed.wait_s is not None:
            return failed.wait_s + self._random.uniform(0, min(span, JITTER_AFTER_WAIT_S))
        return self._random.uniform(0, span)

    def _gate(self, endpoint: Endpoint) -> Gate:
        gate = self._gates.get(endpoint.name)
        if gate is None:
            limits = self._rates.get(endpoint.name) or self._rates.get(endpoint.name.rpartition(".")[0])
            gate = Gate(limits or endpoint.limits, self._slots, adaptive=self._adaptive, share=self._share)
            self._gates[endpoint.name] = gate
        return gate


def _write(call: Call) -> None:
    ledger.record(call)
    if _logger.isEnabledFor(logging.DEBUG):
        log().debug(
            "call",
            endpoint=call.endpoint,
            attempt=call.attempt,
            status=call.status,
            outcome=call.outcome,
            latency_us=call.network_us + call.provider_us,
            waited_us=call.queue_us + call.limiter_us,
        )


async def _back_off(trip: Trip, seconds: float) -> None:
    started = time.perf_counter()
    await anyio.sleep(seconds)
    trip.limiter_s += time.perf_counter() - started


def _spent(trip: Trip, failed: AttemptFailed, sleep_s: float) -> bool:
    """No attempt is left, or the next one would start after the call's deadline."""
    count = trip.refused if failed.refused else trip.lost
    late = trip.deadline is not None and time.perf_counter() + sleep_s >= trip.deadline
    return late or count > trip.endpoint.retry.max_retries


def _failure(state: RetryCallState) -> AttemptFailed:
    assert state.outcome is not None
    failed = state.outcome.exception()
    assert isinstance(failed, AttemptFailed)
    return failed


def _tell(trip: Trip, failed: AttemptFailed, sleep_s: float) -> None:
    if _logger.isEnabledFor(logging.INFO):
        log().info(
            "retry", endpoint=trip.endpoint.name, attempt=trip.attempts, status=failed.status, wait_s=round(sleep_s, 3)
        )


def _closed(trip: Trip, wait_s: float) -> AttemptFailed:
    text = f"{trip.endpoint.name}: closed for another {wait_s:.0f} s by Retry-After, longer than a call may take"
    return AttemptFailed(RateLimited(text, retry_after_s=wait_s), repeat=False)


def _timings(trip: Trip, stamps: Stamps) -> Timings:
    """Split the attempt's time; what is neither limiter, network nor provider was spent in our own queue."""
    ended = stamps.ended or time.perf_counter()
    whole_us = round((ended - trip.since) * 1e6)
    limiter_us = round(trip.limiter_s * 1e6)
    provider_us = round(stamps.provider_s() * 1e6)
    wire_us = round((ended - stamps.begun) * 1e6) if stamps.begun else 0
    return Timings(
        queue_us=max(0, whole_us - limiter_us - wire_us),
        limiter_us=limiter_us,
        network_us=max(0, wire_us - provider_us),
        provider_us=provider_us,
    )


def _timing(trip: Trip, now: float, override_s: float | None) -> ClientTimeout:
    attempt_s = override_s or trip.request.timeout_s or trip.endpoint.timeouts.attempt_s
    left_s = (trip.deadline or now) - now
    return _client_timeout(attempt_s if attempt_s <= left_s else max(0.001, left_s), trip.endpoint.timeouts.connect_s)


@lru_cache(maxsize=256)
def _client_timeout(total_s: float, connect_s: float) -> ClientTimeout:
    from aiohttp import ClientTimeout

    return ClientTimeout(total=total_s, sock_connect=min(total_s, connect_s))


@lru_cache(maxsize=1024)
def _path(url: str) -> str:
    return urlsplit(url).path or "/"


def _body(endpoint: Endpoint, request: Request) -> bytes | None:
    if request.json is None:
        return request.body
    try:
        text = _encode(request.json)
    except (TypeError, ValueError) as error:
        raise MappingError(f"{endpoint.name}: the request body is no JSON: {error}") from error
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate: legal in JSON only as an escape
        return _encode_ascii(request.json).encode()


def _unseeded() -> random.Random:
    return random.Random()
