"""Store the results of a report in the database ``results/results.sqlite``.

The database can be rebuilt from the journals.

Example::

    await store_report(reader, report, Path("results"))
    await rebuild(Path("."))                       # from every journal of the workspace
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from bench.errors import JournalError
from bench.journal import Reader, RunState
from bench.journal.pages import sampled_times
from bench.journal.paths import CHECKPOINTS, run_ids
from bench.journal.records import UsageTotals
from bench.journal.results_db import ItemResult, JobSummary, MetricSummary, ResultsDb
from bench.metrics.latency import attempt_us
from bench.model import Measurement, Phase, State
from bench.report.fold import JobReport, Report, fold
from bench.stats import percentile

RESULTS_FILE = "results.sqlite"
UNFINISHED_STATES = frozenset({RunState.RUNNING, RunState.INTERRUPTED})


async def store_report(reader: Reader, report: Report, results: Path) -> None:
    """Write the jobs of a report to the database in the folder ``results``. Earlier rows of the run are replaced."""
    async with ResultsDb.open(results / RESULTS_FILE) as database:
        await _put(database, reader, report)


async def rebuild(workspace: Path) -> tuple[int, tuple[str, ...]]:
    """Rebuild the database from all journals of the workspace.

    Return the number of runs, and one error per journal that could not be read.
    """
    path = workspace / "results" / RESULTS_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    broken = []
    count = 0
    async with ResultsDb.rebuild(path) as database:
        for name in run_ids(workspace):
            try:
                async with Reader.open(workspace / CHECKPOINTS / name) as reader:
                    await _put(database, reader, await fold(reader))
                    count += 1
            except JournalError as error:
                broken.append(str(error))
    return count, tuple(broken)


async def _put(database: ResultsDb, reader: Reader, report: Report) -> None:
    status = await reader.status()
    finished = None if status.state in UNFINISHED_STATES else status.at
    jobs = [await _summary(reader, report, job, finished) for job in report.jobs]
    await database.put(report.run_id, jobs, _items(reader, report))


async def _summary(reader: Reader, report: Report, job: JobReport, finished: datetime | None) -> JobSummary:
    record = job.record
    costs = {owner: _known_cost(by_role.values()) for owner, by_role in job.spent.items()}
    return JobSummary(
        run_id=report.run_id,
        job=record.key,
        benchmark=record.benchmark,
        benchmark_version=record.benchmark_version,
        provider=record.provider,
        embedding_model=record.models.embedding,
        answering_model=record.models.answering,
        judge_model=record.models.judge,
        track=record.track,
        plan_digest=report.plan_digest,
        created_at=reader.meta.created_at,
        finished_at=finished,
        state=str(report.status),
        partial=report.partial or job.n_pending > 0,
        valid=job.valid and not record.skipped,
        n_planned=job.n_planned,
        n_scored=job.n_scored,
        cost_usd=_known_cost(job.usage.values()),
        report=f"{report.run_id}/report.json",
        data={
            "k": record.k,
            "context_budget": record.context_budget,
            "level": record.level,
            "provider_type": record.provider_type,
            "evaluator": next(iter(record.evaluators), None) if record.models.answering else None,
            "epochs_reducer": record.epochs_reducer if record.epochs > 1 else "mean",
            "prompts": dict(sorted(record.prompts.items())),  # newest of equal settings: compared as text
            "metrics": [metric.name for metric in record.metrics],
            "lower_is_better": [metric.name for metric in record.metrics if metric.lower_is_better],
            "selection": dict(record.selection),
            "dataset": dict(record.dataset),
            "cost_unknown_calls": sum(spent.unknown_costs for spent in job.usage.values()),
            # by owner of rows, so that a cost that jobs share is counted once per run
            "costs": {owner: cost for owner, cost in costs.items() if cost is not None},
            "search_p50_ms": await _search_p50_ms(reader, job),
        },
        metrics=tuple(_metrics(job)),
    )


def _known_cost(spent: Iterable[UsageTotals]) -> str | None:
    """Return the total of the known costs as decimal text; None if the total is zero."""
    total = sum((Decimal(one.cost_usd) for one in spent), Decimal(0))
    return f"{total:f}" if total else None


async def _search_p50_ms(reader: Reader, job: JobReport) -> float | None:
    """Return the median search latency of a job in milliseconds; None if no search was timed.

    The value of the latency metric is used. If this metric has no value, the median is computed from stored times.
    """
    known = job.metrics.get("latency_p50")
    if known is not None and known.value is not None:
        return known.value
    _, sample = await sampled_times(reader, job.record.lane, Phase.SEARCH)
    median_us = percentile([us for times in sample if (us := attempt_us(times)) is not None], 50)
    return None if median_us is None else median_us / 1000


def _metrics(job: JobReport) -> Iterator[MetricSummary]:
    for one in job.metrics.values():
        yield _metric(one, "", "")
        for dimension, labels in one.breakdown.items():
            for label, inner in labels.items():
                yield _metric(inner, dimension, label)


def _metric(one: Measurement, dimension: str, label: str) -> MetricSummary:
    return MetricSummary(
        metric=one.metric,
        definition=one.definition,
        dimension=dimension,
        label=label,
        value=one.value,
        value_failures_as_zero=one.value_failures_as_zero,
        n=one.n,
        n_excluded=one.n_excluded,
        n_failed=one.n_failed,
        low=one.interval.low if one.interval else None,
        high=one.interval.high if one.interval else None,
        level=one.interval.level if one.interval else None,
        method=one.interval.method if one.interval else None,
        unit=one.unit,
    )


async def _items(reader: Reader, report: Report) -> AsyncIterator[ItemResult]:
    for job in report.jobs:
        async for batch in reader.values(job.record.key):
            for at, item in enumerate(batch.items):
                state = State(batch.states[at])
                yield ItemResult(
                    job=job.record.key,
                    corpus=batch.corpora[at],
                    item_id=item,
                    epoch=batch.epochs[at],
                    question_type=batch.labels[at].get("question_type"),
                    state=str(state),
                    correct=CORRECTNESS.get(state),
                    error_kind=batch.outcomes[at] if state == State.ERROR else None,
                    values={
                        name: None if column[at] != column[at] else column[at] for name, column in batch.values.items()
                    },
                )


CORRECTNESS = {State.CORRECT: True, State.INCORRECT: False, State.PARTIAL: False, State.ABSTAINED: False}
