"""The runs of a workspace, each as one row.

Example::

    rows = await list_runs(Path("."))
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.errors import JournalError
from bench.journal import Reader
from bench.journal.places import CHECKPOINTS, run_ids
from bench.plan.record import read


async def list_runs(workspace: Path) -> list[Mapping[str, object]]:
    """One row a run, newest first; a journal that cannot be read is listed with its problem."""
    return [await _row(workspace, name) for name in run_ids(workspace)]


async def _row(workspace: Path, name: str) -> dict[str, object]:
    try:
        async with Reader.open(workspace / CHECKPOINTS / name) as reader:
            jobs = read(reader.meta.extra)
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
