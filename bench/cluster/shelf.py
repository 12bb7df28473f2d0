"""The coordinator's shelf: the journals that came back, one file a shard, until the run is whole.

Example::

    shelf = Shelf(folder)
    await shelf.put(shard, returned.pack)
    done = await shelf.is_done(shard, plan)
    await shelf.merge_into(meta)            # the run's own journal from all of them
"""

from __future__ import annotations

import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread
import zstandard

from bench.cluster.order import Shard
from bench.cluster.packing import Pack
from bench.engine.run import SHARDS
from bench.journal import Reader, RunMeta, RunState, merge
from bench.journal.places import JOURNAL
from bench.model import FAILED_STATES
from bench.plan import Plan

_DRAFT = "merged"


@dataclass(frozen=True, slots=True)
class Shelf:
    """The folder of shards in a run's folder; as long as it is there the run belongs to a cluster."""

    run: Path

    @property
    def folder(self) -> Path:
        return self.run / SHARDS

    @property
    def is_there(self) -> bool:
        return self.folder.is_dir()

    def path(self, shard: Shard) -> Path:
        """Where a shard's journal lies."""
        return self.folder / f"{shard}.sqlite"

    async def put(self, shard: Shard, pack: Pack) -> None:
        """Store what came back in place of what came earlier, durable when this returns."""
        await anyio.to_thread.run_sync(self._put, shard, pack)

    def _put(self, shard: Shard, pack: Pack) -> None:
        stores = self._stores(shard)
        if pack.stores is None:
            stores.unlink(missing_ok=True)
        else:
            self._write(stores, pack.stores)
        self._write(self.path(shard), zstandard.decompress(pack.journal))

    def _stores(self, shard: Shard) -> Path:
        return self.folder / f"{shard}.stores.tar.zst"

    def _write(self, path: Path, content: bytes) -> None:
        draft = self.folder / f".{uuid.uuid4().hex}"
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _place(draft, path)

    async def take(self, shard: Shard) -> tuple[Pack | None, int]:
        """A half-done shard for a worker to go on with, and how many rows its journal has."""
        path, stores = self.path(shard), self._stores(shard)
        if not path.exists():
            return None, 0
        async with Reader.open(path) as reader:
            phases = sum((await reader.counts()).values())
        journal = await anyio.to_thread.run_sync(lambda: zstandard.compress(path.read_bytes()))
        return Pack(journal=journal, stores=stores.read_bytes() if stores.exists() else None), phases

    async def is_done(self, shard: Shard, plan: Plan) -> bool:
        """The shard came to its end and nothing of it failed."""
        if not self.path(shard).exists():
            return False
        async with Reader.open(self.path(shard)) as reader:
            state = (await reader.status()).state
            failed = [await reader.states(job.key) for job in plan.jobs]
        return state in (RunState.COMPLETE, RunState.PARTIAL) and not any(FAILED_STATES & set(one) for one in failed)

    async def merge_into(self, meta: RunMeta) -> None:
        """Make the run's journal anew from what is on the shelf; an empty shelf leaves it as it is."""
        sources = sorted(self.folder.glob("*.sqlite"))
        if not sources:
            return
        draft = self.run / _DRAFT
        shutil.rmtree(draft, ignore_errors=True)
        await merge(sources, draft, run_id=meta.run_id, request=meta.request)
        _place(draft / JOURNAL, self.run / JOURNAL)
        shutil.rmtree(draft)

    def clear(self) -> None:
        """The run is whole: its own journal has everything."""
        shutil.rmtree(self.folder)


def _place(new: Path, path: Path) -> None:
    """Put a file in the place of another, and of what SQLite left beside that for its readers; it holds nothing."""
    for beside in ("-wal", "-shm"):
        path.with_name(f"{path.name}{beside}").unlink(missing_ok=True)
    new.replace(path)
