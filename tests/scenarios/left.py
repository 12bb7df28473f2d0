"""Read the results and the receipt of a run, and add the provider ``forgetful`` to a workspace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.journal import Reader
from bench.plan.job_record import read_jobs
from tests.scenarios.program import bench
from tests.small_world import World


async def results_of(world: World, run_id: str) -> list[object]:
    """Return all deterministic values of every item of every job."""
    found: list[object] = []
    async with Reader.open(world.workspace / "checkpoints" / run_id) as reader:
        for job in read_jobs(reader.meta.extra):
            async for one in reader.items(job.chain):
                data = {phase.value: dict(entry.data) for phase, entry in one.phases.items()}
                found.append([job.key, one.item, one.epoch, one.state, dict(one.values), dict(one.labels), data])
    return found


def receipt_of(world: World, run_id: str, **variables: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Sign the only job of a run with a new key; return the receipt and its rows."""
    home = {"HOME": str(world.workspace / "home"), **world.variables, **variables}
    for command in (["keys", "new"], ["sign", run_id]):
        done = bench(world.workspace, *command, **home)
        assert done.returncode == 0, done.stderr.decode()
    folder = world.workspace / "results" / run_id / "receipts"
    (file,) = folder.glob("*.json")
    (rows,) = folder.glob("*.items.jsonl")
    return _json(file.read_bytes()), [_json(line) for line in rows.read_bytes().splitlines()]


def _json(text: bytes) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(text)
    return tree


def finished(world: World, run_id: str) -> int:
    """Return how many phases have the outcome ``ok`` in the journal."""
    return int(world.query(run_id, "select count(*) from phase where outcome = 'ok'")[0][0])


async def durable(world: World, run_id: str) -> int:
    """Return the same number plus the number of ingested and indexed corpora."""
    async with Reader.open(folder_of(world, run_id)) as reader:
        return sum(n for (_, outcome), n in (await reader.counts()).items() if outcome == "ok")


def folder_of(world: World, run_id: str) -> Path:
    return world.workspace / "checkpoints" / run_id


def forgetful_in(world: World) -> Path:
    """Add the provider ``forgetful`` to a workspace; return the path of its adapter."""
    adapter = world.workspace / "configs/providers/forgetful.py"
    adapter.write_text((Path(__file__).parent / "forgetful.py").read_text(encoding="utf-8"), encoding="utf-8")
    world.write("configs/providers/forgetful.yaml", "name: forgetful\ntype: local\nadapter: ./forgetful.py:Forgetful\n")
    return adapter
