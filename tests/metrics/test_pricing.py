"""The cost of one call: configured prices, the price table, and None for anything unknown."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from importlib.metadata import version

import pytest
from genai_prices import Usage as TableUsage
from genai_prices import calc_price
from hypothesis import given
from hypothesis import strategies as st

from bench import metrics
from bench.errors import ConfigError
from bench.metrics.pricing import Prices
from bench.model import Usage
from tests.rows import each_row

AT = "2026-01-01T00:00:00Z"
PRICES: Prices = {
    "acme/m1": {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75},
    "acme/plain": {"input": 2, "output": 4},
    "acme/text": {"input": "0.15", "output": "0.6"},
    "acme/free": {"input": 0, "output": 0},
    "acme/out": {"output": 4},
    "builtin/x": {"input": 1, "output": 1},
}


def cost(usage: dict[str, object] | Usage | None, model: str = "acme/m1", prices: Prices = PRICES) -> Decimal | None:
    provider, _, name = model.partition("/")
    return metrics.cost(usage, provider=provider, model=name, at=AT, prices=prices)


def tokens(total: object = 0, output: object = 0, read: object = None, write: object = None) -> dict[str, object]:
    return {"input_tokens": total, "output_tokens": output, "cache_read_tokens": read, "cache_write_tokens": write}


@each_row(
    ("usage", "model", "expected"),
    [
        (tokens(1_000_000, 0), "acme/m1", "3"),
        (tokens(0, 1_000_000), "acme/m1", "15"),
        (tokens(1_000_000, 0, read=1_000_000), "acme/m1", "0.3"),
        (tokens(1_000_000, 0, write=1_000_000), "acme/m1", "3.75"),
        (tokens(1000, 10, read=400, write=100), "acme/m1", "0.002145"),
        (tokens(1000, 0, read=400), "acme/plain", "0.002"),
        (tokens(1000, 100), "acme/text", "0.00021"),
        (tokens(1000, 100), "acme/free", "0"),
        (tokens(0, 100), "acme/out", "0.0004"),
        (tokens(1, 100), "acme/out", None),
        (tokens(0, 0), "acme/m1", "0"),
        ({"input_tokens": 10}, "acme/plain", "0.00002"),
        ({"output_tokens": 10}, "acme/plain", "0.00004"),
        (tokens("12", 0), "acme/plain", "0.000024"),
        (tokens(12.0, 0), "acme/plain", "0.000024"),
        (tokens(10, 10), "builtin/x", "0.00002"),
        (tokens(10, 10), "builtin/other", "0"),
        (tokens(10, 10), "ollama/any", "0"),
    ],
)
def test_the_cost_of_a_call_is_exact(usage: dict[str, object], model: str, expected: str | None) -> None:
    assert cost(usage, model) == (None if expected is None else Decimal(expected))


@each_row(
    "usage",
    [
        None,
        {},
        {"cache_read_tokens": 5},
        {"input_tokens": None, "output_tokens": None},
        tokens(10, 0, read=6, write=5),
        tokens(10, 0, read=11),
        tokens(-1, 0),
        tokens(10, -1),
        tokens(12.5, 0),
        tokens(True, 0),
        tokens("many", 0),
        tokens("²", 0),
        tokens(float("nan"), 0),
        tokens(10, 0, read="x"),
    ],
)
def test_an_incomplete_or_inconsistent_usage_has_no_cost(usage: dict[str, object] | None) -> None:
    assert cost(usage) is None
    assert cost(usage, "ollama/any") is None


@each_row("price", ["cheap", "", float("nan"), float("inf"), -1, "-0.1", [1], True])
def test_an_invalid_price_is_a_ConfigError(price: object) -> None:
    with pytest.raises(ConfigError) as caught:
        cost(tokens(10, 10), "a/b", {"a/b": {"input": price, "output": 1}})
    assert caught.value.message == f"prices: {price!r} is not a price"
    assert caught.value.hint == "write USD per million tokens, for example 0.15"


def test_configured_prices_override_the_price_table_for_their_model() -> None:
    usage = tokens(1_000_000, 0)
    assert cost(usage, "openai/gpt-4o", {"openai/gpt-4o": {"input": 1, "output": 1}}) == 1
    assert cost(usage, "openai/gpt-4o", {"openai/gpt-4o-mini": {"input": 1, "output": 1}}) != 1


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4o-mini"])
def test_the_price_table_is_looked_up_by_provider_model_and_time(model: str) -> None:
    at = datetime(2025, 6, 1, tzinfo=UTC)
    theirs = calc_price(
        TableUsage(input_tokens=1000, cache_read_tokens=400, output_tokens=50),
        model,
        provider_id="openai",
        genai_request_timestamp=at,
    )
    usage = tokens(1000, 50, read=400)
    for spelled in (at, at.isoformat(), "2025-06-01"):
        assert metrics.cost(usage, provider="openai", model=model, at=spelled) == theirs.total_price > 0


@pytest.mark.parametrize(("provider", "model"), [("nobody", "gpt-4o"), ("openai", "no-such-model"), ("", "")])
def test_an_unknown_provider_or_model_has_no_cost(provider: str, model: str) -> None:
    assert metrics.cost(tokens(10, 10), provider=provider, model=model, at=AT) is None


def test_price_table_returns_name_and_version() -> None:
    assert metrics.price_table() == f"genai-prices {version('genai-prices')}"


COUNTS = st.integers(0, 10**6)


@given(fresh=COUNTS, read=COUNTS, write=COUNTS, output=COUNTS)
def test_cost_is_the_sum_over_kinds_of_tokens(fresh: int, read: int, write: int, output: int) -> None:
    usage = Usage(
        input_tokens=fresh + read + write, cache_read_tokens=read, cache_write_tokens=write, output_tokens=output
    )
    by_hand = (3 * fresh + Decimal("0.3") * read + Decimal("3.75") * write + 15 * output) / 1_000_000
    assert cost(usage) == by_hand


@given(a=COUNTS, b=COUNTS)
def test_the_cost_of_two_calls_is_the_cost_of_their_sum(a: int, b: int) -> None:
    one, other, both = (cost(tokens(n, n)) for n in (a, b, a + b))
    assert one is not None and other is not None
    assert both == one + other


def test_reasoning_tokens_are_not_charged_twice() -> None:
    assert cost(Usage(output_tokens=100, reasoning_tokens=90)) == cost(Usage(output_tokens=100))
