"""Documents of runs: the list, and one run with its jobs; what the API hands out and the pages show.

Example::

    document = await run_document(site, "r1")
    document["jobs"][0]["counts"], document["progress"]["ended"]
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.errors import JournalError
from bench.journal import Reader
from bench.journal.places import CHECKPOINTS, JOURNAL, run_ids
from bench.model import FAILED_STATES
from bench.plan.record import JobRecord, read
from bench.report.fold import gaps
from bench.web.faults import NotFound
from bench.web.ids import run_id as checked
from bench.web.reports import Stamp, stamp_of
from bench.web.site import Site

Json = dict[str, object]

_rows: dict[Path, tuple[Stamp, Json]] = {}
"""rows of the list by run folder, as long as the journal does not change"""
_progress: dict[Path, tuple[Stamp, Json]] = {}
"""the same of how items ended"""


def folder_of(site: Site, run_id: str) -> Path:
    """The folder of a run of this workspace.

    Raises:
        BadId: this is no run id.
        NotFound: there is no such run.
    """
    folder = site.workspace / CHECKPOINTS / checked(run_id)
    if not (folder / JOURNAL).is_file():
        raise NotFound(f"there is no run {run_id}")
    return folder


async def runs_document(site: Site) -> Json:
    """Every run, newest journal first, with what the service means to do with it."""
    waiting = site.service.standing() if site.service else {}
    runs = [await _row(site.workspace / CHECKPOINTS / name) for name in run_ids(site.workspace)]
    known = {str(run["run_id"]) for run in runs}
    queued: list[Json] = [
        {"run_id": name, "state": "queued", "reason": "waits for its turn", "planned": 0, "ended": 0, "failed": 0}
        for name in waiting
        if name not in known
    ]
    return {"runs": [*queued, *({**run, "service": waiting.get(str(run["run_id"]))} for run in runs)]}


async def _row(folder: Path) -> Json:
    stamp = stamp_of(folder)
    kept = _rows.get(folder)
    try:
        async with Reader.open(folder) as reader:
            status = await reader.status()
            standing = {"state": str(status.state), "reason": status.reason}
            if kept is not None and kept[0] == stamp:
                return {**kept[1], **standing}
            jobs = read(reader.meta.extra)
            progress = await progress_of(reader, jobs)
            row: Json = {
                "run_id": folder.name,
                "benchmarks": list(dict.fromkeys(job.benchmark for job in jobs)),
                "providers": list(dict.fromkeys(job.provider for job in jobs)),
                "created_at": reader.meta.created_at.isoformat(timespec="milliseconds"),
                "note": reader.meta.extra.get("note"),
                **{name: progress[name] for name in ("planned", "ended", "failed")},
            }
            _rows[folder] = (stamp, row)
            return {**row, **standing}
    except JournalError as error:
        return {"run_id": folder.name, "state": "unreadable", "reason": error.message, "planned": 0, "ended": 0}


async def progress_of(reader: Reader, jobs: tuple[JobRecord, ...]) -> Json:
    """How many items of each job ended, and how; counted again only when the journal changed."""
    folder = reader.path.parent
    stamp = stamp_of(folder)
    kept = _progress.get(folder)
    if kept is None or kept[0] != stamp:
        kept = _progress[folder] = (stamp, await _counted(reader, jobs))
    return kept[1]


async def _counted(reader: Reader, jobs: tuple[JobRecord, ...]) -> Json:
    rows = []
    for job in jobs:
        states = await reader.states(job.key)
        rows.append(
            {
                "job": job.key,
                "benchmark": job.benchmark,
                "provider": job.provider,
                "planned": job.n_selected * job.epochs,
                "ended": sum(states.values()),
                "failed": sum(states.get(state, 0) for state in FAILED_STATES),
                "counts": {str(state): count for state, count in sorted(states.items())},
            }
        )
    sums = {name: sum(int(str(row[name])) for row in rows) for name in ("planned", "ended", "failed")}
    return {**sums, "jobs": rows}


async def run_document(site: Site, run_id: str) -> Json:
    """One run: state, progress, and each job with its digests; numbers where they are folded already."""
    folder = folder_of(site, run_id)
    async with Reader.open(folder) as reader:
        status = await reader.status()
        jobs = read(reader.meta.extra)
        progress = await progress_of(reader, jobs)
        meta = reader.meta
        events = [{"id": number, **event_json(event)} for number, event in await reader.events()]
    shown = await site.reports.of(run_id)
    return {
        "run_id": run_id,
        "state": str(status.state),
        "reason": status.reason,
        "holder": status.holder,
        "created_at": meta.created_at.isoformat(timespec="seconds"),
        "plan_digest": meta.plan_digest,
        "note": meta.extra.get("note"),
        "labels": meta.extra.get("labels") or {},
        "gaps": [list(gap) for gap in gaps(meta.ranges, meta.total)],
        "service": site.service.standing().get(run_id) if site.service else None,
        "progress": progress,
        "records": [record_json(job) for job in jobs],
        "results": shown.document,
        "results_fresh": shown.fresh,
        "results_problem": shown.problem,
        "events": events[-100:],
    }


def event_json(event: object) -> Json:
    """An event of a journal without its bulk."""
    return {name: str(getattr(event, name)) for name in ("kind", "scope", "message", "at")}


def record_json(job: JobRecord) -> Json:
    """What a job is, in digests."""
    return {
        "job": job.key,
        "benchmark": job.benchmark,
        "benchmark_version": job.benchmark_version,
        "provider": job.provider,
        "models": {
            "embedding": job.models.embedding,
            "answering": job.models.answering,
            "judge": job.models.judge,
        },
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


async def results_document(site: Site, run_id: str) -> Mapping[str, object]:
    """The numbers of a run.

    Raises:
        NotFound: they are being folded; ask again.
    """
    folder_of(site, run_id)
    shown = await site.reports.of(run_id)
    if shown.document is None:
        raise NotFound(shown.problem or "the numbers are being folded", "ask again in a few seconds")
    return shown.document
