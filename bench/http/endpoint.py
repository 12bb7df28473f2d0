"""Define the settings of an endpoint: its name, limits, retry rules and timeouts.

An endpoint is a *kind of traffic*, not a URL: ``chroma.add``, ``chroma.search``, ``openai/gpt-4o.judge``. Two endpoints
with the same name share one rate limiter::

    Endpoint(name="mem0.add", role="provider", limits=Limits(rpm=600, concurrency=4), key_variable="MEM0_API_KEY")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

Role = Literal["provider", "answering", "judge", "embedding"]
Action = Literal["retry", "fail", "stop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """The names of the response headers that report the remaining quota. Calls slow down before the quota is
    used up.
    """

    remaining: str
    reset: str | None = None
    """name of the header with the time of the reset: seconds, a span such as ``1m30s``, a Unix time or a date"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one endpoint. None means unlimited."""

    rps: float | None = None
    rpm: float | None = None
    """requests per minute; set either ``rps`` or ``rpm``"""
    burst: float | None = None
    """maximum number of calls that may start at the same moment; None = max(1, rate per second / 40)"""
    tpm: float | None = None
    """language model tokens per minute, counted by :attr:`Request.tokens`"""
    concurrency: int | None = None
    """maximum number of requests in flight at this endpoint"""
    min_interval_s: float = 0.0
    """minimum time between the starts of two requests, in seconds"""
    feedback: Feedback | None = None

    def __post_init__(self) -> None:
        if self.rps is not None and self.rpm is not None:
            raise ValueError('"rps" and "rpm" exclude each other: give one')

    @property
    def rate(self) -> float | None:
        """Return the maximum number of requests per second; None = unlimited."""
        return self.rpm / 60 if self.rpm is not None else self.rps

    def under(self, run: Limits | None) -> Limits:
        """Return these limits, with the values of ``run`` where ``run`` sets a value.

        A rate in ``run`` also replaces the burst and the minimum interval.
        """
        if run is None:
            return self
        paced = (
            self if run.rate is None else replace(self, rps=run.rps, rpm=run.rpm, burst=run.burst, min_interval_s=0.0)
        )
        return replace(
            paced,
            tpm=run.tpm or paced.tpm,
            concurrency=run.concurrency or paced.concurrency,
            min_interval_s=run.min_interval_s or paced.min_interval_s,
        )

    @property
    def burst_size(self) -> float:
        """Return ``burst``, or its default if ``burst`` is None."""
        return self.burst or max(1.0, (self.rate or 0.0) / 40)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The rules for retrying a call. Refusals (429) and lost responses are counted separately."""

    max_retries: int = 3
    delay_s: float = 2.0
    """base of the random pause before retry n + 1, in seconds: uniform(0, delay_s x 2^n)"""
    max_delay_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Time limits of a call, in seconds."""

    attempt_s: float = 30.0
    connect_s: float = 10.0
    call_s: float | None = None
    """limit for all attempts and pauses of a call, from its first dispatch; None = max(180, (retries + 1) x attempt)"""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """The settings for one kind of request, such as ``chroma.search``.

    Endpoints with the same name share one rate limiter.
    """

    name: str
    role: Role
    limits: Limits = Limits()
    retry: Retry = Retry()
    timeouts: Timeouts = Timeouts()
    key_variable: str | None = None
    """name of the environment variable with the API key, which messages of errors with status 401 and 403 contain"""
    statuses: Mapping[int, Action] = field(default_factory=dict)
    """HTTP status -> action after a response with this status, in place of the default action"""
    price_usd: str | None = None
    """price in USD of a successful call whose response reports no price; None = unknown"""
    max_response_bytes: int = 8 * 2**20

    @cached_property
    def call_s(self) -> float:
        """Return the time limit of a whole call with all its attempts, in seconds."""
        return self.timeouts.call_s or max(180.0, (self.retry.max_retries + 1) * self.timeouts.attempt_s)
