"""A retry of one item does not change the rest of its corpus: results, errors, memories and costs."""

from __future__ import annotations

from aiohttp import web

from bench.config.catalog import Catalog
from bench.engine import RunScope, execute, resumed_plan
from tests.reality.conftest import WorldOn
from tests.reality.memory_stub import MemoryStub


async def test_a_retry_of_one_item_keeps_the_memories_of_other_failed_items(world_on: WorldOn) -> None:
    sick = True

    def failing(_call: int, _request: web.Request, body: dict[str, object]) -> web.Response | None:
        fails = sick and str(body["query"]).startswith("What opens") and "x0" not in str(body["query"])
        return web.json_response({"detail": "no"}, status=400) if fails else None

    stub = MemoryStub({"search": failing})
    world = await world_on(stub, corpora=1, items=3)
    await world.run(providers="faulty", run_id="r")
    added, sick = stub.calls("add"), False

    async def retried(*items: str) -> list[tuple[str, str]]:
        catalog = Catalog.load(world.workspace)
        folder, plan = await resumed_plan("r", catalog=catalog, flags={}, environment=world.environment)
        await execute(plan, environment=world.environment, resume=folder, scope=RunScope(item_ids=frozenset(items)))
        return [tuple(row) for row in world.query("r", "select unit, state from score order by unit")]

    assert await retried("c0q1") == [("c0q0", "measured"), ("c0q1", "measured"), ("c0q2", "error")]
    assert not stub.cleared and stub.calls("add") == added
    (event,) = world.query("r", "select message from event where kind = 'kept'")
    assert "the memories of c0 are kept: 1 of its items" in event[0] and "bench retry r" in event[0]
    assert {state for _, state in await retried("c0q2")} == {"measured"}
    assert stub.cleared == [3] and stub.calls("add") == added
