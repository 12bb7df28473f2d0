"""The service: starts and queues runs, pauses and cancels them, and continues them after a restart."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from aiohttp import web

from bench.errors import Locked
from bench.journal import Reader, RunState
from bench.web.service import OrderStore, RunOrder
from tests import forked
from tests.full_journal import ItemData, write_run
from tests.local_server import LocalServers
from tests.reality.memory_stub import MemoryStub
from tests.small_journal import record
from tests.small_world import WAITING, World
from tests.web.workspaces import ServiceProcess, run_demo, visiting

Faults = Callable[..., str]


def slow_world(folder: Path, fault_server: Faults) -> World:
    """A world with slow searches, so that a run can be interrupted also on a busy machine."""
    url = fault_server("search:latency:ms=250")
    return World.make(folder, url, corpora=2, items=30)


SLOW = {"benchmarks": ["facts"], "providers": ["faulty"], "answering_model": ["builtin/extractive"], "concurrency": 2}


async def ended(visit: object, run_id: str) -> dict[str, object]:
    with anyio.fail_after(150):
        while True:
            runs = (await visit.document("/runs"))["runs"]  # type: ignore[attr-defined]
            found: dict[str, object] = next((run for run in runs if run["run_id"] == run_id), {})
            if found.get("state") in ("complete", "partial", "stopped", "paused") and not found.get("service"):
                return dict(found)
            await anyio.sleep(0.1)


async def test_a_run_started_over_http_completes_with_its_report(tmp_path: Path) -> None:
    async with visiting(tmp_path, runs=True) as visit:
        body = '{"benchmarks": ["demo"], "providers": ["bm25"], "limit": 5, "run_id": "r1"}'
        status, text, headers = await visit.ask("POST", "/api/v1/runs", data=body)
        assert status == 202, text
        assert headers["Location"] == "/api/v1/runs/r1"
        assert (await ended(visit, "r1"))["state"] == "complete"
        status, _, _ = await visit.ask("POST", "/api/v1/runs", data=body)
        assert status == 400, "the id is used"
        assert (await visit.document("/leaderboard"))["benchmarks"] == ["demo"]
    assert (tmp_path / "results" / "r1" / "report.json").is_file()
    assert list((tmp_path / "checkpoints" / ".service").glob("*.json")) == []


async def test_the_retry_button_runs_only_failed_items_again(tmp_path: Path, fault_server: Faults) -> None:
    world = World.make(tmp_path, fault_server("search:status:code=422,match=K0x3"), corpora=1, items=6)
    await world.run(providers="faulty", answering_model="none", run_id="r1", max_error_rate=1)
    world.heal()
    before = world.calls("search")
    async with visiting(tmp_path, runs=True, variables=world.variables) as visit:
        _, page = await visit.get("/runs/r1")
        assert "Retry what failed" in page and visit.site.secret is not None
        data = {"csrf_token": visit.site.secret.csrf}
        assert (await visit.ask("POST", "/runs/r1/retry", headers=visit.cookie, data=data))[0] == 303
        row = await ended(visit, "r1")
    assert (row["failed"], row["ended"]) == (0, 6) and world.calls("search") == before + 1 + 1, (
        "the item, and one search after the clear"
    )


async def test_a_retry_of_a_paused_run_without_failures_leaves_it_paused(tmp_path: Path) -> None:
    folder = await write_run(tmp_path, "r1", [(record("x"), [ItemData(item="q1")])], state=RunState.PAUSED)
    async with visiting(tmp_path, runs=True) as visit:
        status, text, _ = await visit.ask("POST", "/api/v1/runs/r1/retry")
        assert (status, json.loads(text)) == (
            202,
            {
                "run_id": "r1",
                "state": "paused",
                "message": "nothing to retry: no selected item has the state error or not_ready",
            },
        )
        assert (await visit.document("/runs"))["runs"][0]["service"] in (None, "")
    async with Reader.open(folder) as reader:
        assert (await reader.status()).state is RunState.PAUSED


async def test_the_page_of_a_live_run_says_that_the_run_waits_for_an_index(tmp_path: Path) -> None:
    stub, servers = MemoryStub(), LocalServers()
    stub.answers = {"status": lambda number, request, body: web.json_response({"status": "pending"})}
    world = World.make(tmp_path, await servers.start(stub.handle), corpora=1, items=2)
    world.provider("faulty", extra=WAITING.replace("timeout_s: 3", "timeout_s: 600"))
    async with visiting(tmp_path, runs=True, variables=world.variables) as visit:
        body = '{"benchmarks": ["facts"], "providers": ["faulty"], "answering_model": ["none"], "run_id": "r1"}'
        assert (await visit.ask("POST", "/api/v1/runs", data=body))[0] == 202
        with anyio.fail_after(60):
            while not stub.calls("status"):
                await anyio.sleep(0.05)
        _, page = await visit.get("/runs/r1")
        assert re.search(r"Waiting until memories of c0 can be found \(\d+ of 600 s\)\.", page)
        stub.answers = {}
        assert (await ended(visit, "r1"))["state"] == "complete"
    await servers.close()


async def test_an_invalid_request_is_rejected_at_once_and_starts_no_run(tmp_path: Path) -> None:
    async with visiting(tmp_path, runs=True) as visit:
        for body in ('{"benchmarks": ["nope"]}', '{"providers": ["nope"]}', '{"limit": 0}', '{"metrics": ["nope"]}'):
            status, text, _ = await visit.ask("POST", "/api/v1/runs", data=body)
            assert status == 400, (body, text)
        assert (await visit.document("/runs"))["runs"] == []


async def test_runs_above_max_runs_wait_in_order(tmp_path: Path) -> None:
    async with visiting(tmp_path, runs=True, max_runs=1) as visit:
        for number in range(3):
            body = f'{{"providers": ["bm25"], "limit": 3, "run_id": "r{number}"}}'
            assert (await visit.ask("POST", "/api/v1/runs", data=body))[0] == 202
            assert len(visit.site.site.service.active) == 1  # type: ignore[union-attr]
        for number in range(3):
            assert (await ended(visit, f"r{number}"))["state"] == "complete"
        runs = (await visit.document("/runs"))["runs"]
        assert min(runs, key=lambda run: run["created_at"])["run_id"] == "r0"


def test_a_run_can_be_paused_resumed_and_cancelled(tmp_path: Path, fault_server: Faults) -> None:
    world = slow_world(tmp_path, fault_server)
    service = ServiceProcess(tmp_path, variables=world.variables)
    try:
        service.call("POST", "/runs", {**SLOW, "run_id": "r1"})
        service.wait_for("r1", "running", ended=3)
        assert service.call("POST", "/runs/r1/pause")["state"] == "stopping"
        paused = service.wait_for("r1", "paused", idle=True)
        assert 3 <= paused["progress"]["ended"] < 60
        service.call("POST", "/runs/r1/resume")
        service.wait_for("r1", "running", ended=paused["progress"]["ended"] + 1)
        service.call("POST", "/runs/r1/cancel")
        assert service.wait_for("r1", "stopped", idle=True)["reason"] == "cancelled"
    finally:
        assert service.end() == 143
    again = ServiceProcess(tmp_path, variables=world.variables)
    try:
        assert again.call("GET", "/runs/r1")["service"] is None, "a cancelled run is not resumed"
    finally:
        assert again.end() == 143


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_continues_after_its_service_was_killed_or_terminated(
    tmp_path: Path, fault_server: Faults, number: signal.Signals
) -> None:
    world = slow_world(tmp_path, fault_server)
    first = ServiceProcess(tmp_path, variables=world.variables)
    first.call("POST", "/runs", {**SLOW, "run_id": "r1"})
    first.call("POST", "/runs", {"benchmarks": ["facts"], "providers": ["oracle"], "run_id": "r2"})
    first.wait_for("r1", "running", ended=5)
    assert first.end(number) == (143 if number is signal.SIGTERM else -signal.SIGKILL)
    second = ServiceProcess(tmp_path, variables=world.variables)
    try:
        done = second.wait_for("r1", "complete")
        assert done["progress"]["ended"] == done["progress"]["planned"] == 60
        assert done["progress"]["failed"] == 0
        second.wait_for("r2", "complete")
    finally:
        assert second.end() == 143
    searched = world.query("r1", "SELECT count(*) FROM phase WHERE phase = 3")[0][0]
    assert 60 <= searched <= 62, "only what was in flight is repeated"


def test_a_second_service_on_one_workspace_exits_6(tmp_path: Path) -> None:
    service = ServiceProcess(tmp_path)
    try:
        command = [sys.executable, "-m", "bench", "--workspace", str(tmp_path), "serve", "--port", "0"]
        done = forked.run(command, text=True)
        assert done.returncode == 6 and f"pid {service.process.pid}" in done.stderr
    finally:
        service.end()


def test_a_service_stops_within_eight_seconds_and_prints_its_token_only_once(tmp_path: Path) -> None:
    service = ServiceProcess(tmp_path)
    assert service.process.stdout is not None
    assert service.process.stdout.readline().startswith(f"log in once: {service.url}/login?token={service.token}")
    assert service.end() == 143
    again = ServiceProcess(tmp_path)
    again.process.send_signal(signal.SIGTERM)
    stdout, stderr = again.process.communicate(timeout=8)
    assert again.process.returncode == 143
    assert "token=" not in stdout + stderr


def test_explore_is_read_only_and_needs_no_token_on_loopback(tmp_path: Path) -> None:
    run_demo(tmp_path, "r1", "--providers", "oracle", "--limit", "2")
    service = ServiceProcess(tmp_path, command="explore")
    (tmp_path / "checkpoints" / ".token").write_text("")
    assert service.call("GET", "/runs")["runs"][0]["run_id"] == "r1"
    assert "error" in service.call("POST", "/runs", {})
    assert service.end(signal.SIGINT) == 130


def test_orders_are_stored_in_order_and_can_be_removed(tmp_path: Path) -> None:
    with OrderStore.open(tmp_path) as orders:
        orders.add(RunOrder(run_id="b", request={"limit": 1}))
        orders.add(RunOrder(run_id="a"))
        (orders.folder / "torn.json").write_text("{")
        with pytest.raises(Locked), OrderStore.open(tmp_path):
            pass
    with OrderStore.open(tmp_path) as orders:
        assert [order.run_id for order in orders.all()] == ["b", "a"]
        orders.drop("b")
        assert [order.run_id for order in orders.all()] == ["a"]
