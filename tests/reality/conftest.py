"""A workspace of made-up facts on a memory server whose responses a test can change."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bench.engine import Outcome
from bench.journal import Reader
from bench.report.fold import JobReport, fold
from tests.cli.conftest import bench, environment, results
from tests.local_server import LocalServers
from tests.reality.memory_stub import MemoryStub
from tests.small_world import World

__all__ = ["bench", "environment", "results"]

WorldOn = Callable[..., Awaitable[World]]


async def job_report(world: World, run: Outcome | str) -> JobReport:
    """Return the report of the first job of a run."""
    run_id = run if isinstance(run, str) else run.run_id
    async with Reader.open(world.workspace / "checkpoints" / run_id) as reader:
        return (await fold(reader)).jobs[0]


async def notes_of(world: World, run: Outcome | str) -> str:
    """Return the notes of the first job of a run, one per line."""
    return "\n".join((await job_report(world, run)).notes)


@pytest.fixture
async def world_on(tmp_path: Path) -> AsyncIterator[WorldOn]:
    """``await world_on(stub, corpora=1, items=3)``"""
    servers = LocalServers()

    async def make(stub: MemoryStub, **sizes: int) -> World:
        return World.make(tmp_path, await servers.start(stub.handle), **sizes)

    yield make
    await servers.close()


@pytest.fixture
def rows_of(tmp_path: Path) -> Callable[[Outcome], list[dict[str, Any]]]:
    """The rows of ``items.jsonl`` of a run."""

    def read(outcome: Outcome) -> list[dict[str, Any]]:
        path = tmp_path / "results" / outcome.run_id / "items.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    return read
