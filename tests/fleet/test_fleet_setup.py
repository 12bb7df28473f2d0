"""Repeated setup: in one process, in a second one, and after a lost answer; each resource is created once."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.errors import CallError
from bench.model import Memory, Query, Space
from bench.providers import Prepares, merge_captures
from tests.fakes.frame import lost
from tests.fleet.fleet import FAKES, opened_at

SETUPS = {
    "zep": "POST /api/v4/graphs",
    "zep-v3": "POST /api/v2/graph/create",
    "letta": "POST /v1/agents/",
    "hindsight": "PUT /v1/default/banks/{bank}",
    "qdrant": "PUT /collections/{name}",
    "weaviate": "POST /v1/schema",
    "openai-vector-stores": "POST /vector_stores",
    "memobase": "POST /api/v1/users",
}
SPACE = Space(namespace="Bench_n", run_id="r", benchmark="b", corpus="c")


async def test_SETUPS_contains_each_config_with_a_setup(tmp_path: Path) -> None:
    for name in FAKES:
        async with FAKES[name]().running() as fake, opened_at(name, fake, tmp_path) as provider:
            assert isinstance(provider, Prepares) == (name in SETUPS), name


def created(fake: object) -> int:
    """Return how many spaces or collections a setup left at a fake."""
    return max(len(getattr(fake, "shelf").spaces), len(getattr(fake, "sizes", ())))  # noqa: B009


@pytest.mark.parametrize("name", SETUPS)
async def test_a_second_process_uses_the_resource_that_the_first_created(name: str, tmp_path: Path) -> None:
    async with FAKES[name]().running() as fake:
        captured = []
        for _ in range(2):
            async with opened_at(name, fake, tmp_path) as provider:
                assert isinstance(provider, Prepares)
                captured.append(dict(await provider.prepare(SPACE)))
        assert captured[0] == captured[1] and created(fake) == 1


@pytest.mark.parametrize("name", SETUPS)
async def test_a_setup_whose_answer_was_lost_uses_the_created_resource(name: str, tmp_path: Path) -> None:
    async with FAKES[name]().running() as fake, opened_at(name, fake, tmp_path) as provider:
        assert isinstance(provider, Prepares)
        fake.play(SETUPS[name], lost)
        try:
            await provider.prepare(SPACE)
        except CallError:
            await provider.prepare(SPACE)
        assert created(fake) == 1


@pytest.mark.parametrize("name", ["letta", "openai-vector-stores"])
async def test_a_resource_with_another_name_is_not_used(name: str, tmp_path: Path) -> None:
    async with FAKES[name]().running() as fake, opened_at(name, fake, tmp_path) as provider:
        assert isinstance(provider, Prepares)
        first = await provider.prepare(SPACE)
        second = await provider.prepare(Space(namespace="Bench_m", run_id="r", benchmark="b", corpus="c2"))
        assert first != second and created(fake) == 2


async def test_qdrant_collections_have_the_vector_size_of_the_model(tmp_path: Path) -> None:
    for size, changes in ((64, {}), (256, {"client_embeddings.dimensions": 256})):
        async with FAKES["qdrant"]().running() as fake, opened_at("qdrant", fake, tmp_path, changes) as provider:
            assert isinstance(provider, Prepares)
            await provider.prepare(SPACE)
            await provider.ingest(SPACE, [Memory(id="m1", content="Ana lives in Lisbon.")])
            assert (await provider.search(SPACE, Query(text="Ana", k=1))).hits
            assert set(fake.sizes.values()) == {size}  # type: ignore[attr-defined]


async def test_clear_of_a_thousand_memories_uses_calls_that_fit_into_a_url(tmp_path: Path) -> None:
    name = "agent-memory-server"
    async with FAKES[name]().running() as fake, opened_at(name, fake, tmp_path) as provider:
        space = SPACE
        for start in range(0, 1000, 50):
            batch = [Memory(id=f"m{start + index}", content=f"fact {start + index}") for index in range(50)]
            captures = merge_captures(space.captures, (await provider.ingest(space, batch)).captures)
            space = Space(namespace="Bench_n", run_id="r", benchmark="b", corpus="c", captures=captures)
        await provider.clear(space)
        assert fake.shelf.all("Bench_n") == []
        assert len(fake.calls("DELETE", "/v1/long-term-memory")) == 10
