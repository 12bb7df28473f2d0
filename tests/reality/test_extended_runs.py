"""``bench extend``: the same plan with more items; finished items stay."""

from __future__ import annotations

import json

import pytest

from bench.errors import BenchError
from bench.model import State
from tests.cli.conftest import Bench
from tests.cli.test_builds import in_thread
from tests.reality.conftest import WorldOn
from tests.reality.memory_stub import MemoryStub


async def test_extend_runs_only_new_items_and_ingests_only_new_corpora(
    world_on: WorldOn, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = MemoryStub()
    world = await world_on(stub, corpora=3, items=4, sessions=2)
    monkeypatch.setenv("FAULT_URL", str(world.url))
    flags = {"providers": "faulty", "answering_model": "none", "run_id": "r1", "cleanup": "never"}
    await world.run(**flags, limit=6)
    questions = "SELECT unit, attempt, outcome FROM phase WHERE phase = 3 ORDER BY 1"
    before = world.query("r1", questions)
    assert stub.calls("add") == 4, "two sessions of two corpora"
    assert (await in_thread(bench, "extend", "r1", "--limit", "12", "-q")).returncode == 0
    assert stub.calls("add") == 6, "the third corpus alone"
    assert set(before) < set(world.query("r1", questions)), "ended items have no second attempt"
    found = json.loads((await in_thread(bench, "results", "r1", "--json")).stdout)
    assert [(job["n_planned"], job["counts"], job["n_pending"]) for job in found["jobs"]] == [(12, {"measured": 12}, 0)]
    assert found["status"] == "complete"
    whole = await world.run(**{**flags, "run_id": "r2"})
    assert whole.jobs[0].states == {State.MEASURED: 12}
    values = "SELECT name, corpus, unit, hex(packed) FROM score JOIN owner ON owner.id = owner ORDER BY 2, 3"
    assert world.query("r1", values) == world.query("r2", values), "as if it had been one run"
    assert (await world.resume("r1")).message == "nothing left to do"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"limit": 2}, "run r1 has 4 items of facts, but the new selection does not include 2 of them"),
        ({"limit": 4}, "the selection adds no item to run r1"),
        ({"limit": 8, "seed": 7}, "settings.seed: 0 -> 7"),
        ({"items": ("c1q0",)}, "the new selection does not include"),
    ],
)
async def test_extend_refuses_a_selection_that_is_not_wider(
    flags: dict[str, object], message: str, world_on: WorldOn
) -> None:
    from bench.config.catalog import Catalog
    from bench.engine.resume import extended_plan

    world = await world_on(MemoryStub(), corpora=2, items=4)
    await world.run(providers="faulty", answering_model="none", run_id="r1", limit=4)
    digest = world.query("r1", "SELECT value FROM meta WHERE key = 'plan_digest'")
    with pytest.raises(BenchError, match=message):
        await extended_plan("r1", catalog=Catalog.load(world.workspace), flags=flags, environment=world.environment)
    assert world.query("r1", "SELECT value FROM meta WHERE key = 'plan_digest'") == digest


async def test_the_hint_of_a_refused_extension_names_the_flag_that_selected_the_items(world_on: WorldOn) -> None:
    from bench.config.catalog import Catalog
    from bench.engine.resume import extended_plan

    world = await world_on(MemoryStub(), corpora=2, items=4)
    for run_id, selection, flags, hint in (
        ("r1", {"sample": 4}, {"limit": 8}, "give a larger --sample"),
        ("r2", {"end": 4}, {"limit": 6}, "give a larger --end"),
        ("r3", {"items": ("c1q0",)}, {"limit": 6}, "give a wider selection"),
    ):
        await world.run(providers="faulty", answering_model="none", run_id=run_id, **selection)
        with pytest.raises(BenchError, match="adds no item") as refused:
            await extended_plan(
                run_id, catalog=Catalog.load(world.workspace), flags=flags, environment=world.environment
            )
        assert refused.value.hint == hint
