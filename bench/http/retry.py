"""The retry rules of failed attempts: full jitter, two counts and a deadline; tenacity runs the loop.

Example::

    response = await retrying(trip, random)(attempt)      # raises the last AttemptFailed

429 and lost responses are counted separately, each up to ``max_retries``. No attempt starts after the call's deadline.
"""

from __future__ import annotations

import logging
import random
import time

import anyio
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

from bench.events import log
from bench.http.call_log import Trip
from bench.http.errors import AttemptFailed

JITTER_AFTER_WAIT_S = 1.0
"""longest random delay in seconds after a Retry-After, so that calls do not all return at once"""
_logger = logging.getLogger("bench")


def retrying(trip: Trip, random: random.Random) -> AsyncRetrying:
    """Return the retry loop of one call."""
    return AsyncRetrying(
        retry=retry_if_exception(lambda error: isinstance(error, AttemptFailed) and error.repeat),
        wait=lambda state: wait_s(trip, _failure(state), random),
        stop=lambda state: _spent(trip, _failure(state), state.upcoming_sleep),
        before_sleep=lambda state: _tell(trip, _failure(state), state.upcoming_sleep),
        sleep=lambda seconds: _sleep(trip, seconds),
        reraise=True,
    )


def wait_s(trip: Trip, failed: AttemptFailed, random: random.Random) -> float:
    """Return the pause in seconds: full jitter over a doubling span, or the server's wait plus a small jitter."""
    retry = trip.endpoint.retry
    span = min(retry.max_delay_s, retry.delay_s * 2.0 ** (_count(trip, failed) - 1))
    if failed.wait_s is not None:
        return failed.wait_s + random.uniform(0, min(span, JITTER_AFTER_WAIT_S))
    return random.uniform(0, span)


def _count(trip: Trip, failed: AttemptFailed) -> int:
    return trip.refused if failed.refused else trip.lost


def _spent(trip: Trip, failed: AttemptFailed, sleep_s: float) -> bool:
    """Return True when no attempt is left, or the next one would start after the call's deadline."""
    late = trip.deadline is not None and time.perf_counter() + sleep_s >= trip.deadline
    return late or _count(trip, failed) > trip.endpoint.retry.max_retries


async def _sleep(trip: Trip, seconds: float) -> None:
    started = time.perf_counter()
    await anyio.sleep(seconds)
    trip.limiter_s += time.perf_counter() - started


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
