"""Config blocks for the rate limits, error rules and prices of a service.

Prices are the key ``prices`` of a run file or of a provider file.

Example::

    prices:
      mem0: 0.002                             # USD of each add and of each search
      zep: {add: 0.001, search: 0.0005}
      acme/m1: {input: 3, output: 15}         # USD per million tokens
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, PositiveFloat, Tag, model_validator

from bench.config.file import ConfigModel
from bench.config.provider.sections import InFlight, Pause, Retries


class ErrorRule(ConfigModel):
    """A rule that makes a 2xx response an error."""

    path: str
    """path of the value to test. A missing value matches only ``exists: false``"""
    equals: object = None
    """error when the value equals this"""
    not_equals: object = None
    """error when the value differs from this"""
    in_: list[object] | None = Field(default=None, alias="in")
    """error when the value is one of these"""
    not_in: list[object] | None = None
    """error when the value is none of these"""
    exists: bool | None = None
    """true: error when the value is present; false: error when the value is absent"""
    non_empty: bool | None = None
    """true: error if the value is not empty; false: error if the value is empty. Empty values are null, "", [], {}, 0
    and false"""
    kind: Literal["auth", "quota", "rate_limited", "unavailable", "rejected", "ingest_failed"] = "rejected"
    """kind of the error. auth and quota end the job; rate_limited and unavailable are retried; other kinds are not
    retried"""
    message: str | None = None
    """message of the error: a text, or the path of a text in the response"""

    @property
    def tests(self) -> frozenset[str]:
        """Return the names of the test fields that this rule sets, such as ``equals``."""
        return frozenset(self.model_fields_set & {"equals", "not_equals", "in_", "not_in", "exists", "non_empty"})

    @model_validator(mode="after")
    def _one_test(self) -> Self:
        if len(self.tests) != 1:
            raise ValueError('needs exactly one of "equals", "not_equals", "in", "not_in", "exists", "non_empty"')
        return self


class Errors(ConfigModel):
    """Rules for statuses and 2xx responses that have an unusual meaning in this service."""

    error_when: tuple[ErrorRule, ...] = ()
    """rules for 2xx responses, tried in order; the first rule that matches is used"""
    status: dict[int, Literal["retry", "fail", "stop"]] = Field(default_factory=dict)
    """status -> what to do. retry: try again; fail: do not retry; stop: end this provider's job"""


class Limit(ConfigModel):
    """The limits of one group of calls."""

    rps: PositiveFloat | None = None
    """maximum requests per second; set either rps or rpm; if both are unset, the rate is unlimited"""
    rpm: PositiveFloat | None = None
    """maximum requests per minute"""
    burst: PositiveFloat | None = None
    """maximum requests that can start at the same moment; by default rps / 40, at least 1"""
    tpm: PositiveFloat | None = None
    """maximum tokens per minute"""
    concurrency: InFlight | None = None
    """maximum concurrent requests"""

    @model_validator(mode="after")
    def _one_rate(self) -> Self:
        if self.rps is not None and self.rpm is not None:
            raise ValueError('"rps" and "rpm" exclude each other: give one')
        return self


class FeedbackSection(ConfigModel):
    """The names of the response headers with the service's remaining quota."""

    remaining: str
    """header with the number of remaining requests"""
    reset: str
    """header with the time when the quota is renewed; the remaining requests are spread over the time until then"""


class LimitsSection(ConfigModel):
    """The limits of calls to the service, for each group of calls."""

    add: Limit = Limit()
    """limits of add and update calls. The calls setup, delete, clear and teardown have the same limits, but are counted
    separately"""
    search: Limit = Limit()
    """limits of search and list calls"""
    status: Limit = Limit()
    """limits of status calls: wait, verify_clear, count, health, version and existing"""
    namespace_serial: bool = False
    """true: at most one add call at a time per namespace"""
    feedback: FeedbackSection | None = None
    """response headers with the remaining quota. bench uses them to send calls more slowly, before the service rejects
    calls"""


class RateLimit(ConfigModel):
    """The retries and the pauses between calls, written with the keys of an older file format."""

    add_delay_ms: Pause = 0
    """minimum milliseconds between two add calls"""
    search_delay_ms: Pause = 0
    """minimum milliseconds between two search calls"""
    batch_delay_ms: Pause = 0
    """minimum milliseconds between two add calls; the larger of `batch_delay_ms` and `add_delay_ms` is used"""
    max_retries: Retries = 3
    """maximum number of attempts after the first attempt"""
    retry_delay_ms: Pause = 2000
    """maximum milliseconds before the first retry. The maximum doubles with each retry, and the actual pause is random
    up to the maximum"""


def _amount(value: object) -> object:
    """Return the value unchanged; raise ValueError for a boolean, which Python would count as 1 or 0."""
    if isinstance(value, bool):
        raise ValueError(f"must be an amount in USD such as 0.15, not {str(value).lower()}")
    return value


Usd = Annotated[Decimal, BeforeValidator(_amount), Field(ge=0, allow_inf_nan=False)]


class CallPrices(ConfigModel):
    """The prices of one add call and one search call in USD. A single number is the price of each call."""

    add: Usd | None = None
    """USD per add call; unset: unknown"""
    search: Usd | None = None
    """USD per search call; unset: unknown"""

    @model_validator(mode="before")
    @classmethod
    def _one_number(cls, value: object) -> object:
        return {"add": value, "search": value} if isinstance(value, int | float | str | Decimal) else value


class TokenPrices(ConfigModel):
    """The token prices of a model in USD per million tokens. A price that is not set is unknown, not 0."""

    input: Usd | None = None
    """price of input tokens"""
    output: Usd | None = None
    """price of output tokens"""
    cache_read: Usd | None = None
    """price of input tokens that are read from a cache; unset: the price ``input``"""
    cache_write: Usd | None = None
    """price of input tokens that are written to a cache; unset: the price ``input``"""
    batch: Annotated[Usd, Field(le=1)] | None = None
    """factor for the prices of calls of a batch endpoint: 0.5 means half of these prices; unset: 1"""

    @model_validator(mode="before")
    @classmethod
    def _no_number(cls, value: object) -> object:
        if isinstance(value, int | float | str | Decimal):
            raise ValueError(
                "the price of a model must be a map, such as {input: 3, output: 15}, in USD per million tokens"
            )
        return value

    @model_validator(mode="after")
    def _some_price(self) -> Self:
        if not self.known:
            raise ValueError('does not contain a price: set "input" and "output", in USD per million tokens')
        return self

    @property
    def known(self) -> dict[str, Decimal]:
        """Return field name -> price, for the prices that are set."""
        return {name: price for name in type(self).model_fields if (price := getattr(self, name)) is not None}


@dataclass(frozen=True, slots=True)
class _TypedPrice:
    """A price as the file writes it, and the name of the class that must validate it."""

    value: object
    kind: Literal["CallPrices", "TokenPrices"]


def _typed_by_name(value: object) -> object:
    """Mark each price as a call price or as a token price.

    A name with a slash is a language model, which has token prices. Any other name is a provider, which has call
    prices.
    """
    if not isinstance(value, Mapping):
        return value
    return {
        name: _TypedPrice(price, "TokenPrices" if "/" in str(name) else "CallPrices") for name, price in value.items()
    }


def _kind(value: object) -> str:
    return value.kind if isinstance(value, _TypedPrice) else type(value).__name__


def allow_number(schema: dict[str, Any]) -> None:
    """Change the JSON Schema of prices so that a single number is allowed as the price of calls."""
    schema["additionalProperties"]["oneOf"].insert(0, {"type": "number", "minimum": 0})


def _some_price(prices: CallPrices) -> CallPrices:
    if prices.add is None and prices.search is None:
        raise ValueError('does not contain a price: set "add" and "search", in USD per call')
    return prices


_written = BeforeValidator(lambda marked: marked.value if isinstance(marked, _TypedPrice) else marked)
Price = Annotated[
    Annotated[CallPrices, AfterValidator(_some_price), _written, Tag("CallPrices")]
    | Annotated[TokenPrices, _written, Tag("TokenPrices")],
    Discriminator(_kind),
]
Prices = Annotated[Mapping[str, Price], BeforeValidator(_typed_by_name), Field(json_schema_extra=allow_number)]
