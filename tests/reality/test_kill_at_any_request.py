"""kill -9 at any request of an ingest, several times: no acknowledged memory is stored twice.

The server kills the run while it handles one of its requests, before or after it has processed it.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

import anyio
import anyio.to_thread
import pytest
from aiohttp import web

from bench.canonical import digest
from tests.reality.conftest import WorldOn
from tests.reality.memory_stub import MemoryStub
from tests.scenarios.left import results_of
from tests.small_world import PROVIDER, World

Kind = Literal["keys", "ids", "none"]
"""how adds are distinguished: by an idempotency key, by an id in the response, or not at all"""
CORPORA, WORKERS = 3, 3
PATIENT = PROVIDER.replace("timeout: 2000", "timeout: 60000")
UNCOUNTED = "".join(line for line in PATIENT.splitlines(keepends=True) if "  count:" not in line)
BY_ID = "{id_map: {name: given, key: $.job_id, value: sent}}"
FILES: dict[Kind, str] = {
    "keys": UNCOUNTED.replace("path: /v1/add", "path: /v1/add\n    idempotency: {header: Idempotency-Key}"),
    "ids": UNCOUNTED.replace('{ids: "$.job_id"}', BY_ID).replace(
        'scoreField: "$.score"', 'scoreField: "$.score", id_from: [{captured: given, field: $.id}]'
    ),
    "none": UNCOUNTED.replace('scoreField: "$.score"', 'scoreField: "$.score", id_from: none'),
}


@dataclass
class Killing:
    """A memory server that ends its client with SIGKILL at a random request."""

    kind: Kind
    dice: random.Random
    stub: MemoryStub = field(default_factory=MemoryStub)
    process: subprocess.Popen[str] | None = None
    left: int = 0
    """requests until it kills"""
    keys: dict[str, dict[str, object]] = field(default_factory=dict)
    stored: list[str] = field(default_factory=list)
    """texts in the order in which they were stored, including those that were cleared later"""

    def arm(self, process: subprocess.Popen[str], most: int) -> None:
        self.process, self.left = process, self.dice.randint(1, most)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        process, self.left = self.process, self.left - 1
        kills = process is not None and self.left == 0
        if process is not None and self.left < 0:
            return web.Response(status=503)  # it was killed: what it had sent before is lost
        if kills and self.dice.random() < 0.5:
            return self._killed()
        answer = self._answer(request, json.loads(raw) if raw else dict(request.query))
        return self._killed() if kills else web.json_response(answer)

    def _killed(self) -> web.Response:
        assert self.process is not None
        self.process.kill()
        return web.Response(status=503)

    def _answer(self, request: web.Request, body: dict[str, object]) -> dict[str, object]:
        name = "clear" if request.method == "DELETE" else request.path.rpartition("/")[2]
        if name != "add":
            found = self.stub.usual(name, request, body)
            if self.kind != "keys":
                found["results"] = [self._seen(hit) for hit in found.get("results", ())]  # type: ignore[attr-defined]
            return found
        key = request.headers.get("Idempotency-Key", f"{len(self.keys)}")
        if key not in self.keys:
            texts = [one["content"] for one in self.stub.spaces.get(str(body["namespace"]), ())]
            number = texts.count(body["content"])  # the same in each run
            self.keys[key] = {"job_id": f"given-{digest(body['content'])[:12]}-{number}"}
            self.stored.append(str(body["content"]))
            own = body if self.kind == "keys" else body | {"id": self.keys[key]["job_id"], "metadata": {}}
            self.stub.usual("add", request, own)
        return self.keys[key]

    def _seen(self, hit: dict[str, object]) -> dict[str, object]:
        return {name: value for name, value in hit.items() if self.kind == "ids" or name != "id"}


async def killed(world: World, server: Killing, kills: int, most: int) -> None:
    """Start and resume a run until it has been killed that often."""
    flags = {"providers": "faulty", "run_id": "killed", "cleanup": "never", "ingest_concurrency": WORKERS}
    journal = world.workspace / "checkpoints/killed/journal.sqlite"
    for _ in range(kills):
        process = world.start(resume="killed") if journal.exists() else world.start(**flags)
        server.arm(process, most)
        await anyio.to_thread.run_sync(lambda process=process: process.communicate(timeout=120))
        assert process.returncode < 0, "there was enough to send for every kill"
    server.process = None


@pytest.mark.parametrize(
    ("kills", "sessions", "most"), [(3, 8, 9), pytest.param(100, 180, 8, marks=pytest.mark.long)], ids=["3", "100"]
)
@pytest.mark.parametrize("kind", ["keys", "ids", "none"])
async def test_sigkill_at_any_request_loses_no_memory_and_stores_no_identified_one_twice(
    kind: Kind, kills: int, sessions: int, most: int, world_on: WorldOn
) -> None:
    server = Killing(kind, random.Random(f"{kind} {kills}"))
    world = await world_on(server, corpora=CORPORA, items=sessions * 3 // 4, sessions=sessions)  # type: ignore[arg-type]
    data = world.workspace / "datasets/facts.jsonl"
    data.write_text(re.sub(r"Noted in c\d+ part \d+", "Thanks for that", data.read_text()))
    world.provider("faulty", base=FILES[kind])
    assert (await world.run(providers="faulty", run_id="whole", cleanup="never")).exit_code == 0
    whole, server.stored = sorted(server.stored), []
    await killed(world, server, kills, most)
    assert (await world.resume("killed")).exit_code == 0
    twice = Counter(server.stored) - Counter(whole)
    assert twice.total() <= (kills * WORKERS if kind == "none" else 0)
    assert not Counter(whole) - Counter(server.stored)
    assert kind != "keys" or not server.stub.cleared, "an idempotent add is sent again without a check"
    assert await results_of(world, "killed") == await results_of(world, "whole")
