"""Where the journals of a workspace lie: ``checkpoints/<run_id>/journal.sqlite``.

Example::

    folder = find_run(Path("."), "20261127-4f9c0a1b")
"""

from __future__ import annotations

import re
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from bench.errors import UsageError

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
    with suppress(OSError):  # a name too long for the file system, or a folder that may not be read
        if path.is_file() or (path / JOURNAL).is_file():
            return path
    near = get_close_matches(name, run_ids(workspace), n=1)
    hint = f'did you mean "{near[0]}"?' if near else "bench list runs shows the runs of this workspace"
    raise UsageError(f'there is no run "{name}"', hint=hint)


def run_ids(workspace: Path) -> list[str]:
    """Every run of the workspace, newest journal first."""
    found = [path for path in (workspace / CHECKPOINTS).glob(f"*/{JOURNAL}") if path.is_file()]
    return [path.parent.name for path in sorted(found, key=lambda path: (-path.stat().st_mtime, path.parent.name))]
