"""Services that accept only short questions: found by doctor, cut in a run, and noted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from bench.config.provider.file import load_provider
from bench.http import Http
from bench.journal import Reader
from bench.model import QUERY_CUT, Query
from bench.providers.doctor import DoctorReport, examine
from bench.providers.protocol import Capabilities, ProviderContext, within_limits
from bench.report.fold import fold
from tests.reality.conftest import WorldOn
from tests.reality.memory_stub import MemoryStub
from tests.small_world import World

LIMIT = 250


def refusing(_call: int, _request: web.Request, body: dict[str, object]) -> web.Response | None:
    if len(str(body["query"])) <= LIMIT:
        return None
    return web.json_response({"message": f"Query is required and cannot exceed {LIMIT} characters."}, status=400)


@asynccontextmanager
async def context_of(world: World, folder: Path) -> AsyncIterator[ProviderContext]:
    async with Http() as http:
        yield ProviderContext(http=http, environment=world.environment, run_dir=folder)


async def examined(world: World) -> DoctorReport:
    config = load_provider(world.workspace / "configs/providers/faulty.yaml")
    async with context_of(world, world.workspace) as context:
        return await examine(config, context)


def lengthen(world: World) -> None:
    """Make the first question longer than the service accepts."""
    path = world.workspace / "datasets/facts.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows[0]["qa"][0]["q"] += " Please look through everything that was said about it." * 10
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


async def test_doctor_finds_the_question_limit_and_names_max_query_chars(world_on: WorldOn) -> None:
    world = await world_on(MemoryStub({"search": refusing}))
    (failed,) = [check for check in (await examined(world)).checks if check.outcome == "fail"]
    assert failed.name == "long question"
    assert "max_query_chars: 250" in failed.detail


async def test_a_question_above_max_query_chars_is_cut_at_a_word_flagged_and_noted(world_on: WorldOn) -> None:
    stub = MemoryStub({"search": refusing})
    world = await world_on(stub, corpora=1, items=3)
    world.provider("faulty", **{"supportsMetadata__true": f"supportsMetadata: true, max_query_chars: {LIMIT}"})
    lengthen(world)
    outcome = await world.run(providers="faulty")
    assert outcome.exit_code == 0
    assert {row[0] for row in world.query(outcome.run_id, "select outcome from score")} == {"ok"}
    longest = max((str(body["query"]) for body in stub.seen["search"]), key=len)
    assert (
        LIMIT - 20 < len(longest) <= LIMIT
        and longest.split()[-1] in "Please look through everything that was said about it."
    )
    flags = [json.loads(row[0])["flags"] for row in world.query(
        outcome.run_id, "select e.data from phase p join entry e on e.id = p.entry where p.phase = 3")]  # fmt: skip
    assert sorted(flag for some in flags for flag in some if flag == QUERY_CUT) == [QUERY_CUT]
    async with Reader.open(world.workspace / "checkpoints" / outcome.run_id) as reader:
        (job,) = (await fold(reader)).jobs
    assert any(f"at most {LIMIT} characters" in note for note in job.notes)
    assert (await examined(world)).ok


@given(text=st.text(max_size=400), limit=st.integers(1, 300))
def test_a_cut_question_is_a_prefix_within_the_limit(text: str, limit: int) -> None:
    sent, flags = within_limits(Query(text=text, k=5), Capabilities(max_query_chars=limit))
    assert text.startswith(sent.text) and len(sent.text) <= limit
    assert flags == ((QUERY_CUT,) if len(text) > limit else ())


def test_a_question_is_cut_between_two_words() -> None:
    query = Query(text="Where did Ana go in May?", k=10)
    assert within_limits(query, Capabilities(max_query_chars=12))[0].text == "Where did"
    assert within_limits(query, Capabilities(max_query_chars=9))[0].text == "Where did"
    assert within_limits(Query(text="漢字" * 50, k=1), Capabilities(max_query_chars=7))[0].text == "漢字漢字漢字漢"
