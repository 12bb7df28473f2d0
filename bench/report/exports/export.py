"""Export the items of a run as json, jsonl, csv or parquet.

``rows_of`` yields one record per job and item.

Example::

    await export_rows(reader, "jsonl", sink)
    async for row in rows_of(reader, run_id, record):
        row["item_id"], row["state"], row["score"]

Records are streamed, so memory use does not grow with the run.
"""

from __future__ import annotations

import csv
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO, TypedDict

from bench.errors import UsageError
from bench.journal import JournaledPhase, Reader
from bench.journal.records import ItemRecord
from bench.journal.results_db import chunks
from bench.model import Phase, State, Verdict
from bench.models.reply import CACHED
from bench.plan.job_record import JobRecord, read_jobs
from bench.report.tables import safe_row
from bench.untyped_values import Json, list_texts

ITEM_PAYLOAD = "item"
HITS_PAYLOAD = "hits"
JUDGE_PAYLOAD = "judge_prompts"


class AnswerStatus(TypedDict):
    """The way an answer ended, and flags for unusual properties of the answer."""

    finish: object
    """how the answer ended: stop, length (the token limit), refusal (the model or a filter) or other"""
    truncated: bool
    """true: the answer was cut at the token limit"""
    reasoning_tokens: object
    """reasoning tokens of the answer, as the endpoint reports them; null: unknown"""
    flags: Sequence[str]
    """marks of the answer, for example: cut (at the token limit), refused (by the endpoint's filter), empty, cached
    (from the call cache), batched (from a batch), prompt_cached (the vendor's cache contained or stored a part of the
    prompt)"""


class RowWithoutTexts(AnswerStatus):
    """The fields of an exported row that are not texts."""

    run_id: str
    """id of the run"""
    benchmark: str
    """name of the benchmark"""
    provider: str
    """name of the provider; a variant is `name@label`"""
    models: Mapping[str, str | None]
    """embedding, answering and judge model; null if none is used"""
    item_id: str
    """id of the item"""
    corpus: str
    """id of the corpus that the question refers to"""
    epoch: int
    """number of the repeat, from 1"""
    question_type: str | None
    """question type of the item, or null"""
    state: str
    """how the item ended"""
    score: float | None
    """value of the first verdict, 0 to 1; null: no verdict"""
    correct: bool | None
    """whether the first verdict is correct"""
    retrieved: Sequence[Sequence[str]] | None
    """the first k hits, each as a list of ids of the dataset (of turns or sessions); null: hits have no such ids"""
    metrics: Mapping[str, float | None]
    """metric -> value of this item; times are in whole microseconds"""
    labels: Mapping[str, str]
    """kind of label (such as question_type) -> label of the item"""
    attempts: Mapping[str, int]
    """phase -> number of attempts"""
    latency: Mapping[str, Mapping[str, int]]
    """phase -> whole microseconds of its last attempt: `total`, with `queue` (wait for a free slot), `limiter` (wait
    for the rate limit), `network` and `provider`"""
    tokens: Mapping[str, Mapping[str, int]]
    """role -> `input` and `output` tokens of all attempts; `estimated`: whether some were counted locally"""
    cost: Mapping[str, Json]
    """role -> `usd` (decimal text) of all attempts; `unknown_calls`: calls with an unknown price, except
    failed calls that report no usage"""
    cached: Sequence[str]
    """which of `answer` and `verdict` are from the call cache, and so have no call, cost and latency"""
    error: Mapping[str, str | None] | None
    """`kind` and `message` if the item failed, else null"""


class RowTexts(TypedDict):
    """The fields of an exported row that are texts of the dataset, the memory system and the models."""

    question: object
    """text of the question"""
    expected: Sequence[str] | None
    """accepted answers"""
    evidence: object
    """`sessions` and `turns` with the evidence"""
    metadata: object
    """other fields of the item in the dataset"""
    answer: object
    """answer of the model, without reasoning"""
    raw_answer: object
    """original text of the answer if a part was removed, else null"""
    reasoning: object
    """reasoning that the endpoint sent separately, else null"""
    answer_model: object
    """name of the model in the reply"""
    hits: Sequence[Json] | None
    """retrieved memories: `id`, `content`, `when`, `score`, `chunks`, `metadata`"""
    verdicts: Sequence[Json]
    """verdict of each evaluator; `raw` is the text of the judge"""


class ExportedRow(RowWithoutTexts, RowTexts):
    """All fields of one exported row: one item of one job."""


async def rows_of(reader: Reader, run_id: str, record: JobRecord) -> AsyncGenerator[ExportedRow, None]:
    """Yield the ended items of a job, ordered by corpus, item and epoch."""
    async with aclosing(reader.items(record.chain)) as items:
        async for item in items:
            if item.state is not None:
                yield {**row_without_texts(run_id, record, item), **await _texts(reader, item)}


def row_without_texts(run_id: str, record: JobRecord, item: ItemRecord) -> RowWithoutTexts:
    """Return the fields of an ended item that are not texts."""
    search, answer = item.phases.get(Phase.SEARCH), item.phases.get(Phase.ANSWER)
    first = item.verdicts[0] if item.verdicts else None
    return {
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
        "retrieved": _list_or_none(search.data.get("retrieved")) if search else None,
        "metrics": dict(item.values),
        "labels": dict(item.labels),
        "attempts": {str(phase): n for phase, n in item.attempts.items()},
        "latency": {str(phase): dict(entry.times_us) for phase, entry in item.phases.items() if entry.times_us},
        "tokens": {
            role: {"input": one.usage.input_tokens, "output": one.usage.output_tokens, "estimated": one.usage.estimated}
            for role, one in item.spent.items()
            if one.usage.total_tokens
        },
        "cost": {role: {"usd": one.cost_usd, "unknown_calls": one.unknown_costs} for role, one in item.spent.items()},
        **answer_status(answer),
        "cached": _cached(item),
        "error": {"kind": item.outcome, "message": item.message}
        if item.state in (State.ERROR, State.NOT_READY)
        else None,
    }


def _list_or_none(value: object) -> list[Any] | None:
    return value if isinstance(value, list) else None


def _cached(item: ItemRecord) -> list[str]:
    phases = {"answer": item.phases.get(Phase.ANSWER), "verdict": item.phases.get(Phase.EVALUATE)}
    return [name for name, entry in phases.items() if entry and CACHED in list_texts(entry.measured.get("flags"))]


def answer_status(answer: JournaledPhase | None) -> AnswerStatus:
    """Return how an answer ended. If there is no answer, the fields are empty."""
    data, measured = (answer.data, answer.measured) if answer is not None else ({}, {})
    finish = data.get("finish")
    return {
        "finish": finish,
        "truncated": finish == "length",
        "reasoning_tokens": measured.get("reasoning_tokens"),
        "flags": _list_or_none(measured.get("flags")) or [],
    }


async def _texts(reader: Reader, item: ItemRecord) -> RowTexts:
    search, answer = item.phases.get(Phase.SEARCH), item.phases.get(Phase.ANSWER)
    shown = await payload(reader, item.phases.get(Phase.EVALUATE), ITEM_PAYLOAD)
    about: Mapping[str, object] = shown if isinstance(shown, Mapping) else {}
    return {
        "question": about.get("question"),
        "expected": _list_or_none(about.get("answers")),
        "evidence": about.get("evidence"),
        "metadata": about.get("metadata"),
        "answer": answer.data.get("answer") if answer else None,
        "raw_answer": await payload(reader, answer, "raw"),
        "reasoning": await payload(reader, answer, "reasoning"),
        "answer_model": answer.measured.get("model") if answer else None,
        "hits": _list_or_none(await payload(reader, search, HITS_PAYLOAD)) if search and search.ok else None,
        "verdicts": [await verdict_row(reader, one) for one in item.verdicts],
    }


async def payload(reader: Reader, entry: JournaledPhase | None, name: str) -> object:
    """Return a text that a journal entry stores; None if the entry has no such text, or if the text was deleted."""
    reference = entry.payloads.get(name) if entry is not None else None
    return await reader.payload(reference) if isinstance(reference, str) else None


async def verdict_row(reader: Reader, verdict: Verdict) -> Json:
    """Return a verdict as JSON; ``raw`` is the judge's reply."""
    raw = await reader.payload(verdict.raw) if verdict.raw is not None else None
    shown = {**asdict(verdict), "raw": raw}
    del shown["parts"]  # they are in the values of the metrics
    return shown


FLAT_COLUMNS = (
    "run_id", "benchmark", "provider", "embedding_model", "answering_model", "judge_model", "item_id", "corpus",
    "epoch", "question_type", "state", "question", "expected", "answer", "answer_model", "score", "correct",
    "error_kind", "finish", "truncated", "reasoning_tokens", "flags", "cached", "raw_answer",
    "retrieved", "evidence",
)  # fmt: skip


async def all_rows(reader: Reader) -> AsyncGenerator[ExportedRow, None]:
    """Yield the ended items of all jobs."""
    for record in read_jobs(reader.meta.extra):
        async with aclosing(rows_of(reader, reader.meta.run_id, record)) as rows:
            async for row in rows:
                yield row


async def export_rows(reader: Reader, form: str, sink: TextIO) -> int:
    """Write the rows of a run to ``sink`` as json, jsonl or csv; return the number of rows."""
    if form == "csv":
        return await _write_csv(reader, sink)
    begin, between, end = ("[\n", ",\n", "\n]\n") if form == "json" else ("", "\n", "\n")
    written = 0
    async with aclosing(all_rows(reader)) as rows:
        async for row in rows:
            sink.write((between if written else begin) + _json_line(row))
            written += 1
    sink.write(end if written else begin + end.lstrip("\n"))
    return written


async def _write_csv(reader: Reader, sink: TextIO) -> int:
    metrics = list(dict.fromkeys(metric.name for record in read_jobs(reader.meta.extra) for metric in record.metrics))
    writer = csv.writer(sink, lineterminator="\r\n")
    writer.writerow([*FLAT_COLUMNS, *metrics])
    written = 0
    async with aclosing(all_rows(reader)) as rows:
        async for row in rows:
            flat = flat_row(row)
            values = row["metrics"]
            writer.writerow(safe_row([*(flat[name] for name in FLAT_COLUMNS), *(values.get(name) for name in metrics)]))
            written += 1
    return written


def flat_row(row: ExportedRow) -> Json:
    """Return the columns of a row that csv and parquet can hold: numbers, texts and truth values.

    The fields ``retrieved`` and ``evidence`` become JSON text. Other lists become plain text.
    """
    models, error, expected = row["models"], row["error"], row["expected"]
    flat: Json = dict.fromkeys(FLAT_COLUMNS) | {name: value for name, value in row.items() if name in FLAT_COLUMNS}
    flat |= {f"{role}_model": models[role] for role in ("embedding", "answering", "judge")}
    flat["expected"] = None if expected is None else " | ".join(map(str, expected))
    flat["flags"] = " ".join(row["flags"]) or None
    flat["cached"] = " ".join(row["cached"]) or None
    for name in ("retrieved", "evidence"):
        flat[name] = None if flat[name] is None else json.dumps(flat[name], ensure_ascii=False)
    flat["error_kind"] = error["kind"] if error else None
    return {name: escape_surrogates(value) if isinstance(value, str) else value for name, value in flat.items()}


def escape_surrogates(text: str) -> str:
    """Escape lone surrogates in a text, because UTF-8 cannot encode them."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _json_line(row: Mapping[str, object]) -> str:
    """Return a row as one line of JSON in valid UTF-8.

    Line separators and lone surrogates are escaped.
    """
    text = json.dumps(row, ensure_ascii=False, allow_nan=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(row, ensure_ascii=True, allow_nan=False)
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\x85", "\\u0085")


# --------------------------------------------------------------------------- parquet


async def export_parquet(reader: Reader, path: Path) -> int:
    """Write a parquet file with the simple columns and one column per metric; return the number of rows.

    Raises:
        UsageError: pyarrow is not installed (extra [parquet]).
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError("parquet needs the extra [parquet]", hint="pip install 'memorybench[parquet]'") from None
    metrics = list(dict.fromkeys(metric.name for record in read_jobs(reader.meta.extra) for metric in record.metrics))
    kinds = {"epoch": pyarrow.int32(), "score": pyarrow.float64(), "correct": pyarrow.bool_()}
    kinds |= {"truncated": pyarrow.bool_(), "reasoning_tokens": pyarrow.int64()}
    fields = [(name, kinds.get(name, pyarrow.string())) for name in FLAT_COLUMNS]
    schema = pyarrow.schema([*fields, *((name, pyarrow.float64()) for name in metrics)])
    part = path.with_name(path.name + ".part")
    written = 0
    try:
        with pyarrow.parquet.ParquetWriter(part, schema) as writer:
            async for rows in chunks(all_rows(reader), 2000):
                data = [{**flat_row(row), **row["metrics"]} for row in rows]
                writer.write_table(pyarrow.Table.from_pylist(data, schema=schema))
                written += len(rows)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return written
