"""Responses with a good status and a bad body: missing or wrong contents are an error or a note, not only a score."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from tests.reality.conftest import WorldOn, notes_of
from tests.reality.memory_stub import MemoryStub

NOT_STORED: list[tuple[dict[str, Any], int]] = [
    ({"success": False, "message": "no room"}, 200),
    ({"ok": False, "message": "no room"}, 200),
    ({"status": "error", "message": "no room"}, 200),
    ({"status": "FAILED", "message": "no room"}, 202),
    ({"status": 507, "message": "no room"}, 200),
    ({"error": "no room"}, 200),
    ({"results": [], "errors": [{"detail": "no room"}]}, 200),
    ({"results": [{"id": "1", "status": 200}, {"id": "2", "status": 422, "error": "no room"}]}, 207),
    ({"results": [{"id": "1", "status": "error", "message": "no room"}]}, 200),
    ({"results": [{"result": {"status": "FAILED", "errors": ["no room"]}}]}, 200),
    ({"added": 0, "failed": 1, "note": "no room"}, 200),
    ({"failed": [{"id": "m", "why": "no room"}]}, 200),
    ({"counts": {"completed": 2, "error_count": 1}, "why": "no room"}, 200),
]


@pytest.mark.parametrize(("body", "status"), NOT_STORED)
async def test_an_add_response_that_reports_a_failure_is_an_ingest_failure(
    body: dict[str, Any], status: int, world_on: WorldOn
) -> None:
    def refusing(call: int, _request: web.Request, _body: object) -> web.Response | None:
        return None if call == 1 else web.json_response({**body, "job_id": "j"}, status=status)

    world = await world_on(MemoryStub({"add": refusing}), corpora=1, items=2)
    outcome = await world.run(providers="faulty")
    assert outcome.exit_code == 4
    assert {row[0] for row in world.query(outcome.run_id, "select outcome from score")} == {"ingest_failed"}
    (message,) = world.query(outcome.run_id, "select distinct text from message where text like '%not stored%'")
    assert "no room" in message[0]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"success": False}, 200),
        ({"status": "error"}, 200),
        ({"timed_out": True}, 200),
        ({"data": {"success": False}}, 200),
        ({"status": "pending"}, 202),
        ({}, 206),
    ],
)
async def test_a_failed_or_incomplete_search_response_is_retried(
    body: dict[str, Any], status: int, world_on: WorldOn
) -> None:
    def half(call: int, _request: web.Request, _body: object) -> web.Response | None:
        return None if call > 1 else web.json_response({"results": [], **body}, status=status)

    world = await world_on(MemoryStub({"search": half}), corpora=1, items=1)
    outcome = await world.run(providers="faulty", isolation="off")
    assert outcome.exit_code == 0
    log = world.query(outcome.run_id, "select outcome from call where endpoint = 'faulty.search'")
    assert {row[0] for row in log} == {"ok", "unavailable"}
    assert {row[0] for row in world.query(outcome.run_id, "select outcome from score")} == {"ok"}


@pytest.mark.parametrize(
    "extra",
    [
        {"errors": ["shard 2: no answer"]},
        {"errors": [{"message": "shard 2: no answer"}]},
        {"error": {"code": 503, "message": "shard 2: no answer"}},
        {"error": "shard 2: no answer"},
        {"error": True},
        {"_shards": {"total": 3, "successful": 2, "failed": 1}},
        {"incomplete_results": True},
        {"terminated_early": True},
        {"_clusters": {"total": 2, "successful": 1, "skipped": 1}},
        {"partial": True},
        {"data": {"errors": ["shard 2: no answer"]}},
    ],
)
async def test_hits_next_to_an_error_are_unavailable(extra: dict[str, Any], world_on: WorldOn) -> None:
    stub = MemoryStub()

    def partial(_call: int, request: web.Request, body: dict[str, object]) -> web.Response:
        return web.json_response({**stub.usual("search", request, body), **extra})

    stub.answers = {"search": partial}
    world = await world_on(stub, corpora=1, items=1)
    outcome = await world.run(providers="faulty", isolation="off")
    assert outcome.exit_code == 4
    assert world.query(outcome.run_id, "select distinct outcome from phase where phase = 3") == [("unavailable",)]
    (message,) = world.query(
        outcome.run_id, "select distinct text from message where text like '%the result is not complete%'"
    )
    assert "-> 200: the result is not complete: " in message[0]


@pytest.mark.parametrize(
    "extra",
    [{"errors": []}, {"error": None}, {"error": {"code": 0, "message": ""}}, {"_shards": {"total": 3, "failed": 0}},
     {"partial": False}, {"error": 0}, {"terminated_early": False}, {"_clusters": {"total": 1, "skipped": 0}},
     {"message": "found"}, {"failed": 3}],
)  # fmt: skip
async def test_empty_error_fields_next_to_hits_are_ignored(extra: dict[str, Any], world_on: WorldOn) -> None:
    stub = MemoryStub()

    def sound(_call: int, request: web.Request, body: dict[str, object]) -> web.Response:
        return web.json_response({**stub.usual("search", request, body), **extra})

    stub.answers = {"search": sound}
    world = await world_on(stub, corpora=1, items=1)
    assert (await world.run(providers="faulty", isolation="off")).exit_code == 0


async def test_error_when_in_the_config_replaces_the_default_error_rules(world_on: WorldOn) -> None:
    stub = MemoryStub()

    def odd(_call: int, request: web.Request, body: dict[str, object]) -> web.Response:
        return web.json_response({**stub.usual("search", request, body), "success": False})

    stub.answers = {"search": odd}
    world = await world_on(stub, corpora=1, items=1)
    world.provider("faulty", extra='errors: {error_when: [{path: "$.fault", exists: true}]}\n')
    assert (await world.run(providers="faulty")).exit_code == 0


async def test_a_service_that_loses_all_memories_during_a_run_gets_no_scores(world_on: WorldOn) -> None:
    stub = MemoryStub()

    def forgetful(_call: int, _request: web.Request, body: dict[str, object]) -> None:
        if str(body["query"]).endswith("?") and stub.spaces:
            stub.spaces.clear()

    stub.answers = {"search": forgetful}
    world = await world_on(stub, corpora=1, items=3)
    outcome = await world.run(providers="faulty")
    assert outcome.exit_code == 4
    assert {row[0] for row in world.query(outcome.run_id, "select outcome from score")} == {"not_ready"}


def changed(stub: MemoryStub, **values: str) -> MemoryStub:
    """Change values of every hit or (``first_``) of the first hit."""

    def odd(_call: int, request: web.Request, body: dict[str, object]) -> web.Response:
        answer: dict[str, Any] = json.loads(json.dumps(stub.usual("search", request, body)))
        for hit in answer["results"]:
            hit.update({name: value for name, value in values.items() if not name.startswith("first_")})
        for hit in answer["results"][:1]:
            hit.update({name.removeprefix("first_"): value for name, value in values.items() if "first_" in name})
        return web.json_response(answer)

    stub.answers = {"search": odd}
    return stub


@pytest.mark.parametrize("text", ["", " \n"])
async def test_hits_that_all_have_an_empty_text_are_a_mapping_error(text: str, world_on: WorldOn) -> None:
    world = await world_on(changed(MemoryStub(), memory=text), corpora=1, items=2)
    outcome = await world.run(providers="faulty")
    assert outcome.exit_code == 4
    assert {row[0] for row in world.query(outcome.run_id, "select outcome from score")} == {"mapping"}


async def test_some_hits_with_an_empty_text_are_noted(world_on: WorldOn) -> None:
    world = await world_on(changed(MemoryStub(), first_memory=""), corpora=1, items=2, sessions=3)
    outcome = await world.run(providers="faulty", isolation="off")
    assert "with an empty text" in await notes_of(world, outcome.run_id)


@pytest.mark.parametrize(("at", "noted"), [("2031-01-01T00:00:00Z", True), ("", False)])
async def test_hits_with_another_date_than_their_memory_are_noted(at: str, noted: bool, world_on: WorldOn) -> None:
    world = await world_on(changed(MemoryStub(), at=at), corpora=1, items=2)
    world.provider("faulty", **{'scoreField: "$.score"': 'scoreField: "$.score", when: "$.at"'})
    outcome = await world.run(providers="faulty")
    assert ("whose date differs from the date of their memory" in await notes_of(world, outcome.run_id)) is noted


async def test_several_versions_of_a_service_in_one_run_are_noted(world_on: WorldOn) -> None:
    versions = iter(["1.0", "2.0", "2.0"])

    def version(_call: int, _request: web.Request, _body: object) -> web.Response:
        return web.json_response({"version": next(versions)})

    def refusing(call: int, _request: web.Request, _body: object) -> web.Response | None:
        return web.json_response({"detail": "no"}, status=400) if call == 1 else None

    stub = MemoryStub({"version": version, "add": refusing})
    world = await world_on(stub, corpora=1, items=2)
    named = 'version: {method: GET, path: /v1/version, value: "$.version"}\n  clear:'
    world.provider("faulty", **{"clear:": named})
    first = await world.run(providers="faulty")
    assert "several versions" not in await notes_of(world, first.run_id)
    await world.resume(first.run_id)
    assert "several versions of faulty answered in this run: 1.0, then 2.0" in await notes_of(world, first.run_id)


async def test_a_failed_parallel_batch_does_not_count_as_stored_on_resume(world_on: WorldOn) -> None:
    """Its row is not the last one, and a count that includes its memories is not a proof."""
    stub = MemoryStub()

    async def add(call: int, request: web.Request, body: dict[str, object]) -> web.Response | None:
        if call == 1:
            stub.usual("add", request, body)
            await asyncio.sleep(0.1)
            return web.json_response({"error": "no room for a part of it"})
        if call <= 3:
            await asyncio.sleep(0.3)
        return None

    stub.answers = {"add": add}
    world = await world_on(stub, corpora=1, items=3, sessions=3)
    world.provider("faulty", **{"on_unknown: reset": "on_unknown: probe, order: parallel"})
    first = await world.run(providers="faulty")
    assert world.query(first.run_id, "select distinct outcome from score") == [("ingest_failed",)]
    kinds = world.query(first.run_id, "select kind from corpus_row order by seq")
    assert ("failed",) in kinds and kinds[-1] == ("batch",)
    assert (await world.resume(first.run_id)).exit_code == 0
    assert world.query(first.run_id, "select max(attempt) from corpus_row") == [(2,)]
    assert stub.calls("add") == 6 and stub.cleared == [3, 3]
