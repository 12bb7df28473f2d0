"""A report as the JSON of ``results --json`` and ``report.json``: unrounded numbers, without the time of output.

``results`` in report.json is byte-equal between an uninterrupted, a resumed and a merged run of deterministic
providers. Values that depend on a clock, a network or a price are in ``measured``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from bench.journal.records import Spent
from bench.model import Interval, Measurement
from bench.report.cost_text import cost_json
from bench.report.fold import JobReport, Report
from bench.report.job_notes import gold_json

MEASURED = frozenset({"performance", "cost"})
"""categories of metrics whose values differ between identical runs"""
ROLES = ("answering", "judge", "embedding", "provider")


def results_json(report: Report) -> dict[str, object]:
    """Return the document of ``bench results RUN --json``."""
    return {
        "run_id": report.run_id,
        "status": str(report.status),
        "partial": report.partial,
        "jobs": [_whole_job(job) for job in report.jobs],
    }


def report_json(report: Report) -> dict[str, object]:
    """Return the document ``report.json``: repeatable results, and measured values."""
    jobs = []
    measured = []
    for job in report.jobs:
        categories = {metric.name: metric.category for metric in job.record.metrics}
        fixed = [name for name in job.metrics if categories.get(name) not in MEASURED]
        jobs.append(_job(job, fixed))
        timed = {name: metric_json(one) for name, one in job.metrics.items() if name not in fixed}
        measured.append(
            {
                "benchmark": job.record.benchmark,
                "provider": job.record.provider,
                "metrics": timed,
                **_told(job),
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


def _whole_job(job: JobReport) -> dict[str, object]:
    found = _job(job, list(job.metrics))
    return found | _told(job)


def _told(job: JobReport) -> dict[str, object]:
    """Return the fields of a job that may differ between identical runs, such as usage and notes."""
    return {
        "isolation": asdict(job.isolation),
        "usage": _usage(job),
        "memory_cost": None if job.memory_cost is None else cost_json(job.memory_cost),
        "judge_calibration": [dict(one.stored) for one in job.calibration],
        "notes": list(job.notes),
        "signs": [one.document for one in job.signs],
    }


def _ended(job: JobReport) -> dict[str, object]:
    """Return the identity of a job and the counts of its items by state."""
    return {
        "benchmark": job.record.benchmark,
        "provider": job.record.provider,
        "models": asdict(job.record.models),
        "epochs": job.record.epochs,
        "n_planned": job.n_planned,
        "n_scored": job.n_scored,
        "n_pending": job.n_pending,
        "n_failed_repeats": job.failed_repeats,
        "counts": {str(state): n for state, n in sorted(job.counts.items())},
        "error_kinds": dict(job.error_kinds),
        "valid": job.valid,
    }


def _job(job: JobReport, names: list[str]) -> dict[str, object]:
    record = job.record
    return {
        **_ended(job),
        "track": record.track,
        "k": record.k,
        **_build(job),
        "selection": dict(record.selection),
        "invalid": list(job.invalid),
        "skipped": record.skipped,
        "metrics": {name: metric_json(job.metrics[name]) for name in names},
        **gold_json(record, job.gold),
    }


def _build(job: JobReport) -> dict[str, object]:
    """Return the build of a job if it is shared or reused: its lane, the number of jobs, the run that paid."""
    record = job.record
    if record.n_sharing == 1 and not job.reused:
        return {}
    reused = {"reused": dict(job.reused)} if job.reused else {}
    return {"build": {"lane": record.build, "searches": record.n_sharing, **reused}}


def metric_json(one: Measurement) -> dict[str, object]:
    """Return the JSON of one measurement; money and tokens include how they were counted."""
    found: dict[str, object] = {
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


def interval_json(interval: Interval | None) -> dict[str, object] | None:
    """Return ``{"low", "high", "level", "method"}``, or None without an interval."""
    return None if interval is None else asdict(interval)


def _usage(job: JobReport) -> dict[str, object]:
    return {role: usage_json(job.usage.get(role, Spent())) for role in ROLES}


def usage_json(spent: Spent) -> Mapping[str, object]:
    """Return the summed usage with the number of calls and their cost."""
    usage = asdict(spent.usage)
    return {**usage, "calls": spent.calls, "cost_usd": spent.cost_usd, "cost_unknown_calls": spent.unknown_costs}


def done_job(job: JobReport) -> dict[str, object]:
    """Return the JSON of a job in the ``done`` event of a run."""
    headline = job.headline
    return {
        **_ended(job),
        "headline": None if headline is None else {"metric": headline.metric, **metric_json(headline)},
        "usage": _usage(job),
    }
