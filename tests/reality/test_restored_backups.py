"""A run that continues from an earlier copy of its journal is valid when the attempts whose hits are used are clean."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from bench.engine.stopping import Stop
from bench.journal import Reader, RunState
from bench.report import fold
from tests.small_world import World

Worlds = Callable[..., World]


async def test_a_run_resumed_from_a_restored_journal_ends_valid(world_of: Worlds) -> None:
    world = world_of(corpora=3, items=3)
    prices = {"faulty": {"add": 0.01, "search": 0}}
    stopped = await world.run(
        providers="faulty", run_id="r", prices=prices, max_cost=0.02, concurrency=1, ingest_concurrency=1
    )
    assert stopped.stop is Stop.MAX_COST
    backup = world.workspace / "backup"
    shutil.copytree(stopped.folder, backup)
    continued = await world.resume("r", max_cost=9, cleanup="never")
    assert continued.exit_code == 0
    shutil.rmtree(stopped.folder)
    shutil.copytree(backup, stopped.folder)
    found = await world.resume("r", max_cost=9)
    assert found.exit_code == 4, "the memories of the lost part make the first namespace not empty"
    again = await world.resume("r", max_cost=9)
    assert (again.status, again.exit_code) == (RunState.COMPLETE, 0)
    assert all(job.valid for job in again.jobs)
    async with Reader.open(again.folder) as reader:
        (job,) = (await fold(reader)).jobs
    assert job.valid and not job.isolation.failed and not job.isolation.leaks
    assert world.query("r", "select count(*) from probe where not passed")[0][0] > 0, (
        "the failed probes stay in the journal"
    )
