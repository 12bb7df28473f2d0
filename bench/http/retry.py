"""Retry failed attempts after random pauses, until a maximum number of failures or a deadline.

Example::

    response = await retrying(state, random)(attempt)      # raises the last AttemptFailed

Refusals (429) and lost responses are counted separately. Each number may reach ``max_retries``. No attempt starts after
the deadline of the call.
"""

from __future__ import annotations

import logging
import random
import time

import anyio
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

from bench.events import log
from bench.http.call_log import CallState
from bench.http.errors import AttemptFailed

JITTER_AFTER_WAIT_S = 1.0
"""longest random delay in seconds after the server's Retry-After, so that calls do not all retry at the same moment"""
_logger = logging.getLogger("bench")


def retrying(state: CallState, random: random.Random) -> AsyncRetrying:
    """Return the tenacity retry loop for one call."""
    return AsyncRetrying(
        retry=retry_if_exception(lambda error: isinstance(error, AttemptFailed) and error.repeat),
        wait=lambda attempt: wait_s(state, _failure(attempt), random),
        stop=lambda attempt: _is_exhausted(state, _failure(attempt), attempt.upcoming_sleep),
        before_sleep=lambda attempt: _log_retry(state, _failure(attempt), attempt.upcoming_sleep),
        sleep=lambda seconds: _sleep(state, seconds),
        reraise=True,
    )


def wait_s(state: CallState, failed: AttemptFailed, random: random.Random) -> float:
    """Return the pause before the next attempt, in seconds.

    If the server said how long to wait, a small random delay is added to this time. Otherwise the pause is random, and
    its maximum doubles with each failure.
    """
    retry = state.endpoint.retry
    span = min(retry.max_delay_s, retry.delay_s * 2.0 ** (_failures_so_far(state, failed) - 1))
    if failed.wait_s is not None:
        return failed.wait_s + random.uniform(0, min(span, JITTER_AFTER_WAIT_S))
    return random.uniform(0, span)


def _failures_so_far(state: CallState, failed: AttemptFailed) -> int:
    return state.refused if failed.refused else state.lost


def _is_exhausted(state: CallState, failed: AttemptFailed, sleep_s: float) -> bool:
    """Return True if all retries are used up, or if the next attempt would start after the call's deadline."""
    late = state.deadline is not None and time.perf_counter() + sleep_s >= state.deadline
    return late or _failures_so_far(state, failed) > state.endpoint.retry.max_retries


async def _sleep(state: CallState, seconds: float) -> None:
    started = time.perf_counter()
    await anyio.sleep(seconds)
    state.limiter_s += time.perf_counter() - started


def _failure(attempt: RetryCallState) -> AttemptFailed:
    assert attempt.outcome is not None
    failed = attempt.outcome.exception()
    assert isinstance(failed, AttemptFailed)
    return failed


def _log_retry(state: CallState, failed: AttemptFailed, sleep_s: float) -> None:
    if _logger.isEnabledFor(logging.INFO):
        log().info(
            "retry",
            endpoint=state.endpoint.name,
            attempt=state.attempts,
            status=failed.status,
            wait_s=round(sleep_s, 3),
        )
