"""A job stops after the same error for the first ten items."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiohttp import web

from bench.errors import AuthError
from bench.model import State
from tests.reality.chat_stub import Reply, completion, serving
from tests.reality.conftest import WorldOn
from tests.reality.memory_stub import MemoryStub
from tests.reality.test_answers import Bench, Serve, serve, workspace
from tests.small_world import World
from tests.web.workspaces import visiting

__all__ = ["serve", "workspace"]

WRONG_MODEL = (400, {"error": {"message": "m is not a valid model ID", "code": 400}})


def rejects(call: int, _: web.Request, body: dict[str, object]) -> web.Response:
    wrong = {"type": "missing", "loc": ["body", "user_id"], "msg": "Field required", "input": body}
    return web.json_response({"detail": [wrong], "request_id": f"req-00{call}-4f8a77e1"}, status=422)


def answered(world: World, reply: Callable[[dict[str, Any]], Reply]) -> Any:
    served = serving(reply)
    stub = served.__enter__()
    world.write(
        "configs/models/local.yaml",
        f"name: local\ndialect: openai\nbase_url: {stub.url}\nauth: {{type: none}}\n",
    )
    return served, stub


async def test_a_search_that_is_rejected_for_each_of_the_first_ten_items_stops_the_job(world_on: WorldOn) -> None:
    stub = MemoryStub({"search": rejects})
    world = await world_on(stub, corpora=1, items=30)
    outcome = await world.run(providers="faulty", run_id="r", isolation="off", concurrency=1)
    assert (outcome.exit_code, outcome.jobs[0].states, stub.calls("search")) == (3, {State.ERROR: 10}, 10)
    assert outcome.resume == "bench run --resume r"
    assert outcome.message.startswith("search: the first 10 all failed with the same error, so the job stops: faulty.")
    assert "Field required" in outcome.message
    stub.answers = {}
    again = await world.resume("r")
    assert (again.exit_code, again.jobs[0].states) == (0, {State.MEASURED: 30})


@pytest.mark.parametrize("flags", [{"circuit_breaker": False}, {"max_error_rate": 1.0}, {"max_error_rate": 0.95}])
async def test_equal_errors_do_not_stop_a_run_with_a_high_max_error_rate(
    flags: dict[str, Any], world_on: WorldOn
) -> None:
    stub = MemoryStub({"search": rejects})
    world = await world_on(stub, corpora=1, items=12)
    outcome = await world.run(providers="faulty", run_id="r", isolation="off", concurrency=1, **flags)
    assert stub.calls("search") == 12 and outcome.jobs[0].pending == 0


async def test_errors_that_differ_or_follow_a_success_do_not_stop_the_job(world_on: WorldOn) -> None:
    def numbered(call: int, *_: object) -> web.Response:
        return web.json_response({"error": f"your question has {call} tokens, 4 are allowed"}, status=400)

    def later(call: int, request: web.Request, body: dict[str, object]) -> web.Response | None:
        return rejects(call, request, body) if call > 1 else None

    for odd in (numbered, later):
        stub = MemoryStub({"search": odd})
        world = await world_on(stub, corpora=1, items=15)
        await world.run(providers="faulty", isolation="off", concurrency=1)
        assert stub.calls("search") == 15


async def test_a_rejected_answering_model_stops_its_own_job_and_no_other(world_on: WorldOn) -> None:
    memory = MemoryStub()
    world = await world_on(memory, corpora=1, items=14)
    served, chat = answered(world, lambda body: WRONG_MODEL if body["model"] == "m" else completion("W0y0"))
    outcome = await world.run(
        providers="faulty", run_id="r", isolation="off", concurrency=1, answering_models=["local/m", "local/good"]
    )
    served.__exit__(None, None, None)
    models = [body["model"] for body in chat.asked]
    assert (outcome.exit_code, models.count("m"), models.count("good")) == (3, 10, 14)
    assert outcome.message.startswith("answer of local/m: the first 10 all failed with the same error")


async def test_a_rejected_judge_model_stops_the_job_after_ten_calls(world_on: WorldOn) -> None:
    world = await world_on(MemoryStub(), corpora=1, items=14)
    world.write(
        "configs/benchmarks/judged.yaml",
        "name: judged\nversion: '1'\nextends: facts\nevaluation: {method: llm-judge}\n",
    )
    served, chat = answered(world, lambda body: WRONG_MODEL if body["model"] == "judge" else completion("W0y0"))
    outcome = await world.run(
        benchmarks="judged", providers="faulty", run_id="r", isolation="off", concurrency=1,
        answering_model="local/m", judge_model="local/judge",
    )  # fmt: skip
    served.__exit__(None, None, None)
    models = [body["model"] for body in chat.asked]
    assert (outcome.exit_code, models.count("judge"), models.count("m")) == (3, 10, 10)


async def test_an_add_that_is_rejected_for_each_of_the_first_ten_corpora_stops_the_job(world_on: WorldOn) -> None:
    stub = MemoryStub({"add": rejects})
    world = await world_on(stub, corpora=14, items=1)
    outcome = await world.run(providers="faulty", run_id="r", isolation="off", concurrency=1)
    assert (outcome.exit_code, stub.calls("add")) == (3, 10)
    assert outcome.message.startswith("corpus: the first 10 all failed with the same error")


async def test_equal_errors_within_max_error_rate_do_not_stop_the_job(world_on: WorldOn) -> None:
    stub = MemoryStub({"search": lambda call, request, body: rejects(call, request, body) if call <= 10 else None})
    world = await world_on(stub, corpora=1, items=20)
    outcome = await world.run(providers="faulty", isolation="off", concurrency=1, max_error_rate=0.5)
    assert outcome.jobs[0].states == {State.ERROR: 10, State.MEASURED: 10}
    assert (outcome.exit_code, stub.calls("search")) == (0, 20)


def test_the_hint_of_a_failure_is_stored_and_shown_in_text_json_and_page(
    bench: Bench, serve: Serve, workspace: Path
) -> None:
    serve((401, {"error": {"message": "no"}}))
    job_flags = ("--benchmarks", "mini", "--providers", "bm25", "--answering-model", "local/m", "--run-id", "r")
    bench("run", *job_flags, check=3)
    hint = AuthError.default_hint
    assert f"note: auth: {hint}" in bench("failures", "r").stdout
    (job,) = json.loads(bench("failures", "r", "--json").stdout)["jobs"]
    assert job["reasons"][0]["hint"] == job["items"][0]["error"]["hint"] == hint
    page = anyio.run(item_page, workspace, job["items"][0]["item_id"])
    assert f"hint: {hint}" in page


async def item_page(workspace: Path, item: str) -> str:
    async with visiting(workspace) as visit:
        return (await visit.get(f"/runs/r/items/{item}"))[1]
