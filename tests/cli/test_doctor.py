"""``bench doctor``: a table or JSON, and an exit code that tells a refusal from a failed check."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from bench.cli.commands.doctor import DoctorSteps
from bench.http import Http
from tests.providers.test_doctor_findings import SHELF
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
    assert done.stdout.rstrip().endswith("\nthe provider refused the requests")


@pytest.mark.parametrize(
    ("name", "text"), [("bm52", 'did you mean "bm25"?'), ("zep", "ZEP_API_KEY"), ("demo", "no provider")]
)
def test_what_cannot_be_examined_says_why(bench: Bench, name: str, text: str) -> None:
    done = bench("doctor", name, check=None)
    assert done.returncode in (2, 4)
    assert text in done.stderr + done.stdout


def asked(done: Any) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("doctor: ")]


def test_each_step_stands_on_stderr_as_it_begins_and_stdout_stays_json(bench: Bench) -> None:
    done = bench("doctor", "bm25", "--json")
    names = [f"doctor: {check['name']}" for check in json.loads(done.stdout)["checks"]]
    told = [line for line in asked(done) if not line.startswith("doctor: clearing")]
    assert told == ["doctor: opening", *names, "doctor: ok"]
    assert asked(bench("doctor", "bm25", "-q")) == []


def test_a_service_that_never_answers_is_named_with_its_step_after_one_deadline(bench: Bench, world: World) -> None:
    world.fault("search:hang")
    started = time.monotonic()
    done = bench("doctor", "faulty", "--timeout", "1s", check=4)
    assert time.monotonic() - started < 8
    assert asked(done)[:3] == ["doctor: opening", "doctor: version", "doctor: setup twice"]
    verdict = done.stdout.rstrip().splitlines()[-1]
    assert verdict == (
        f'no answer to "empty namespace" from {world.url}: '
        "timeout: faulty.search: POST /v1/search: no answer within 1 s"
    )
    assert world.control("stats")["providers"]["default"]["endpoints"]["search"]["calls"] == 1
    assert "timeout" in bench("doctor", "faulty", "--timeout", "0", check=2).stderr


def test_the_address_of_a_service_that_never_answers_is_told_without_its_password(
    bench: Bench, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.fault("search:hang")
    monkeypatch.setenv("FAULT_URL", world.url.replace("://", "://me:hunter22@"))
    done = bench("doctor", "faulty", "--timeout", "1s", check=4)
    assert f'no answer to "empty namespace" from {world.url.replace("://", "://[redacted]@")}' in done.stdout
    assert "hunter22" not in done.stdout + done.stderr


def test_what_is_waited_for_is_told_again_while_it_takes_long(capsys: pytest.CaptureFixture[str]) -> None:
    steps = DoctorSteps(cast("Http", Flying()))
    steps.begin("add")
    steps.waiting()
    assert capsys.readouterr().err.splitlines() == [
        "doctor: add",
        "doctor: add: 0 s so far, faulty.add has not answered for 12 s",
    ]


def test_a_signal_shows_what_was_answered(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELF_KEY", "k" * 12)
    ended = SHELF.replace("words = set(query", "raise KeyboardInterrupt\n        words = set(query")
    World(workspace=tmp_path).write("configs/providers/shelf.py", ended)
    World(workspace=tmp_path).write(
        "configs/providers/shelf.yaml", "name: shelf\ntype: local\nadapter: ./shelf.py:Shelf\n"
    )
    done = bench("doctor", "shelf", check=130)
    assert "shelf 7" in done.stdout and "setup twice" in done.stdout
    assert "stopped by SIGINT; 2 checks were finished" in done.stderr


class Flying:
    """One request on its way."""

    def oldest(self) -> str:
        return "faulty.add"

    def oldest_s(self) -> float:
        return 12.4
