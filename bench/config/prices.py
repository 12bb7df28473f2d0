"""What calls cost: the entries of ``prices:`` in a run file, and the block of that name in a provider's config.

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

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from bench.config.source import ConfigModel


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

    @model_validator(mode="before")
    @classmethod
    def _no_number(cls, value: object) -> object:
        if isinstance(value, int | float | str | Decimal):
            raise ValueError("the price of a model is a map: {input: 3, output: 15}, USD per million tokens")
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
