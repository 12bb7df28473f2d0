"""A service that loses memories while the ingest is interrupted, and one that never finds all memories."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests import forked
from tests.cli.conftest import Bench
from tests.engine.scripted_store import ScriptedStore
from tests.small_world import World

SESSIONS = 40
FLAGS = ("--benchmarks", "facts", "--providers", "scripted", "--run-id", "r", "--cleanup", "never")
INTERRUPTED = """
    async def ingest(self, space, memories):
        import os, signal, anyio
        if (HERE / "interrupt").exists() and len(self.stored().get(space.namespace, [])) >= 10:
            (HERE / "interrupt").unlink()
            os.kill(os.getpid(), signal.@signal@)
        await anyio.sleep(0.02)
"""


def install(
    tmp_path: Path, *, signal: str = "SIGINT", on_unknown: str = "reset", stores: str = "True"
) -> ScriptedStore:
    """Install a service that can interrupt the run; ``stores`` decides which memories it stores."""
    world = World.make(tmp_path, corpora=1, items=4, sessions=SESSIONS)
    store = ScriptedStore.install(world, on_unknown=on_unknown, wait="interval_s=0.01, timeout_s=0.2")
    adapter = tmp_path / "configs/providers/scripted.py"
    text = adapter.read_text()
    for old, new in (
        ("\n    async def ingest(self, space, memories):\n", INTERRUPTED.replace("@signal@", signal)),
        ("one.content] for one in memories)", f"one.content] for one in memories if {stores})"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    adapter.write_text(text)
    return store


def interrupted(store: ScriptedStore, tmp_path: Path, environment: dict[str, str], *arguments: str) -> None:
    """Call bench in its own process, which is interrupted when the service has 10 memories."""
    (store.folder / "interrupt").touch()
    done = forked.run([sys.executable, "-m", "bench", *arguments], cwd=tmp_path, env=environment, text=True)
    assert done.returncode in (130, -9), done.stderr
    assert 10 <= sum(map(len, store.held.values())) < SESSIONS


def lose(store: ScriptedStore) -> None:
    (store.folder / "store.json").write_text("{}")


def hit_at_5(tmp_path: Path) -> float:
    report = json.loads((tmp_path / "results/r/report.json").read_text())
    return float(report["results"]["jobs"][0]["metrics"]["hit_at_5"]["value"])


@pytest.mark.parametrize("on_unknown", ["reset", "repeat"])
@pytest.mark.parametrize("signal", ["SIGINT", "SIGKILL"])
@pytest.mark.parametrize("times", [1, 2])
def test_memories_that_were_lost_during_an_interruption_are_ingested_again_and_are_no_misses(
    bench: Bench, tmp_path: Path, environment: dict[str, str], signal: str, on_unknown: str, times: int
) -> None:
    store = install(tmp_path, signal=signal, on_unknown=on_unknown)
    interrupted(store, tmp_path, environment, "run", *FLAGS)
    lose(store)
    if times == 2:
        interrupted(store, tmp_path, environment, "resume", "r")
    done = bench("resume", "r")
    assert hit_at_5(tmp_path) == 1
    assert [len(texts) for texts in store.held.values()] == [SESSIONS]
    assert "abandoned" in done.stdout and "everything is ingested again" in done.stdout


def test_the_note_about_lost_memories_says_why_the_ingest_was_abandoned(
    bench: Bench, tmp_path: Path, environment: dict[str, str]
) -> None:
    store = install(tmp_path)
    interrupted(store, tmp_path, environment, "run", *FLAGS)
    lose(store)
    assert (
        "c0: attempt 1 abandoned: scripted has lost the memories that it acknowledged before the ingest was "
        "interrupted; everything is ingested again, including 40 acknowledged memories"
    ) in bench("resume", "r").stdout


@pytest.mark.parametrize(
    ("stores", "note"),
    [("True", False), ("not one.content.rstrip('.').endswith(tuple('part ' + n for n in '02468'))", True)],
)
def test_an_interrupted_ingest_continues_at_a_service_that_finds_all_or_some_of_its_memories(
    bench: Bench, tmp_path: Path, environment: dict[str, str], stores: str, note: bool
) -> None:
    store = install(tmp_path, stores=stores)
    interrupted(store, tmp_path, environment, "run", *FLAGS)
    done = bench("resume", "r")
    assert len(store.calls("ingest")) == SESSIONS
    assert hit_at_5(tmp_path) == (0.5 if note else 1)
    assert "abandoned" not in done.stdout
    assert ("sample memories were found before the first question" in done.stdout) is note
