"""Rate limits, quotas and failures under another status, in a 200 body or on an HTML page are recognized."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from tests.reality.conftest import WorldOn
from tests.reality.memory_stub import MemoryStub
from tests.small_world import PROVIDER, WAITING, World

WITHOUT_JOBS = PROVIDER.replace('    response: {ids: "$.job_id"}\n', "")
Answer = Callable[..., web.Response]


def messages_of(world: World, kind: str) -> str:
    assert world.query("r", "select distinct outcome from score") == [(kind,)]
    return "\n".join(text for (text,) in world.query("r", "select text from message"))


def refusals(*bodies: tuple[dict[str, Any], int]) -> Callable[..., web.Response | None]:
    """Send each of these once, then the usual response."""

    def answer(call: int, _request: web.Request, _body: object) -> web.Response | None:
        if call > len(bodies):
            return None
        body, status = bodies[call - 1]
        return web.json_response(body, status=status, headers={"Retry-After": "0"} if status == 403 else {})

    return answer


async def test_a_rate_limit_under_any_status_is_retried(world_on: WorldOn) -> None:
    limits = refusals(
        ({"code": "rate_limited"}, 200),
        ({"error": {"code": "rate_limit_exceeded"}}, 200),
        ({"message": "API rate limit exceeded"}, 403),
        ({"__type": "ThrottlingException"}, 400),
        ({"message": "Enhance your calm"}, 420),
    )
    stub = MemoryStub({"add": limits, "search": limits})
    world = await world_on(stub, corpora=1, items=2)
    world.provider("faulty", **{"maxRetries: 1": "maxRetries: 5", "retryDelayMs: 20": "retryDelayMs: 1"})
    outcome = await world.run(providers="faulty", run_id="r", isolation="off")
    assert outcome.exit_code == 0 and stub.calls("add") == 3 + 5
    calls = "select count(*) from call where outcome = 'rate_limited'"
    assert world.query("r", calls) == [(10,)]


@pytest.mark.parametrize(
    ("text", "status"), [("Monthly limit reached. Upgrade your plan", 403), ("You are out of credits", 400)]
)
async def test_a_used_up_quota_under_another_status_stops_the_job_at_once(
    text: str, status: int, world_on: WorldOn
) -> None:
    stub = MemoryStub({"search": lambda *_: web.json_response({"error": text}, status=status)})
    world = await world_on(stub, corpora=1, items=8)
    outcome = await world.run(providers="faulty", run_id="r", isolation="off", concurrency=1)
    assert outcome.exit_code == 3 and stub.calls("search") == 1
    messages_of(world, "quota")


@pytest.mark.parametrize("call", ["add", "clear"])
async def test_an_html_page_with_status_200_is_an_error_of_add_and_clear(call: str, world_on: WorldOn) -> None:
    page = web.Response
    stub = MemoryStub({call: lambda *_: page(text="<!doctype html><title>Log in</title>", content_type="text/html")})
    world = await world_on(stub, corpora=1, items=2)
    world.provider("faulty", base=WITHOUT_JOBS)
    await world.run(providers="faulty", run_id="r", isolation="off")
    if call == "add":
        assert "the body is HTML" in messages_of(world, "mapping") and stub.calls("add") == 1
    else:
        (event,) = world.query("r", "select message from event where kind = 'not_cleared'")
        assert "the body is HTML" in event[0]


@pytest.mark.parametrize(
    ("stub", "kind", "words"),
    [
        (MemoryStub({"status": lambda *_: web.json_response({"status": "Failed"})}), "ingest_failed", "is Failed"),
        (
            MemoryStub({"status": lambda *_: web.json_response({"status": "queued"})}),
            "not_ready",
            '0 of 3 jobs ready; j1: "$.status" is queued',
        ),
    ],
)
async def test_the_error_of_an_index_wait_names_the_last_status(
    stub: MemoryStub, kind: str, words: str, world_on: WorldOn
) -> None:
    world = await world_on(stub, corpora=1, items=2)
    waiting = WAITING.replace("timeout_s: 3", "timeout_s: 0.1").replace('  fail_on: {"$.status": [failed]}\n', "")
    world.provider("faulty", extra=waiting)
    await world.run(providers="faulty", run_id="r")
    assert words in messages_of(world, kind)


@pytest.mark.parametrize("other", [True, False])
async def test_the_error_for_memories_that_are_not_found_distinguishes_other_words_from_no_hits(
    other: bool, world_on: WorldOn
) -> None:
    hits = [{"memory": "The user has a vault."}] if other else []
    stub = MemoryStub({"search": lambda *_: web.json_response({"results": hits})})
    world = await world_on(stub, corpora=1, items=2)
    base = PROVIDER.replace(', scoreField: "$.score"', ", id_from: none")
    world.provider("faulty", base=base, extra="wait: {interval_ms: 1, timeout_s: 0.05}\n", **{"  count": "  #count"})
    await world.run(providers="faulty", run_id="r", isolation="off")
    words = "hits, but none has their id or text" if other else "searches for its memories found nothing"
    assert words in messages_of(world, "not_ready")
