"""Namespaces are cleared when every item of a corpus has its result, and at no other time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.model import State
from tests.small_world import World

Worlds = Callable[..., World]


def held(world: World) -> int:
    """Namespaces that still hold something."""
    return sum(space["count"] > 0 for space in world.control("namespaces?provider=default").values())


@pytest.mark.parametrize(("rule", "left"), [("corpus", 0), ("run", 0), ("never", 3)])
async def test_cleanup_leaves_what_it_says(world_of: Worlds, rule: str, left: int) -> None:
    world = world_of(corpora=3, items=2)
    outcome = await world.run(providers="faulty", cleanup=rule)
    assert (outcome.exit_code, held(world)) == (0, left)


async def test_a_corpus_with_an_error_is_kept_until_the_error_is_gone(world_of: Worlds) -> None:
    world = world_of("search:status:code=400,match=opens the vault K1x0", corpora=3, items=2)
    outcome = await world.run(providers="faulty", max_error_rate=1)
    assert held(world) == 1
    world.heal()
    before = world.calls("add")
    again = await world.resume(outcome.run_id)
    assert again.jobs[0].states == {State.MEASURED: 6}
    assert (held(world), world.calls("add")) == (0, before)


async def test_a_clear_that_fails_is_an_event_and_no_error(world_of: Worlds) -> None:
    world = world_of("clear:status:code=500", corpora=1, items=2)
    outcome = await world.run(providers="faulty")
    assert outcome.exit_code == 0
    assert ("not_cleared",) in world.query(outcome.run_id, "select kind from event")


async def test_an_item_that_needs_a_missing_capability_is_unsupported(world_of: Worlds) -> None:
    world = world_of(corpora=1, items=2)
    world.write(
        "configs/benchmarks/forgetting.yaml",
        "name: forgetting\nversion: '1'\nextends: facts\n"
        "requiredCapabilities: [add_memory, retrieve_memory, delete_memory]\n",
    )
    outcome = await world.run(benchmarks=["facts", "forgetting"], providers="faulty")
    assert [job.states for job in outcome.jobs] == [{State.MEASURED: 2}, {State.UNSUPPORTED: 2}]
    assert outcome.exit_code == 0
