"""An empty result next to a sign of failure is an error, or the note on searches without hits shows its fields."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from tests.reality.conftest import WorldOn, notes_of
from tests.reality.memory_stub import MemoryStub
from tests.small_world import PROVIDER

LENIENT = PROVIDER.replace('results: "$.results"', 'results: "$.results", missing_is_empty: true')


def replying(body: dict[str, Any], *, extra: dict[str, Any] | None = None, every: int = 1) -> MemoryStub:
    """Answer each question (or every n-th) with a body, other searches as usual, with ``extra`` next to the hits."""
    stub, questions = MemoryStub(), [0]

    def search(_call: int, request: web.Request, sent: dict[str, object]) -> web.Response:
        questions[0] += str(sent["query"]).startswith("What opens")
        if str(sent["query"]).startswith("What opens") and questions[0] % every == 0:
            return web.json_response(body)
        return web.json_response({**stub.usual("search", request, sent), **(extra or {})})

    stub.answers = {"search": search}
    return stub


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
        {"code": 500, "msg": "internal", "results": []},
        {"errno": 7, "results": []},
        {"message": "Rate limit exceeded", "results": []},
        {"data": {"message": "index is still loading", "results": []}, "results": []},
    ],
)
async def test_an_empty_result_with_a_failure_code_or_message_is_unavailable(
    body: dict[str, Any], world_on: WorldOn
) -> None:
    world = await world_on(replying(body), corpora=1, items=2)
    world.provider("faulty", base=LENIENT)
    outcome = await world.run(providers="faulty")
    assert outcome.exit_code == 4
    assert world.query(outcome.run_id, "select distinct outcome from score") == [("unavailable",)]


@pytest.mark.parametrize(
    ("body", "noted"),
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
async def test_the_note_on_empty_results_shows_their_unusual_fields(
    body: dict[str, Any], noted: str, world_on: WorldOn
) -> None:
    world = await world_on(replying(body, every=2), corpora=1, items=4)
    world.provider("faulty", base=LENIENT)
    notes = await notes_of(world, await world.run(providers="faulty"))
    assert "2 of 4 searches returned no hit" in notes
    assert f"2 responses without hits {noted}\n" in f"{notes}\n"


@pytest.mark.parametrize(
    "body",
    [
        {"code": 0, "msg": "success", "results": []},
        {"code": "200", "message": "OK", "success": True, "results": []},
        {"code": 20, "tier": "free plan", "results": []},
        {"query": "What opens the vault K0x0?", "total": 0, "took": 4, "results": []},
    ],
)
async def test_the_note_on_empty_results_omits_fields_of_other_responses(
    body: dict[str, Any], world_on: WorldOn
) -> None:
    world = await world_on(replying(body, extra={"code": 20, "tier": "free plan"}), corpora=1, items=1)
    notes = await notes_of(world, await world.run(providers="faulty"))
    assert "1 of 1 search returned no hit" in notes and "without hits contained" not in notes


@pytest.mark.parametrize(
    ("extra", "noted"),
    [
        ({"warning": "embedder is down, keywords only"}, "warning: embedder is down, keywords only"),
        ({"data": {"warnings": ["1 shard"]}}, 'warnings: ["1 shard"]'),
        ({"message": "rerank failed"}, 'message: "rerank failed"'),
        ({"message": "3 found", "warnings": []}, ""),
    ],
)
async def test_a_warning_next_to_hits_is_noted(extra: dict[str, Any], noted: str, world_on: WorldOn) -> None:
    stub = replying({}, every=10**6, extra=extra)
    world = await world_on(stub, corpora=1, items=2)
    notes = await notes_of(world, await world.run(providers="faulty"))
    assert (f"2 responses contained {noted}\n" in f"{notes}\n") is bool(noted)
    assert ("2 of 2 searches returned hits next to a warning" in notes) is bool(noted)


async def test_an_error_message_as_the_only_hit_is_noted(world_on: WorldOn) -> None:
    stub = replying({"results": [{"id": "e", "memory": "Error: the embedder is out of quota"}]})
    world = await world_on(stub, corpora=1, items=2)
    world.provider("faulty", base=PROVIDER.replace(', scoreField: "$.score"', ", id_from: none"))
    notes = await notes_of(world, await world.run(providers="faulty", isolation="off"))
    assert "the only hit of 2 of 2 searches begins like an error message" in notes


async def test_a_missing_list_of_results_is_a_mapping_error_and_not_an_empty_result(world_on: WorldOn) -> None:
    base = PROVIDER.replace('results: "$.results"', 'results: "$.results[*]"')
    for body, code in (({"results": []}, 0), ({"results": None}, 4), ({"items": []}, 4)):
        world = await world_on(replying(body), corpora=1, items=1)
        world.provider("faulty", base=base)
        outcome = await world.run(providers="faulty")
        assert outcome.exit_code == code
        if code:
            assert world.query(outcome.run_id, "select distinct outcome from score") == [("mapping",)]


@pytest.mark.parametrize(
    ("body", "failed"),
    [
        ({"success": False, "message": "locked"}, True),
        ({"code": -1}, True),
        ({"error": "locked"}, True),
        ({"status": "error"}, True),
        ({"success": False, "message": "namespace not found"}, False),
        ({"code": 0, "deleted": 3}, False),
    ],
)
async def test_a_clear_that_reports_a_failure_is_recorded_as_not_cleared(
    body: dict[str, Any], failed: bool, world_on: WorldOn
) -> None:
    stub = MemoryStub()

    def clear(_call: int, request: web.Request, sent: dict[str, object]) -> web.Response:
        stub.usual("clear", request, sent)
        return web.json_response(body)

    stub.answers = {"clear": clear}
    world = await world_on(stub, corpora=1, items=1)
    outcome = await world.run(providers="faulty", cleanup="run")
    found = world.query(outcome.run_id, "select message from event where kind = 'not_cleared'")
    assert bool(found) is failed and all("the service did not carry out the call" in text for (text,) in found)


@pytest.mark.parametrize(
    "body", [{"success": False, "count": 0}, {"code": -1, "count": 0}, {"status": "error", "count": 0}]
)
async def test_a_count_response_that_reports_a_failure_is_unavailable(body: dict[str, Any], world_on: WorldOn) -> None:
    world = await world_on(MemoryStub({"count": lambda *_: web.json_response(body)}), corpora=1, items=1)
    outcome = await world.run(providers="faulty")
    assert world.query(outcome.run_id, "select distinct outcome from score") == [("unavailable",)]


@pytest.mark.parametrize(
    "body", [{"code": -1}, {"code": "50001"}, {"errno": "3"}, {"msg": "写入失败"}, {"error_code": 5, "job_id": "j"}]
)
async def test_an_add_response_with_a_failure_code_is_an_ingest_failure(
    body: dict[str, Any], world_on: WorldOn
) -> None:
    stub = MemoryStub({"add": lambda *_: web.json_response({"job_id": "j", **body} if "msg" not in body else body)})
    world = await world_on(stub, corpora=1, items=1)
    outcome = await world.run(providers="faulty", isolation="off")
    assert world.query(outcome.run_id, "select distinct outcome from score") == [("ingest_failed",)]
