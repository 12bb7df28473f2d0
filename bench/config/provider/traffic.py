"""What a service bears, what its errors mean and what a call costs: the blocks that the HTTP door reads."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from bench.config.provider.terms import InFlight, Pause, Retries
from bench.config.source import ConfigModel


class ErrorRule(ConfigModel):
    """A 2xx body that is an error all the same."""

    path: str
    """path of the value that is tested; a missing one fails no test but exists"""
    equals: object = None
    """an error when the value is this"""
    not_equals: object = None
    """an error when the value is anything else"""
    in_: list[object] | None = Field(default=None, alias="in")
    """an error when the value is one of these"""
    not_in: list[object] | None = None
    """an error when the value is none of these"""
    exists: bool | None = None
    """true: an error when the path is there; false: when it is not"""
    non_empty: bool | None = None
    """true: an error when the value is more than null, "", [], {}, 0 or false"""
    kind: Literal["auth", "quota", "rate_limited", "unavailable", "rejected", "ingest_failed"] = "rejected"
    """what it means: auth, quota end the job; rate_limited, unavailable may be tried again; the rest fail"""
    message: str | None = None
    """path of the service's own words, or a text; shown with the error"""

    @property
    def tests(self) -> frozenset[str]:
        """Names of the tests this rule was written with."""
        return frozenset(self.model_fields_set & {"equals", "not_equals", "in_", "not_in", "exists", "non_empty"})

    @model_validator(mode="after")
    def _one_test(self) -> Self:
        if len(self.tests) != 1:
            raise ValueError("needs exactly one of equals, not_equals, in, not_in, exists, non_empty")
        return self


class Errors(ConfigModel):
    """Where the service's errors differ from what HTTP says."""

    error_when: tuple[ErrorRule, ...] = ()
    """rules for 2xx bodies, in order; the first that holds counts"""
    status: dict[int, Literal["retry", "fail", "stop"]] = Field(default_factory=dict)
    """status -> retry: try again; fail: refused for good; stop: end this provider's job"""


class Limit(ConfigModel):
    """One limiter of one endpoint."""

    rps: PositiveFloat | None = None
    """requests a second; not beside rpm. None = unlimited"""
    rpm: PositiveFloat | None = None
    """requests a minute"""
    burst: PositiveFloat | None = None
    """requests that may go at once; default a fortieth of rps, at least 1"""
    tpm: PositiveFloat | None = None
    """tokens a minute"""
    concurrency: InFlight | None = None
    """requests in flight"""

    @model_validator(mode="after")
    def _one_rate(self) -> Self:
        if self.rps is not None and self.rpm is not None:
            raise ValueError("rps and rpm: give one of them")
        return self

    @property
    def per_second(self) -> float | None:
        """The request rate, None = unlimited."""
        return self.rpm / 60 if self.rpm is not None else self.rps


class Feedback(ConfigModel):
    """Names of the headers in which the service says how much is left."""

    remaining: str
    """header that tells how many requests are left"""
    reset: str
    """header that tells when they are renewed; calls are spread until then"""


class Limits(ConfigModel):
    """What the service bears."""

    add: Limit = Limit()
    """adds, set-up and deletes"""
    search: Limit = Limit()
    """searches"""
    status: Limit = Limit()
    """polls of wait, count, health and version"""
    namespace_serial: bool = False
    """one add in flight a namespace"""
    feedback: Feedback | None = None
    """headers that slow us down before the service must refuse"""


class RateLimit(ConfigModel):
    """The seed's pauses: each becomes the least interval of its endpoint's limiter."""

    add_delay_ms: Pause = 0
    """least time between two adds"""
    search_delay_ms: Pause = 0
    """least time between two searches"""
    batch_delay_ms: Pause = 0
    """as add_delay_ms; the longer of the two counts"""
    max_retries: Retries = 3
    """attempts after the first"""
    retry_delay_ms: Pause = 2000
    """bound of the first pause; doubles with each retry, drawn at random below it"""
