"""Packed shards: transferred unchanged and stored durably."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from bench.cluster.messages import Shard, pack
from bench.cluster.progress import ShardStore
from bench.engine.run import SHARDS
from bench.errors import JournalError
from tests.small_world import World

SHARD = Shard(number=1, count=2, start=1, end=4)


async def ran(tmp_path: Path) -> tuple[World, Path]:
    world = World.make(tmp_path / "w", "http://127.0.0.1:9")
    outcome = await world.run(providers="bm25", answering_model="builtin/extractive", run_id="r", cleanup="never")
    return world, outcome.folder


async def test_an_unfinished_shard_is_packed_with_its_stores_and_a_complete_one_without(tmp_path: Path) -> None:
    _, folder = await ran(tmp_path)
    assert pack(folder, whole=True).stores is None
    there = tmp_path / "there"
    pack(folder, whole=False).unpack_into(there)
    files = {path.relative_to(folder) for path in (folder / "stores").rglob("*") if path.is_file()}
    assert files and files == {path.relative_to(there) for path in (there / "stores").rglob("*") if path.is_file()}
    for name in (*files, Path("journal.sqlite")):
        assert (there / name).read_bytes() == (folder / name).read_bytes()


async def test_a_journal_that_is_still_open_is_not_packed(tmp_path: Path) -> None:
    _, folder = await ran(tmp_path)
    writer = sqlite3.connect(folder / "journal.sqlite")
    try:
        writer.execute("CREATE TABLE unfinished (x)")
        with pytest.raises(JournalError, match="still open in another program"):
            pack(folder, whole=True)
    finally:
        writer.close()


async def test_ShardStore_returns_stored_packs_and_reports_complete_shards(tmp_path: Path) -> None:
    world, folder = await ran(tmp_path)
    plan = world.plan(providers="bm25", answering_model="builtin/extractive")
    store = ShardStore(tmp_path / "whole")
    assert not store.is_there
    (tmp_path / "whole" / SHARDS).mkdir(parents=True)
    assert await store.take(SHARD) == (None, 0)
    assert not await store.is_done(SHARD, plan)
    sent = pack(folder, whole=False)
    await store.put(SHARD, sent)
    found, phases = await store.take(SHARD)
    assert (found, phases > 0) == (sent, True)
    assert await store.is_done(SHARD, plan)
    await store.put(SHARD, pack(folder, whole=True))
    names = [path.name for path in store.folder.iterdir() if not path.name.endswith(("-wal", "-shm"))]
    assert names == ["1of2.sqlite"], "no draft, no store that went"
