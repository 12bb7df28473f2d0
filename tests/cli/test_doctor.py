"""``bench doctor``: a table or JSON, and different exit codes for a rejected key and a failed check."""

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


def test_doctor_passes_a_built_in_provider_and_leaves_no_file(bench: Bench, tmp_path: Path) -> None:
    done = bench("doctor", "bm25")
    assert done.stdout.rstrip().endswith("\nok")
    assert "found by own text" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_doctor_json_lists_every_check_with_its_latency(bench: Bench) -> None:
    found = json.loads(bench("doctor", "bm25", "--json").stdout)
    assert (found["provider"], found["ok"]) == ("bm25", True)
    assert {check["outcome"] for check in found["checks"]} == {"pass"}
    assert all(set(check) == {"name", "outcome", "detail", "latency_ms"} for check in found["checks"])


def test_doctor_clears_its_namespaces_unless_keep_is_set(bench: Bench, world: World) -> None:
    assert bench("doctor", "faulty").stdout.rstrip().endswith("\nok")
    assert not world.namespaces()
    bench("doctor", "faulty", "--keep")
    assert world.namespaces()


def test_doctor_exits_4_if_a_check_fails(bench: Bench, world: World) -> None:
    world.fault("search:status:code=400")
    done = bench("doctor", "faulty", check=4)
    assert done.stdout.rstrip().endswith("\na check failed")
    found = json.loads(bench("doctor", "faulty", "--json", check=4).stdout)
    assert found["ok"] is False and "fail" in {check["outcome"] for check in found["checks"]}


def test_doctor_exits_3_if_the_provider_rejects_the_key(bench: Bench, world: World) -> None:
    world.fault("add:status:code=401")
    done = bench("doctor", "faulty", check=3)
    assert done.stdout.rstrip().endswith("\nthe provider refused the requests")


@pytest.mark.parametrize(
    ("name", "text"), [("bm52", 'did you mean "bm25"?'), ("zep", "ZEP_API_KEY"), ("demo", "no provider")]
)
def test_doctor_names_the_reason_if_it_cannot_test_a_provider(bench: Bench, name: str, text: str) -> None:
    done = bench("doctor", name, check=None)
    assert done.returncode in (2, 4)
    assert text in done.stderr + done.stdout


def progress_lines(done: Any) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("doctor: ")]


def test_doctor_prints_each_step_to_stderr_and_only_json_to_stdout(bench: Bench) -> None:
    done = bench("doctor", "bm25", "--json")
    names = [f"doctor: {check['name']}" for check in json.loads(done.stdout)["checks"]]
    output = [line for line in progress_lines(done) if not line.startswith("doctor: clearing")]
    assert output == ["doctor: opening", *names, "doctor: ok"]
    assert progress_lines(bench("doctor", "bm25", "-q")) == []


def test_doctor_names_service_and_step_after_one_timeout_without_an_answer(bench: Bench, world: World) -> None:
    world.fault("search:hang")
    started = time.monotonic()
    done = bench("doctor", "faulty", "--timeout", "1s", check=4)
    assert time.monotonic() - started < 8
    assert progress_lines(done)[:3] == ["doctor: opening", "doctor: version", "doctor: setup twice"]
    verdict = done.stdout.rstrip().splitlines()[-1]
    assert verdict == (
        f'no answer to "empty namespace" from {world.url}: '
        "timeout: faulty.search: POST /v1/search: no answer within 1 s"
    )
    assert world.control("stats")["providers"]["default"]["endpoints"]["search"]["calls"] == 1
    assert "timeout" in bench("doctor", "faulty", "--timeout", "0", check=2).stderr


def test_doctor_refuses_an_address_with_a_password_and_does_not_show_it(
    bench: Bench, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT_URL", world.url.replace("://", "://me:hunter22@"))
    done = bench("doctor", "faulty", "--timeout", "1s", check=2)
    assert "contains a user name or password" in done.stderr and "auth: {type: basic" in done.stderr
    assert "hunter22" not in done.stdout + done.stderr


def test_doctor_repeats_a_step_that_waits_long_with_its_duration(capsys: pytest.CaptureFixture[str]) -> None:
    steps = DoctorSteps(cast("Http", OneRequestInFlight()))
    steps.begin("add")
    steps.waiting()
    assert capsys.readouterr().err.splitlines() == [
        "doctor: add",
        "doctor: add: 0 s so far, faulty.add has not answered for 12 s",
    ]


def test_doctor_prints_the_finished_checks_after_a_signal(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELF_KEY", "k" * 12)
    ended = SHELF.replace("words = set(query", "raise KeyboardInterrupt\n        words = set(query")
    World(workspace=tmp_path).write("configs/providers/shelf.py", ended)
    World(workspace=tmp_path).write(
        "configs/providers/shelf.yaml", "name: shelf\ntype: local\nadapter: ./shelf.py:Shelf\n"
    )
    done = bench("doctor", "shelf", check=130)
    assert "shelf 7" in done.stdout and "setup twice" in done.stdout
    assert "stopped by SIGINT; 2 checks were finished" in done.stderr


@pytest.mark.parametrize(
    ("method", "failed"),
    [("async def ready(", "ready"), ("async def search(", "empty namespace"), ("async def clear(", "clear")],
)
def test_an_adapter_that_raises_fails_its_check_without_a_traceback(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, failed: str
) -> None:
    monkeypatch.setenv("SHELF_KEY", "k" * 12)
    head, _, rest = SHELF.partition(method)
    signature, _, body = rest.partition("\n")
    broken = f'{head}{method}{signature}\n        raise ValueError("my index is broken")\n{body}'
    World(workspace=tmp_path).write("configs/providers/shelf.py", broken)
    World(workspace=tmp_path).write(
        "configs/providers/shelf.yaml", "name: shelf\ntype: local\nadapter: ./shelf.py:Shelf\n"
    )
    done = bench("doctor", "shelf", "--json", check=4)
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks[failed]["outcome"] == "fail"
    assert checks[failed]["detail"].startswith("plugin: ValueError: my index is broken (shelf.py:")
    assert "no secret shown" in checks and "Traceback" not in done.stderr and "bug in bench" not in done.stderr


class OneRequestInFlight:
    """One request in flight."""

    def oldest(self) -> str:
        return "faulty.add"

    def oldest_s(self) -> float:
        return 12.4
