"""Create the document of a run with its jobs, for the API and the pages.

The results of a finished run come from ``results/RUN/report.json``. If this file is missing or older than the journal,
the results are computed from the journal in the background.

Example::

    document = await run_document(site, "r1")
    document["progress"]["jobs"][0]["counts"], document["progress"]["ended"]
    shown = await results_of(site, "r1", items=160)
    shown.document, shown.fresh        # None and False while the results are computed for the first time
    latency_spread([{"total": 1200, "network": 300, "provider": 900}], count=1)["p50"]["latency"]      # 1200

The histogram shows the latency, which is the time of network and provider. ``total`` also includes the waiting time in
bench.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, cast

from bench.journal import Reader
from bench.journal.pages import ends_of, sampled_times
from bench.journal.paths import CHECKPOINTS, JOURNAL
from bench.metrics.latency import attempt_us
from bench.model import FAILED_STATES, Phase, State
from bench.plan.job_record import JobRecord, read_jobs
from bench.plan.ranges import gaps_of
from bench.report import fold, results_json
from bench.report.fold import job_invalid_reasons, repeats_of
from bench.report.job_data import OutcomeCounts
from bench.report.results_document import JobDocument, ResultsDocument
from bench.stats import percentile
from bench.untyped_values import Json, utc_text
from bench.web.app_state import Site
from bench.web.cache import CachedDocument, Document, Stamp, make_off_loop, max_wait_s, stamp_of
from bench.web.errors import Busy, NotFound
from bench.web.errors import check_run_id as checked

SHOWN_CAUSES = 3
FORM_FLAGS = (
    "benchmarks", "providers", "answering_model", "judge_model", "k", "sample", "limit", "seed", "max_cost", "note",
    "run_id",
)  # fmt: skip
"""flags of a run that the form for a new run offers"""
PARTS = ("latency", "total", "queue", "limiter", "network", "provider")
EDGES = tuple(round(10 ** (step / 6)) for step in range(6, 55))
"""bin edges in microseconds: six bins of equal logarithmic width per decade, from 10 µs to 1000 s"""


class LatencySpread(TypedDict):
    """The times of one phase of a job in microseconds.

    ``p50`` and ``p95`` are percentiles of the latency and of its parts. ``histogram`` counts latencies.
    """

    n: int
    n_sampled: int
    p50: Mapping[str, float | None]
    p95: Mapping[str, float | None]
    histogram: Sequence[tuple[int, int, int]]


class JobResult(JobDocument):
    """The results of a job, with the times of its phases.

    ``ends`` has points (seconds since the start of the run, number of items that had ended by then).
    """

    times: dict[str, LatencySpread]
    ends: list[tuple[float, int]]


Results = ResultsDocument[JobResult]


def latency_spread(sample: Sequence[Mapping[str, int]], count: int) -> LatencySpread:
    """Return percentiles of the latency and of its parts, and a histogram of the latency; all times in microseconds.

    ``count`` is the number of all measured attempts. ``sample`` can be a part of these attempts.
    """
    whole = [{"latency": attempt_us(times) or 0, **times} for times in sample]
    columns = {part: sorted(times.get(part, 0) for times in whole) for part in PARTS}
    return {
        "n": count,
        "n_sampled": len(sample),
        "p50": {part: percentile(column, 50) for part, column in columns.items()},
        "p95": {part: percentile(column, 95) for part, column in columns.items()},
        "histogram": histogram(columns["latency"]),
    }


def histogram(column: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return (start, end, count) for each bin of a histogram, from the first to the last bin that is not empty."""
    counts = [0] * (len(EDGES) + 1)
    for value in column:
        counts[bisect_right(EDGES, value)] += 1
    used = [at for at, count in enumerate(counts) if count]
    edges = (0, *EDGES, EDGES[-1] * 10)
    return [(edges[at], edges[at + 1], counts[at]) for at in range(used[0], used[-1] + 1)] if used else []


async def results_of(site: Site, run_id: str, *, items: int) -> CachedDocument[Results]:
    """Return the latest known results of a run; ``items`` is the number of items of the run."""
    make = partial(_make_results, site.workspace, run_id, items)
    stamp = journal_stamp(site.workspace / CHECKPOINTS / run_id)
    return await site.cache.get(("report", run_id), stamp, make, max_wait_s=max_wait_s(items))


def journal_stamp(folder: Path) -> Stamp:
    """Return the modification times and sizes of a journal's files, which differ after the journal has changed."""
    return stamp_of(folder / JOURNAL, folder / f"{JOURNAL}-wal")


async def _make_results(workspace: Path, run_id: str, items: int) -> Results:
    """Create the document of results: from the stored report if it is current, otherwise from the journal."""
    folded = 0 if _stored_report(workspace, run_id) is not None else items
    return await make_off_loop(make_results, str(workspace), run_id, items=folded)


async def make_results(place: str, run_id: str) -> Results:
    """Return the document of ``bench results --json``; each job also has its times, and when its items ended."""
    workspace = Path(place)
    async with Reader.open(workspace / CHECKPOINTS / run_id) as reader:
        records = read_jobs(reader.meta.extra)
        stored = _stored_report(workspace, run_id)
        document = _join_report(stored, records) if stored is not None else None
        if document is None:
            document = results_json(await fold(reader))
        return await with_times(reader, document, records)


async def with_times(reader: Reader, document: ResultsDocument[JobDocument], records: Sequence[JobRecord]) -> Results:
    """Return a results document in which each job also has the times of its phases, and when its items ended."""
    jobs: list[JobResult] = [
        {
            **job,
            "times": await _times(reader, record),
            "ends": await ends_of(reader, record.key, record.epochs),
        }
        for job, record in zip(document["jobs"], records, strict=True)
    ]
    return {**document, "jobs": jobs}


async def _times(reader: Reader, record: JobRecord) -> dict[str, LatencySpread]:
    found: dict[str, LatencySpread] = {}
    for phase, owner in zip((Phase.SEARCH, Phase.ANSWER, Phase.EVALUATE), record.owners, strict=True):
        count, sample = await sampled_times(reader, owner, phase)
        if sample:
            found[str(phase)] = latency_spread(sample, count)
    return found


def _stored_report(workspace: Path, run_id: str) -> Any:
    """Read the stored report of a run; None if the report is missing or older than the journal."""
    path = workspace / "results" / run_id / "report.json"
    newest = max(at for at, _ in journal_stamp(workspace / CHECKPOINTS / run_id))
    try:
        if path.stat().st_mtime_ns < newest:
            return None
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def _join_report(report: Any, records: tuple[JobRecord, ...]) -> ResultsDocument[JobDocument] | None:
    """Join the two parts of a stored report, ``results`` and ``measured``; None if the file has another structure."""
    try:
        results, measured = report["results"], report["measured"]
        pairs = list(zip(results["jobs"], measured["jobs"], records, strict=True))
        return {
            "run_id": measured["run_id"],
            "status": measured["status"],
            "partial": results["partial"],
            "jobs": [_join_job(fixed, timed, record) for fixed, timed, record in pairs],
        }
    except (KeyError, TypeError, ValueError):
        return None


def _join_job(fixed: Any, timed: Any, record: JobRecord) -> JobDocument:
    both = {**fixed["metrics"], **timed["metrics"]}
    order = [metric.name for metric in record.metrics]
    names = [name for name in order if name in both] + [name for name in both if name not in order]
    found: JobDocument = fixed | timed | {"metrics": {name: both[name] for name in names}}
    if not JobDocument.__required_keys__ <= found.keys():
        raise KeyError("an earlier version of bench wrote the report")
    return found


def folder_of(site: Site, run_id: str) -> Path:
    """Return the folder of a run.

    Raises:
        BadId: the text cannot be a run id.
        NotFound: the run does not exist.
    """
    folder = site.workspace / CHECKPOINTS / checked(run_id)
    if not (folder / JOURNAL).is_file():
        raise NotFound(f"there is no run {run_id}")
    return folder


class JobCounts(TypedDict):
    """The progress of a job: how many items are planned, ended and failed, and how many items have each state."""

    job: str
    benchmark: str
    provider: str
    planned: int
    ended: int
    failed: int
    counts: Mapping[str, int]
    invalid: list[str]
    commonest: list[Json]


class RunProgress(TypedDict):
    """The progress of a run and of its jobs; ``counted`` is False if the journal has not been read yet."""

    planned: int
    ended: int
    failed: int
    invalid_jobs: int
    jobs: list[JobCounts]
    counted: bool


async def progress_of(site: Site, run_id: str, jobs: tuple[JobRecord, ...]) -> tuple[RunProgress, bool]:
    """Return how many items of each job have ended, and True if these counts are as new as the journal.

    Raises:
        JournalError: the journal cannot be read.
    """
    folder = site.workspace / CHECKPOINTS / run_id
    shown = await site.cache.get(
        ("progress", run_id),
        journal_stamp(folder),
        partial(_read_progress, folder, jobs),
        max_wait_s=max_wait_s(planned_items(jobs)),
    )
    if shown.problem is not None:
        raise shown.problem
    return shown.document or {**progress_json([(job, {}, (), []) for job in jobs]), "counted": False}, shown.fresh


def planned_items(jobs: Iterable[JobRecord]) -> int:
    """Return the number of items of all jobs. An item that is repeated counts once per repeat."""
    return sum(job.n_repeats for job in jobs)


async def _read_progress(folder: Path, jobs: tuple[JobRecord, ...]) -> RunProgress:
    async with Reader.open(folder) as reader:
        return progress_json([(job, *await _job_state(reader, job)) for job in jobs])


JobState = tuple[Mapping[State, int], tuple[str, ...], list[Json]]
"""state -> number of items, the reasons why a job is INVALID, and its most frequent failures"""


async def _job_state(reader: Reader, job: JobRecord) -> JobState:
    states = await reader.item_states(job.key, job.epochs)
    kinds: Counter[str] = Counter()
    failed = await reader.error_counts(job.key)
    for one in failed:
        kinds[one.kind] += one.count
    counts = OutcomeCounts(states=states, error_kinds=kinds)
    repeats = await repeats_of(reader, job, counts)
    invalid = await job_invalid_reasons(reader, job, counts, await reader.probes(job.build), repeats)
    return states, invalid, [{"kind": one.kind, "text": one.text, "count": one.count} for one in failed[:SHOWN_CAUSES]]


def progress_json(counted: Iterable[tuple[JobRecord, *JobState]]) -> RunProgress:
    """Return the progress of a run; ``counted`` holds each job with the counts of its items."""
    rows: list[JobCounts] = [
        {
            "job": job.key,
            "benchmark": job.benchmark,
            "provider": job.provider,
            "planned": job.n_selected,
            "ended": sum(states.values()),
            "failed": sum(states.get(state, 0) for state in FAILED_STATES),
            "counts": {str(state): count for state, count in sorted(states.items())},
            "invalid": list(invalid),
            "commonest": commonest,
        }
        for job, states, invalid, commonest in counted
    ]
    return {
        "planned": sum(row["planned"] for row in rows),
        "ended": sum(row["ended"] for row in rows),
        "failed": sum(row["failed"] for row in rows),
        "invalid_jobs": sum(bool(row["invalid"]) for row in rows),
        "jobs": rows,
        "counted": True,
    }


class JobDigests(TypedDict):
    """The settings and digests of a job. Only the keys that pages read are declared."""

    benchmark: str
    provider: str
    models: Mapping[str, str | None]


class ReportedRun(TypedDict):
    """The part of a run's document from which the report of the run is built."""

    run_id: str
    state: str
    progress: RunProgress
    records: list[JobDigests]
    results: Results | None


class RunDocument(ReportedRun):
    """The document of a run. Only the keys that pages read are declared."""

    plan_digest: str
    again: Json


async def run_document(site: Site, run_id: str) -> RunDocument:
    """Return a run: state, progress, the settings and digests of each job, and the results if they are known."""
    folder = folder_of(site, run_id)
    async with Reader.open(folder) as reader:
        status = await reader.status()
        jobs = read_jobs(reader.meta.extra)
        meta = reader.meta
        events = [{"id": number, **event_json(event)} for number, event in await reader.numbered_events()]
    progress, counted = await progress_of(site, run_id, jobs)
    shown = await results_of(site, run_id, items=planned_items(jobs))
    document = {
        "run_id": run_id,
        "state": str(status.state),
        "reason": status.reason,
        "holder": status.holder,
        "created_at": utc_text(meta.created_at, "seconds"),
        "plan_digest": meta.plan_digest,
        "note": meta.extra.get("note"),
        "labels": meta.extra.get("labels") or {},
        "again": {name: meta.request[name] for name in FORM_FLAGS if name in meta.request and name != "run_id"},
        "live": site.service.live_progress(run_id) if site.service else None,
        "gaps": [list(gap) for gap in gaps_of(meta.ranges, meta.total)],
        "service": site.service.states().get(run_id) if site.service else None,
        "progress": progress,
        "progress_fresh": counted,
        "records": [record_json(job) for job in jobs],
        "results": shown.document,
        "results_fresh": shown.fresh,
        "results_problem": str(shown.problem) if shown.problem else None,
        "events": events[-100:],
    }
    return cast("RunDocument", document)


def event_json(event: object) -> Json:
    """Return kind, scope, message and time of a journal event."""
    return {name: str(getattr(event, name)) for name in ("kind", "scope", "message", "at")}


def side_names(jobs: Sequence[tuple[str, str | None]]) -> list[str]:
    """Return the name of each job in a comparison: the provider, and the answering model if the provider has several.

    ``jobs`` are (provider, answering model).
    """
    models: dict[str, set[str | None]] = {}
    for provider, model in jobs:
        models.setdefault(provider, set()).add(model)
    return [f"{provider}:{model}" if model and len(models[provider]) > 1 else provider for provider, model in jobs]


def record_json(job: JobRecord) -> JobDigests:
    """Return the settings of a job, and the digests of its data and configs."""
    digests = {
        "job": job.key,
        "benchmark": job.benchmark,
        "benchmark_version": job.benchmark_version,
        "provider": job.provider,
        "models": asdict(job.models),
        "k": job.k,
        "track": job.track,
        "seed": job.seed,
        "context_budget": job.context_budget,
        "dataset_sha256": job.dataset.get("sha256"),
        "license": job.dataset.get("license"),
        "config_sha256": dict(job.config_sha256),
        "prompts": dict(job.prompts),
        "marks": list(job.marks),
        "skipped": job.skipped,
    }
    return cast("JobDigests", digests)


async def results_document(site: Site, run_id: str) -> Mapping[str, object]:
    """Return the results of a run.

    Raises:
        Busy: the results are being computed; ask again.
    """
    async with Reader.open(folder_of(site, run_id)) as reader:
        jobs = read_jobs(reader.meta.extra)
    return require_document(await results_of(site, run_id, items=planned_items(jobs)), "the numbers are being computed")


def require_document(shown: CachedDocument[Document], what: str) -> Document:
    """Return the document, or raise the error that its creation raised.

    Raises:
        Busy: there is no document yet; ``what`` is the message.
    """
    if shown.problem is not None:
        raise shown.problem
    if shown.document is None:
        raise Busy(what)
    return shown.document
