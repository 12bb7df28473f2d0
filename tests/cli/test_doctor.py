"""``bench doctor``: a table or JSON, and an exit code that tells a refusal from a failed check."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.small_world import World

Bench = Callable[..., Any]


@pytest.fixture
def world(tmp_path: Path, fault_server: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> World:
    """A healthy provider ``faulty``."""
    url = fault_server()
    monkeypatch.setenv("FAULT_URL", url)
    return World.make(tmp_path, url)


def held(world: World) -> int:
    return sum(bool(one["count"]) for one in world.control("namespaces?provider=default").values())


def test_a_built_in_memory_passes_and_leaves_nothing(bench: Bench, tmp_path: Path) -> None:
    done = bench("doctor", "bm25")
    assert done.stdout.rstrip().endswith("\nok")
    assert "found by own text" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_document_lists_every_check_with_its_time(bench: Bench) -> None:
    found = json.loads(bench("doctor", "bm25", "--json").stdout)
    assert (found["provider"], found["ok"]) == ("bm25", True)
    assert {check["outcome"] for check in found["checks"]} == {"pass"}
    assert all(set(check) == {"name", "outcome", "detail", "latency_ms"} for check in found["checks"])


def test_a_healthy_service_passes_and_its_namespaces_are_cleared_unless_they_are_to_be_kept(
    bench: Bench, world: World
) -> None:
    assert bench("doctor", "faulty").stdout.rstrip().endswith("\nok")
    assert held(world) == 0
    bench("doctor", "faulty", "--keep")
    assert held(world) > 0


def test_a_check_that_fails_is_exit_4(bench: Bench, world: World) -> None:
    world.fault("search:status:code=400")
    done = bench("doctor", "faulty", check=4)
    assert done.stdout.rstrip().endswith("\na check failed")
    found = json.loads(bench("doctor", "faulty", "--json", check=4).stdout)
    assert found["ok"] is False and "fail" in {check["outcome"] for check in found["checks"]}


def test_a_provider_that_refuses_the_key_is_exit_3(bench: Bench, world: World) -> None:
    world.fault("add:status:code=401")
    done = bench("doctor", "faulty", check=3)
    assert done.stdout.rstrip().endswith("\nthe provider refused")


@pytest.mark.parametrize(
    ("name", "text"), [("bm52", 'did you mean "bm25"?'), ("zep", "ZEP_API_KEY"), ("demo", "no provider")]
)
def test_what_cannot_be_examined_says_why(bench: Bench, name: str, text: str) -> None:
    done = bench("doctor", name, check=None)
    assert done.returncode in (2, 4)
    assert text in done.stderr + done.stdout
