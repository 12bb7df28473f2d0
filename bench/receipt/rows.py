"""Journal records to rows of the items file: ids, states and numbers; texts only by hash.

Example::

    async for row in item_rows(reader, record, deterministic=names): writer.add(row.item)

A row is built as the JSON value it will be: a receipt is verified before anybody hears of it, and that reads every
line back through the closed model, so it need not be built twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

from bench.canonical import sha256_hex
from bench.journal import Reader
from bench.journal.ended import EndedItem, EndedPhase, ended_items
from bench.metrics.latency import attempt_us
from bench.model import FAILED_STATES, Phase, Verdict
from bench.plan.record import JobRecord
from bench.receipt.items import RowValue, TokensValue, VerdictValue

MICROS = Decimal(1_000_000)
FREE = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRow:
    """A row of the items file, with what only the folds need."""

    item: RowValue
    failed: bool
    values: Mapping[str, float | None]
    """every metric of the item, judged ones too; none where it failed"""
    retries: int
    answered_by: str | None


async def item_rows(
    reader: Reader, record: JobRecord, *, deterministic: frozenset[str], with_answers: bool
) -> AsyncIterator[JournalRow]:
    """Stream the ended items of a job."""
    chain = record.chain
    names = sorted(deterministic)
    async for ended in ended_items(reader, chain):
        raws = [await _raw_sha256(reader, verdict) for verdict in ended.verdicts]
        yield _row(ended, record.k, names, raws, with_answers=with_answers)


def _row(
    ended: EndedItem, k: int, deterministic: Sequence[str], raws: Sequence[str | None], *, with_answers: bool
) -> JournalRow:
    answer, judged = ended.phases.get(Phase.ANSWER), ended.phases.get(Phase.EVALUATE)
    told = answer.measured if answer is not None else {}
    failed = ended.state in FAILED_STATES
    text = _answer(answer)
    values: Mapping[str, float | None] = {} if failed else ended.values
    retrieved, returned = _hits(ended.phases.get(Phase.SEARCH), k)
    attempts = [phase.attempts for phase in ended.phases.values()]
    item: RowValue = {
        "itemId": ended.item,
        "epoch": ended.epoch,
        "corpusId": ended.corpus,
        "state": ended.state,
        "errorKind": (ended.outcome or "error") if ended.state == "error" else None,
        "attempts": max(attempts, default=0),
        "labels": ended.labels,
        "gold": _gold(judged),
        "retrieved": retrieved,
        "returned": returned,
        "metrics": {} if failed else {name: values.get(name) for name in deterministic},
        "verdicts": [_verdict(verdict, raw) for verdict, raw in zip(ended.verdicts, raws, strict=True)],
        "answerSha256": None if text is None else sha256_hex(text.encode("utf-8", "backslashreplace")),
        "tokens": _tokens(told) if answer is not None and answer.ok else None,
        "latencyUs": _latency(ended.phases),
        "costUsdMicros": _cost(ended.costs_usd),
    }
    if with_answers and text is not None:
        item["answer"] = text
    model = told.get("model")
    return JournalRow(
        item=item,
        failed=failed,
        values=values,
        retries=sum(attempts) - len(attempts),
        answered_by=model if isinstance(model, str) and model else None,
    )


def _gold(judged: EndedPhase | None) -> list[str]:
    stored = judged.data.get("gold") if judged is not None else None
    return sorted(set(map(str, stored))) if isinstance(stored, list) else []


def _hits(search: EndedPhase | None, k: int) -> tuple[list[list[str]] | None, int]:
    """The ids of the first k hits, None without a result; and how many hits came back."""
    data = search.data if search is not None else {}
    stored, returned = data.get("retrieved"), data.get("returned")
    if search is None or not isinstance(stored, list):
        return None, 0
    if not search.ok:
        return None, len(stored)
    return stored[:k], max(returned, len(stored)) if isinstance(returned, int) else len(stored)


def _answer(answer: EndedPhase | None) -> str | None:
    text = answer.data.get("answer") if answer is not None and answer.ok else None
    return text if isinstance(text, str) else None


def _tokens(told: Mapping[str, object]) -> TokensValue:
    context, prompt, completion = (
        value if isinstance(value := told.get(name), int) else None
        for name in ("context_tokens", "tokens_in", "tokens_out")
    )
    return {"context": context, "prompt": prompt, "completion": completion}


def _latency(phases: Mapping[Phase, EndedPhase]) -> dict[str, int]:
    """Network + provider time of each phase's last attempt, where it was a good one."""
    spent = {phase.value: attempt_us(last.times_us) for phase, last in phases.items() if last.ok}
    return {phase: us for phase, us in spent.items() if us is not None}


def _verdict(verdict: Verdict, raw_sha256: str | None) -> VerdictValue:
    return {
        "evaluator": verdict.evaluator,
        "class": "judged" if verdict.judged else "deterministic",
        "value": verdict.value,
        "correct": verdict.correct,
        "model": verdict.model,
        "promptSha256": verdict.prompt_sha256,
        "rawSha256": raw_sha256,
    }


async def _raw_sha256(reader: Reader, verdict: Verdict) -> str | None:
    raw = await reader.payload(verdict.raw) if verdict.raw is not None else None
    return sha256_hex(raw.encode("utf-8", "backslashreplace")) if isinstance(raw, str) else None


def _cost(costs_usd: Sequence[str | None]) -> int | None:
    """Add up an item's calls; None when any call's cost is not known."""
    known = [Decimal(cost) for cost in costs_usd if cost is not None]
    return in_micros(known) if len(known) == len(costs_usd) else None


def in_micros(costs_usd: Iterable[Decimal]) -> int:
    """Add up money as whole micro-USD."""
    return int((sum(costs_usd, FREE) * MICROS).to_integral_value(ROUND_HALF_EVEN))
