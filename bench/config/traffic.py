"""Rate limits, error rules and prices of a service: the config blocks that ``bench.http`` reads.

Here too:

* What calls cost: the entries of ``prices:`` in a run file, and the block of that name in a provider's config.

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
from bench.config.provider_sections import InFlight, Pause, Retries


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
    """Where the service's errors differ from what HTTP states."""

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


class FeedbackSection(ConfigModel):
    """Names of the headers in which the service states how much is left."""

    remaining: str
    """header that tells how many requests are left"""
    reset: str
    """header that tells when they are renewed; calls are spread until then"""


class LimitsSection(ConfigModel):
    """What the service bears."""

    add: Limit = Limit()
    """adds, set-up and deletes"""
    search: Limit = Limit()
    """searches"""
    status: Limit = Limit()
    """polls of wait, count, health and version"""
    namespace_serial: bool = False
    """one add in flight a namespace"""
    feedback: FeedbackSection | None = None
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


def _amount(value: object) -> object:
    """Refuse a truth value, which would count as 1 or 0."""
    if isinstance(value, bool):
        raise ValueError(f"must be an amount in USD such as 0.15, not {str(value).lower()}")
    return value


Usd = Annotated[Decimal, BeforeValidator(_amount), Field(ge=0, allow_inf_nan=False)]


class CallPrices(ConfigModel):
    """What one call of a provider costs, USD; one number is the price of each."""

    add: Usd | None = None
    """an add call; None = not known to cost"""
    search: Usd | None = None
    """a search call"""

    @model_validator(mode="before")
    @classmethod
    def _one_number(cls, value: object) -> object:
        return {"add": value, "search": value} if isinstance(value, int | float | str | Decimal) else value


class TokenPrices(ConfigModel):
    """What the tokens of a model cost, USD per million; what is left out is unknown, never 0."""

    input: Usd | None = None
    """input tokens"""
    output: Usd | None = None
    """output tokens"""
    cache_read: Usd | None = None
    """input tokens that came from a cache; unset = as input"""
    cache_write: Usd | None = None
    """input tokens that were written to a cache; unset = as input"""
    batch: Annotated[Usd, Field(le=1)] | None = None
    """share of these prices that a call in a batch costs, such as 0.5; unset = 1"""

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
            raise ValueError("holds no price: give input and output, USD per million tokens")
        return self

    @property
    def known(self) -> dict[str, Decimal]:
        """The prices that are given."""
        return {name: price for name in type(self).model_fields if (price := getattr(self, name)) is not None}


@dataclass(frozen=True, slots=True)
class _Marked:
    """A price as it was written, and the kind that its name asks for."""

    value: object
    kind: Literal["CallPrices", "TokenPrices"]


def _by_name(value: object) -> object:
    """Mark each price with its kind: a name with a slash is a model's."""
    if not isinstance(value, Mapping):
        return value
    return {name: _Marked(price, "TokenPrices" if "/" in str(name) else "CallPrices") for name, price in value.items()}


def _kind(value: object) -> str:
    return value.kind if isinstance(value, _Marked) else type(value).__name__


def with_numbers(schema: dict[str, Any]) -> None:
    """One number instead of a map is the price of each call."""
    schema["additionalProperties"]["oneOf"].insert(0, {"type": "number", "minimum": 0})


def _some_price(prices: CallPrices) -> CallPrices:
    if prices.add is None and prices.search is None:
        raise ValueError("holds no price: give add and search, USD per call")
    return prices


_written = BeforeValidator(lambda marked: marked.value if isinstance(marked, _Marked) else marked)
Price = Annotated[
    Annotated[CallPrices, AfterValidator(_some_price), _written, Tag("CallPrices")]
    | Annotated[TokenPrices, _written, Tag("TokenPrices")],
    Discriminator(_kind),
]
Prices = Annotated[Mapping[str, Price], BeforeValidator(_by_name), Field(json_schema_extra=with_numbers)]
