"""Export a run as OpenTelemetry traces in OTLP JSON: one trace per item, with one span per phase.

Example::

    await export_otlp(reader, sink)     # JSON lines that a collector's file receiver reads

Names of spans and attributes follow the GenAI semantic conventions (``search_memory``, ``chat``,
``gen_ai.evaluation.result``). Other attributes start with ``memorybench``. Every export of a run has the same span ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TextIO

from bench.journal import JournaledPhase, Reader
from bench.journal.records import ItemRecord
from bench.model import Phase, State
from bench.plan.job_record import JobRecord, read_jobs
from bench.report.exports.export import HITS_PAYLOAD, payload
from bench.untyped_values import Json
from bench.version import __version__

ITEMS_PER_LINE = 100
INTERNAL, CLIENT = 1, 3
"""OTLP codes of span kinds"""
OK, ERROR = 1, 2
"""OTLP codes of span statuses"""

Attributes = Mapping[str, object]


async def export_otlp(reader: Reader, sink: TextIO) -> int:
    """Write one trace per ended item as OTLP JSON; return the number of items."""
    written = 0
    for record in read_jobs(reader.meta.extra):
        spans: list[Json] = []
        async with aclosing(reader.items(record.chain)) as items:
            async for item in items:
                if item.state is None:
                    continue
                spans += await spans_of(reader, record, item)
                written += 1
                if written % ITEMS_PER_LINE == 0:
                    sink.write(_line(reader, record, spans))
                    spans = []
        if spans:
            sink.write(_line(reader, record, spans))
    return written


def resource_of(reader: Reader, record: JobRecord) -> Attributes:
    """Return the attributes that are the same for all spans of a job."""
    return {
        "service.name": "memorybench",
        "service.version": __version__,
        "memorybench.run.id": reader.meta.run_id,
        "memorybench.benchmark": record.benchmark,
        "memorybench.provider": record.provider,
    }


def _line(reader: Reader, record: JobRecord, spans: list[Json]) -> str:
    scope = {"scope": {"name": "memorybench", "version": __version__}, "spans": spans}
    tree = {
        "resourceSpans": [{"resource": {"attributes": _attributes(resource_of(reader, record))}, "scopeSpans": [scope]}]
    }
    return json.dumps(tree, ensure_ascii=True, allow_nan=False, separators=(",", ":")) + "\n"


async def spans_of(reader: Reader, record: JobRecord, item: ItemRecord) -> list[Json]:
    """Return one span for the item and one span per phase.

    The result is empty if the item has no phases.
    """
    name = (reader.meta.run_id, record.key, item.corpus, item.item, str(item.epoch))
    phases = [await _phase(reader, record, item, phase, entry, name) for phase, entry in item.phases.items()]
    starts = [entry.started_at for entry in item.phases.values()]
    ends = [_end(entry) for entry in item.phases.values()]
    if not starts:
        return []
    root = _span(
        name,
        "",
        f"item {item.item}",
        INTERNAL,
        min(starts),
        max(ends),
        {
            "memorybench.item.id": item.item,
            "memorybench.corpus.id": item.corpus,
            "memorybench.epoch": item.epoch,
            "memorybench.item.state": str(item.state),
            **{f"memorybench.label.{key}": value for key, value in item.labels.items()},
            **{f"memorybench.metric.{key}": value for key, value in item.values.items()},
        },
        error=(item.outcome or "error", item.message) if item.state in (State.ERROR, State.NOT_READY) else None,
    )
    return [root, *phases]


async def _phase(
    reader: Reader, record: JobRecord, item: ItemRecord, phase: Phase, entry: JournaledPhase, name: tuple[str, ...]
) -> Json:
    make = {Phase.SEARCH: _search, Phase.ANSWER: _answer}.get(phase)
    known: Attributes = make(record, item, entry) if make is not None else {"gen_ai.operation.name": "evaluate"}
    title, kind = {
        Phase.SEARCH: (f"search_memory {record.provider}", CLIENT),
        Phase.ANSWER: (f"chat {record.models.answering}", CLIENT),
    }.get(phase, (str(phase), INTERNAL))
    if phase is Phase.SEARCH and entry.ok:
        hits = await payload(reader, entry, HITS_PAYLOAD)
        known = {**known, "memorybench.search.hits": len(hits) if isinstance(hits, list) else None}
    failed = None if entry.ok else (entry.outcome, entry.message)
    span = _span(
        (*name, str(phase)), _id(name, 8), title, kind, entry.started_at, _end(entry), known, trace=name, error=failed
    )
    if phase is Phase.EVALUATE:
        span["events"] = list(_verdicts(item, _end(entry)))
    return span


def _search(record: JobRecord, item: ItemRecord, entry: JournaledPhase) -> Attributes:
    return {
        "gen_ai.operation.name": "search_memory",
        "gen_ai.provider.name": record.provider,
        "gen_ai.memory.store.id": item.corpus,
        "memorybench.k": record.k,
        **_times(entry),
    }


def _answer(record: JobRecord, item: ItemRecord, entry: JournaledPhase) -> Attributes:
    spent, finish = item.spent.get("answering"), entry.data.get("finish")
    vendor, _, model = (record.models.answering or "").partition("/")
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": vendor,
        "gen_ai.request.model": model or vendor,
        "gen_ai.response.model": entry.measured.get("model"),
        "gen_ai.response.finish_reasons": [finish] if finish else None,
        "gen_ai.usage.input_tokens": spent.usage.input_tokens if spent else None,
        "gen_ai.usage.output_tokens": spent.usage.output_tokens if spent else None,
        "memorybench.cost_usd": spent.cost_usd if spent else None,
        **_times(entry),
    }


def _times(entry: JournaledPhase) -> Attributes:
    return {f"memorybench.time.{part}_us": value for part, value in entry.times_us.items() if part != "total"}


def _verdicts(item: ItemRecord, at: datetime) -> Iterator[Json]:
    for verdict in item.verdicts:
        label = None if verdict.correct is None else "correct" if verdict.correct else "incorrect"
        found: Attributes = {
            "gen_ai.evaluation.name": verdict.evaluator,
            "gen_ai.evaluation.score.value": verdict.value,
            "gen_ai.evaluation.score.label": label,
            "gen_ai.evaluation.explanation": verdict.reason or None,
        }
        yield {"name": "gen_ai.evaluation.result", "timeUnixNano": _nanos(at), "attributes": _attributes(found)}


def _span(
    name: tuple[str, ...],
    parent: str,
    title: str,
    kind: int,
    start: datetime,
    end: datetime,
    attributes: Attributes,
    *,
    trace: tuple[str, ...] | None = None,
    error: tuple[str, str] | None,
) -> Json:
    status: Json = {"code": ERROR, "message": error[1]} if error else {"code": OK}
    kept = {**attributes, "error.type": error[0]} if error else attributes
    return {
        "traceId": _id(trace or name, 16),
        "spanId": _id(name, 8),
        **({"parentSpanId": parent} if parent else {}),
        "name": title,
        "kind": kind,
        "startTimeUnixNano": _nanos(start),
        "endTimeUnixNano": _nanos(end),
        "attributes": _attributes(kept),
        "status": status,
    }


def _end(entry: JournaledPhase) -> datetime:
    return entry.started_at + timedelta(microseconds=entry.times_us.get("total", 0))


def _nanos(at: datetime) -> str:
    """Return a time as nanoseconds since 1970, as text.

    OTLP JSON represents 64-bit integers as text.
    """
    return str(int(at.timestamp()) * 1_000_000_000 + at.microsecond * 1000)


def _id(name: tuple[str, ...], size: int) -> str:
    return sha256(json.dumps([size, *name]).encode()).hexdigest()[: 2 * size]


def _attributes(values: Attributes) -> list[Json]:
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value is not None]


def _value(value: object) -> Json:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [_value(one) for one in value]}}
        case _:
            return {"stringValue": str(value)}
