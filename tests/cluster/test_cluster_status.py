"""``bench status`` of a cluster run: it counts the shards that are visible on this machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from bench.cli import run
from bench.cli.commands.status import _shards_text
from bench.cluster.progress import standing_of_run
from bench.cluster.worker import SCRATCH
from bench.engine.run import SHARDS
from bench.journal import Journal, JournaledPhase, Key, RunMeta, RunState
from bench.model import Phase, State
from bench.plan.job_record import dump_jobs
from tests.small_journal import Job, made, record

RECORD = record("p")
Values = dict[str, float | None]


async def begun(workspace: Path, *, shards: int = 4, planned: int = 12) -> Path:
    """Write the journal of a cluster run without items."""
    folder = workspace / "checkpoints" / "r"
    extra = {"jobs": dump_jobs([replace(RECORD, n_selected=planned)])}
    meta = RunMeta(run_id="r", plan_digest="d", identity={}, request={"shards": shards}, extra=extra)
    async with Journal.create(folder, meta) as journal:
        (folder / SHARDS).mkdir()
        await journal.set_state(RunState.STOPPED)
    return folder


async def back(run_folder: Path, name: str, values: Values) -> None:
    """Write a shard that was returned to the coordinator."""
    source = await made(run_folder.parent.parent / f"of-{name}", name, [Job(record=RECORD, values=values)])
    (run_folder / SHARDS / f"{name}.sqlite").write_bytes((source / "journal.sqlite").read_bytes())


async def at_work(run_folder: Path, name: str, attempt: str, values: Values) -> None:
    """Write a shard that a worker of this machine is running."""
    scratch = run_folder.parent / SCRATCH
    await made(scratch, f"{run_folder.name}.{name}-{attempt}", [Job(record=RECORD, values=values)])


async def test_status_of_a_run_without_shards_counts_zero(tmp_path: Path) -> None:
    found = await standing_of_run(await begun(tmp_path))
    assert found.shards == {"count": 4, "back": 0, "here": 0}
    assert (found.total, found.completed, found.failed, found.phases) == (12, 0, 0, {})


async def test_returned_and_local_shards_are_summed(tmp_path: Path) -> None:
    folder = await begun(tmp_path)
    await back(folder, "1of4", {"a": 1.0, "b": 0.0, "c": None})
    await at_work(folder, "2of4", "abc123", {"d": 1.0, "e": None})
    found = await standing_of_run(folder)
    assert found.shards == {"count": 4, "back": 1, "here": 1}
    assert (found.total, found.completed, found.failed) == (12, 3, 2)
    assert found.phases == {"evaluate": {"ok": 3}}, "the other items failed before their evaluation"
    assert found.cost_usd == "0"
    assert (found.run_id, found.state) == ("r", "stopped")


async def test_of_several_attempts_of_a_shard_the_furthest_counts(tmp_path: Path) -> None:
    folder = await begun(tmp_path)
    await at_work(folder, "1of4", "lost", {"a": 1.0})
    await at_work(folder, "1of4", "next", {"a": 1.0, "b": 1.0})
    await back(folder, "1of4", {"a": 1.0})
    found = await standing_of_run(folder)
    assert (found.completed, found.shards) == (2, {"count": 4, "back": 1, "here": 0})


async def test_shards_of_another_run_are_not_counted(tmp_path: Path) -> None:
    folder = await begun(tmp_path)
    await made(folder.parent / SCRATCH, "r2.1of4-abc", [Job(record=RECORD, values={"a": 1.0})])
    await made(folder.parent / SCRATCH, "rx1of4-abc", [Job(record=RECORD, values={"a": 1.0})])
    assert (await standing_of_run(folder)).completed == 0


async def test_a_merged_journal_that_is_further_than_its_shards_counts(tmp_path: Path) -> None:
    folder = await begun(tmp_path)
    async with Journal.resume(folder) as journal:
        for item in ("a", "b"):
            key = Key(owner=RECORD.key, phase=Phase.EVALUATE, corpus="c", unit=item)
            journal.append(JournaledPhase(key=key, state=State.CORRECT, values={"accuracy": 1.0}))
    await back(folder, "1of4", {"a": 1.0})
    found = await standing_of_run(folder)
    assert (found.completed, found.shards) == (2, {"count": 4, "back": 1, "here": 0})


def test_the_status_command_shows_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def write() -> None:
        folder = await begun(tmp_path)
        await back(folder, "1of4", {"a": 1.0, "b": 0.0, "c": None})
        await at_work(folder, "2of4", "abc", {"d": 1.0})

    anyio.run(write)
    assert run(["status", "r", "--workspace", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "items      4/12 (33%): 3 ended well, 1 failed, 8 pending\n" in shown
    assert (
        "shards     1 of 4 finished, 1 running on this machine, 2 elsewhere or not started: their items "
        "count when they are finished\n" in shown
    )
    assert run(["status", "r", "--json", "--workspace", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["shards"] == {"count": 4, "back": 1, "here": 1}


@pytest.mark.parametrize(
    ("shards", "text"),
    [
        ({"count": 2, "back": 2, "here": 0}, "2 of 2 finished, 0 running on this machine"),
        ({"count": 2, "back": 0, "here": 2}, "0 of 2 finished, 2 running on this machine"),
    ],
)
def test_shards_elsewhere_are_mentioned_only_if_there_are_any(shards: dict[str, int], text: str) -> None:
    assert _shards_text(shards) == text
