"""An empty result beside a sign of failure is an error, or the note on searches without hits names what it held."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from bench.engine import Outcome
from bench.journal import Reader
from bench.report.fold import fold
from tests.reality.conftest import WorldOn
from tests.reality.memory_stub import MemoryStub
from tests.small_world import PROVIDER, World

LENIENT = PROVIDER.replace('results: "$.results"', 'results: "$.results", missing_is_empty: true')


def replying(body: dict[str, Any], *, beside: dict[str, Any] | None = None, every: int = 1) -> MemoryStub:
    """Answer each question (or every n-th) with a body, other searches as usual, with ``beside`` next to the hits."""
    stub, asked = MemoryStub(), [0]

    def search(_call: int, request: web.Request, sent: dict[str, object]) -> web.Response:
        asked[0] += str(sent["query"]).startswith("What opens")
        if str(sent["query"]).startswith("What opens") and asked[0] % every == 0:
            return web.json_response(body)
        return web.json_response({**stub.usual("search", request, sent), **(beside or {})})

    stub.answers = {"search": search}
    return stub


async def notes_of(world: World, outcome: Outcome) -> str:
    async with Reader.open(world.workspace / "checkpoints" / outcome.run_id) as reader:
        return "\n".join((await fold(reader)).jobs[0].notes)


@pytest.mark.parametrize(
    "body",
    [
        {"code": -1, "results": []},
        {"code": "50001", "msg": "内部错误", "results": []},
        {"code": 40301, "results": []},
        {"code": "500", "results": []},
        {"msg": "内部错误", "results": []},
        {"message": "Interner Fehler", "results": []},
        {"errno": "1", "results": []},
        {"retcode": 12, "results": []},
        {"error_code": 17, "results": []},
        {"status": {"code": 0}, "data": {"code": -2, "results": []}, "results": []},
        {"message": "index failed", "data": {"items": []}, "results": []},
        {"code": -1, "results": None},
        {"results": [], "status": {"error": "Wrong input"}},
    ],
)
async def test_an_empty_result_with_the_code_or_message_of_a_failure_is_an_error(
    body: dict[str, Any], world_on: WorldOn
) -> None:
    world = await world_on(replying(body), corpora=1, items=2)
    world.provider("faulty", base=LENIENT)
    outcome = await world.run(providers="faulty")
    assert outcome.exit_code == 4
    assert world.query(outcome.run_id, "select distinct outcome from score") == [("unavailable",)]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"code": 7, "msg": "internal", "took": 12.5, "results": []}, 'contained code: 7, msg: "internal"'),
        ({"code": 1, "nota": "índice vacío", "results": []}, 'contained code: 1, nota: "índice vacío"'),
        ({"status": "degraded", "request_id": "r-17", "results": []}, 'contained status: "degraded"'),
        ({"base_resp": {"status_code": 1004}, "results": []}, "contained status_code: 1004"),
        ({"results": None}, "contained $.results: null"),
        ({"took": 3}, "contained $.results: missing"),
        ({"indexing": True, "results": []}, "contained indexing: true"),
        ({"results": [], "relations": [{"source": "a"}]}, "contained relations: [...]"),
    ],
)
async def test_what_an_empty_result_contains_is_named(body: dict[str, Any], said: str, world_on: WorldOn) -> None:
    world = await world_on(replying(body, every=2), corpora=1, items=4)
    world.provider("faulty", base=LENIENT)
    notes = await notes_of(world, await world.run(providers="faulty"))
    assert "2 of 4 searches returned no hit" in notes
    assert f"2 responses without hits {said}\n" in f"{notes}\n"


@pytest.mark.parametrize(
    "body",
    [
        {"code": 0, "msg": "success", "results": []},
        {"code": "200", "message": "OK", "success": True, "results": []},
        {"code": 20, "tier": "free plan", "results": []},
        {"query": "What opens the vault K0x0?", "total": 0, "took": 4, "results": []},
    ],
)
async def test_what_other_replies_contain_too_is_not_named(body: dict[str, Any], world_on: WorldOn) -> None:
    world = await world_on(replying(body, beside={"code": 20, "tier": "free plan"}), corpora=1, items=1)
    notes = await notes_of(world, await world.run(providers="faulty"))
    assert "1 of 1 search returned no hit" in notes and "without hits contained" not in notes


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ({"warning": "embedder is down, keywords only"}, "warning: embedder is down, keywords only"),
        ({"data": {"warnings": ["1 shard"]}}, 'warnings: ["1 shard"]'),
        ({"message": "rerank failed"}, 'message: "rerank failed"'),
        ({"message": "3 found", "warnings": []}, ""),
    ],
)
async def test_a_warning_beside_hits_is_told(beside: dict[str, Any], said: str, world_on: WorldOn) -> None:
    stub = replying({}, every=10**6, beside=beside)
    world = await world_on(stub, corpora=1, items=2)
    notes = await notes_of(world, await world.run(providers="faulty"))
    assert (f"2 responses contained {said}\n" in f"{notes}\n") is bool(said)
    assert ("2 of 2 searches returned hits next to a warning" in notes) is bool(said)


async def test_an_error_as_the_only_hit_is_told(world_on: WorldOn) -> None:
    stub = replying({"results": [{"id": "e", "memory": "Error: the embedder is out of quota"}]})
    world = await world_on(stub, corpora=1, items=2)
    world.provider("faulty", base=PROVIDER.replace(', scoreField: "$.score"', ", id_from: none"))
    notes = await notes_of(world, await world.run(providers="faulty", isolation="off"))
    assert "the only hit of 2 of 2 searches begins like an error message" in notes


async def test_a_path_over_a_list_that_is_gone_is_no_empty_result(world_on: WorldOn) -> None:
    base = PROVIDER.replace('results: "$.results"', 'results: "$.results[*]"')
    for body, code in (({"results": []}, 0), ({"results": None}, 4), ({"items": []}, 4)):
        world = await world_on(replying(body), corpora=1, items=1)
        world.provider("faulty", base=base)
        outcome = await world.run(providers="faulty")
        assert outcome.exit_code == code
        if code:
            assert world.query(outcome.run_id, "select distinct outcome from score") == [("mapping",)]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"success": False, "message": "locked"}, True),
        ({"code": -1}, True),
        ({"error": "locked"}, True),
        ({"status": "error"}, True),
        ({"success": False, "message": "namespace not found"}, False),
        ({"code": 0, "deleted": 3}, False),
    ],
)
async def test_a_clear_that_reports_a_failure_is_told(body: dict[str, Any], told: bool, world_on: WorldOn) -> None:
    stub = MemoryStub()

    def clear(_call: int, request: web.Request, sent: dict[str, object]) -> web.Response:
        stub.usual("clear", request, sent)
        return web.json_response(body)

    stub.answers = {"clear": clear}
    world = await world_on(stub, corpora=1, items=1)
    outcome = await world.run(providers="faulty", cleanup="run")
    found = world.query(outcome.run_id, "select message from event where kind = 'not_cleared'")
    assert bool(found) is told and all("the service did not carry out the call" in text for (text,) in found)


@pytest.mark.parametrize(
    "body", [{"success": False, "count": 0}, {"code": -1, "count": 0}, {"status": "error", "count": 0}]
)
async def test_a_count_that_failed_is_no_number_of_memories(body: dict[str, Any], world_on: WorldOn) -> None:
    world = await world_on(MemoryStub({"count": lambda *_: web.json_response(body)}), corpora=1, items=1)
    outcome = await world.run(providers="faulty")
    assert world.query(outcome.run_id, "select distinct outcome from score") == [("unavailable",)]


@pytest.mark.parametrize(
    "body", [{"code": -1}, {"code": "50001"}, {"errno": "3"}, {"msg": "写入失败"}, {"error_code": 5, "job_id": "j"}]
)
async def test_an_add_that_reports_a_failure_by_code_stored_nothing(body: dict[str, Any], world_on: WorldOn) -> None:
    stub = MemoryStub({"add": lambda *_: web.json_response({"job_id": "j", **body} if "msg" not in body else body)})
    world = await world_on(stub, corpora=1, items=1)
    outcome = await world.run(providers="faulty", isolation="off")
    assert world.query(outcome.run_id, "select distinct outcome from score") == [("ingest_failed",)]
