"""Write files atomically, with errors that name the final path.

Also in this module: the git status of files. A private key must never be committed, a public one must be.

Example::

    write_atomically(Path("keys/trusted.json"), data)
    with errors_name(path): path.with_name("draft").write_bytes(data)     # OSError: ... 'keys/trusted.json'
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
def errors_name(path: Path) -> Iterator[None]:
    """Let every OSError in the block name ``path`` instead of a temporary file."""
    try:
        yield
    except OSError as error:
        raise error_naming(error, path) from error


def error_naming(error: OSError, path: Path) -> OSError:
    """Return a copy of the error that names ``path``."""
    return OSError(error.errno, error.strerror, str(path))


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file so that a reader sees the old or the new content, also after a power failure."""
    with errors_name(path):
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
    """Return True if a folder is in a git checkout; git itself need not be installed."""
    return any((parent / ".git").exists() for parent in (folder, *folder.parents))


def is_ignored(path: Path, folder: Path) -> bool:
    """Return True if the checkout of ``folder`` ignores a path; False if git cannot tell."""
    return _git(folder, "check-ignore", "-q", str(path)) is not None


def uncommitted(folder: Path, places: Iterable[Path]) -> tuple[Path, ...]:
    """Return the paths of ``places``, relative to ``folder``, with uncommitted changes; empty outside a checkout."""
    whole = folder.absolute()
    if not in_work_tree(whole):
        return ()
    there = [path for path in places if (whole / path).exists()]
    return tuple(path for path in there if _git(whole, "status", "--porcelain", "--", str(path)))


def _git(folder: Path, *arguments: str) -> str | None:
    """Return the output of git; None if it fails or is not installed."""
    git = shutil.which("git")
    if git is None:
        return None
    command = [git, "-C", str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - a fixed program
    return done.stdout if done.returncode == 0 else None
