"""A namespace belongs to one journal, even if several runs have the same run id."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from bench.engine.corpora.anonymizer import opaque_id
from bench.engine.corpora.cleanup import clear_run
from bench.journal import RunState, merge
from bench.providers.namespaces import namespace
from tests.small_world import World

Worlds = Callable[..., World]


def two_machines(world_of: Worlds, tmp_path: Path, **sizes: int) -> tuple[World, World]:
    """Two workspaces with one provider."""
    first = world_of(**sizes)
    second = World.make(tmp_path / "elsewhere", first.url, **sizes)
    return first, second


async def test_equal_run_ids_on_two_machines_never_share_a_namespace(world_of: Worlds, tmp_path: Path) -> None:
    first, second = two_machines(world_of, tmp_path, corpora=2, items=2)
    for world in (first, second):
        outcome = await world.run(providers="faulty", run_id="nightly", cleanup="never")
        assert outcome.exit_code == 0
    assert len(first.namespaces()) == 4


async def test_clean_keeps_the_memories_of_another_machine_with_the_same_run_id(
    world_of: Worlds, tmp_path: Path
) -> None:
    first, second = two_machines(world_of, tmp_path, corpora=1, items=2)
    await first.run(providers="faulty", run_id="nightly", cleanup="never")
    others = first.namespaces()
    await second.run(providers="faulty", run_id="nightly", cleanup="never")
    assert await clear_run(second.workspace, second.workspace / "checkpoints/nightly", second.environment) == 1
    assert first.namespaces() == others


async def test_a_resume_of_a_copied_journal_finds_its_memories(world_of: Worlds, tmp_path: Path) -> None:
    first, second = two_machines(world_of, tmp_path, corpora=2, items=2)
    await first.run(providers="faulty", run_id="r", phases="ingest,index")
    shutil.copytree(first.workspace / "checkpoints/r", second.workspace / "checkpoints/r")
    added = first.calls("add")
    outcome = await second.resume("r", phases="ingest,index,search,answer,evaluate")
    assert outcome.status is RunState.COMPLETE and outcome.exit_code == 0
    assert first.calls("add") == added


async def test_a_resume_finds_the_namespaces_of_a_version_without_journal_ids(world_of: Worlds) -> None:
    world = world_of(corpora=2, items=2)
    whole = await world.run(providers="bm25", run_id="r", phases="ingest,index")
    (lane,) = world.plan(providers="bm25").lanes
    (stores,) = (whole.folder / "stores").iterdir()
    with closing(sqlite3.connect(whole.folder / "journal.sqlite")) as file:
        named = file.execute(
            "select corpus, json_extract(data, '$.namespace') from corpus_row"
            " where json_extract(data, '$.namespace') is not null"
        ).fetchall()
        file.execute("update corpus_row set data = json_remove(data, '$.namespace')")
        file.commit()
    for corpus, name in named:
        older = namespace(
            lane.provider.config,
            journal="",
            run_id="r",
            benchmark="facts",
            lane=lane.key,
            corpus=opaque_id("c", "facts", corpus),
            attempt=1,
        )
        for path in list(stores.rglob(f"{name}*")):
            path.rename(path.with_name(path.name.replace(name, older)))
    outcome = await world.resume("r", phases="ingest,index,search,answer,evaluate")
    assert outcome.exit_code == 0 and world.query("r", "select max(attempt) from corpus_row") == [(1,)]


async def test_clean_of_a_merged_run_clears_the_namespaces_of_its_shards(world_of: Worlds) -> None:
    world = world_of(corpora=2, items=4)
    for part in ("1/2", "2/2"):
        await world.run(providers="faulty", run_id=f"part{part[0]}", shard=part, cleanup="never")
    checkpoints = world.workspace / "checkpoints"
    await merge([checkpoints / "part1", checkpoints / "part2"], checkpoints / "whole", run_id="whole")
    assert len(world.namespaces()) == 2
    assert await clear_run(world.workspace, checkpoints / "whole", world.environment) == 2
    assert not world.namespaces()
    assert await clear_run(world.workspace, checkpoints / "whole", world.environment) == 0
