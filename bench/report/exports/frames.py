"""Load a run into pandas data frames: items, hits, verdicts and calls.

Example::

    frames = bench.frames("20261129-4f9c0a1b")
    frames.items.groupby("provider")["score"].mean()
    frames.hits[frames.hits["rank"] == 1]

Every frame has the column ``job``. All frames except ``calls`` also have ``item_id`` and ``epoch``. Durations are in
microseconds, money is in USD. ``isna()`` finds missing values in all columns. ``polars.from_pandas`` accepts each
frame.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from bench.errors import UsageError
from bench.journal import Reader
from bench.metrics.latency import attempt_us
from bench.plan.job_record import JobRecord, read_jobs
from bench.report.exports.export import ExportedRow, flat_row, rows_of
from bench.untyped_values import Json

if TYPE_CHECKING:
    from pandas import DataFrame

KEYS = ("job", "item_id", "epoch")
TYPES: Mapping[str, Mapping[str, str]] = {
    "items": {
        "epoch": "Int64", "score": "Float64", "correct": "boolean", "truncated": "boolean", "reasoning_tokens": "Int64",
    },
    "hits": {"epoch": "Int64", "rank": "Int64", "score": "Float64"},
    "verdicts": {
        "epoch": "Int64", "value": "Float64", "correct": "boolean", "judged": "boolean", "abstained": "boolean",
    },
    "calls": {
        "attempt": "Int64", "status": "Int64", "queue_us": "Int64", "limiter_us": "Int64", "network_us": "Int64",
        "provider_us": "Int64", "request_bytes": "Int64", "response_bytes": "Int64", "input_tokens": "Int64",
        "output_tokens": "Int64", "cost_usd": "Float64",
    },
}  # fmt: skip
COLUMNS: Mapping[str, Sequence[str]] = {
    "hits": (*KEYS, "rank", "id", "content", "when", "score", "evidence_ids"),
    "verdicts": (*KEYS, "evaluator", "value", "correct", "judged", "abstained", "reason", "model", "raw"),
    "calls": ("job", "owner", "endpoint", "role", "outcome", "started_at", "model", *TYPES["calls"]),
}


@dataclass(frozen=True, slots=True)
class Frames:
    """The results of a run as pandas data frames."""

    items: DataFrame
    """one row per item of a job: answer, state, score, one column per metric, and one column per phase with its time"""
    hits: DataFrame
    """one row per retrieved hit"""
    verdicts: DataFrame
    """one row per verdict of an evaluator"""
    calls: DataFrame
    """one row per attempt of a request; a call that several jobs share has a row for each of these jobs"""


async def load_frames(reader: Reader) -> Frames:
    """Read every ended item of a run into frames.

    Raises:
        UsageError: pandas is not installed (extra [pandas]).
    """
    try:
        import pandas
    except ImportError:
        raise UsageError("frames need the extra [pandas]", hint="pip install 'memorybench[pandas]'") from None
    rows: dict[str, list[Json]] = {"items": [], "hits": [], "verdicts": [], "calls": []}
    for record in read_jobs(reader.meta.extra):
        async with aclosing(rows_of(reader, reader.meta.run_id, record)) as found:
            async for row in found:
                _add(rows, record, row)
        rows["calls"] += await _calls(reader, record)
    made = {name: pandas.DataFrame(values, columns=_columns(name, values)) for name, values in rows.items()}
    typed = {
        name: frame.astype({column: kind for column, kind in TYPES[name].items() if column in frame.columns})
        for name, frame in made.items()
    }
    for column in ("when", "started_at"):
        for frame in typed.values():
            if column in frame.columns:
                frame[column] = pandas.to_datetime(frame[column], utc=True, format="ISO8601")
    return Frames(**typed)


def _columns(name: str, rows: Sequence[Json]) -> list[str] | None:
    fixed = list(COLUMNS.get(name, ()))
    return fixed or list(dict.fromkeys(column for row in rows for column in row)) or None


def _add(rows: Mapping[str, list[Json]], record: JobRecord, row: ExportedRow) -> None:
    """Add the item of an exported row to the frames of items, hits and verdicts."""
    keys = {"job": record.key, "item_id": row["item_id"], "epoch": row["epoch"]}
    rows["items"].append(
        {
            "job": record.key,
            **flat_row(row),
            **{f"{phase}_us": attempt_us(times) for phase, times in row["latency"].items()},
            **row["metrics"],
        }
    )
    ranked = row["retrieved"] or ()
    for rank, hit in enumerate(row["hits"] or (), start=1):
        ids = list(ranked[rank - 1]) if rank <= len(ranked) else []
        chosen = {name: hit.get(name) for name in ("id", "content", "when", "score")}
        rows["hits"].append({**keys, "rank": rank, **chosen, "evidence_ids": json.dumps(ids)})
    for verdict in row["verdicts"]:
        rows["verdicts"].append({**keys, **verdict})


async def _calls(reader: Reader, record: JobRecord) -> list[Json]:
    found: list[Json] = []
    for owner in dict.fromkeys(record.owners):
        async with aclosing(reader.calls(owner)) as calls:
            async for call in calls:
                usage = {} if call.usage is None else asdict(call.usage)
                cost = None if call.cost_usd is None else float(call.cost_usd)
                tokens = {name: usage.get(name) for name in ("input_tokens", "output_tokens")}
                found.append({"job": record.key, "owner": owner, **asdict(call), **tokens, "cost_usd": cost})
    return found
