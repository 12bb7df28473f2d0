"""Values of a setup are durable before the first batch is sent, and ``bench clean`` finds every created object."""

from __future__ import annotations

from pathlib import Path

from bench.engine.corpora.cleanup import clear_run
from bench.journal import CorpusKind, CorpusRow, Journal, Reader
from bench.plan.leftover_namespaces import leftovers
from tests.fakes.frame import lost
from tests.fakes.letta import Letta
from tests.small_world import World

INTENTS = """
SELECT json_extract(data, '$.prepared.agentId'), json_extract(data, '$.batch') FROM corpus_row
WHERE kind = 'intent' ORDER BY id
"""


def world_at(fake: Letta, folder: Path) -> World:
    world = World.make(folder, corpora=1, items=2, sessions=2)
    world.variables.update(fake.environment())
    return world


FLAGS: dict[str, object] = {"providers": "letta", "run_id": "r", "cleanup": "never"}


async def test_captured_setup_values_are_durable_before_the_first_batch_is_sent(tmp_path: Path) -> None:
    async with Letta().running() as fake:
        world = world_at(fake, tmp_path)
        await world.run(**FLAGS)
        (agent,) = fake.names
        assert world.query("r", INTENTS)[:3] == [(None, None), (agent, None), (agent, 0)]


async def test_an_agent_whose_create_response_was_lost_is_found_and_cleared(tmp_path: Path) -> None:
    async with Letta().running() as fake:
        world = world_at(fake, tmp_path)
        for _ in range(20):
            fake.play("POST /v1/agents/", lost)
        await world.run(**FLAGS)
        assert fake.names, "the agent was created, but its id is unknown to the run"
        assert await clear_run(world.workspace, tmp_path / "checkpoints/r", world.environment) == 1
        assert fake.names == {}


async def test_a_namespace_of_an_earlier_attempt_is_listed_until_it_is_cleared(tmp_path: Path) -> None:
    async with Letta().running() as fake:
        world = world_at(fake, tmp_path)
        await world.run(**FLAGS)
        folder = tmp_path / "checkpoints/r"
        async with Reader.open(folder) as reader:
            (one,) = await leftovers(reader)
        (row, *_), (agent,) = one.rows[0], fake.names
        async with Journal.resume(folder) as journal:
            later = CorpusRow(lane=row.lane, corpus=row.corpus, attempt=2, kind=CorpusKind.INTENT)
            journal.append(later)
            journal.append(CorpusRow(lane=row.lane, corpus=row.corpus, attempt=2, kind=CorpusKind.CLEARED))
        async with Reader.open(folder) as reader:
            (one,) = await leftovers(reader)
        assert [rows[0].attempt for rows in one.rows] == [1]
        assert await clear_run(world.workspace, folder, world.environment) == 1
        assert agent not in fake.names


async def test_clean_works_after_the_model_variable_has_changed(tmp_path: Path) -> None:
    async with Letta().running() as fake:
        world = world_at(fake, tmp_path)
        await world.run(**FLAGS)
        world.variables["LETTA_MODEL"] = "openai-proxy/gpt-4o-mini"
        assert await clear_run(world.workspace, tmp_path / "checkpoints/r", world.environment) == 1
        assert fake.names == {}
