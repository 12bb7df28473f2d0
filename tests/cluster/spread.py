"""Distribute a run over real dask processes, and read its results.

Example::

    outcome = await run(world, world.plan(**FLAGS, run_id="r", cluster=machines.address), once=machines.workers[0].kill)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from bench.cluster import execute_on_cluster
from bench.engine import Outcome, Progress, SilentObserver, Stop, resumed_plan
from bench.journal import Reader
from bench.plan import Plan
from bench.report import fold
from bench.report.results_document import report_json
from tests import forked
from tests.small_world import World

FLAGS: dict[str, Any] = {"providers": "faulty", "answering_model": "builtin/extractive", "concurrency": 1}


class Watching(SilentObserver):
    """An observer that counts the ended items of a run."""

    def __init__(self) -> None:
        self.progress: Progress | None = None
        self.stops: list[Stop] = []

    def launched(self, progress: Progress) -> None:
        self.progress = progress

    def stopping(self, reason: Stop, in_flight: int) -> None:
        self.stops.append(reason)

    @property
    def ended(self) -> int:
        return 0 if self.progress is None else self.progress.ended


async def run(
    world: World, plan: Plan, *, once: Callable[[], None] | None = None, after: int = 3, **more: object
) -> Outcome:
    """Run on the cluster; call ``once`` when ``after`` items have ended."""
    watching = Watching()

    async def act() -> None:
        while watching.ended < after:
            await anyio.sleep(0.05)
        assert once is not None
        await anyio.to_thread.run_sync(once)

    async def carry_out() -> Outcome:
        return await execute_on_cluster(plan, environment=world.environment, observer=watching, **more)  # type: ignore[arg-type]

    if once is None:
        return await carry_out()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(act)
        outcome = await carry_out()
        tasks.cancel_scope.cancel()
    return outcome


async def resume(world: World, run_id: str, **flags: object) -> Outcome:
    from bench.config.catalog import Catalog

    catalog = Catalog.load(world.workspace)
    folder, plan = await resumed_plan(run_id, catalog=catalog, flags=flags, environment=world.environment)
    return await execute_on_cluster(plan, environment=world.environment, resume=folder)


def with_model(world: World) -> None:
    """Use the fault server as answering model, also in workers."""
    world.variables.update(OPENAI_BASE_URL=f"{world.url}/v1", OPENAI_API_KEY="test-key-of-nobody")
    world.write(".env", "".join(f"{name}={value}\n" for name, value in world.variables.items()))


async def results(world: World, run_id: str) -> bytes:
    """Return the part of a report that must not depend on where the run was executed."""
    async with Reader.open(world.workspace / "checkpoints" / run_id) as reader:
        return json.dumps(report_json(await fold(reader))["results"]).encode()


def folder(world: World, run_id: str) -> Path:
    return world.workspace / "checkpoints" / run_id


async def same_as_one_process(world: World, run_id: str) -> bool:
    world.heal()
    assert (await world.run(**FLAGS, run_id="alone")).exit_code == 0
    return await results(world, run_id) == await results(world, "alone")


def command(address: str) -> list[str]:
    found = ["run", "--benchmarks", "facts", "--run-id", "r", "--cluster", address]
    for name, value in FLAGS.items():
        found += [f"--{name.replace('_', '-')}", str(value)]
    return found


def bench(cwd: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Start the command line in its own process group, as a terminal does."""
    start = subprocess.Popen if "PYTHONPATH" in variables else forked.Popen  # where other modules are the claim
    return start(
        [sys.executable, "-m", "bench", *arguments],
        cwd=cwd,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
