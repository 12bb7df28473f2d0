"""Format the cost of a memory system as text and as table cells.

Example::

    cost_rows(cost)         # [("build", "8", "640", "4", "120.0 ms"), ("per question", "2", "120", "0.0021", ...)]
    cost_sentence(cost)        # "USD 0.013 per correct answer; cheaper than full context after 13 questions per corpus"
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from decimal import Decimal
from typing import TypedDict

from bench.report.memory_cost import BreakEven, CallTotals, MemoryCost
from bench.untyped_values import Json
from bench.visible_text import money_text

COST_HEAD = ("provider", "paid", "calls", "tokens", "USD", "time")


def cost_rows(cost: MemoryCost) -> list[tuple[str, ...]]:
    """Return two table rows: the cost of the build, and the mean cost of a question."""
    return [_row(build_name(cost), ((cost.build.price, 1),)), _row("per question", cost.query.parts)]


def build_name(cost: MemoryCost) -> str:
    """Return the name of the table row for the ingest.

    If another run paid for the ingest, the name includes the id of that run.
    """
    build = cost.build
    if build.paid == build.price:
        return "build"
    part = " in part" if build.paid.calls else ""
    return f"build, paid{part} by {build.lane} of run {build.paid_by}"


def _row(name: str, parts: Sequence[tuple[CallTotals, int]]) -> tuple[str, ...]:
    """Return a table row with calls, tokens, cost and time, each added up over ``parts``.

    A part is (totals, number by which the totals are divided). Without parts, the row has dashes.
    """
    if not parts:
        return (name, "-", "-", "-", "-")
    calls, tokens, us = (
        sum(getattr(totals, name) / n for totals, n in parts) for name in ("calls", "tokens", "time_us")
    )
    time = f"{us / 1e6:.1f} s" if us >= 1e6 else f"{us / 1e3:.1f} ms"
    return (name, _count(calls), _count(tokens), _amount(parts) or "unknown", time)


def _count(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def share_text(cost: MemoryCost | None) -> str:
    """Format the share of the corpus in the prompts as a percentage; "-" if it is unknown."""
    return "-" if cost is None or cost.context_share is None else f"{cost.context_share:.1%}"


def cost_sentence(cost: MemoryCost) -> str:
    """Return the cost per correct answer and the break-even point as text. Unknown values are left out."""
    each = cost.usd_per_correct_answer
    right = "" if each is None else f"USD {money_text(each)} per correct answer"
    even = "" if cost.break_even is None else break_even_text(cost.break_even)
    return "; ".join(filter(None, (right, even)))


def break_even_text(even: BreakEven) -> str:
    """Describe how many questions make the memory cheaper than prompts with the whole corpus."""
    if even.questions is not None:
        after = "from the first question" if even.questions == 1 else f"after {even.questions} questions per corpus"
        return f"cheaper than full context {after}"
    verdict = "never cheaper than full context" if even.never else "break-even against full context is not known"
    return f"{verdict}: {even.reason}"


class QueryCostDocument(TypedDict):
    """The cost of all questions of a job, and the cost per question."""

    questions: int
    calls: int
    tokens: int
    cost_usd: str
    cost_unknown_calls: int
    time_us: int
    usd_per_question: float | None
    known_usd_per_question: float | None
    """cost per question of the calls with a known price; null if no search or no answer was successful"""


class MemoryCostDocument(TypedDict):
    """The cost of a job's memory system.

    Money per question is a float; sums of money are decimal text.
    """

    build: Json
    query: QueryCostDocument
    usd_per_correct_answer: float | None
    context: Json | None
    context_share: float | None
    break_even: Json | None
    text: str
    """a sentence on the cost for pages; "" if nothing costs money"""


def cost_json(cost: MemoryCost, *, valid: bool) -> MemoryCostDocument:
    """Return the cost of a memory system as JSON.

    ``valid`` is false for an INVALID job: its text then has no cost per correct answer.
    """
    build, query, context, even = cost.build, cost.query.totals, cost.context, cost.break_even
    named = {name: getattr(build, name) for name in ("fingerprint", "paid_by", "lane", "corpora", "memories")}
    text = f"{build_name(cost)} {usd_text([(build.price, 1)])}; {cost_sentence(cost) if valid else ''}".rstrip("; ")
    full = None if even is None else _as_float(even.full_context_usd_per_question)
    return {
        "build": {**named, **asdict(build.paid), "price": asdict(build.price)},
        "query": {
            "questions": cost.query.questions,
            "calls": query.calls,
            "tokens": query.tokens,
            "cost_usd": query.cost_usd,
            "cost_unknown_calls": query.cost_unknown_calls,
            "time_us": query.time_us,
            "usd_per_question": _as_float(cost.usd_per_question),
            "known_usd_per_question": _as_float(cost.query.known_usd_per_question),
        },
        "usd_per_correct_answer": _as_float(cost.usd_per_correct_answer),
        "context": None if context is None else {**asdict(context), "share": context.share},
        "context_share": cost.context_share,
        "break_even": None if even is None else {**asdict(even), "full_context_usd_per_question": full},
        "text": text if cost.has_money else "",
    }


def _as_float(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


def usd_text(parts: Sequence[tuple[CallTotals, int]]) -> str:
    """Format the sum of the mean costs of ``parts``; ``price unknown`` if no cost is known."""
    amount = _amount(parts)
    return f"USD {amount}" if amount else "price unknown"


def _amount(parts: Sequence[tuple[CallTotals, int]]) -> str:
    """Return the sum of the mean costs in USD; with ">= " if a part of it is unknown, and "" if no cost is known."""
    known = sum((Decimal(totals.cost_usd) / n for totals, n in parts), Decimal(0))
    if not any(totals.cost_unknown_calls for totals, _ in parts):
        return money_text(known)
    return f">= {money_text(known)}" if known else ""
