"""``bench clean --orphans``: what runs left at providers goes, the runs themselves stay what they were."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.small_world import World

Bench = Callable[..., Any]
Results = Callable[[str], dict[str, Any]]


@pytest.fixture
def world(bench: Bench, tmp_path: Path, fault_server: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> World:
    """A finished run that left its two namespaces."""
    url = fault_server()
    world = World.make(tmp_path, url, corpora=2, items=2)
    monkeypatch.setenv("FAULT_URL", url)
    flags = ("--benchmarks", "facts", "--providers", "faulty", "--answering-model", "none", "--cleanup", "never")
    bench("run", "--run-id", "r", *flags)
    return world


def held(world: World) -> int:
    return sum(bool(one["count"]) for one in world.control("namespaces?provider=default").values())


def test_orphans_are_cleared_once_and_the_run_stays_as_it_was(bench: Bench, world: World, results: Results) -> None:
    before = results("r")
    assert held(world) == 2
    done = bench("clean", "--orphans", "--yes")
    assert "cleared 2 namespaces" in done.stderr and held(world) == 0
    assert results("r") == before and before["status"] == "complete"
    assert "cleared" not in bench("clean", "--orphans", "--yes").stderr
    assert "complete" in bench("status", "r").stdout


def test_a_provider_that_cannot_clear_keeps_the_run(bench: Bench, world: World, tmp_path: Path) -> None:
    world.fault("clear:status:code=400")
    bench("clean", "r", "--yes", check=3)
    assert (tmp_path / "checkpoints/r/journal.sqlite").is_file() and held(world) == 2
    world.heal()
    bench("clean", "r", "--yes")
    assert held(world) == 0 and not (tmp_path / "checkpoints/r").exists()


def test_only_runs_that_left_something_are_listed_as_orphans(bench: Bench, world: World) -> None:
    bench("run", "--providers", "no-memory", "--limit", "2", "--run-id", "tidy")
    listed = json.loads(bench("clean", "--orphans", "--json").stdout)
    assert [(run["run_id"], run["namespaces"]) for run in listed["runs"]] == [("r", 2)]
    assert listed["done"] is False and held(world) == 2
    bench("clean", "--orphans", "--yes")
    assert json.loads(bench("clean", "--orphans", "--json").stdout)["runs"] == []


def test_a_run_with_a_broken_journal_can_be_deleted_and_is_named(bench: Bench, tmp_path: Path) -> None:
    bench("run", "--providers", "no-memory", "--limit", "2", "--run-id", "torn")
    (tmp_path / "checkpoints/torn/journal.sqlite").write_bytes(b"no database at all" * 100)
    assert "torn: " in bench("clean", "torn").stderr
    bench("clean", "torn", "--yes")
    assert not (tmp_path / "checkpoints/torn").exists()
