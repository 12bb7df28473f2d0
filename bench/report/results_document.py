"""Write a report as the JSON of ``bench results --json`` and of ``report.json``.

Numbers are not rounded. Values that depend on a clock, a network or a price are in ``measured``. If the providers are
deterministic, the bytes of ``results`` are the same for an uninterrupted, a resumed and a merged run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Generic, NotRequired, TypedDict, TypeVar

from bench.journal.records import UsageTotals
from bench.model import Interval, IntervalDocument, Measurement
from bench.report.cost_text import MemoryCostDocument, cost_json
from bench.report.fold import JobReport, Report
from bench.report.job_notes import GoldSection, gold_json
from bench.untyped_values import Json

MEASURED = frozenset({"performance", "cost"})
"""categories of metrics whose values can differ between identical runs"""
ROLES = ("answering", "judge", "embedding", "provider")


class MetricDocument(TypedDict):
    """The value of one metric.

    Only metrics with a unit, such as times, money and tokens, have the keys ``unit``, ``n_unknown`` and ``estimated``.
    """

    definition: str
    value: float | None
    value_failures_as_zero: float | None
    n: int
    n_excluded: int
    n_failed: int
    interval: IntervalDocument | None
    breakdown: Mapping[str, Mapping[str, MetricDocument]]
    unit: NotRequired[str]
    n_unknown: NotRequired[int]
    method: NotRequired[str | None]
    estimated: NotRequired[bool]
    excluded: NotRequired[Mapping[str, int]]
    note: NotRequired[str]
    spread: NotRequired[float]


class SharedBuild(TypedDict, total=False):
    """Data on the memories that a job searches, if several jobs search these memories or another run ingested them.

    The fields are the lane that ingested, the number of jobs, and the run that paid.
    """

    build: Json


class JobDocument(SharedBuild, GoldSection):
    """All results of a job."""

    benchmark: str
    provider: str
    models: Mapping[str, str | None]
    epochs: int
    epochs_reducer: str
    n_planned: int
    n_scored: int
    n_pending: int
    n_failed_repeats: int
    counts: Mapping[str, int]
    error_kinds: Mapping[str, int]
    valid: bool
    track: str
    k: int
    selection: Mapping[str, object]
    invalid: list[str]
    skipped: str | None
    metrics: Mapping[str, MetricDocument]
    isolation: Json
    usage: Mapping[str, Json]
    memory_cost: MemoryCostDocument | None
    judge_calibration: list[Json]
    notes: list[str]
    signs: list[Json]


SUMMARY = ("benchmark", "provider", "models", "epochs", "n_planned", "n_scored", "n_pending", "n_failed_repeats",
           "counts", "error_kinds", "valid")  # fmt: skip
"""the fields of a job in the event that ends a run"""
VARIABLE = ("isolation", "usage", "memory_cost", "judge_calibration", "notes", "signs")
"""the fields of a job that can differ between identical runs"""
Job = TypeVar("Job", bound=JobDocument)


class ResultsDocument(TypedDict, Generic[Job]):
    """The document of ``bench results RUN --json``."""

    run_id: str
    status: str
    partial: bool
    jobs: list[Job]


def results_json(report: Report) -> ResultsDocument[JobDocument]:
    """Return the document of ``bench results RUN --json``."""
    return {
        "run_id": report.run_id,
        "status": str(report.status),
        "partial": report.partial,
        "jobs": [_job(job) for job in report.jobs],
    }


def report_json(report: Report) -> Json:
    """Return the document ``report.json``.

    The part ``results`` has the values that do not depend on a clock, a network or a price. The part ``measured`` has
    the other values.
    """
    jobs, measured = [], []
    for job in report.jobs:
        found = _job(job)
        timed = {metric.name for metric in job.record.metrics if metric.category in MEASURED}
        fixed = {name: one for name, one in found["metrics"].items() if name not in timed}
        jobs.append({**{name: value for name, value in found.items() if name not in VARIABLE}, "metrics": fixed})
        measured.append(
            {
                "benchmark": found["benchmark"],
                "provider": found["provider"],
                "metrics": {name: one for name, one in found["metrics"].items() if name in timed},
                **{name: value for name, value in found.items() if name in VARIABLE},
            }
        )
    return {
        "results": {"plan_digest": report.plan_digest, "partial": report.partial, "jobs": jobs},
        "measured": {
            "run_id": report.run_id,
            "status": str(report.status),
            "reason": report.reason,
            "gaps": [list(gap) for gap in report.gaps],
            "jobs": measured,
        },
    }


def _job(job: JobReport) -> JobDocument:
    record = job.record
    return {
        "benchmark": record.benchmark,
        "provider": record.provider,
        "models": asdict(record.models),
        "epochs": record.epochs,
        "epochs_reducer": record.epochs_reducer,
        "n_planned": job.n_planned,
        "n_scored": job.n_scored,
        "n_pending": job.n_pending,
        "n_failed_repeats": job.failed_repeats,
        "counts": {str(state): n for state, n in sorted(job.counts.items())},
        "error_kinds": dict(job.error_kinds),
        "valid": job.valid,
        "track": record.track,
        "k": record.k,
        **_build(job),
        "selection": dict(record.selection),
        "invalid": list(job.invalid),
        "skipped": record.skipped,
        "metrics": {name: metric_json(one) for name, one in job.metrics.items()},
        **gold_json(record, job.gold),
        "isolation": asdict(job.isolation),
        "usage": {role: usage_json(job.usage.get(role, UsageTotals())) for role in ROLES},
        "memory_cost": None if job.memory_cost is None else cost_json(job.memory_cost, valid=job.valid),
        "judge_calibration": [dict(one.stored) for one in job.calibration],
        "notes": list(job.notes),
        "signs": [
            {
                "kind": one.kind,
                "count": one.count,
                "of": one.of,
                "items": list(dict.fromkeys(one.items)),
                "text": one.text,
            }
            for one in job.signs
        ],
    }


def _build(job: JobReport) -> SharedBuild:
    record = job.record
    if record.n_sharing == 1 and not job.reused:
        return {}
    reused = {"reused": dict(job.reused)} if job.reused else {}
    return {"build": {"lane": record.build, "searches": record.n_sharing, **reused}}


def metric_json(one: Measurement) -> MetricDocument:
    """Return one measurement as JSON.

    If the metric has a unit, the JSON also has the unit and the method of counting.
    """
    found: MetricDocument = {
        "definition": one.definition,
        "value": one.value,
        "value_failures_as_zero": one.value_failures_as_zero,
        "n": one.n,
        "n_excluded": one.n_excluded,
        "n_failed": one.n_failed,
        "interval": interval_json(one.interval),
        "breakdown": {
            dimension: {label: metric_json(inner) for label, inner in labels.items()}
            for dimension, labels in one.breakdown.items()
        },
    }
    if one.unit is not None:
        found |= {"unit": one.unit, "n_unknown": one.n_unknown, "method": one.method, "estimated": one.estimated}
    elif one.method is not None:
        found["method"] = one.method
    if one.excluded_reasons:
        found["excluded"] = dict(sorted(one.excluded_reasons.items()))
    if one.note:
        found["note"] = one.note
    if one.spread is not None:
        found["spread"] = one.spread
    return found


def interval_json(interval: Interval | None) -> IntervalDocument | None:
    """Return ``{"low", "high", "level", "method"}``; None if there is no interval."""
    return None if interval is None else interval.to_json()


def usage_json(spent: UsageTotals) -> Json:
    """Return the total usage as JSON, with the number of calls and their cost."""
    usage = asdict(spent.usage)
    return {**usage, "calls": spent.calls, "cost_usd": spent.cost_usd, "cost_unknown_calls": spent.unknown_costs}


def done_job(job: JobReport) -> Json:
    """Return the results of a job for the event ``done``, which reports the end of a run."""
    document, headline = _job(job), job.headline
    return {
        **{name: value for name, value in document.items() if name in SUMMARY},
        "headline": None if headline is None else {"metric": headline.metric, **metric_json(headline)},
        "usage": document["usage"],
    }
