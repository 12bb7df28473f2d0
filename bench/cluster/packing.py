"""A shard's run folder on its way: the journal, and of a half-done one also what its built-in providers have stored.

Example::

    pack(folder, whole=False)           # on the worker: Pack(journal=b"...", stores=b"...")
    pack.lay_down(folder)               # on the next one
"""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass
from pathlib import Path

import zstandard

from bench.errors import JournalError
from bench.journal.places import JOURNAL

STORES = "stores"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """Both parts compressed with zstd."""

    journal: bytes
    stores: bytes | None = None
    """a tar file, without which an ingested corpus would be lost; None once nothing of it is needed"""

    def lay_down(self, folder: Path) -> None:
        """Make the run folder from it."""
        folder.mkdir(parents=True)
        if self.stores is not None:
            with tarfile.open(fileobj=io.BytesIO(zstandard.decompress(self.stores))) as archive:
                archive.extractall(folder, filter="data")
        (folder / JOURNAL).write_bytes(zstandard.decompress(self.journal))


def pack(folder: Path, *, whole: bool) -> Pack:
    """Pack a run folder that nobody writes to; of a ``whole`` shard only the journal is needed."""
    path = folder / JOURNAL
    wal = path.with_name(f"{path.name}-wal")
    if wal.exists() and wal.stat().st_size:
        raise JournalError("the journal is still open in another program", where=str(path), hint="close that program")
    return Pack(journal=zstandard.compress(path.read_bytes()), stores=None if whole else _stores(folder / STORES))


def _stores(folder: Path) -> bytes | None:
    if not folder.is_dir():
        return None
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(folder, arcname=STORES)
    return zstandard.compress(buffer.getvalue())
