"""Write files whole or not at all, with errors that name the final path.

Here too:

* What git knows of a folder: a private key must never be committed, a public one must be.

Example::

    write_atomically(Path("keys/trusted.json"), data)
    with naming(path): path.with_name("draft").write_bytes(data)     # OSError: ... 'keys/trusted.json'
    in_work_tree(folder), is_ignored(private, folder)
    changed(workspace, (Path("keys"),))          # what is to be committed
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
def naming(path: Path) -> Iterator[None]:
    """Let every OSError in here name the file that was to be written."""
    try:
        yield
    except OSError as error:
        raise named(error, path) from error


def named(error: OSError, path: Path) -> OSError:
    """The same error, about that file."""
    return OSError(error.errno, error.strerror, str(path))


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file so that a reader sees the old or the new one, also after a power cut."""
    with naming(path):
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
    """Whether a folder lies in a checkout, also where git itself is not installed."""
    return any((parent / ".git").exists() for parent in (folder, *folder.parents))


def is_ignored(path: Path, folder: Path) -> bool:
    """Whether the checkout of ``folder`` ignores a path; False where no one can say."""
    return _git(folder, "check-ignore", "-q", str(path)) is not None


def changed(folder: Path, places: Iterable[Path]) -> tuple[Path, ...]:
    """Those of some places below a folder in which git sees something new; none outside a checkout."""
    whole = folder.absolute()
    if not in_work_tree(whole):
        return ()
    there = [path for path in places if (whole / path).exists()]
    return tuple(path for path in there if _git(whole, "status", "--porcelain", "--", str(path)))


def _git(folder: Path, *arguments: str) -> str | None:
    """The output of git; None when it fails or is not there."""
    git = shutil.which("git")
    if git is None:
        return None
    command = [git, "-C", str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - a fixed program
    return done.stdout if done.returncode == 0 else None
