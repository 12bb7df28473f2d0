"""Store the journals that the shards of a cluster run returned, and compute the progress of the run from them.

A shard is a part of the run's items. Its journal is kept here until the run is complete. A shard that still runs on
another machine is not counted, because it reports only to the coordinator.

Example::

    found = await standing_of_run(Path("checkpoints/r1"))
    found.completed, found.shards           # 40, {"count": 4, "back": 1, "here": 2}
    store = ShardStore(folder)
    await store.put(shard, returned.pack)       # returned: the ShardResult of the shard
    done = await store.is_done(shard, plan)
    await store.merge_into(meta)            # the run's own journal from all of them
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import anyio.to_thread
import zstandard

from bench.cluster.messages import CompressedParts, Shard
from bench.cluster.worker import SCRATCH
from bench.engine.run import SHARDS
from bench.journal import Reader, RunMeta, RunState, merge
from bench.journal.paths import CHECKPOINTS, JOURNAL
from bench.model import FAILED_STATES
from bench.plan import Plan
from bench.report.status import RunStatus, run_status

_DRAFT = "merged"


@dataclass(frozen=True, slots=True)
class ShardStore:
    """The folder with the returned journals of shards, in the folder of their run.

    The folder exists until every shard is complete.
    """

    run: Path

    @property
    def folder(self) -> Path:
        return self.run / SHARDS

    @property
    def is_there(self) -> bool:
        return self.folder.is_dir()

    def path(self, shard: Shard) -> Path:
        """Return the path at which the returned journal of a shard is stored."""
        return self.folder / f"{shard}.sqlite"

    async def put(self, shard: Shard, pack: CompressedParts) -> None:
        """Store a returned shard durably; an earlier journal of the shard is replaced."""
        await anyio.to_thread.run_sync(self._put, shard, pack)

    def _put(self, shard: Shard, pack: CompressedParts) -> None:
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
        _publish(draft, path)

    async def take(self, shard: Shard) -> tuple[CompressedParts | None, int]:
        """Return the stored data of a shard and its number of phase rows; (None, 0) if nothing is stored."""
        path, stores = self.path(shard), self._stores(shard)
        if not path.exists():
            return None, 0
        async with Reader.open(path) as reader:
            phases = sum((await reader.counts()).values())
        journal = await anyio.to_thread.run_sync(lambda: zstandard.compress(path.read_bytes()))
        return CompressedParts(journal=journal, stores=stores.read_bytes() if stores.exists() else None), phases

    async def is_done(self, shard: Shard, plan: Plan) -> bool:
        """Return True if the journal of the shard is stored, is complete, and has no failed item."""
        if not self.path(shard).exists():
            return False
        async with Reader.open(self.path(shard)) as reader:
            state = (await reader.status()).state
            failed = [await reader.states(job.key) for job in plan.jobs]
        return state in (RunState.COMPLETE, RunState.PARTIAL) and not any(FAILED_STATES & set(one) for one in failed)

    async def merge_into(self, meta: RunMeta) -> None:
        """Rebuild the run's journal from the returned journals; if there are none, leave it unchanged."""
        sources = sorted(self.folder.glob("*.sqlite"))
        if not sources:
            return
        draft = self.run / _DRAFT
        shutil.rmtree(draft, ignore_errors=True)
        await merge(sources, draft, run_id=meta.run_id, request=meta.request)
        _publish(draft / JOURNAL, self.run / JOURNAL)
        shutil.rmtree(draft)

    def clear(self) -> None:
        """Delete the folder; call this only when the run's own journal is complete."""
        shutil.rmtree(self.folder)


def _publish(new: Path, path: Path) -> None:
    """Replace the file ``path`` by ``new``, and delete the WAL files that SQLite left for ``path``."""
    for beside in ("-wal", "-shm"):
        path.with_name(f"{path.name}{beside}").unlink(missing_ok=True)
    new.replace(path)


async def standing_of_run(run: Path) -> RunStatus:
    """Return the data of ``bench status`` for a run in shards.

    Only two kinds of shards are counted: those that returned a journal, and those that run on this machine.
    """
    own = await run_status(run)
    async with Reader.open(run) as reader:
        count = reader.meta.request["shards"]
        assert isinstance(count, int)
    back = {path.stem: path for path in ShardStore(run).folder.glob("*of*.sqlite")}
    here = _at_work(run)
    furthest = []
    for name in {**back, **here}:
        seen = [await run_status(path) for path in (back.get(name), *here.get(name, ())) if path is not None]
        furthest.append(max(seen, key=_ended))
    shards = {"count": count, "back": len(back), "here": len(here.keys() - back.keys())}
    if sum(map(_ended, furthest)) < _ended(own):
        return replace(own, shards=shards)
    return replace(_added(own, furthest), shards=shards)


def _at_work(run: Path) -> dict[str, list[Path]]:
    """Return a map from shard name to journals, for the shards of a run that this machine executes."""
    found: dict[str, list[Path]] = {}
    for path in sorted((run.parent / SCRATCH / CHECKPOINTS).glob(f"{run.name}.*of*-*/{JOURNAL}")):
        name = path.parent.name.removeprefix(f"{run.name}.").rpartition("-")[0]
        found.setdefault(name, []).append(path)
    return found


def _ended(one: RunStatus) -> int:
    return one.completed + one.failed


def _added(own: RunStatus, shards: Sequence[RunStatus]) -> RunStatus:
    ended, failed = sum(map(_ended, shards)), sum(one.failed for one in shards)
    phases: dict[str, Counter[str]] = {}
    for one in shards:
        for phase, counts in one.phases.items():
            phases.setdefault(phase, Counter()).update(counts)
    waits = [one.index_wait for one in shards if one.index_wait is not None]
    oldest = [one.oldest_request_s for one in shards if one.oldest_request_s is not None]
    return replace(
        own,
        completed=ended - failed,
        failed=failed,
        in_progress=own.total - ended if own.state == "running" else 0,
        phases={name: dict(counts) for name, counts in phases.items()},
        oldest_request_s=max(oldest, default=None),
        cost_usd=format(sum((Decimal(one.cost_usd) for one in shards), Decimal(0)), "f"),
        cost_unknown_calls=sum(one.cost_unknown_calls for one in shards),
        index_wait=max(waits, key=lambda one: one.waited_s, default=None),
    )
