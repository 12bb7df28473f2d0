"""Tool calls instead of answers, repeated hits and degraded searches are noted or are errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aiohttp import web

from bench.models.faulty_answers import is_tool_call, non_answer_reason
from tests.cli.conftest import Bench
from tests.reality.chat_stub import completion, serving
from tests.reality.conftest import WorldOn, notes_of
from tests.reality.memory_stub import MemoryStub
from tests.rows import each_row
from tests.small_world import World

CALLS = [
    '{"name": "search_memory", "arguments": {"query": "vault"}}',
    '[{"name": "search", "parameters": {"q": "vault"}}]',
    '```json\n{"tool_calls": [{"id": "1"}]}\n```',
    '{"type": "function", "function": {"name": "search"}}',
    '<tool_call>\n{"name": "search"}\n</tool_call>',
    '[TOOL_CALLS][{"name": "search"}]',
    '<|python_tag|>search.call(query="vault")',
    "<function=search>{}</function>",
    "<｜tool▁calls▁begin｜>search",
]
ANSWERS = [
    '{"answer": "vault"}',
    '{"name": "Tove"}',
    "[1, 2]",
    "{",
    "Call the function search.",
    "<table><tr>",
    "",
    "[]",
]


@each_row("text", CALLS)
def test_a_tool_call_written_as_text_is_recognized(text: str) -> None:
    assert is_tool_call(text) and non_answer_reason(text) is None


@each_row("text", [*ANSWERS, CALLS[0] + " So the answer is vault.", '{"a":' * 9999])
def test_an_ordinary_answer_is_not_a_tool_call(text: str) -> None:
    assert not is_tool_call(text)


def test_answers_that_are_only_a_tool_call_are_noted_with_their_count(tmp_path: Path, bench: Bench) -> None:
    world = World.make(tmp_path, corpora=1, items=2)
    with serving(lambda body: completion(CALLS[0])) as stub:
        file = {"name": "local", "dialect": "openai", "base_url": stub.url, "auth": {"type": "none"}}
        world.write("configs/models/local.yaml", json.dumps(file))
        bench("run", "--benchmarks", "facts", "--providers", "bm25", "--answering-model", "local/m", "--run-id", "r")
    (job,) = json.loads(bench("results", "r", "--json").stdout)["jobs"]
    assert any(note.startswith("2 answers that are only a tool call") for note in job["notes"])


@pytest.mark.parametrize("copies", [1, 2])
async def test_repeated_hits_are_noted(copies: int, world_on: WorldOn) -> None:
    stub = MemoryStub()

    def repeated(_number: int, request: web.Request, body: dict[str, object]) -> web.Response:
        return web.json_response({"results": list(stub.usual("search", request, body)["results"]) * copies})  # type: ignore[call-overload]

    stub.answers = {"search": repeated}
    world = await world_on(stub, corpora=1, items=3)
    notes = await notes_of(world, await world.run(providers="faulty"))
    assert ("returned the same hit more than once" in notes) is (copies > 1)


async def test_a_search_result_marked_as_degraded_is_unavailable(world_on: WorldOn) -> None:
    stub = MemoryStub()

    def degraded(_number: int, request: web.Request, body: dict[str, object]) -> web.Response:
        return web.json_response({**stub.usual("search", request, body), "degraded": True})

    stub.answers = {"search": degraded}
    world = await world_on(stub, corpora=1, items=1)
    outcome = await world.run(providers="faulty", isolation="off")
    assert world.query(outcome.run_id, "select distinct outcome from phase where phase = 3") == [("unavailable",)]
