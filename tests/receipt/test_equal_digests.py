"""Complete, killed and resumed, sharded and merged runs have one result digest, and each can be reproduced."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from bench.cli import run as command_line
from bench.journal import merge
from bench.receipt.verification.diff import load
from tests import forked
from tests.small_world import World

FLAGS = (
    "--benchmarks",
    "facts",
    "--providers",
    "bm25",
    "--answering-models",
    "builtin/extractive",
    "--concurrency",
    "1",
)


def ended_items(journal: Path) -> int:
    """Return the number of finished items in the journal of an active run."""
    if not journal.exists():
        return 0
    connection = sqlite3.connect(f"file:{journal}?mode=ro", uri=True)
    try:
        return int(connection.execute("SELECT count(*) FROM score").fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # the tables do not exist yet
    finally:
        connection.close()


def killed_run(workspace: Path, run_id: str) -> None:
    """Start a run in its own process and kill it once it has finished an item."""
    journal = workspace / "checkpoints" / run_id / "journal.sqlite"
    command = [sys.executable, "-m", "bench", "run", *FLAGS, "--run-id", run_id]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = forked.Popen(
        command, cwd=workspace, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while ended_items(journal) < 1 and process.poll() is None:
            time.sleep(0.002)
    finally:
        process.kill()
    assert process.wait(timeout=120) == -signal.SIGKILL, "the run ended before it could be killed"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    place = World.make(tmp_path / "work", corpora=6, items=7).workspace
    monkeypatch.chdir(place)
    assert command_line(["keys", "new"]) == 0
    return place


def test_complete_resumed_and_merged_runs_have_one_result_digest_and_are_reproducible(workspace: Path) -> None:
    assert command_line(["run", *FLAGS, "--run-id", "whole"]) == 0
    killed_run(workspace, "resumed")
    assert ended_items(workspace / "checkpoints/resumed/journal.sqlite") > 0
    assert command_line(["run", "--resume", "resumed"]) == 0
    parts = [f"part{n}" for n in (1, 2, 3)]
    for n, part in enumerate(parts, start=1):
        assert command_line(["run", *FLAGS, "--run-id", part, "--shard", f"{n}/3"]) == 0
    folders = [workspace / "checkpoints" / part for part in parts]
    anyio.run(lambda: merge(folders, workspace / "checkpoints/merged", run_id="merged"))

    receipts = {}
    for run_id in ("whole", "resumed", "merged"):
        assert command_line(["sign", run_id]) == 0
        (file,) = (workspace / "results" / run_id / "receipts").glob("*.json")
        receipts[run_id] = file
    read = {run_id: load(file) for run_id, file in receipts.items()}
    assert len({receipt.result_digest for receipt in read.values()}) == 1
    assert len({receipt.per_query.deterministic_root for receipt in read.values()}) == 1
    assert len(read["resumed"].run.resumes) == 1
    assert [shard.of for shard in read["merged"].run.shards] == [3, 3, 3]
    assert {receipt.kind for receipt in read.values()} == {"run"}
    for file in receipts.values():
        assert command_line(["reproduce", str(file)]) == 0
