"""The database ``results/results.sqlite`` with the jobs, metrics and items of every run.

Each report updates the database. The database can be rebuilt from the journals. Lists, the leaderboard and comparisons
of runs read it::

    async with ResultsDb.open(workspace / "results" / "results.sqlite") as results:
        await results.put(run_id, [JobSummary(...)], rows)
        newest = await results.newest("locomo")
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import astuple, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite

from bench.errors import JournalError
from bench.journal.codec import clean
from bench.journal.file import BUSY_TIMEOUT_S, run_in_thread, sqlite_errors_reported
from bench.journal.sql import blocks

VERSION = 1
APPLICATION_ID = 0x4D425231
"""``MBR1``, the application id"""

ROWS_AT_ONCE = 2000

Row = TypeVar("Row")

_SQL = blocks("results")
_REBUILD = "create the file again from the journals with: bench results --rebuild"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSummary:
    """One metric of one job, over all items or over a group of items.

    A group is named by ``dimension`` and ``label``, such as question_type and multi-hop. Both are empty for all items.
    """

    metric: str
    definition: str
    dimension: str = ""
    label: str = ""
    value: float | None
    value_failures_as_zero: float | None
    n: int
    n_excluded: int = 0
    n_failed: int = 0
    low: float | None = None
    high: float | None = None
    level: float | None = None
    method: str | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary:
    """One job of one run, with its setup, counts and metrics; (run_id, job) is unique."""

    run_id: str
    job: str
    benchmark: str
    benchmark_version: str = ""
    provider: str
    provider_version: str = ""
    embedding_model: str | None
    answering_model: str | None
    judge_model: str | None
    track: str
    plan_digest: str
    created_at: datetime
    finished_at: datetime | None
    state: str
    partial: bool
    valid: bool
    n_planned: int
    n_scored: int
    cost_usd: str | None
    report: str
    data: Mapping[str, object] = field(default_factory=dict)
    metrics: tuple[MetricSummary, ...] = ()
    """metrics to store with ``put``; empty in a job read from the database (see ``ResultsDb.metrics``)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemResult:
    """The result of one item in one epoch of one job."""

    job: str
    corpus: str
    item_id: str
    epoch: int = 1
    question_type: str | None
    state: str
    correct: bool | None
    error_kind: str | None
    values: Mapping[str, float | None] = field(default_factory=dict)


class ResultsDb:
    """The open database; use it with ``async with ResultsDb.open(path) as results``."""

    def __init__(self, path: Path, connection: aiosqlite.Connection) -> None:
        self.path = path
        self._connection = connection

    @staticmethod
    @asynccontextmanager
    async def open(path: Path) -> AsyncIterator[ResultsDb]:
        """Open the database, or create it if it is missing.

        Raises:
            JournalError: the file is damaged, from a newer version, or not a results database.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        async with aiosqlite.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level="IMMEDIATE") as connection:
            with _rebuildable(path):
                await run_in_thread(connection, partial(_prepare, path))
            yield ResultsDb(path, connection)

    @staticmethod
    @asynccontextmanager
    async def rebuild(path: Path) -> AsyncIterator[ResultsDb]:
        """Yield a new empty database; it replaces the old one if the ``with`` block ends without an error."""
        draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            async with ResultsDb.open(draft) as results:
                yield results
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
            draft.with_name(f"{draft.name}-journal").unlink(missing_ok=True)

    async def put(
        self, run_id: str, jobs: Sequence[JobSummary], items: AsyncIterable[ItemResult] | Sequence[ItemResult] = ()
    ) -> None:
        """Replace all stored data of a run by these jobs and items, in one transaction."""
        with _rebuildable(self.path):
            try:
                await run_in_thread(self._connection, partial(_put_jobs, run_id, jobs))
                rows = items if isinstance(items, AsyncIterable) else _in_turn(items)
                async for part in chunks(rows, ROWS_AT_ONCE):
                    await run_in_thread(self._connection, partial(_put_items, run_id, part))
                await self._connection.commit()
            finally:
                await self._connection.rollback()

    async def forget(self, run_id: str) -> None:
        """Remove all data of a run from the database."""
        with _rebuildable(self.path):
            await self._connection.execute(_SQL["forget"], (run_id,))
            await self._connection.commit()

    async def runs(
        self, *, run_id: str | None = None, benchmark: str | None = None, provider: str | None = None
    ) -> list[JobSummary]:
        """Return the jobs that match all filters, newest first, without metrics; a filter of None matches every job."""
        return await self._jobs("runs", run_id, benchmark, provider)

    async def newest(self, benchmark: str) -> list[JobSummary]:
        """Return the newest complete and valid job of each setup of a benchmark.

        Two jobs have the same setup if their provider, models, track, data and settings are the same.
        """
        return await self._jobs("newest", benchmark)

    async def benchmarks(self) -> list[str]:
        """Return the benchmarks that have a run."""
        with _rebuildable(self.path):
            return [str(row[0]) for row in await self._connection.execute_fetchall(_SQL["benchmarks"])]

    async def metrics(self, job: JobSummary) -> tuple[MetricSummary, ...]:
        """Return the metrics of a job, over all items and for each group of items."""
        names = tuple(MetricSummary.__dataclass_fields__)
        with _rebuildable(self.path):
            rows = await self._connection.execute_fetchall(_SQL["run_metrics"], (job.run_id, job.job))
        return tuple(MetricSummary(**dict(zip(names, row, strict=True))) for row in rows)

    async def _jobs(self, query: str, *columns: str | None) -> list[JobSummary]:
        names = [name for name in JobSummary.__dataclass_fields__ if name != "metrics"]
        with _rebuildable(self.path):
            rows = await self._connection.execute_fetchall(_SQL[query], columns)
        return [_job_of(dict(zip(names, row, strict=False))) for row in rows]


def _prepare(path: Path, raw: sqlite3.Connection) -> None:
    raw.execute("PRAGMA foreign_keys = ON")
    version = raw.execute("PRAGMA user_version").fetchone()[0]
    owner = raw.execute("PRAGMA application_id").fetchone()[0]
    tables = raw.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if owner not in (0, APPLICATION_ID) or (owner == 0 and tables):
        raise JournalError(
            "this SQLite file belongs to another program", where=str(path), hint="move the file to another folder"
        )
    if version > VERSION:
        raise JournalError(
            f"the file has format version {version}; this program can read only version {VERSION}",
            where=str(path),
            hint=_REBUILD,
        )
    if version == 0:
        raw.executescript(
            f"BEGIN IMMEDIATE;\n{_SQL['schema']}\nPRAGMA application_id = {APPLICATION_ID};\n"
            f"PRAGMA user_version = {VERSION};\nCOMMIT;"
        )


def _put_jobs(run_id: str, jobs: Sequence[JobSummary], raw: sqlite3.Connection) -> None:
    raw.execute(_SQL["forget"], (run_id,))
    raw.executemany(_SQL["add_run"], [_run_columns(job) for job in jobs])
    for job in jobs:
        metrics = [replace(metric, label=clean(metric.label)) for metric in job.metrics]
        raw.executemany(_SQL["add_run_metric"], [(job.run_id, job.job, *astuple(metric)) for metric in metrics])


def _put_items(run_id: str, items: Sequence[ItemResult], raw: sqlite3.Connection) -> None:
    raw.executemany(
        _SQL["add_result"],
        [
            (
                run_id,
                item.job,
                clean(item.corpus),
                clean(item.item_id),
                item.epoch,
                None if item.question_type is None else clean(item.question_type),
                item.state,
                item.correct,
                item.error_kind,
            )
            for item in items
        ],
    )
    raw.executemany(
        _SQL["add_result_metric"],
        (
            (run_id, item.job, clean(item.item_id), item.epoch, metric, value)
            for item in items
            for metric, value in item.values.items()
        ),
    )


def _run_columns(job: JobSummary) -> tuple[object, ...]:
    finished_at = None if job.finished_at is None else job.finished_at.astimezone(UTC).isoformat()
    own = {
        "created_at": job.created_at.astimezone(UTC).isoformat(),
        "finished_at": finished_at,
        "data": json.dumps(dict(job.data), sort_keys=True),  # sorted: settings are compared as text
    }
    names = [name for name in JobSummary.__dataclass_fields__ if name != "metrics"]
    return tuple(own[name] if name in own else getattr(job, name) for name in names)


def _job_of(columns: dict[str, Any]) -> JobSummary:
    for name, read in _READ.items():
        columns[name] = None if columns[name] is None else read(columns[name])
    return JobSummary(**columns)


_READ: Mapping[str, Callable[[Any], object]] = {
    "created_at": datetime.fromisoformat,
    "finished_at": datetime.fromisoformat,
    "partial": bool,
    "valid": bool,
    "data": json.loads,
}


async def _in_turn(items: Iterable[ItemResult]) -> AsyncIterator[ItemResult]:
    for item in items:
        yield item


async def chunks(rows: AsyncIterable[Row], size: int) -> AsyncIterator[list[Row]]:
    """Yield lists of up to ``size`` rows."""
    held: list[Row] = []
    async for row in rows:
        held.append(row)
        if len(held) == size:
            yield held
            held = []
    if held:
        yield held


@contextmanager
def _rebuildable(path: Path) -> Iterator[None]:
    """Convert the SQLite errors of the ``with`` block to JournalErrors with a hint to rebuild the database."""
    try:
        with sqlite_errors_reported(path):
            yield
    except JournalError as error:
        if isinstance(error.__cause__, sqlite3.DatabaseError):
            error.hint = _REBUILD
        raise
