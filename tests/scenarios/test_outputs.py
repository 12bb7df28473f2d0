"""C, M, T, K, S: output and files of stopped, failed and killed commands, in any terminal."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import anyio
import pytest

from bench.cli.run_display import Display, JsonDisplay, PlainDisplay
from bench.engine import Progress, SilentObserver, execute
from bench.errors import BenchError
from bench.journal import RunState
from bench.model import State
from tests import forked
from tests.scenarios.program import bench, clean
from tests.small_world import BENCHMARK, PROVIDER, World

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


async def test_C5_results_of_a_stopped_run_are_shown_and_marked_partial(world_of: Worlds) -> None:
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


async def test_S3_excluded_items_count_in_neither_numerator_nor_denominator(world_of: Worlds) -> None:
    """3 of 3 items of one category are correct, and 2 of 2 of another that has no evidence."""
    world = world_of(corpora=1, items=5)
    path = world.workspace / "datasets" / "facts.jsonl"
    row = json.loads(path.read_text())
    for question in row["qa"]:
        question["evidence"] = [] if question["type"] == "one" else question["evidence"]
    path.write_text(json.dumps(row) + "\n")
    outcome = await world.run(providers="faulty", answering_model="builtin/extractive")
    shown = json.loads(bench(world.workspace, "results", outcome.run_id, "--json", **world.variables).stdout)
    metrics = shown["jobs"][0]["metrics"]
    assert (metrics["accuracy"]["value"], metrics["accuracy"]["n"]) == (1.0, 5)
    hit = metrics["hit_at_5"]
    assert (hit["value"], hit["n"], hit["n_excluded"]) == (1.0, 3, 2)
    for metric in metrics.values():
        parts = [part for labels in metric["breakdown"].values() for part in labels.values()]
        for one in [metric, *parts]:
            assert one["value"] is None or metric.get("unit") or 0 <= one["value"] <= 1
        for labels in metric["breakdown"].values():
            assert sum(part["n"] for part in labels.values()) == metric["n"]


BROKEN = '''
from bench.model import Ingested, Readiness
from bench.providers import Batching, Capabilities, Waiting


class Broken:
    """Store everything and fail in every search."""

    name, version, durability = "broken", "1", "process"
    capabilities, keeps_store, unbounded, on_unknown = Capabilities(), True, False, "reset"
    wait, batching = Waiting(), Batching()

    def __init__(self, config, context):
        pass

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        return None

    async def ingest(self, space, memories):
        return Ingested()

    async def ready(self, space, ingested):
        return Readiness(state="ready")

    async def search(self, space, query):
        raise RuntimeError("the index is gone")

    async def clear(self, space):
        return 0
'''


class Watch(SilentObserver):
    """Measure the CPU time of the event loop between two samples, which other processes do not change."""

    def launched(self, progress: Progress) -> None:
        self.took_s, self._before = [0.0], time.thread_time()

    async def sample(self) -> None:
        self.took_s, self._before = [0.0], time.thread_time()
        while True:
            await anyio.sleep(0.005)
            self.took_s.append(time.thread_time() - self._before)
            self._before = time.thread_time()


@pytest.mark.parametrize("corpora", [15, pytest.param(100, marks=pytest.mark.long)])
async def test_M3_thousands_of_equal_errors_are_stored_once_and_never_block_the_event_loop(
    tmp_path: Path, corpora: int
) -> None:
    world = World.make(tmp_path, corpora=corpora, items=100)
    world.write("configs/providers/broken.py", BROKEN)
    world.write("configs/providers/broken.yaml", "name: broken\ntype: local\nadapter: ./broken.py:Broken\n")
    plan = world.plan(providers="broken", isolation="off", run_id="m3")
    watch = Watch()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch.sample)
        outcome = await execute(plan, environment=world.environment, observer=watch)
        tasks.cancel_scope.cancel()
    assert outcome.jobs[0].states == {State.ERROR: 100 * corpora}
    ((text,),) = world.query("m3", "select text from message")
    assert text.startswith("RuntimeError: the index is gone") and "broken.py:" in text
    assert world.query("m3", "select count(*), count(distinct message) from entry where message is not null") == [
        (200 * corpora, 1)
    ]
    log = (world.workspace / "results/m3/run.log").read_text(encoding="utf-8")
    assert log.count("Traceback") == 1, "formatting it for each item would take longer than the item"
    traced = sys.gettrace() is not None  # measuring coverage doubles what Python code takes
    once, again, *rest = sorted(watch.took_s, reverse=True)
    assert rest[0] < (0.3 if traced else 0.1), "each error would block the loop"
    assert max(once, again) < 1, "the start of a run and its first traceback import modules"


async def test_M5_the_journal_size_per_item_does_not_grow_with_the_number_of_items(world_of: Worlds) -> None:
    sizes = []
    for items in (100, 400):
        world = world_of(corpora=1, items=items)
        outcome = await world.run(providers="faulty", isolation="off", cleanup="never")
        path = world.workspace / "checkpoints" / outcome.run_id / "journal.sqlite"
        sizes.append(path.stat().st_size / items)
    assert sizes[1] <= 1.5 * sizes[0]


@pytest.mark.parametrize(
    "parts", [(0.6, 0.9), pytest.param((0.5, 0.6, 0.7, 0.8, 0.9, 0.95), marks=pytest.mark.long)], ids=len
)
async def test_I6_a_killed_export_or_sign_leaves_no_incomplete_file(world_of: Worlds, parts: tuple[float, ...]) -> None:
    world = world_of(corpora=2, items=60)
    outcome = await world.run(providers="faulty", answering_model="builtin/extractive", run_id="i6")
    variables = clean(HOME=str(world.workspace / "home"), **world.variables)
    forked.run([sys.executable, "-m", "bench", "keys", "new"], cwd=world.workspace, env=variables, check=True)
    out, receipts = world.workspace / "items.json", outcome.folder.parents[1] / "results/i6/receipts"
    export = ["export", "i6", "--format", "json", "--output", str(out)]
    for command in (export, ["sign", "i6"]):
        began = time.monotonic()
        forked.run([sys.executable, "-m", "bench", *command], cwd=world.workspace, env=variables, check=True)
        whole_s = time.monotonic() - began
        for part in parts:
            out.unlink(missing_ok=True)
            process = forked.Popen([sys.executable, "-m", "bench", *command], cwd=world.workspace, env=variables)
            time.sleep(part * whole_s)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            assert not out.exists() or len(json.loads(out.read_text(encoding="utf-8"))) == 120
            for receipt in receipts.glob("*.json"):
                count = json.loads(receipt.read_text(encoding="utf-8"))["perQuery"]["count"]
                rows = receipt.with_suffix(".items.jsonl").read_text(encoding="utf-8").splitlines()
                assert len([json.loads(row) for row in rows]) == count == 120


UNSAFE = [
    "a/b",
    "../up",
    "/etc/x",
    "C:x",
    "x*y",
    "what?",
    ".hidden",
    "x" * 300,
    "nul\x00",
    "CON",
    "nul.txt",
    "end.",
]


@pytest.mark.parametrize("flag", ["run_id", "providers", "benchmarks"])
@pytest.mark.parametrize("name", UNSAFE)
def test_T4_an_unsafe_name_is_refused_and_nothing_is_written(world_of: Worlds, name: str, flag: str) -> None:
    world = world_of(corpora=1)
    before = sorted(world.workspace.parent.rglob("*"))
    with pytest.raises(BenchError):
        world.plan(**{"providers": "faulty", flag: name})
    assert sorted(world.workspace.parent.rglob("*")) == before


@pytest.mark.parametrize("kind", ["providers", "benchmarks"])
def test_T4_a_config_with_an_unsafe_name_is_invalid(world_of: Worlds, kind: str) -> None:
    world = world_of(corpora=1)
    text = PROVIDER if kind == "providers" else BENCHMARK
    old = "name: faulty" if kind == "providers" else "name: facts"
    named = [text.replace(old, f"name: {json.dumps(name)}") for name in UNSAFE]
    paths = [world.write(f"configs/{kind}/odd{number}.yaml", one) for number, one in enumerate(named)]
    outside = set(world.workspace.parent.iterdir())
    done = bench(world.workspace, "validate", *map(str, paths), **world.variables)
    output = (done.stdout + done.stderr).decode()
    assert done.returncode == 2
    assert [name for number, name in enumerate(UNSAFE) if f"odd{number}.yaml:2:" not in output] == [], output
    assert set(world.workspace.parent.iterdir()) == outside


@pytest.mark.long
async def test_T1_a_run_whose_stderr_is_a_file_writes_a_plain_line_every_ten_seconds(world_of: Worlds) -> None:
    world = world_of("search:latency:ms=1400", corpora=1, items=17)
    flags = ["run", "--benchmarks", "facts", "--providers", "faulty", "--concurrency", "1"]
    stderr = world.workspace / "stderr.txt"
    with stderr.open("wb") as file:
        command = [sys.executable, "-m", "bench", *flags]
        process = forked.Popen(
            command, cwd=world.workspace, env=clean(**world.variables), stdout=subprocess.PIPE, stderr=file
        )
        lengths, grew = [0], [time.monotonic()]
        while process.poll() is None:
            if (length := stderr.stat().st_size) > lengths[-1]:
                lengths.append(length)
                grew.append(time.monotonic())
            time.sleep(0.05)
        grew.append(time.monotonic())
        out, _ = process.communicate()
    text = stderr.read_bytes()
    assert process.returncode == 0 and grew[-1] - grew[0] > 20
    assert max(later - sooner for sooner, later in pairwise(grew)) < 11, "ten seconds, and the time of one sample"
    assert b"\x1b" not in text + out and b"\r" not in text + out
    lines = [line for line in text.decode().splitlines() if " steps/s, " in line]
    assert len(lines) >= 3 and lines[-1].startswith("17/17 items, ")


def test_T1_every_display_without_a_table_reports_every_ten_seconds() -> None:
    assert {one.every_s for one in (PlainDisplay, JsonDisplay, Display)} == {10.0}


@pytest.mark.parametrize("variables", [{"CI": "true"}, {"TERM": "dumb"}])
def test_T1_a_dumb_terminal_gets_no_control_codes(tmp_path: Path, variables: dict[str, str]) -> None:
    parent, child = pty.openpty()
    environment = clean(**{"TERM": "xterm", **variables})
    command = [sys.executable, "-m", "bench", "run", "--limit", "2", "--providers", "no-memory"]
    process = forked.Popen(command, cwd=tmp_path, env=environment, stderr=child, stdout=child)
    os.close(child)
    written = b""
    with suppress(OSError):  # the other end is closed
        while part := os.read(parent, 65536):
            written += part
    os.close(parent)
    assert process.wait(60) == 0
    assert b"2/2 items (100%), " in written and b"no-memory" in written
    assert b"\x1b" not in written
    assert b"\r" not in written.replace(b"\r\n", b""), "a terminal itself puts one before each end of line"


def test_T1_tables_fit_into_40_columns_and_no_color_prints_no_codes(tmp_path: Path) -> None:
    done = bench(tmp_path, "run", "--limit", "2", "--providers", "no-memory", COLUMNS="40", NO_COLOR="1")
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout + done.stderr
    tables = [line for line in done.stdout.decode().splitlines() if not line.startswith(("note: ", "results: "))]
    assert any("accuracy  " in line for line in tables)
    assert max(map(len, tables)) <= 40


def test_K4_the_demo_needs_no_network(tmp_path: Path) -> None:
    command = [sys.executable, "-c", NO_NETWORK, "run", "--limit", "5", "--answering-model", "builtin/extractive"]
    done = forked.run(command, cwd=tmp_path, env=clean())
    assert done.returncode == 0, done.stderr.decode()
    assert any((tmp_path / "results").iterdir())
