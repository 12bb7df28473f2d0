"""An add has up to ``ingest.batch.max_items`` memories, or fewer if the benchmark sets a smaller ``batchSize``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aiohttp import web

from bench.model import Memory, Space
from bench.providers.batching import batches, pieces
from tests.fleet.fleet import FAKES, opened_at, quick
from tests.local_server import LocalServers
from tests.reality.conftest import WorldOn
from tests.reality.memory_stub import MemoryStub
from tests.rows import each_row
from tests.small_world import BENCHMARK, World

SINGLE = 'body: {id: "$.id", content: "$.content", namespace: "$.runTag", metadata: "$.metadata"}'
SEVERAL = 'body: {namespace: "$.runTag", items: {$each: "$.items", $do: {id: "@.id", content: "@.content"}}}'
THREE = BENCHMARK.replace("batchSize: 1", "batchSize: 3")
SILENT = BENCHMARK.replace(", batchSize: 1", "")


def batching(world: World, benchmark: str, max_items: int) -> None:
    world.write("configs/benchmarks/facts.yaml", benchmark)
    old = "ingest: {on_unknown: reset}"
    world.provider("faulty", **{SINGLE: SEVERAL, old: f"ingest: {{batch: {{max_items: {max_items}}}}}"})


@pytest.mark.parametrize(
    ("benchmark", "max_items", "calls"),
    [
        (SILENT, 4, 3),
        (SILENT, 100, 1),
        (BENCHMARK, 100, 10),
        (BENCHMARK.replace("batchSize: 1", "batchSize: 3"), 100, 4),
    ],
    ids=["4 in the provider", "100 in the provider", "1 in the benchmark", "3 in the benchmark"],
)
async def test_an_add_has_the_smaller_batch_size_of_provider_and_benchmark(
    benchmark: str, max_items: int, calls: int, world_on: WorldOn
) -> None:
    stub = MemoryStub()
    world = await world_on(stub, corpora=1, items=10, sessions=10)
    batching(world, benchmark, max_items)
    outcome = await world.run(providers="faulty")
    assert outcome.exit_code == 0
    assert stub.calls("add") == calls
    assert sum(len(list(body["items"])) for body in stub.seen["add"]) == 10  # type: ignore[call-overload]


def test_the_plan_estimates_the_adds_from_the_batch_size(tmp_path: Path) -> None:
    from bench.plan.cost_estimate import batch_of, estimate

    world = World.make(tmp_path, "http://127.0.0.1:9", corpora=2, items=10, sessions=10)
    batching(world, SILENT, 4)
    plan = world.plan(providers="faulty")
    assert batch_of(plan.lanes[0]) == 4
    (adds,) = [one.calls for one in estimate(plan).endpoints if one.endpoint == "faulty.add"]
    assert adds == 6


@pytest.mark.parametrize("order", ["serial", "parallel"])
@pytest.mark.parametrize("max_items", [1, 7])
async def test_texts_are_embedded_in_batches_of_the_embedding_size_for_any_add_batch(
    order: str, max_items: int, tmp_path: Path
) -> None:
    stub, embedded = MemoryStub(), []
    servers = LocalServers()

    async def handle(request: web.Request) -> web.StreamResponse:
        if not request.path.endswith("/embeddings"):
            return await stub.handle(request)
        texts = (await request.json())["input"]
        embedded.append(texts)
        data = [{"index": at, "embedding": [1.0, float(len(one)), at + 1.0]} for at, one in enumerate(texts)]
        return web.json_response({"data": data, "usage": {"prompt_tokens": 9, "total_tokens": 9}})

    url = await servers.start(handle)
    world = World.make(tmp_path, url, corpora=1, items=30, sessions=30)
    world.write("configs/benchmarks/facts.yaml", SILENT)
    world.write("configs/models/acme.yaml", f"name: acme\ndialect: openai\nbase_url: {url}/v1\nauth: {{type: none}}\n")
    rule = f"ingest: {{batch: {{max_items: {max_items}}}, order: {order}, on_unknown: repeat}}"
    vectors = "client_embeddings: {model: acme/e, batch: 8}\n"
    body = SEVERAL.replace("content: ", 'vector: "@.embedding", content: ')
    world.provider("faulty", extra=vectors, **{SINGLE: body, "ingest: {on_unknown: reset}": rule})
    outcome = await world.run(providers="faulty", isolation="off")
    await servers.close()
    assert outcome.exit_code == 0
    stored = [one for one in embedded if "opens with" in one[0]]
    assert sorted(map(len, stored)) == [6, 8, 8, 8]
    assert len({text for one in stored for text in one}) == 30
    adds = [list(one["items"]) for one in stub.seen["add"]]  # type: ignore[call-overload]
    assert len(adds) == -(-30 // max_items)
    sent = [memory["content"] for batch in adds for memory in batch]
    assert len(set(sent)) == 30
    assert sent == sorted(sent, key=lambda text: text[:10]) or order == "parallel", "by date"
    assert all(memory["vector"] for batch in adds for memory in batch)


BATCHED = ["graphiti", "hindsight", "agent-memory-server", "qdrant", "weaviate", "pinecone"]


def test_the_list_of_shipped_configs_with_batches_is_complete() -> None:
    """A list, since reading all configs takes each worker a second before its first test."""
    assert [name for name in FAKES if quick(name).ingest.batch.max_items > 1] == BATCHED


@each_row("name", BATCHED)
async def test_a_shipped_config_with_batches_sends_seven_memories_in_one_request(name: str, tmp_path: Path) -> None:
    memories = [Memory(id=f"m{number}", content=f"Fact number {number} of many.") for number in range(7)]
    async with FAKES[name]().running() as fake, opened_at(name, fake, tmp_path) as provider:
        space = Space(namespace="Ns", run_id="r", benchmark="b", corpus="c", attempt=1)
        if hasattr(provider, "prepare"):
            from dataclasses import replace

            space = replace(space, captures=dict(await provider.prepare(space)))
        cut = list(batches(pieces(memories, provider.batching), provider.batching))
        assert [len(batch) for batch in cut] == [7], json.dumps([len(batch) for batch in cut])
        before = len(fake.seen)
        await provider.ingest(space, cut[0])
        sent = [one for one in fake.seen[before:] if one.method != "GET" and "embeddings" not in one.path]
    assert len(sent) == 1, [one.path for one in sent]
