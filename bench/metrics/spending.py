"""Token and cost metrics: what an item, a corpus and a whole job used.

An unknown number is null plus a counter, never 0. Sums include what failed items spent.

Example::

    bench.metrics.measure("tokens_context", [{"tokens": 812}, {"tokens": 640}]).value      # 726.0
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from bench.metrics.protocol import Arithmetic, Entry
from bench.metrics.rules import FoldRule, Mean, PerCorrect, Total
from bench.model import Row

Params = Mapping[str, object]

PER_ITEM = Mean(failures_as_zero=False, shares=False)
QUERY_ROLES = ("search", "answer")
ITEM_ROLES = ("search", "answer", "judge")
ALL_ROLES = ("ingest", *ITEM_ROLES)


def tokens_of(role: str) -> Callable[[Row], float | None]:
    """Tokens of one role of a row, None = unknown."""

    def of_row(row: Row) -> float | None:
        count = row.tokens.get(role)
        return None if count is None else float(count)

    return of_row


def cost_of(roles: Sequence[str]) -> Callable[[Row], float | None]:
    """USD of the calls of these roles; a role without a call costs nothing, an unknown one makes the whole unknown."""

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


def _cost_entry(name: str, summary: str, roles: Sequence[str], fold: FoldRule) -> Entry:
    return Entry(
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
        Entry(
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
"""whose calls a cost is the sum of; others take all"""
WHOLE_JOB = frozenset({"cost_total", "cost_per_correct"})
"""metrics whose sum also takes what ingest cost"""
