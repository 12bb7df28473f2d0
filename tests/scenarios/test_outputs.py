"""C, M, T, K, S: what is printed and written, whatever the run came to and wherever it runs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.errors import BenchError
from bench.journal import RunState
from bench.model import State
from tests.small_world import World

Worlds = Callable[..., World]

NO_NETWORK = """
import socket
connect = socket.socket.connect
def only_here(self, address):
    if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1"):
        raise AssertionError(f"connected to {address}")
    return connect(self, address)
def no_lookup(*names, **more):
    raise AssertionError(f"looked up {names}")
socket.socket.connect = socket.socket.connect_ex = only_here
socket.getaddrinfo = no_lookup
import sys
from bench.cli import main
sys.argv = ["bench", *sys.argv[1:]]
sys.exit(main())
"""


def bench(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """The program in a process of its own, with nothing of our environment."""
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=folder, env=clean(**variables), capture_output=True, check=False, timeout=120)


def clean(**variables: str) -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[2])
    return {"PATH": "/usr/bin:/bin", "PYTHONPATH": root, **variables}


async def test_C5_a_stopped_run_shows_numbers_and_says_that_they_are_partial(world_of: Worlds) -> None:
    world = world_of("search:latency:ms=100", corpora=2, items=20)
    outcome = await world.run(providers="faulty", answering_model="builtin/extractive", concurrency=2, max_time=1.5)
    assert outcome.status is RunState.STOPPED
    shown = bench(world.workspace, "results", outcome.run_id, "--json", **world.variables)
    assert shown.returncode == 0, shown.stderr
    tree = json.loads(shown.stdout)
    (job,) = tree["jobs"]
    accuracy = job["metrics"]["accuracy"]
    assert tree["partial"] is True
    assert accuracy["n"] > 0 and accuracy["value"] is not None
    assert accuracy["n"] + accuracy["n_excluded"] + accuracy["n_failed"] == job["n_planned"] == 40


async def test_S3_no_share_is_above_one_when_a_category_is_excluded(world_of: Worlds) -> None:
    world = world_of("search:status:code=400,match=K0x0", corpora=1, items=5)
    flags = {"providers": "faulty", "answering_model": "builtin/extractive", "max_error_rate": 1, "isolation": "off"}
    outcome = await world.run(**flags)
    shown = json.loads(bench(world.workspace, "results", outcome.run_id, "--json", **world.variables).stdout)
    for metric in shown["jobs"][0]["metrics"].values():
        parts = [part for labels in metric["breakdown"].values() for part in labels.values()]
        for one in [metric, *parts]:
            assert one["value"] is None or metric.get("unit") or 0 <= one["value"] <= 1
        for labels in metric["breakdown"].values():
            assert sum(part["n"] for part in labels.values()) == metric["n"]


async def test_M3_an_error_of_every_item_is_kept_once(world_of: Worlds) -> None:
    world = world_of("search:status:code=400,match=What", corpora=2, items=60)
    outcome = await world.run(providers="faulty", isolation="off")
    assert outcome.jobs[0].states == {State.ERROR: 120}
    assert world.query(outcome.run_id, "select count(*) from message") == [(1,)]


async def test_M5_a_phase_takes_no_more_room_when_many_are_there(world_of: Worlds) -> None:
    sizes = []
    for items in (100, 400):
        world = world_of(corpora=1, items=items)
        outcome = await world.run(providers="faulty", isolation="off", cleanup="never")
        path = world.workspace / "checkpoints" / outcome.run_id / "journal.sqlite"
        sizes.append(path.stat().st_size / items)
    assert sizes[1] <= 1.5 * sizes[0]


async def test_I6_a_killed_report_leaves_no_half_file_under_its_name(world_of: Worlds) -> None:
    world = world_of(corpora=2, items=60)
    outcome = await world.run(providers="faulty", answering_model="builtin/extractive")
    out = world.workspace / "items.json"
    command = [sys.executable, "-m", "bench", "export", outcome.run_id, "--format", "json", "--output", str(out)]
    for delay in (0.25, 0.35, 0.45, 0.55, 0.7):
        process = subprocess.Popen(command, cwd=world.workspace, env=clean(**world.variables), stderr=subprocess.PIPE)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert not out.exists() or json.loads(out.read_text(encoding="utf-8"))
        out.unlink(missing_ok=True)
    assert subprocess.run(command, cwd=world.workspace, env=clean(**world.variables), check=True).returncode == 0
    assert len(json.loads(out.read_text(encoding="utf-8"))) > 0


async def test_T3_any_text_survives_a_locale_without_utf_8(world_of: Worlds) -> None:
    odd = "caf\u00e9 \U0001f9e0 line\u2028separator \u202e \u0000nul"
    world = world_of(corpora=1, items=2)
    path = world.workspace / "datasets" / "facts.jsonl"
    row = json.loads(path.read_text(encoding="utf-8"))
    row["qa"][0]["a"] = odd
    row["sessions"][0][0]["content"] += " " + odd
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    poor = {**world.variables, "LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    flags = ["--benchmarks", "facts", "--providers", "faulty", "--answering-model", "builtin/extractive"]
    ran = bench(world.workspace, "run", *flags, "--run-id", "t3", **poor)
    assert ran.returncode == 0, ran.stderr
    for form in ("jsonl", "csv", "json"):
        out = world.workspace / f"items.{form}"
        assert bench(world.workspace, "export", "t3", "--format", form, "--output", str(out), **poor).returncode == 0
        assert "\U0001f9e0" in out.read_text(encoding="utf-8") or "\\ud83e" in out.read_text(encoding="utf-8")
    for file in (world.workspace / "results" / "t3").rglob("*.json*"):
        text = file.read_text(encoding="utf-8")
        for document in text.split("\n") if file.suffix == ".jsonl" else [text]:
            assert not document or json.loads(document)


@pytest.mark.parametrize("name", ["a/b", "../up", "C:x", "x*y", "what?", ".hidden", "x" * 300, "nul\x00", ""])
def test_T4_a_name_that_is_no_safe_segment_is_refused_and_nothing_is_written(world_of: Worlds, name: str) -> None:
    world = world_of(corpora=1)
    before = sorted(world.workspace.parent.rglob("*"))
    with pytest.raises(BenchError):
        world.plan(providers="faulty", run_id=name)
    assert sorted(world.workspace.parent.rglob("*")) == before


def test_T1_a_run_in_ci_prints_plain_lines(tmp_path: Path) -> None:
    flags = ["run", "--limit", "3", "--providers", "bm25"]
    for variables in ({"NO_COLOR": "1"}, {"CI": "true"}, {"TERM": "dumb", "COLUMNS": "40"}):
        done = bench(tmp_path, *flags, **variables)
        assert done.returncode == 0
        assert done.stderr.strip() and done.stdout.strip()
        assert b"\x1b" not in done.stderr + done.stdout and b"\r" not in done.stderr + done.stdout


def test_K4_the_demo_needs_no_network(tmp_path: Path) -> None:
    command = [sys.executable, "-c", NO_NETWORK, "run", "--limit", "5", "--answering-model", "builtin/extractive"]
    done = subprocess.run(command, cwd=tmp_path, env=clean(), capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    assert any((tmp_path / "results").iterdir())
