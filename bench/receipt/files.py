"""Write files atomically, so that a reader never sees an incomplete file.

Other functions read the git status of files, because a private key must never be committed, and a public key must be
committed.

Example::

    write_atomically(Path("keys/trusted.json"), data)
    with name_in_errors(path): path.with_name("draft").write_bytes(data)     # OSError: ... 'keys/trusted.json'
    in_work_tree(folder), is_ignored(private, folder)
    uncommitted(workspace, (Path("keys"),))      # paths that are not committed
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def name_in_errors(path: Path) -> Iterator[None]:
    """Make every OSError in the ``with`` block name ``path`` instead of a temporary file."""
    try:
        yield
    except OSError as error:
        raise error_naming(error, path) from error


def error_naming(error: OSError, path: Path) -> OSError:
    """Return a copy of ``error`` whose message names ``path``."""
    return OSError(error.errno, error.strerror, str(path))


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file atomically: even after a power failure, the file has the old or the new content."""
    with name_in_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        draft = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), 0o644)
                os.fsync(file.fileno())
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise


def in_work_tree(folder: Path) -> bool:
    """Return True if a folder is in a git checkout. This function does not run git."""
    return any((parent / ".git").exists() for parent in (folder, *folder.parents))


def is_ignored(path: Path, folder: Path) -> bool:
    """Return True if git ignores ``path`` in the checkout of ``folder``; False if git fails or is missing."""
    return _git(folder, "check-ignore", "-q", str(path)) is not None


def uncommitted(folder: Path, places: Iterable[Path]) -> tuple[Path, ...]:
    """Return the paths in ``places`` that have uncommitted changes. Return () if ``folder`` is not in a git checkout.

    ``places`` are files or folders, relative to ``folder``.
    """
    whole = folder.absolute()
    if not in_work_tree(whole):
        return ()
    there = [path for path in places if (whole / path).exists()]
    return tuple(path for path in there if _git(whole, "status", "--porcelain", "--", str(path)))


def _git(folder: Path, *arguments: str) -> str | None:
    """Run git in ``folder`` and return its output; None if git fails or is not installed."""
    git = shutil.which("git")
    if git is None:
        return None
    command = [git, "-C", str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - a fixed program
    return done.stdout if done.returncode == 0 else None
