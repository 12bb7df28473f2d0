"""Convert the cost of a memory system between the form of a report and the form of a receipt.

Example::

    body = Body(..., memory_cost=memory_cost(job.memory_cost))
    memory_cost_of(receipt).query.totals.usd
"""

from __future__ import annotations

from decimal import Decimal

from bench.receipt.schema import Receipt
from bench.receipt.schema_results import ReceiptMemoryCost, ReceiptTotals
from bench.report.memory_cost import MILLION, BreakEven, BuildCost, CallTotals, ContextSize, MemoryCost, QueryCost


def memory_cost(cost: MemoryCost | None) -> ReceiptMemoryCost | None:
    """Convert the memory cost of a report to the section ``memoryCost`` of a receipt. Return None if ``cost`` is None.

    The result has amounts of money in micro-USD.
    """
    if cost is None:
        return None
    each = cost.usd_per_correct_answer
    section = {
        "build": cost.build,
        "questions": cost.query.questions,
        "query": cost.query.totals,
        "usd_micros_per_correct": None if each is None else float(each * MILLION),
        "context": cost.context,
        "break_even": cost.break_even,
    }
    return ReceiptMemoryCost.model_validate(section, from_attributes=True)


def memory_cost_of(receipt: Receipt) -> MemoryCost | None:
    """Convert the section ``memoryCost`` of a receipt to the type of a report. Return None if the receipt has no such
    section.

    ``query.search`` of the result includes the cost of answers, because a receipt has one total for searches and
    answers. The result has no cost per question, because a receipt does not contain the numbers of successful searches
    and answers.
    """
    cost = receipt.memory_cost
    if cost is None:
        return None
    build, size, even = cost.build, cost.context, cost.break_even
    return MemoryCost(
        build=BuildCost(**{**dict(build), "price": _call_totals(build.price), "paid": _call_totals(build.paid)}),
        query=QueryCost(
            questions=cost.questions, search=_call_totals(cost.query), answer=CallTotals(), searches=0, answers=None
        ),
        context=None if size is None else ContextSize(**size.model_dump(exclude={"share"})),
        break_even=None if even is None else BreakEven(**dict(even)),
        n_correct=receipt.counts.by_state.correct,
    )


def _call_totals(one: ReceiptTotals) -> CallTotals:
    usd = "0" if one.usd_micros is None else f"{Decimal(one.usd_micros) / MILLION:f}"
    unknown = int(one.usd_micros is None)
    return CallTotals(calls=one.calls, tokens=one.tokens, cost_usd=usd, cost_unknown_calls=unknown, time_us=one.time_us)
