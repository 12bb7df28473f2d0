"""Dates of hits: restored from the memory for every provider, and noted where they are missing."""

from __future__ import annotations

import json

import pytest

from bench.journal import Reader
from bench.report.comparison.comparability import check_comparability
from bench.report.comparison.sides import load_side
from bench.report.fold import fold
from tests.reality.conftest import WorldOn
from tests.reality.memory_stub import MemoryStub
from tests.small_world import BENCHMARK, World

TURNS = BENCHMARK.replace("mode: session-based", "mode: incremental")
"""a memory is a turn, whose text contains no date"""


async def contexts(world: World, provider: str) -> tuple[set[bool], tuple[str, ...]]:
    """Return whether the prompts contain the date of the session, and the notes of the job."""
    outcome = await world.run(providers=provider, answering_model="builtin/extractive")
    dated = set()
    async with Reader.open(world.workspace / "checkpoints" / outcome.run_id) as reader:
        (job,) = (await fold(reader)).jobs
        for row in world.query(
            outcome.run_id, "select e.payloads from phase p join entry e on e.id = p.entry where p.phase = 4"
        ):
            prompt = await reader.payload(json.loads(row[0])["prompt"])
            dated.add("[2024-01-0" in str(prompt))
    return dated, job.notes


@pytest.mark.parametrize("provider", ["faulty", "bm25"])
async def test_hits_without_dates_get_the_dates_of_their_memories(provider: str, world_on: WorldOn) -> None:
    world = await world_on(MemoryStub(), corpora=1, items=3)
    world.write("configs/benchmarks/facts.yaml", TURNS)
    dated, notes = await contexts(world, provider)
    assert dated == {True}
    assert any("each has the date of the memory" in note for note in notes) == (provider == "faulty")


async def test_a_comparison_with_a_side_without_hit_dates_reports_the_difference(world_on: WorldOn) -> None:
    world = await world_on(MemoryStub(), corpora=1, items=3)
    world.write("configs/benchmarks/facts.yaml", TURNS)
    world.provider("faulty", **{"contentField": "id_from: none, contentField"})
    outcome = await world.run(providers=["faulty", "bm25"], answering_model="builtin/extractive")
    async with Reader.open(world.workspace / "checkpoints" / outcome.run_id) as reader:
        one, other = [await load_side(reader, job.record) for job in (await fold(reader)).jobs]
    found = check_comparability(one, other, metrics=["accuracy"])
    assert [check.text for check in found.differences if check.name == "hit_dates"] == [
        "hit dates: A has missing, B has there"
    ]


async def test_missing_dates_of_hits_that_map_to_no_memory_are_noted(world_on: WorldOn) -> None:
    world = await world_on(MemoryStub(), corpora=1, items=3)
    world.write("configs/benchmarks/facts.yaml", TURNS)
    world.provider("faulty", **{"contentField": "id_from: none, contentField"})
    dated, notes = await contexts(world, "faulty")
    assert dated == {False}
    assert any("that have no date and map to no memory" in note for note in notes)
