"""When namespaces are cleared."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.small_world import World

Worlds = Callable[..., World]


@pytest.mark.parametrize(("rule", "left"), [("corpus", 0), ("run", 0), ("never", 3)])
async def test_cleanup_never_keeps_namespaces_and_other_rules_clear_them(
    world_of: Worlds, rule: str, left: int
) -> None:
    world = world_of(corpora=3, items=2)
    outcome = await world.run(providers="faulty", cleanup=rule)
    assert (outcome.exit_code, len(world.namespaces())) == (0, left)


async def test_a_failed_clear_is_an_event_and_the_run_exits_0(world_of: Worlds) -> None:
    world = world_of("clear:status:code=500", corpora=1, items=2)
    outcome = await world.run(providers="faulty")
    assert outcome.exit_code == 0
    assert ("not_cleared",) in world.query(outcome.run_id, "select kind from event")
