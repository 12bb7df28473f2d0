"""Helpers for providers with ``durability: file``: copy their files from one run to another, and compare the copies.

Example::

    class Mine:
        durability = "file"

        def path(self, run_dir, space):
            return run_dir / self.name / space.namespace

        async def restore(self, space, run_dir):
            await copy_store(self.path(run_dir, space), self.path(self.context.run_dir, space))

        async def digest(self, space):
            return await store_digest(self.path(self.context.run_dir, space))

Both functions need a separate file or folder per namespace. The provider must not write to it during the call.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path


async def copy_store(source: Path, target: Path) -> None:
    """Replace ``target`` by a copy of the file or folder ``source``; if there is no ``source``, delete ``target``."""
    from anyio import to_thread

    await to_thread.run_sync(_copy, source, target)


async def store_digest(path: Path) -> str:
    """Return a SHA-256 of the names and bytes of a file, or of all files in a folder.

    A missing path has the digest of an empty folder.
    """
    from anyio import to_thread

    return await to_thread.run_sync(_digest, path)


def _copy(source: Path, target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    target.unlink(missing_ok=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    elif source.exists():
        shutil.copyfile(source, target)


def _digest(path: Path) -> str:
    sha = hashlib.sha256()
    found = sorted(path.rglob("*")) if path.is_dir() else [path]
    for one in (file for file in found if file.is_file()):
        name = one.relative_to(path).as_posix().encode()
        sha.update(b"%d %b %d " % (len(name), name, one.stat().st_size))
        with one.open("rb") as opened:
            while block := opened.read(1 << 20):
                sha.update(block)
    return sha.hexdigest()
