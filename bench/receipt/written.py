"""Files that are whole or not there, and errors that name them instead of a draft nobody asked for.

write_atomically(Path("keys/trusted.json"), data)
with naming(path): path.with_name("draft").write_bytes(data)     # OSError: ... 'keys/trusted.json'
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
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
