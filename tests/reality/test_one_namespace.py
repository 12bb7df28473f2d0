"""A service with one namespace: one corpus at a time, cleared in between; memories of others are not touched."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from bench.cli import run
from bench.engine.stopping import Stop
from bench.errors import ConfigError, UsageError
from bench.journal import RunState
from tests.small_world import World

PROVIDER = """
name: solo
type: hosted
connection: {baseUrl: "${SOLO_URL}", timeout: 2000}
scoping: {strategy: single}
endpoints:
  add: {method: POST, path: /add, body: {id: "$.id", text: "$.content"}}
  search:
    method: POST
    path: /search
    body: {query: "$.query", k: "$.k"}
    response: {results: "$.hits", contentField: "$.text", id_from: [{field: "$.id"}]}
  clear: {method: DELETE, path: /all}
rateLimit: {maxRetries: 0, retryDelayMs: 5}
"""


class Solo:
    """A store without namespaces."""

    def __init__(self) -> None:
        self.rows: list[dict[str, str]] = []
        self.calls: list[str] = []
        self.broken: set[str] = set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or b"null")
                status, answer = outer.answer(self.path, body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_DELETE = do_POST

            def log_message(self, *arguments: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, path: str, body: Any) -> tuple[int, object]:
        self.calls.append(path)
        if path in self.broken:
            return 400, {"error": "broken"}
        if path == "/add":
            self.rows.append(body)
        elif path == "/all":
            self.rows.clear()
        elif path == "/search":
            words = set(re.findall(r"\w+", body["query"].lower()))
            ranked = sorted(self.rows, key=lambda row: -len(words & set(re.findall(r"\w+", row["text"].lower()))))
            return 200, {"hits": ranked[: body["k"]]}
        return 200, {}


@pytest.fixture
def solo() -> Iterator[Solo]:
    found = Solo()
    yield found
    found.server.shutdown()
    found.server.server_close()
    found.thread.join()


@pytest.fixture
def world(tmp_path: Path, solo: Solo, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("SOLO_URL", solo.url)
    made = World.make(tmp_path, corpora=3, items=3)
    made.variables["SOLO_URL"] = solo.url
    made.write("configs/providers/solo.yaml", PROVIDER)
    return made


async def test_corpora_are_ingested_one_at_a_time_and_the_service_is_left_empty(world: World, solo: Solo) -> None:
    outcome = await world.run(providers="solo", run_id="r", answering_model="builtin/extractive")
    assert (outcome.status, outcome.exit_code) == (RunState.COMPLETE, 0)
    assert all(job.valid for job in outcome.jobs) and not solo.rows
    changes = [path for path in solo.calls if path in ("/add", "/all")]
    assert [path for at, path in enumerate(changes) if path != changes[at - 1] or not at] == ["/add", "/all"] * 3


async def test_two_variants_of_a_service_with_one_namespace_run_one_after_the_other(world: World, solo: Solo) -> None:
    outcome = await world.run(providers="solo@a solo@b", run_id="r")
    assert outcome.exit_code == 0 and all(job.valid for job in outcome.jobs) and not solo.rows


async def test_a_service_that_is_not_empty_is_refused_and_not_changed(world: World, solo: Solo) -> None:
    solo.rows.append({"id": "mine", "text": "The note of another user about a vault."})
    outcome = await world.run(providers="solo", run_id="r")
    assert (outcome.status, outcome.exit_code) == (RunState.STOPPED, 3)
    assert "one namespace" in outcome.message and len(solo.rows) == 1
    again = await world.resume("r")
    assert again.exit_code == 3 and [row["id"] for row in solo.rows] == ["mine"]
    solo.rows.clear()
    assert (await world.resume("r")).exit_code == 0


async def test_a_clear_that_fails_stops_before_the_next_corpus(world: World, solo: Solo) -> None:
    solo.broken.add("/all")
    outcome = await world.run(providers="solo", run_id="r")
    assert outcome.exit_code == 3 and len(solo.rows) == 3
    solo.broken.clear()
    assert (await world.resume("r")).exit_code == 0
    assert not solo.rows


async def test_a_failed_corpus_leaves_the_service_empty_and_the_run_can_be_resumed(world: World, solo: Solo) -> None:
    solo.broken.add("/add")
    outcome = await world.run(providers="solo", run_id="r")
    assert outcome.exit_code == 4 and not solo.rows
    solo.broken.clear()
    assert (await world.resume("r")).exit_code == 0


async def test_a_resume_continues_with_the_corpus_in_the_service(world: World, solo: Solo) -> None:
    prices = {"solo": {"add": 0.01, "search": 0}}
    outcome = await world.run(providers="solo", run_id="r", prices=prices, max_cost=0.05, concurrency=1)
    assert outcome.stop is Stop.MAX_COST and solo.rows
    outcome = await world.resume("r", max_cost=9)
    assert (outcome.status, outcome.exit_code) == (RunState.COMPLETE, 0) and not solo.rows


def test_phases_or_clusters_that_need_several_corpora_at_once_are_refused(world: World) -> None:
    with pytest.raises(UsageError, match="one namespace"):
        world.plan(providers="solo", phases="ingest,index")
    with pytest.raises(UsageError, match="one namespace"):
        world.plan(providers="solo", cluster="local:2")


def test_scoping_strategy_single_needs_a_clear_endpoint(world: World) -> None:
    lines = [line for line in PROVIDER.splitlines() if "clear:" not in line]
    world.write("configs/providers/solo.yaml", "\n".join([*lines, "capabilities: {clear: false}"]))
    with pytest.raises(ConfigError, match=r"needs endpoints\.clear"):
        world.plan(providers="solo")


def test_doctor_skips_the_checks_that_need_a_second_namespace(
    world: World, solo: Solo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(world.workspace)
    monkeypatch.setenv("COLUMNS", "240")
    assert run(("doctor", "solo")) == 0
    assert capsys.readouterr().out.count("one namespace only") == 2
    assert not solo.rows


def test_doctor_does_not_change_a_service_that_is_not_empty(
    world: World, solo: Solo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(world.workspace)
    solo.rows.append({"id": "mine", "text": "Ana moved to Lisbon."})
    assert run(("doctor", "solo", "--json")) == 4
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["empty namespace"]["outcome"] == "fail"
    assert "may contain memories" in checks["add"]["detail"] and "may contain memories" in checks["clear"]["detail"]
    assert [row["id"] for row in solo.rows] == ["mine"] and "/all" not in solo.calls


def test_plan_shows_that_corpora_run_one_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(world.workspace)
    monkeypatch.setenv("COLUMNS", "240")
    assert run(("plan", "--benchmarks", "facts", "--providers", "solo")) == 0
    assert "one corpus at a time" in capsys.readouterr().out
