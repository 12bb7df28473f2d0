"""LoCoMo on a live memory: twenty jobs of five k, two thresholds and two variants send the adds of one job."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from bench.model import State
from tests.contract.test_contract import embeddings
from tests.local_server import LocalServers
from tests.small_world import PROVIDER, World

ITEMS = 10
LIMIT = 'limit: "$.k"'
TEXT = 'items: {$each: "$.items", $do: {id: "@.id", content: "@.content", metadata: "@.metadata"}}'
WITHOUT = "endpoints.search.body.where_document.$literal.$not_contains"
FLAGS: dict[str, object] = {"benchmarks": "locomo", "answering_model": "none", "limit": ITEMS, "isolation": "off"}
Counting = Callable[[str], Awaitable[tuple[str, Counter[str]]]]

pytestmark = pytest.mark.long


@pytest.fixture
async def counting() -> AsyncIterator[Counting]:
    """``url, calls = await counting(server)``: a proxy that counts the calls to the server by method and path."""
    servers = LocalServers()

    async def make(target: str) -> tuple[str, Counter[str]]:
        calls: Counter[str] = Counter()

        async def forward(request: web.Request) -> web.StreamResponse:
            calls[f"{request.method} {request.path.rpartition('/')[2]}"] += 1
            kept = {
                name: request.headers[name] for name in ("Content-Type", "Authorization") if name in request.headers
            }
            async with (
                aiohttp.ClientSession() as client,
                client.request(
                    request.method, target + request.path_qs, data=await request.read(), headers=kept
                ) as answer,
            ):
                return web.Response(body=await answer.read(), status=answer.status, content_type=answer.content_type)

        return await servers.start(forward), calls

    yield make
    await servers.close()


def with_locomo(world: World, root: Path, shared: Path) -> World:
    text = (root / "configs/benchmarks/locomo.yaml").read_text()
    world.write("configs/benchmarks/locomo.yaml", text)
    source = next(line for line in text.splitlines() if "locomo10.json" in line).partition(":")[2].strip()
    local = text.replace("type: url", "type: local").replace(source, "./datasets/locomo10.json")
    world.write("configs/benchmarks/locomo.yaml", local)
    shutil.copy(shared / "data/locomo10/locomo10.json", world.workspace / "datasets/locomo10.json")
    return world


def clear_run(name: str, threshold: str, value: str) -> dict[str, object]:
    """Two values of a setting that only the search uses, times two variants of its largest k, times five k."""
    names = [f"{name}@{one}-{other}" for one in ("low", "high") for other in ("plain", "cut")]
    settings = {f"{one}.{threshold}": value for one in names if "high" in one}
    settings |= {f"{one}.capabilities.max_k": "3" for one in names if "cut" in one}
    return {"providers": names, "set": settings, "k": (1, 3, 5, 10, 20)}


async def adds_of(world: World, calls: Counter[str], add: str, **flags: object) -> tuple[int, int]:
    """Run; give the number of jobs and of adds."""
    calls.clear()
    outcome = await world.run(**{**FLAGS, **flags})
    assert outcome.exit_code == 0, outcome.message
    assert {job.states.get(State.MEASURED) for job in outcome.jobs} == {ITEMS}
    return len(outcome.jobs), calls[add]


async def test_twenty_jobs_on_a_memory_server_send_the_adds_of_one_job(
    fault_server: Callable[..., str], counting: Counting, root: Path, shared: Path, tmp_path: Path
) -> None:
    url, calls = await counting(fault_server())
    world = with_locomo(World.make(tmp_path, url), root, shared)
    world.provider(
        "faulty", base=PROVIDER.replace(LIMIT, f'{LIMIT}, floor: "${{floor}}"'), extra='vars: {floor: "0"}\n'
    )
    one = await adds_of(world, calls, "POST add", providers="faulty")
    many = await adds_of(world, calls, "POST add", **clear_run("faulty", "vars.floor", '"0.2"'))
    print("fault server:", one, many)
    assert (one[0], many[0]) == (1, 20) and one[1] == many[1] > 0


async def test_twenty_jobs_on_chroma_send_the_upserts_of_one_job(
    chroma_url: str, fault_server: Callable[..., str], counting: Counting, root: Path, shared: Path, tmp_path: Path
) -> None:
    url, calls = await counting(chroma_url)
    world = with_locomo(World.make(tmp_path, url), root, shared)
    world.variables.update({"CHROMA_URL": url, **embeddings(fault_server())})
    text = (root / "configs/providers/chroma.yaml").read_text()
    text = text.replace('n_results: "$.k"', 'n_results: "$.k", where_document: {$literal: {$not_contains: qqqq}}')
    world.write("configs/providers/chroma.yaml", text)
    world.write("configs/providers/chroma.compose.yaml", (root / "configs/providers/chroma.compose.yaml").read_text())
    one = await adds_of(world, calls, "POST upsert", providers="chroma")
    many = await adds_of(world, calls, "POST upsert", **clear_run("chroma", WITHOUT, "hello"))
    print("chroma:", one, many)
    assert (one[0], many[0]) == (1, 20) and one[1] == many[1] > 0
