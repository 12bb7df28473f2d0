"""Builds that other runs use: failures during ingest, upgrades, variants, extended forks, and removal."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bench.errors import IdentityError
from bench.model import State
from tests.cli.conftest import Bench
from tests.cli.test_builds import in_thread
from tests.local_server import LocalServers
from tests.reality.conftest import WorldOn
from tests.reality.memory_stub import MemoryStub
from tests.reality.test_reused_builds import KEPT, ended_with, half_way, ingested, served, with_version
from tests.small_world import PROVIDER, World

ONE = 'body: {id: "$.id", content: "$.content", namespace: "$.runTag", metadata: "$.metadata"}'
TWO = 'body: {namespace: "$.runTag", items: {$each: "$.items", $do: {content: "@.content"}}}'
BATCHED = PROVIDER.replace(ONE, TWO).replace("{on_unknown: reset}", "{on_unknown: reset, batch: {max_items: 2}}")
GIVEN = BATCHED.replace('{ids: "$.job_id"}', "{id_map: {name: given, key: $.ids, value: sent}}").replace(
    'scoreField: "$.score"', 'scoreField: "$.score", id_from: [{captured: given, field: $.id}]'
)
"""the service assigns its own ids, which the response to an add lists"""
PRICED = {"prices": {"faulty": {"add": "1", "search": "0"}}}


def in_batches(world: World, base: str) -> None:
    world.provider("faulty", base=base)
    path = world.workspace / "configs/benchmarks/facts.yaml"
    path.write_text(path.read_text().replace("batchSize: 1", "batchSize: 100"))


class GivingIds(MemoryStub):
    """Returns an id for each memory of a batch, but not for the last memory of the batch with the number ``short``."""

    short = 0

    def usual(self, name: str, request: web.Request, body: Any) -> dict[str, object]:
        if name != "add":
            return MemoryStub.usual(self, name, request, body)
        number = self.calls("add")
        items = [{**one, "id": f"given-{number}-{at}"} for at, one in enumerate(body["items"])]
        MemoryStub.usual(self, name, request, {**body, "items": items})
        ids = [one["id"] for one in items]
        return {"ids": ids[: len(ids) - (number == self.short)]}


async def test_a_batch_with_missing_ids_is_found_on_resume_and_not_sent_again(world_on: WorldOn) -> None:
    stub = GivingIds()
    stub.short = 2
    world = await world_on(stub, corpora=1, items=6, sessions=6)
    in_batches(world, GIVEN)
    first = await world.run(**KEPT, run_id="r1", cleanup="never", isolation="off")
    assert first.exit_code == 4 and first.jobs[0].states == {State.ERROR: 6}
    (outcome,) = world.query("r1", "SELECT outcome FROM corpus_row WHERE kind = 'failed'")
    assert outcome == ("mapping",) and stub.calls("add") == 2
    again = await world.resume("r1")
    assert again.exit_code == 0 and again.jobs[0].states == {State.MEASURED: 6}
    assert stub.calls("add") == 3 and not stub.cleared, "two memories were acknowledged, two more are stored"
    assert again.jobs[0].valid and world.query("r1", "SELECT DISTINCT outcome FROM score") == [("ok",)]


async def test_a_batch_rejected_as_too_large_is_reported_and_acknowledged_batches_stay(
    world_on: WorldOn, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_large(number: int, request: web.Request, body: dict[str, object]) -> web.Response | None:
        return web.json_response({"error": "too large"}, status=413) if number == 2 else None

    stub = MemoryStub(answers={"add": too_large})
    world = await world_on(stub, corpora=1, items=4, sessions=6)
    monkeypatch.setenv("FAULT_URL", str(world.url))
    in_batches(world, BATCHED.replace("{content:", '{id: "@.id", content:'))
    assert (await world.run(**KEPT, run_id="r1", cleanup="never")).exit_code == 4
    assert "faulty.add: POST /v1/add -> 413" in (await in_thread(bench, "failures", "r1")).stdout
    assert (await in_thread(bench, "retry", "r1")).returncode == 0
    assert stub.calls("add") == 4 and not stub.cleared, "three batches, and the one that was refused"
    assert [len(kept) for kept in stub.spaces.values() if kept] == [6]


async def test_a_resume_after_an_upgrade_of_the_service_is_an_identity_error(world_on: WorldOn) -> None:
    stub = served(MemoryStub())
    world = await world_on(stub, corpora=2, items=2)
    with_version(world)
    await ingested(world)
    await half_way(world, stub)
    served(stub, "2.0")
    with pytest.raises(IdentityError, match=r"upstream: 1\.0 -> 2\.0"):
        await world.resume("r2")


async def test_a_k_near_the_size_of_the_corpora_is_noted(
    world_on: WorldOn, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = MemoryStub()
    world = await world_on(stub, corpora=1, items=3)
    monkeypatch.setenv("FAULT_URL", str(world.url))
    await ingested(world)
    adds = stub.calls("add")
    await in_thread(bench, "fork", "r1", "--from", "ingest", "-k", "50", "--run-id", "r2", "-q")
    assert stub.calls("add") == adds
    shown = " ".join((await in_thread(bench, "results", "r2")).stdout.split())
    assert "k = 50 is near the size of the corpora (1 of 1 contains fewer than 100 memories, the smallest 3)" in shown


async def test_a_variant_with_another_ingest_is_refused_and_auto_ingests_only_that_variant(
    world_on: WorldOn, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = MemoryStub()
    world = await world_on(stub, corpora=1, items=3)
    monkeypatch.setenv("FAULT_URL", str(world.url))
    await ingested(world)
    variants = ("--providers", "faulty@a", "faulty@b", "--set", "faulty@b.ingest.unit=turn")
    adds = stub.calls("add")
    for command in (("fork", "r1", "--from", "ingest"), ("run", "--benchmarks", "facts", "--reuse-build", "r1")):
        refused = await ended_with(2, bench, *command, *variants)
        assert "faulty@b cannot reuse build facts/faulty of run r1, because these values differ" in refused.stderr
        assert "unit: session -> turn" in refused.stderr and "--reuse-build auto" in refused.stderr
        assert stub.calls("add") == adds, "nothing was ingested"
    await in_thread(bench, "run", "--benchmarks", "facts", "--reuse-build", "auto", *variants, "--run-id", "r2", "-q")
    assert stub.calls("add") == adds + 6, "the six turns of the variant"
    shown = " ".join((await in_thread(bench, "results", "r2")).stdout.split())
    assert (
        "faulty@b: evidence is found by turn, but for faulty@a by session: these retrieval metrics are not comparable"
    ) in shown


async def test_extending_a_fork_pays_only_for_the_new_corpora(
    world_on: WorldOn, bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stub = MemoryStub()
    world = await world_on(stub, corpora=3, items=4)
    monkeypatch.setenv("FAULT_URL", str(world.url))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    await ingested(world, limit=8, **PRICED)
    await in_thread(bench, "fork", "r1", "--from", "ingest", "--run-id", "r2", "-q")
    adds = stub.calls("add")
    await in_thread(bench, "extend", "r2", "--limit", "12", "-q")
    assert stub.calls("add") == adds + 3, "three sessions of the third corpus"
    found = json.loads((await in_thread(bench, "results", "r2", "--json")).stdout)["jobs"][0]["memory_cost"]["build"]
    assert (found["paid_by"], found["corpora"], found["memories"], found["fingerprint"]) == ("r1", 3, 9, None)
    assert (found["cost_usd"], found["price"]["cost_usd"]) == ("3", "9")
    assert "build, paid in part by facts/faulty of" in " ".join(
        (await in_thread(bench, "results", "r2")).stdout.split()
    )
    await in_thread(bench, "keys", "new", "-q")
    receipt = (await in_thread(bench, "sign", "r2")).stdout.split()[-1]
    assert (await in_thread(bench, "verify", receipt)).stdout.startswith("VALID")
    refused = await ended_with(2, bench, "fork", "r2", "--from", "ingest")
    assert "reused from run r1: give the id of that run" in refused.stderr
    await in_thread(bench, "builds", "rm", "r2", "--yes")
    assert sorted(len(kept) for kept in stub.spaces.values() if kept) == [3, 3], "what r1 ingested stays"


async def test_a_build_that_a_run_currently_searches_cannot_be_removed(
    world_on: WorldOn, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = []

    async def remove(number: int, request: web.Request, body: dict[str, object]) -> None:
        if number == 5 and not refusals:
            refusals.append(None)
            for command in (("builds", "rm", "r1", "--yes"), ("clean", "r1", "--yes")):
                refusals.append((await ended_with(6, bench, *command)).stderr)

    stub = MemoryStub()
    world = await world_on(stub, corpora=1, items=4)
    monkeypatch.setenv("FAULT_URL", str(world.url))
    await ingested(world)
    stub.seen.clear()
    stub.answers = {"search": remove}
    both = [partial(world.run, **KEPT, run_id=name, reuse_build="r1") for name in ("r2", "r3")]
    assert [(await one()).exit_code for one in both] == [0, 0]
    assert len(refusals) == 3 and all("in use by run r2" in str(text) for text in refusals[1:])
    assert not stub.cleared


@pytest.mark.parametrize("provider", ["bm25", "full-context"])
async def test_clean_keeps_the_build_of_a_built_in_provider_that_a_paused_run_searches(
    provider: str, tmp_path: Path, bench: Bench
) -> None:
    refuses = [True]

    async def answer(request: web.Request) -> web.Response:
        usage = {"prompt_tokens": 3, "completion_tokens": 1}
        choice = {"message": {"content": "42"}, "finish_reason": "stop"}
        reply = {"id": "x", "model": "m1", "choices": [choice], "usage": usage}
        return web.json_response({}, status=401) if refuses[0] else web.json_response(reply)

    servers = LocalServers()
    world = World.make(tmp_path, corpora=1, items=4)
    world.write("configs/models/acme.yaml", f"name: acme\ndialect: openai\nbaseUrl: {await servers.start(answer)}/v1\n")
    await ingested(world, providers=provider, answering_model="none")
    paused = await world.run(providers=provider, answering_model="acme/m1", run_id="r2", reuse_build="r1")
    assert paused.exit_code == 3
    previewed = await in_thread(bench, "clean", "r1")
    assert "r1: --yes would be refused: the memories of run r1 are in use by run r2" in previewed.stderr
    for command in (("clean", "r1"), ("clean", "r1", "--orphans"), ("builds", "rm", "r1")):
        refused = await ended_with(6, bench, *command, "--yes")
        assert "in use by run r2" in refused.stderr and "bench resume r2" in refused.stderr
    assert list((tmp_path / "checkpoints/r1/stores").rglob("*.sqlite"))
    refuses[0] = False
    assert (await world.resume("r2")).exit_code == 0
    await servers.close()
    await in_thread(bench, "clean", "r1", "--yes")
    assert not (tmp_path / "checkpoints/r1").exists()
