"""What a service bears, what its errors mean and what a call costs: the blocks that the HTTP door reads."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from bench.config.source import ConfigModel


class ErrorRule(ConfigModel):
    """A 2xx body that is an error all the same."""

    path: str
    equals: object = None
    not_equals: object = None
    in_: list[object] | None = Field(default=None, alias="in")
    not_in: list[object] | None = None
    exists: bool | None = None
    non_empty: bool | None = None
    kind: Literal["auth", "quota", "rate_limited", "unavailable", "rejected", "ingest_failed"] = "rejected"
    message: str | None = None

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
    status: dict[int, Literal["retry", "fail", "stop"]] = Field(default_factory=dict)


class Limit(ConfigModel):
    """One limiter of one endpoint."""

    rps: PositiveFloat | None = None
    rpm: PositiveFloat | None = None
    burst: PositiveFloat | None = None
    tpm: PositiveFloat | None = None
    concurrency: PositiveInt | None = None

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
    reset: str


class Limits(ConfigModel):
    """What the service bears."""

    add: Limit = Limit()
    search: Limit = Limit()
    status: Limit = Limit()
    namespace_serial: bool = False
    feedback: Feedback | None = None


class RateLimit(ConfigModel):
    """The seed's pauses: each becomes the least interval of its endpoint's limiter."""

    add_delay_ms: NonNegativeInt = 0
    search_delay_ms: NonNegativeInt = 0
    batch_delay_ms: NonNegativeInt = 0
    max_retries: NonNegativeInt = 3
    retry_delay_ms: NonNegativeInt = 2000


class CallPrices(ConfigModel):
    """What one call costs, USD."""

    add: float | None = Field(default=None, ge=0)
    search: float | None = Field(default=None, ge=0)
