"""Create the list of runs.

State and validity of each run come from its journal. Cost and best provider come from the database of results.

Example::

    (await runs_document(site))["runs"][0]["headline"]      # {"provider": "bm25", "value": 0.31, ...}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import NotRequired, TypedDict

from bench.errors import JournalError
from bench.journal import Reader, RunState
from bench.journal.paths import CHECKPOINTS, JOURNAL, run_ids
from bench.journal.results_db import JobSummary, ResultsDb
from bench.plan.job_record import read_jobs
from bench.report.leaderboard.standings import RankedJob
from bench.report.summary import RESULTS_FILE
from bench.untyped_values import Json, utc_text
from bench.web.app_state import Site
from bench.web.cache import Stamp, stamp_of
from bench.web.documents.run_documents import journal_stamp, progress_of, side_names
from bench.web.errors import check_run_id as checked

ENDED_STATES = frozenset(RunState) - {RunState.RUNNING}
"""states of a run that do not change while its journal is unchanged"""


class RunRow(TypedDict):
    """A run in the list of runs. The row of a queued or unreadable run has fewer keys."""

    run_id: str
    state: str
    reason: str
    planned: int
    ended: int
    failed: NotRequired[int]
    invalid_jobs: NotRequired[int]
    counted: NotRequired[bool]
    benchmarks: NotRequired[list[str]]
    providers: NotRequired[list[str]]
    sides: NotRequired[list[str]]
    created_at: NotRequired[str]
    note: NotRequired[object]
    jobs: NotRequired[int]
    service: NotRequired[str | None]
    cost_usd: NotRequired[str | None]
    headline: NotRequired[Json | None]


Summary = tuple[str | None, Json | None]
"""cost in USD and main score of a run, from the database of results; None = unknown"""
_rows: dict[Path, tuple[Stamp, RunRow]] = {}
"""run folder -> cached row of the list, with the state of the journal for which the row is valid"""
_summaries: dict[Path, tuple[Stamp, dict[str, Summary]]] = {}
"""database file -> cached summaries of runs, with the state of the file for which they are valid"""
NO_SUMMARY: Summary = (None, None)
WAITING = {"queued": "waits for its turn", "paused": "was paused before it started"}
"""state of a run without a journal -> what the list of runs says about it"""


async def runs_document(site: Site) -> dict[str, list[RunRow]]:
    """Return all runs: first the requested runs that have no journal yet, then the other runs, newest first."""
    waiting = site.service.states() if site.service else {}
    summaries = await summaries_of(site.workspace)
    live = site.service.costs() if site.service else {}
    shown = [name for name in run_ids(site.workspace) if not site.only or name in site.only]
    runs = [await _row(site, site.workspace / CHECKPOINTS / name) for name in shown]
    known = {run["run_id"] for run in runs}
    queued = [_queued_row(name, standing) for name, standing in waiting.items() if name not in known]
    listed: list[RunRow] = [
        {
            **run,
            "service": waiting.get(name),
            "cost_usd": live.get(name, summaries.get(name, NO_SUMMARY)[0]),
            "headline": summaries.get(name, NO_SUMMARY)[1],
        }
        for name, run in ((run["run_id"], run) for run in runs)
    ]
    return {"runs": [*queued, *listed]}


def queued_row(site: Site, run_id: str) -> RunRow | None:
    """Return the list row of a requested run that has no journal yet; None for any other run."""
    standing = site.service.states().get(checked(run_id)) if site.service else None
    if standing is None or (site.workspace / CHECKPOINTS / run_id / JOURNAL).is_file():
        return None
    return _queued_row(run_id, standing)


def _queued_row(run_id: str, standing: str) -> RunRow:
    state, _, problem = standing.partition(": ")
    reason = problem or WAITING.get(state, "is being prepared")
    return {
        "run_id": run_id,
        "state": state,
        "reason": reason,
        "service": standing,
        "planned": 0,
        "ended": 0,
        "failed": 0,
    }


async def summaries_of(workspace: Path) -> dict[str, Summary]:
    """Return run id -> cost and main score of the run, from the database of results."""
    path = workspace / "results" / RESULTS_FILE
    stamp = stamp_of(path)
    kept = _summaries.get(path)
    if kept is not None and kept[0] == stamp:
        return kept[1]
    found: dict[str, Summary] = {}
    if path.is_file():
        async with ResultsDb.open(path) as database:
            by_run: dict[str, list[JobSummary]] = {}
            for job in await database.runs():
                by_run.setdefault(job.run_id, []).append(job)
            for run_id, jobs in by_run.items():
                found[run_id] = (_cost(jobs), await _best(database, jobs))
    _summaries[path] = (stamp, found)
    return found


def _cost(jobs: Sequence[JobSummary]) -> str | None:
    by_owner: dict[str, str] = {}
    for job in jobs:
        costs = job.data.get("costs")
        by_owner.update(costs if isinstance(costs, Mapping) else {})
    return format(sum(map(Decimal, by_owner.values())), "f") if by_owner else None


async def _best(database: ResultsDb, jobs: Sequence[JobSummary]) -> Json | None:
    """Return the main score of the best valid job of a run; None if no valid job has a score.

    If the run has several benchmarks, only the first by name counts. The score of a control provider is returned only
    if no other provider has a score.
    """
    first = min((job.benchmark for job in jobs), default="")
    valid = [job for job in jobs if job.valid and job.benchmark == first]
    places = [RankedJob(job=job, metrics=await database.metrics(job)) for job in valid]
    known = [(place, one) for place in places if (one := place.headline) is not None and one.value is not None]
    if not known:
        return None
    place, one = min(known, key=lambda found: (found[0].is_control, found[0].best_first(found[1].value)))
    return {
        "provider": place.job.provider,
        "bound": place.is_control,
        "metric": one.metric,
        "unit": one.unit,
        "value": one.value,
        "interval": None if one.low is None or one.high is None else {"low": one.low, "high": one.high},
        "n": one.n,
    }


async def _row(site: Site, folder: Path) -> RunRow:
    stamp = journal_stamp(folder)
    kept = _rows.get(folder)
    if kept is not None and kept[0] == stamp and kept[1]["state"] in ENDED_STATES:
        return kept[1]
    try:
        async with Reader.open(folder) as reader:
            status = await reader.status()
            jobs = read_jobs(reader.meta.extra)
            created_at, note = reader.meta.created_at, reader.meta.extra.get("note")
        progress, fresh = await progress_of(site, folder.name, jobs)
    except (JournalError, OSError) as error:
        reason = f"its files were removed: {error.strerror}" if isinstance(error, OSError) else error.message
        return {"run_id": folder.name, "state": "unreadable", "reason": reason, "planned": 0, "ended": 0}
    row: RunRow = {
        "run_id": folder.name,
        "state": str(status.state),
        "reason": status.reason,
        "benchmarks": list(dict.fromkeys(job.benchmark for job in jobs)),
        "providers": list(dict.fromkeys(job.provider for job in jobs)),
        "sides": list(dict.fromkeys(side_names([(job.provider, job.models.answering) for job in jobs]))),
        "created_at": utc_text(created_at, "milliseconds"),
        "note": note,
        "jobs": len(jobs),
        "planned": progress["planned"],
        "ended": progress["ended"],
        "failed": progress["failed"],
        "invalid_jobs": progress["invalid_jobs"],
        "counted": progress["counted"],
    }
    if fresh:
        _rows[folder] = (stamp, row)
    return row
