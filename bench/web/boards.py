"""Documents over several runs: comparison, leaderboard, receipts.

Example::

    await compare_document(site, ["r1:bm25", "r1:oracle"])
    await leaderboard_document(site, benchmark="demo")
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from bench.errors import BenchError
from bench.journal.results_db import JobSummary, MetricSummary, ResultsDb
from bench.report.summary import FILE
from bench.web.faults import NotFound, Refused
from bench.web.reports import stamp_of
from bench.web.site import Site
from bench.web.views import folder_of

Json = dict[str, object]
COMPARED_AT_MOST = 6
KEPT_COMPARISONS = 32
LATENCIES = ("latency_p50", "search_latency_p50", "latency_p95")

_comparisons: dict[object, Json] = {}


async def compare_document(
    site: Site, names: Sequence[str], *, metrics: Sequence[str] = (), benchmark: str | None = None, force: bool = False
) -> Json:
    """The document of ``bench compare --json`` for jobs named ``RUN:PROVIDER[:MODEL]``.

    Raises:
        Refused: fewer than two jobs, or too many.
        UsageError: the jobs are not like for like; the text lists each difference.
    """
    if not 2 <= len(names) <= COMPARED_AT_MOST:
        hint = f"name 2 to {COMPARED_AT_MOST} jobs as RUN:PROVIDER"
        raise Refused(400, "usage", "a comparison needs at least two jobs", hint)
    folders = [folder_of(site, name.partition(":")[0]) for name in names]
    key = (tuple(names), tuple(metrics), benchmark, force, tuple(stamp_of(folder) for folder in folders))
    if key not in _comparisons:
        work = partial(anyio.run, _compared, site.workspace, tuple(names), tuple(metrics), benchmark, force)
        found = await anyio.to_thread.run_sync(work)
        while len(_comparisons) >= KEPT_COMPARISONS:
            _comparisons.pop(next(iter(_comparisons)))
        _comparisons[key] = found
    return _comparisons[key]


async def _compared(
    workspace: Path, names: Sequence[str], metrics: Sequence[str], benchmark: str | None, force: bool
) -> Json:
    from bench.report.choosing import Target, sides_of
    from bench.report.compare import compare_sides
    from bench.report.compareview import comparison_json
    from bench.report.verdicts import conclusion

    groups = await sides_of(workspace, [Target.parse(name) for name in names], benchmark=benchmark)
    found = compare_sides(groups, metrics=metrics, force=force)
    document = comparison_json(found)
    pairs = document["comparisons"]
    assert isinstance(pairs, list)
    for shown, pair in zip(pairs, found.comparisons, strict=True):
        shown["conclusion"] = list(conclusion(pair))
    return document


async def leaderboard_document(site: Site, *, benchmark: str | None = None) -> Json:
    """The newest complete valid job of each provider and models; only comparable rows share a table."""
    path = site.workspace / "results" / FILE
    if not path.is_file():
        return {"benchmarks": [], "tables": []}
    tables: list[Json] = []
    async with ResultsDb.open(path) as database:
        names = await database.benchmarks()
        for name in names:
            if benchmark in (None, name):
                jobs = [(job, await database.metrics(job)) for job in await database.newest(name)]
                tables += _tables(name, jobs)
    return {"benchmarks": names, "tables": tables}


def _tables(benchmark: str, jobs: Sequence[tuple[JobSummary, Sequence[MetricSummary]]]) -> list[Json]:
    groups: dict[str, list[tuple[JobSummary, Sequence[MetricSummary]]]] = {}
    for job, metrics in jobs:
        groups.setdefault(_setting(job), []).append((job, metrics))
    return [{"benchmark": benchmark, **json.loads(key), "rows": _rows(group)} for key, group in groups.items()]


def _setting(job: JobSummary) -> str:
    """What must be equal for two rows to stand in one table."""
    dataset = job.data.get("dataset")
    sha = dataset.get("sha256") if isinstance(dataset, Mapping) else None
    shared = {
        "version": job.benchmark_version,
        "answering_model": job.answering_model,
        "judge_model": job.judge_model,
        "track": job.track,
        "k": job.data.get("k"),
        "selection": job.data.get("selection"),
        "dataset_sha256": sha,
    }
    return json.dumps(shared, sort_keys=True, default=str)


def _rows(group: Sequence[tuple[JobSummary, Sequence[MetricSummary]]]) -> list[Json]:
    rows: list[Json] = []
    for job, metrics in group:
        overall = {one.metric: asdict(one) for one in metrics if not one.dimension}
        rows.append(
            {
                "run_id": job.run_id,
                "provider": job.provider,
                "embedding_model": job.embedding_model,
                "created_at": job.created_at.isoformat(timespec="seconds"),
                "n": job.n_scored,
                "cost_usd": job.cost_usd,
                "headline": _headline(overall),
                "latency": next((overall[name] for name in LATENCIES if name in overall), None),
                "metrics": overall,
                "types": {
                    one.label: asdict(one)
                    for one in metrics
                    if one.dimension == "question_type" and one.metric == (_headline(overall) or {}).get("metric")
                },
            }
        )
    return sorted(rows, key=lambda row: (-_value(row["headline"]), str(row["provider"])))


def _headline(overall: Mapping[str, Json]) -> Json | None:
    for name in ("accuracy", "correctness"):
        if name in overall and overall[name]["value"] is not None:
            return overall[name]
    return next((one for one in overall.values() if one["value"] is not None and one["unit"] is None), None)


def _value(measured: object) -> float:
    value = measured.get("value") if isinstance(measured, Mapping) else None
    return value if isinstance(value, float) else -1.0


# ------------------------------------------------------------------ receipts


async def receipts_document(site: Site) -> Json:
    """Every receipt of the workspace, checked now: those of runs and those of the public log."""
    return await anyio.to_thread.run_sync(_receipts, site.workspace)


def _receipts(workspace: Path) -> Json:
    from bench.receipt.log.store import has_log
    from bench.receipt.logplace import LogPlace
    from bench.receipt.trusted import FILE as TRUSTED
    from bench.receipt.trusted import TrustStore
    from bench.receipt.verify import Question, verify_file

    published = workspace / "results" / "published"
    files = [*sorted(published.glob("receipts/*.json")), *sorted((workspace / "results").glob("*/receipts/*.json"))]
    files = list(dict.fromkeys(files))
    try:
        trust = TrustStore.load_or_empty(workspace / TRUSTED)
        place = LogPlace.open(published, trust) if has_log(published) else None
        rows = [_receipt(workspace, verify_file(file, Question(trust=trust), place).value()) for file in files]
    except BenchError as error:
        return {"receipts": [], "log": None, "problem": str(error)}
    log = None
    if place is not None:
        outcome = place.outcome
        log = {"size": outcome.size, "verdict": str(outcome.verdict), "origin": outcome.origin}
    return {"receipts": rows, "log": log, "problem": None}


def _receipt(workspace: Path, value: Json) -> Json:
    path = Path(str(value["file"]))
    shown: Json = {**value, "file": str(path.relative_to(workspace)), "statement": {}}
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return shown
    wanted = ("benchmark", "provider", "kind", "issuedAt", "partial", "run", "models")
    statement = {name: document[name] for name in wanted if isinstance(document, dict) and name in document}
    return {**shown, "statement": statement}


def receipt_file(site: Site, run: str, name: str) -> Path:
    """A receipt's file by run (or ``published``) and name; only files of the workspace's results."""
    folder = site.workspace / "results" / run / "receipts"
    path = (folder / name).resolve()
    if path.parent != folder.resolve() or not path.is_file():
        raise NotFound("there is no such receipt", "see the list of receipts")
    return path
