"""Token and cost metrics of an item, a corpus and a whole job.

This module also computes the price of one call in US dollars as Decimal. The price is None if any part is unknown.

Example::

    bench.metrics.measure("tokens_context", [{"tokens": 812}, {"tokens": 640}]).value      # 726.0
    cost(Usage(input_tokens=1000, output_tokens=200), provider="openai", model="gpt-4o",
         at="2026-11-01T12:00:00Z")                                       # Decimal("0.0045")

An unknown number is null, never 0. Each result has a count of unknown numbers. Sums include the cost of failed items.

Prices come from ``prices`` (USD per million tokens). The prices of models that are not in ``prices`` come from the
genai-prices table. ``input_tokens`` includes cache reads and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

from bench.errors import ConfigError
from bench.metrics.aggregation import FoldRule, Mean, PerCorrect, Total
from bench.metrics.protocol import Arithmetic, RegisteredMetric
from bench.model import Row, Usage

Params = Mapping[str, object]

PER_ITEM = Mean(failures_as_zero=False, shares=False)
QUERY_ROLES = ("search", "answer")
ITEM_ROLES = ("search", "answer", "judge")
ALL_ROLES = ("ingest", *ITEM_ROLES)


def tokens_of(role: str) -> Callable[[Row], float | None]:
    """Return a function that takes a row and returns the tokens of ``role``; None if unknown.

    The role is ingest, context, answer_in, answer_out, judge_in or judge_out.
    """

    def of_row(row: Row) -> float | None:
        count = row.tokens.get(role)
        return None if count is None else float(count)

    return of_row


def cost_of(roles: Sequence[str]) -> Callable[[Row], float | None]:
    """Return a function that takes a row and returns the cost of the calls in these roles, such as judge.

    The cost is None if one of the costs is unknown, and 0 if there were no calls.
    """

    def of_row(row: Row) -> float | None:
        costs = [row.costs_usd[role] for role in roles if role in row.costs_usd]
        if any(cost is None for cost in costs):
            return None
        return float(sum((Decimal(cost) for cost in costs if cost is not None), Decimal(0)))

    return of_row


def _tokens(role: str) -> Callable[[int | None, Params], Arithmetic]:
    def of_inputs(tokens: int | None = None) -> float | None:
        return None if tokens is None else float(tokens)

    arithmetic = Arithmetic(of_row=tokens_of(role), of_inputs=of_inputs, fold=Total() if role == "ingest" else PER_ITEM)
    return lambda k, params: arithmetic


def _cost(roles: Sequence[str], fold: FoldRule) -> Callable[[int | None, Params], Arithmetic]:
    def of_inputs(cost_usd: object = None) -> float | None:
        return None if cost_usd is None else float(Decimal(str(cost_usd)))

    arithmetic = Arithmetic(of_row=cost_of(roles), of_inputs=of_inputs, fold=fold)
    return lambda k, params: arithmetic


def _cost_entry(name: str, summary: str, roles: Sequence[str], fold: FoldRule) -> RegisteredMetric:
    return RegisteredMetric(
        name=name,
        summary=summary,
        category="cost",
        build=_cost(roles, fold),
        unit="USD",
        lower_is_better=True,
        scope="corpus" if roles == ("ingest",) else "item",
        counts_unknown=True,
    )


_TOKENS = {
    "ingest": "tokens sent while ingesting, all corpora together",
    "context": "tokens of retrieved context in the answer prompt, mean per item",
    "answer_in": "input tokens of the answering model, mean per item",
    "answer_out": "output tokens of the answering model, mean per item",
    "judge_in": "input tokens of the judge, mean per item",
    "judge_out": "output tokens of the judge, mean per item",
}

ENTRIES = (
    *(
        RegisteredMetric(
            name=f"tokens_{role}",
            summary=summary,
            category="cost",
            build=_tokens(role),
            aliases={"token_count": {}} if role == "context" else {},
            unit="tokens",
            lower_is_better=True,
            scope="corpus" if role == "ingest" else "item",
            counts_unknown=True,
        )
        for role, summary in _TOKENS.items()
    ),
    _cost_entry("cost_per_query", "mean cost of an item's search and answer calls", QUERY_ROLES, PER_ITEM),
    _cost_entry("cost_ingest", "cost of ingesting every corpus", ("ingest",), Total()),
    _cost_entry("cost_judge", "cost of every judge call", ("judge",), Total()),
    _cost_entry("cost_total", "cost of the whole job: ingest, search, answer, judge", ITEM_ROLES, Total()),
    _cost_entry("cost_per_correct", "cost of the whole job divided by its correct items", ITEM_ROLES, PerCorrect()),
)
ROLES_OF = {"cost_per_query": QUERY_ROLES, "cost_ingest": ("ingest",), "cost_judge": ("judge",)}
"""name of a cost metric -> the roles whose calls it includes; a metric without an entry includes all roles"""
WHOLE_JOB = frozenset({"cost_total", "cost_per_correct"})
"""names of the metrics that also include the cost of the ingest"""
TOTAL_COSTS = WHOLE_JOB | {"cost_judge"}
"""names of the metrics that also include the cost of calls that no item includes"""


Prices = Mapping[str, Mapping[str, object]]

FREE_PROVIDERS = frozenset({"builtin", "ollama"})
"""names of model providers that run on this machine and cost nothing"""
TOKENS_PER_PRICE = Decimal(1_000_000)


def cost(
    usage: Usage | Mapping[str, object] | None,
    *,
    provider: str,
    model: str,
    at: str | datetime,
    prices: Prices | None = None,
    batch: bool = False,
) -> Decimal | None:
    """Return the cost of one call in USD; 0 for a model on this machine.

    With ``batch``, use the price of a call in a batch. Return None if the usage, the provider or a price is unknown.
    Also return None if a token count is invalid, or if more tokens were cached than sent.
    """
    counts = _counts(usage)
    if counts is None:
        return None
    own = (prices or {}).get(f"{provider}/{model}")
    if own is not None:
        total = _by_own_prices(counts, own)
        return total * _rate(own["batch"]) if total is not None and batch and own.get("batch") is not None else total
    if provider in FREE_PROVIDERS:
        return Decimal(0)
    return _by_table(counts, provider, model, _instant(at), batch=batch)


def price_table() -> str:
    """Return the name and version of the price table; each stored cost names them."""
    from importlib.metadata import version

    return f"genai-prices {version('genai-prices')}"


def _counts(usage: Usage | Mapping[str, object] | None) -> dict[str, int] | None:
    """Return kind (fresh, cache_read, cache_write, output) -> tokens; None if the counts are missing or invalid."""
    if usage is None:
        return None
    names = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")
    given = usage if isinstance(usage, Mapping) else {name: getattr(usage, name) for name in names}
    if not any(given.get(name) is not None for name in ("input_tokens", "output_tokens")):
        return None
    numbers = [_count(given.get(name)) for name in names]
    total, read, write, output = (number or 0 for number in numbers)
    if None in numbers or read + write > total:
        return None
    return {"fresh": total - read - write, "cache_read": read, "cache_write": write, "output": output}


def _count(value: object) -> int | None:
    """Return a token count as a whole number: 0 for None, and None for an invalid count."""
    text = str(value or 0).removesuffix(".0")
    return int(text) if text.isascii() and text.isdigit() else None


def _by_own_prices(counts: Mapping[str, int], prices: Mapping[str, object]) -> Decimal | None:
    rates = {
        "fresh": prices.get("input"),
        "cache_read": prices.get("cache_read", prices.get("input")),
        "cache_write": prices.get("cache_write", prices.get("input")),
        "output": prices.get("output"),
    }
    total = Decimal(0)
    for kind, tokens in counts.items():
        rate = rates[kind]
        if rate is None and tokens:
            return None
        if rate is not None:
            total += _rate(rate) * tokens / TOKENS_PER_PRICE
    return total


def _rate(value: object) -> Decimal:
    """Return a price from a config as a number of USD per million tokens. Raises ConfigError if it is not a price."""
    try:
        rate = Decimal(str(value))
    except InvalidOperation:
        rate = Decimal("NaN")
    if not rate.is_finite() or rate < 0:
        raise ConfigError(f"prices: {value!r} is not a price", hint="write USD per million tokens, for example 0.15")
    return rate


def _by_table(counts: Mapping[str, int], provider: str, model: str, at: datetime, *, batch: bool) -> Decimal | None:
    from genai_prices import Usage as TableUsage
    from genai_prices import calc_price

    usage = TableUsage(
        input_tokens=counts["fresh"] + counts["cache_read"] + counts["cache_write"],
        cache_read_tokens=counts["cache_read"] or None,
        cache_write_tokens=counts["cache_write"] or None,
        output_tokens=counts["output"],
    )
    try:
        context = {"processing": "batch"} if batch else None
        found = calc_price(
            usage, model, provider_id=provider, genai_request_timestamp=at, price_context=context
        ).total_price
    except (LookupError, ValueError):
        return None
    return found


def _instant(at: str | datetime) -> datetime:
    moment = at if isinstance(at, datetime) else datetime.fromisoformat(at)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
