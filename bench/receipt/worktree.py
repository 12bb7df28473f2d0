"""What git knows of a folder: a private key must never be committed, a public one must be.

in_work_tree(folder), is_ignored(private, folder)
changed(workspace, (Path("keys"),))          # what is to be committed
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path


def in_work_tree(folder: Path) -> bool:
    """Whether a folder lies in a checkout, also where git itself is not installed."""
    return any((parent / ".git").exists() for parent in (folder, *folder.parents))


def is_ignored(path: Path, folder: Path) -> bool:
    """Whether the checkout of ``folder`` ignores a path; False where nobody can say."""
    return _git(folder, "check-ignore", "-q", str(path)) is not None


def changed(folder: Path, places: Iterable[Path]) -> tuple[Path, ...]:
    """Those of some places below a folder in which git sees something new; none outside a checkout."""
    whole = folder.absolute()
    if not in_work_tree(whole):
        return ()
    there = [path for path in places if (whole / path).exists()]
    return tuple(path for path in there if _git(whole, "status", "--porcelain", "--", str(path)))


def _git(folder: Path, *arguments: str) -> str | None:
    """What git answers; None when it says no or is not there."""
    git = shutil.which("git")
    if git is None:
        return None
    command = [git, "-C", str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - a fixed program
    return done.stdout if done.returncode == 0 else None
