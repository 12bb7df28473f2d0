"""Settings of one endpoint: its name, limits, retry rules and deadlines.

An endpoint is a *kind of traffic*, not a URL: ``chroma.add``, ``chroma.search``, ``openai/gpt-4o.judge``.
Two endpoints with the same name share one limiter::

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
    """Names of the headers with the remaining quota, so that calls slow down before a 429."""

    remaining: str
    reset: str | None = None
    """header with seconds, a span such as ``1m30s``, a Unix time or a date"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one endpoint; None = unlimited."""

    rps: float | None = None
    rpm: float | None = None
    """requests per minute; give rps or rpm"""
    burst: float | None = None
    """maximum calls that start at the same moment; default max(1, rate per second / 40)"""
    tpm: float | None = None
    """tokens per minute, by :attr:`Request.tokens`"""
    concurrency: int | None = None
    """requests in flight at this endpoint"""
    min_interval_s: float = 0.0
    """minimum seconds between the starts of two requests"""
    feedback: Feedback | None = None

    def __post_init__(self) -> None:
        if self.rps is not None and self.rpm is not None:
            raise ValueError("rps and rpm exclude each other: give one of them")

    @property
    def rate(self) -> float | None:
        """Return the requests per second; None = unlimited."""
        return self.rpm / 60 if self.rpm is not None else self.rps

    def under(self, run: Limits | None) -> Limits:
        """Return the limits of a run; each limit that ``run`` sets replaces the limit of this endpoint.

        A rate in ``run`` also replaces burst and interval.
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
        """Return the burst: the configured one or the default."""
        return self.burst or max(1.0, (self.rate or 0.0) / 40)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Number and delay of retries; 429 and lost responses are counted separately."""

    max_retries: int = 3
    delay_s: float = 2.0
    """base of the full jitter: uniform(0, delay_s x 2^n)"""
    max_delay_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Deadlines in seconds."""

    attempt_s: float = 30.0
    connect_s: float = 10.0
    call_s: float | None = None
    """limit for all attempts and pauses together, from the first dispatch; default max(180, (retries + 1) x attempt)"""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One kind of traffic; endpoints with the same name share one limiter."""

    name: str
    role: Role
    limits: Limits = Limits()
    retry: Retry = Retry()
    timeouts: Timeouts = Timeouts()
    key_variable: str | None = None
    """environment variable with the key; errors 401 and 403 name it"""
    statuses: Mapping[int, Action] = field(default_factory=dict)
    """status -> action that replaces the default one"""
    price_usd: str | None = None
    """price of a successful call that reports none; None = unknown"""
    max_response_bytes: int = 8 * 2**20

    @cached_property
    def call_s(self) -> float:
        """Return the timeout of the whole call in seconds."""
        return self.timeouts.call_s or max(180.0, (self.retry.max_retries + 1) * self.timeouts.attempt_s)
