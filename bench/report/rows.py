"""One flat record a (job, item): what ``export`` writes and what a page of an item shows.

Texts (question, hits, answers, raw verdicts) are read from the journal's payloads only where asked for::

    async for row in rows_of(reader, run_id, record):
        row["item_id"], row["state"], row["score"]
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import asdict

from bench.journal import Entry, Reader
from bench.journal.records import ItemRecord, Spent
from bench.model import Phase, State, Verdict
from bench.plan.record import JobRecord

ITEM_PAYLOAD = "item"
HITS_PAYLOAD = "hits"

FIELDS: Mapping[str, str] = {
    "run_id": "the run",
    "benchmark": "its name",
    "provider": "the memory system, a variant as `name@label`",
    "models": "embedding, answering and judge model; null where none is used",
    "item_id": "the item",
    "corpus": "the conversation or haystack that it asks about",
    "epoch": "which repeat of the item, from 1",
    "question_type": "of the item; null where it has none",
    "state": "how it ended",
    "score": "value of the first verdict, 0 to 1; null = no verdict",
    "correct": "of the first verdict",
    "retrieved": "the first k hits, each as the evidence ids that it stands for; null = no way back to ids",
    "metrics": "metric -> this item's value; those of time in whole microseconds, whatever unit a table shows",
    "labels": "dimension -> label, as in breakdowns",
    "attempts": "phase -> how often it was tried",
    "latency": "phase -> whole microseconds of its last attempt: `total` and its parts `queue`, `limiter`, `network`, "
    "`provider`",
    "tokens": "role -> `input` and `output` tokens over all attempts, and whether any was `estimated`",
    "cost": "role -> `usd` (decimal text) over all attempts, and `unknown_calls` whose price nobody knows",
    "finish": "how the answer ended: stop, length (the token limit), refusal (the model or a filter) or other",
    "truncated": "the answer was cut at the token limit",
    "reasoning_tokens": "of the answer, as the endpoint counts; null = unknown",
    "flags": "what was noted of the answer: cut, refused, empty, usage_unreadable, prompt_cut",
    "error": "`kind` and `message` of an item that failed; else null",
}
"""what a row says"""
TEXT_FIELDS: Mapping[str, str] = {
    "question": "as it was asked",
    "expected": "the answers that count as right",
    "evidence": "`sessions` and `turns` that hold the answer",
    "metadata": "what else the dataset says of the item",
    "answer": "the answering model's words, without its reasoning",
    "raw_answer": "the text as the model sent it, where reasoning was taken out of it; else null",
    "reasoning": "what the endpoint sent as reasoning, apart from the text; else null",
    "answer_model": "the model as its endpoint named it",
    "hits": "what was retrieved: `id`, `content`, `when`, `score`, `chunks`, `metadata`",
    "verdicts": "every evaluator's outcome; `raw` is the judge's own text",
}
"""what an export adds: words of dataset, memory system and models"""


async def rows_of(
    reader: Reader, run_id: str, record: JobRecord, *, texts: bool = True
) -> AsyncGenerator[dict[str, object], None]:
    """Stream the ended items of a job by (corpus, item, epoch)."""
    async with aclosing(reader.items(record.chain)) as items:
        async for item in items:
            if item.state is not None:
                yield await _row(reader, run_id, record, item, texts=texts)


async def _row(reader: Reader, run_id: str, record: JobRecord, item: ItemRecord, *, texts: bool) -> dict[str, object]:
    search, answer = item.phases.get(Phase.SEARCH), item.phases.get(Phase.ANSWER)
    first = item.verdicts[0] if item.verdicts else None
    row: dict[str, object] = {
        "run_id": run_id,
        "benchmark": record.benchmark,
        "provider": record.provider,
        "models": asdict(record.models),
        "item_id": item.item,
        "corpus": item.corpus,
        "epoch": item.epoch,
        "question_type": item.labels.get("question_type"),
        "state": str(item.state),
        "score": first.value if first else None,
        "correct": first.correct if first else None,
        "retrieved": search.data.get("retrieved") if search else None,
        "metrics": dict(item.values),
        "labels": dict(item.labels),
        "attempts": {str(phase): n for phase, n in item.attempts.items()},
        "latency": _latency(item),
        "tokens": _tokens(item.spent),
        "cost": _cost(item.spent),
        **answer_facts(answer),
        "error": _error(item),
    }
    return {**row, **await _texts(reader, item, search, answer)} if texts else row


def answer_facts(answer: Entry | None) -> dict[str, object]:
    """How an answer ended, and what was noted of it."""
    data, measured = (answer.data, answer.measured) if answer is not None else ({}, {})
    finish = data.get("finish")
    return {
        "finish": finish,
        "truncated": finish == "length",
        "reasoning_tokens": measured.get("reasoning_tokens"),
        "flags": measured.get("flags", []),
    }


async def _texts(reader: Reader, item: ItemRecord, search: Entry | None, answer: Entry | None) -> dict[str, object]:
    shown = await payload(reader, item.phases.get(Phase.EVALUATE), ITEM_PAYLOAD)
    about: Mapping[str, object] = shown if isinstance(shown, Mapping) else {}
    return {
        "question": about.get("question"),
        "expected": about.get("answers"),
        "evidence": about.get("evidence"),
        "metadata": about.get("metadata"),
        "answer": answer.data.get("answer") if answer else None,
        "raw_answer": await payload(reader, answer, "raw"),
        "reasoning": await payload(reader, answer, "reasoning"),
        "answer_model": answer.measured.get("model") if answer else None,
        "hits": await payload(reader, search, HITS_PAYLOAD) if search and search.ok else None,
        "verdicts": [await verdict_row(reader, one) for one in item.verdicts],
    }


async def payload(reader: Reader, entry: Entry | None, name: str) -> object:
    """A stored text of an entry; None when there is none or it was dropped."""
    reference = entry.payloads.get(name) if entry is not None else None
    return await reader.payload(reference) if isinstance(reference, str) else None


async def verdict_row(reader: Reader, verdict: Verdict) -> dict[str, object]:
    """A verdict with the judge's own words."""
    raw = await reader.payload(verdict.raw) if verdict.raw is not None else None
    return {**asdict(verdict), "raw": raw}


def _latency(item: ItemRecord) -> dict[str, dict[str, int]]:
    return {str(phase): dict(entry.times_us) for phase, entry in item.phases.items() if entry.times_us}


def _tokens(spent: Mapping[str, Spent]) -> dict[str, object]:
    return {
        role: {"input": one.usage.input_tokens, "output": one.usage.output_tokens, "estimated": one.usage.estimated}
        for role, one in spent.items()
        if one.usage.total_tokens
    }


def _cost(spent: Mapping[str, Spent]) -> dict[str, object]:
    return {role: {"usd": one.cost_usd, "unknown_calls": one.unknown_costs} for role, one in spent.items()}


def _error(item: ItemRecord) -> dict[str, object] | None:
    if item.state not in (State.ERROR, State.NOT_READY):
        return None
    return {"kind": item.outcome, "message": item.message}
