"""Find the journals of a workspace at ``checkpoints/<run_id>/journal.sqlite``.

Example::

    folder = find_run(Path("."), "20261127-4f9c0a1b")
"""

from __future__ import annotations

from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from bench.config.value_rules import SEGMENT, require_unreserved
from bench.errors import UsageError

CHECKPOINTS = "checkpoints"
JOURNAL = "journal.sqlite"
ENTRIES = "entries.jsonl"
"""file that marks a folder as a public log"""


def find_run(workspace: Path, name: str) -> Path:
    """Return the folder or journal file of a run; ``name`` is a run id of the workspace or a path.

    Raises:
        UsageError: there is no such run; the error suggests the most similar run id.
    """
    if SEGMENT.fullmatch(name):
        folder = workspace / CHECKPOINTS / name
        if (folder / JOURNAL).is_file():
            return folder
    path = Path(name)
    with suppress(OSError):  # a name too long for the file system, or a folder that may not be read
        if path.is_file() or (path / JOURNAL).is_file():
            return path
    near = get_close_matches(name, run_ids(workspace), n=1)
    hint = f'did you mean "{near[0]}"?' if near else "list the runs of this workspace with: bench list runs"
    raise UsageError(f'there is no run "{name}"', hint=hint)


def report_folder(results: Path, run_id: str) -> Path:
    """Return the folder for a run's report, receipts and log.

    Raises:
        UsageError: the run id is reserved, or the folder would be part of a public log.
    """
    try:
        folder = results / require_unreserved(run_id)
    except ValueError as error:
        raise UsageError(
            str(error), hint="copy the run under another id with bench fork or bench merge --into"
        ) from error
    log = next((place for place in (folder, *folder.resolve().parents[:2]) if (place / ENTRIES).is_file()), None)
    if log is not None:
        raise UsageError(
            f"cannot write to {folder}: this folder belongs to the public log {log}",
            hint="choose another folder with --output",
        )
    return folder


def public_logs(folder: Path) -> list[Path]:
    """Return the folder of every public log below a folder; these folders must be kept when runs are deleted."""
    return [path.parent for path in folder.rglob(ENTRIES)]


def run_ids(workspace: Path) -> list[str]:
    """Return the ids of the runs in a workspace, sorted by the last change of their journals, newest first."""
    found = [path for path in (workspace / CHECKPOINTS).glob(f"*/{JOURNAL}") if path.is_file()]
    return [path.parent.name for path in sorted(found, key=lambda path: (-path.stat().st_mtime, path.parent.name))]
