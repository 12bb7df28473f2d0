"""The runs of a workspace: where each journal lies and how it stands.

Example::

    folder = find_run(Path("."), "20261127-4f9c0a1b")
    rows = await list_runs(Path("."))
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from bench.errors import JournalError, UsageError
from bench.journal import Reader
from bench.plan.record import read

CHECKPOINTS = "checkpoints"
JOURNAL = "journal.sqlite"
SAFE_SEGMENT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


def find_run(workspace: Path, name: str) -> Path:
    """The folder or journal file of a run: a run id of the workspace, or a path to a copied journal.

    Raises:
        UsageError: there is no such run; names the nearest.
    """
    if SAFE_SEGMENT.fullmatch(name):
        folder = workspace / CHECKPOINTS / name
        if (folder / JOURNAL).is_file():
            return folder
    path = Path(name)
    if path.is_file() or (path / JOURNAL).is_file():
        return path
    near = get_close_matches(name, run_ids(workspace), n=1)
    hint = f'did you mean "{near[0]}"?' if near else "bench list runs shows the runs of this workspace"
    raise UsageError(f'there is no run "{name}"', hint=hint)


def run_ids(workspace: Path) -> list[str]:
    """Every run of the workspace, newest journal first."""
    found = [path for path in (workspace / CHECKPOINTS).glob(f"*/{JOURNAL}") if path.is_file()]
    return [path.parent.name for path in sorted(found, key=lambda path: (-path.stat().st_mtime, path.parent.name))]


async def list_runs(workspace: Path) -> list[Mapping[str, object]]:
    """One row a run, newest first; a journal that cannot be read is listed with its problem."""
    return [await _row(workspace, name) for name in run_ids(workspace)]


async def _row(workspace: Path, name: str) -> dict[str, object]:
    try:
        async with Reader.open(workspace / CHECKPOINTS / name) as reader:
            jobs = read(reader.meta.extra)
            status = await reader.status()
            ended = [sum((await reader.states(job.key)).values()) for job in jobs]
            return {
                "run_id": reader.meta.run_id,
                "state": str(status.state),
                "reason": status.reason,
                "holder": status.holder,
                "benchmarks": list(dict.fromkeys(job.benchmark for job in jobs)),
                "providers": list(dict.fromkeys(job.provider for job in jobs)),
                "planned": sum(job.n_selected * job.epochs for job in jobs),
                "ended": sum(ended),
                "created_at": f"{reader.meta.created_at:%Y-%m-%dT%H:%M:%SZ}",
            }
    except JournalError as error:
        return {"run_id": name, "state": "unreadable", "reason": str(error)}
