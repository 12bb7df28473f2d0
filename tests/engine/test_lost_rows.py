"""Memories whose journal rows were lost belong to the run and are not contamination."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing

from bench.journal import RunState
from tests.small_world import World

Worlds = Callable[..., World]


async def test_memories_without_journal_rows_are_cleared_and_ingested_again(world_of: Worlds) -> None:
    world = world_of(corpora=2, items=2)
    whole = await world.run(providers="bm25", run_id="r", cleanup="never")
    with closing(sqlite3.connect(whole.folder / "journal.sqlite")) as file:
        for table in ("score", "verdict", "call", "phase", "entry", "corpus_row", "probe"):
            file.execute(f"delete from {table}")
        file.commit()
    again = await world.resume("r")
    assert again.status is RunState.COMPLETE and again.exit_code == 0
    assert [job.states for job in again.jobs] == [job.states for job in whole.jobs]
    assert all(job.valid for job in again.jobs)
