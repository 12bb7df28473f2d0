"""Journal records to rows of the items file: ids, states and numbers; texts only by hash.

Example::

    async for row in item_rows(reader, record, deterministic=names): writer.add(row.item)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from typing import cast

from bench.canonical import sha256_hex
from bench.journal import Chain, Entry, Reader
from bench.journal.records import ItemRecord, Spent
from bench.metrics.latency import phase_us
from bench.model import FAILED_STATES, Phase, Verdict
from bench.plan.record import JobRecord
from bench.receipt.items import ItemRow, Tokens, VerdictRow
from bench.receipt.schema import State

MICROS = Decimal(1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRow:
    """A row of the items file, with what only the folds need."""

    item: ItemRow
    values: Mapping[str, float | None]
    """every metric of the item, judged ones too"""
    retries: int
    answered_by: str | None


async def item_rows(
    reader: Reader, record: JobRecord, *, deterministic: frozenset[str], with_answers: bool
) -> AsyncIterator[JournalRow]:
    """Stream the ended items of a job."""
    chain = Chain(lane=record.lane, answering=record.answer_owner, job=record.key)
    async for stored in reader.items(chain):
        if stored.state is not None:
            raws = [await _raw_sha256(reader, verdict) for verdict in stored.verdicts]
            yield _row(stored, record, deterministic, raws, with_answers=with_answers)


def _row(
    stored: ItemRecord,
    record: JobRecord,
    deterministic: frozenset[str],
    raws: Sequence[str | None],
    *,
    with_answers: bool,
) -> JournalRow:
    assert stored.state is not None
    search, answer = stored.phases.get(Phase.SEARCH), stored.phases.get(Phase.ANSWER)
    ended = stored.phases.get(Phase.EVALUATE)
    failed = stored.state in FAILED_STATES
    text = _answer(answer)
    values: Mapping[str, float | None] = {} if failed else stored.values
    item = ItemRow(
        item_id=stored.item,
        epoch=stored.epoch,
        corpus_id=stored.corpus,
        state=cast("State", str(stored.state)),
        error_kind=(stored.outcome or "error") if str(stored.state) == "error" else None,
        attempts=max(stored.attempts.values(), default=0),
        labels=dict(stored.labels),
        gold=tuple(sorted(set(_ids(ended.data.get("gold")) if ended else ()))),
        retrieved=_retrieved(search, record.k),
        returned=_returned(search),
        metrics={} if failed else {name: values.get(name) for name in sorted(deterministic)},
        verdicts=tuple(_verdict(verdict, raw) for verdict, raw in zip(stored.verdicts, raws, strict=True)),
        answer_sha256=None if text is None else sha256_hex(text.encode("utf-8", "backslashreplace")),
        tokens=_tokens(answer),
        latency_us=_latency(stored),
        cost_usd_micros=usd_micros(stored.spent.values()),
        answer=text if with_answers else None,
    )
    retries = sum(max(0, attempts - 1) for attempts in stored.attempts.values())
    model = answer.measured.get("model") if answer is not None else None
    return JournalRow(
        item=item, values=values, retries=retries, answered_by=model if isinstance(model, str) and model else None
    )


def _ids(stored: object) -> tuple[str, ...]:
    return tuple(map(str, stored)) if isinstance(stored, list | tuple) else ()


def _retrieved(search: Entry | None, k: int) -> tuple[tuple[str, ...], ...] | None:
    stored = search.data.get("retrieved") if search is not None and search.ok else None
    return tuple(_ids(ids) for ids in stored[:k]) if isinstance(stored, list | tuple) else None


def _returned(search: Entry | None) -> int:
    returned = search.data.get("returned") if search is not None and search.ok else None
    stored = search.data.get("retrieved") if search is not None else None
    kept = len(stored) if isinstance(stored, list | tuple) else 0
    return max(returned, kept) if isinstance(returned, int) else kept


def _answer(answer: Entry | None) -> str | None:
    text = answer.data.get("answer") if answer is not None and answer.ok else None
    return text if isinstance(text, str) else None


def _tokens(answer: Entry | None) -> Tokens | None:
    if answer is None or not answer.ok:
        return None
    context, prompt, completion = (
        value if isinstance(value := answer.measured.get(name), int) else None
        for name in ("context_tokens", "tokens_in", "tokens_out")
    )
    return Tokens(context=context, prompt=prompt, completion=completion)


def _latency(stored: ItemRecord) -> dict[str, int]:
    """Network + provider time of each phase's last attempt, where it was a good one."""
    found = {}
    for phase, entry in stored.phases.items():
        parts = {str(phase) if part == "total" else f"{phase}.{part}": spent for part, spent in entry.times_us.items()}
        spent = phase_us(parts, str(phase)) if entry.ok else None
        if spent is not None:
            found[str(phase)] = spent
    return found


def _verdict(verdict: Verdict, raw_sha256: str | None) -> VerdictRow:
    return VerdictRow(
        evaluator=verdict.evaluator,
        class_="judged" if verdict.judged else "deterministic",
        value=verdict.value,
        correct=verdict.correct,
        model=verdict.model,
        prompt_sha256=verdict.prompt_sha256,
        raw_sha256=raw_sha256,
    )


async def _raw_sha256(reader: Reader, verdict: Verdict) -> str | None:
    raw = await reader.payload(verdict.raw) if verdict.raw is not None else None
    return sha256_hex(raw.encode("utf-8", "backslashreplace")) if isinstance(raw, str) else None


def usd_micros(spent: Iterable[Spent]) -> int | None:
    """Add up money as micro-USD; None when any call's cost is not known."""
    parts = [one for one in spent if one.calls]
    if any(one.unknown_costs for one in parts):
        return None
    total = sum((Decimal(one.cost_usd) for one in parts), Decimal(0)) * MICROS
    return int(total.to_integral_value(ROUND_HALF_EVEN))
