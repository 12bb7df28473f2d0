"""Read the progress of a run from its journal, also while the run continues, and list all runs.

Example::

    status = await run_status(Path("checkpoints/r1"))
    status.completed, status.state
    rows = await list_runs(Path("."))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from bench.errors import JournalError
from bench.journal import Reader, RunState
from bench.journal.paths import CHECKPOINTS, run_ids
from bench.journal.records import IndexWaiting
from bench.model import FAILED_STATES, State
from bench.plan.job_record import JobRecord, read_jobs
from bench.plan.ranges import gaps_of
from bench.untyped_values import Json, list_texts


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """The data of ``bench status``."""

    run_id: str
    state: str
    reason: str
    holder: str | None
    partial: bool
    total: int
    completed: int
    failed: int
    in_progress: int
    phases: Mapping[str, Mapping[str, int]]
    range: list[list[int]] | None
    gaps: list[list[int]]
    question_types: list[str] | None
    eta_s: float | None
    oldest_request_s: float | None
    index_wait: IndexWaiting | None
    """None if no corpus waits until it is searchable"""
    cost_usd: str
    cost_unknown_calls: int
    shards: Mapping[str, int] | None = None
    """None if the run is not executed in shards"""

    def to_json(self) -> Json:
        document = {**asdict(self), "index_wait": self.index_wait and self.index_wait.to_json()}
        if self.shards is None:
            del document["shards"]
        return document


async def run_status(folder: Path) -> RunStatus:
    """Return the progress of a run, as ``bench status`` shows it."""
    async with Reader.open(folder) as reader, reader.snapshot():
        status = await reader.status()
        jobs = read_jobs(reader.meta.extra)
        states = [await reader.item_states(job.key, job.epochs) for job in jobs]
        total = sum(job.n_selected for job in jobs)
        ended = sum(sum(found.values()) for found in states)
        failed = sum(count for found in states for state, count in found.items() if state in FAILED_STATES)
        phases = await reader.last_outcomes([job.chain for job in jobs], [job.build for job in jobs])
        running = status.state is RunState.RUNNING
        cost, unknown = await reader.spending()
        return RunStatus(
            run_id=reader.meta.run_id,
            state=str(status.state),
            reason=status.reason,
            holder=status.holder,
            partial=status.state is not RunState.COMPLETE,
            total=total,
            completed=ended - failed,
            failed=failed,
            in_progress=total - ended if running else 0,
            phases={str(phase): dict(sorted(counts.items())) for phase, counts in phases.items()},
            range=[list(part) for part in reader.meta.ranges] or None,
            gaps=[list(gap) for gap in gaps_of(reader.meta.ranges, reader.meta.total)],
            question_types=sorted({kind for job in jobs for kind in list_texts(job.selection.get("question_type"))})
            or None,
            eta_s=await _eta_s(reader, status.heartbeat_at, jobs, states) if running else None,
            oldest_request_s=status.oldest_request_s if running else None,
            index_wait=status.index_wait if running else None,
            cost_usd=format(cost, "f"),
            cost_unknown_calls=unknown,
        )


async def _eta_s(
    reader: Reader, heartbeat_at: datetime | None, jobs: Sequence[JobRecord], states: Sequence[Mapping[State, int]]
) -> float | None:
    """Estimate the seconds until the slowest job is done, at the speed since the run was started or last resumed.

    Return None if every job is done, or if an unfinished job has no item that ended since then.
    """
    since = max((one.at for one in reader.resumes), default=reader.meta.created_at)
    elapsed_s = max(0.0, (heartbeat_at - since).total_seconds()) if heartbeat_at else 0.0
    left = [(job, sum(found.values())) for job, found in zip(jobs, states, strict=True)]
    left = [(job, ended) for job, ended in left if ended < job.n_selected]
    lately = [await reader.ended_from(job.key, since, job.epochs) if reader.resumes else ended for job, ended in left]
    if not elapsed_s or not left or not all(lately):
        return None
    return max(elapsed_s * (job.n_selected - ended) / now for (job, ended), now in zip(left, lately, strict=True))


async def list_runs(workspace: Path) -> list[Json]:
    """Return one row per run, newest first.

    If a journal cannot be read, the field ``reason`` in the row contains the error.
    """
    return [await _row(workspace, name) for name in run_ids(workspace)]


async def _row(workspace: Path, name: str) -> Json:
    try:
        async with Reader.open(workspace / CHECKPOINTS / name) as reader:
            jobs = read_jobs(reader.meta.extra)
            status = await reader.status()
            ended = [sum((await reader.item_states(job.key, job.epochs)).values()) for job in jobs]
            return {
                "run_id": reader.meta.run_id,
                "state": str(status.state),
                "reason": status.reason,
                "holder": status.holder,
                "benchmarks": list(dict.fromkeys(job.benchmark for job in jobs)),
                "providers": list(dict.fromkeys(job.provider for job in jobs)),
                "planned": sum(job.n_selected for job in jobs),
                "ended": sum(ended),
                "created_at": f"{reader.meta.created_at:%Y-%m-%dT%H:%M:%SZ}",
            }
    except JournalError as error:
        return {"run_id": name, "state": "unreadable", "reason": str(error)}
