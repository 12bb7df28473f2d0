"""A run that waits until an index is searchable says so: on stderr, in ``bench status`` and in run.log."""

from __future__ import annotations

import json
import re

import anyio
import pytest
from aiohttp import web

from bench.cli import run_display
from bench.journal import lease
from tests.cli.conftest import Bench
from tests.cli.test_builds import in_thread
from tests.reality.conftest import WorldOn
from tests.reality.memory_stub import MemoryStub
from tests.small_world import WAITING

WAITS = re.compile(r"until memories of c0 and 2 other corpora can be found \(\d+ of 600 s\)")


async def test_a_wait_for_the_index_is_shown_with_its_corpus_and_timeout(
    world_on: WorldOn, bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lease, "HEARTBEAT_S", 0.0)
    monkeypatch.setattr(run_display, "SHOWN_WAIT_S", 0.0)
    waiting, indexed = anyio.Event(), anyio.Event()

    def pending(number: int, request: web.Request, body: dict[str, object]) -> web.Response | None:
        if number > 9:
            waiting.set()
        return None if indexed.is_set() else web.json_response({"status": "pending"})

    world = await world_on(MemoryStub(answers={"status": pending}), corpora=3, items=2)
    world.provider("faulty", extra=WAITING.replace("timeout_s: 3", "timeout_s: 600\n  max_interval_ms: 50"))
    shown = run_display.PlainDisplay()

    async def run() -> None:
        outcome = await world.run(shown, providers="faulty", run_id="r")
        assert outcome.exit_code == 0

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await waiting.wait()
        capsys.readouterr()
        shown.tick()
        line = capsys.readouterr().err
        text = (await in_thread(bench, "status", "r")).stdout
        found = json.loads((await in_thread(bench, "status", "r", "--json")).stdout)
        indexed.set()
    assert WAITS.search(line) and "ETA -, waiting until" in line
    assert re.search(rf"^waiting +{WAITS.pattern}$", text, re.MULTILINE)
    wait = found["index_wait"]
    assert (wait["corpora"], wait["corpus"], wait["timeout_s"]) == (3, "c0", 600.0) and 0 < wait["waited_s"] < 60
    assert json.loads((await in_thread(bench, "status", "r", "--json")).stdout)["index_wait"] is None
    events = [json.loads(one) for one in (world.workspace / "results/r/run.log").read_text().splitlines()]
    waits = [(one["corpus"], one["timeout_s"]) for one in events if one["event"] == "waiting_for_index"]
    assert sorted(waits) == [("c0", 600.0), ("c1", 600.0), ("c2", 600.0)], "once per corpus, not once per poll"
    shown.tick()
    assert "waiting" not in capsys.readouterr().err
