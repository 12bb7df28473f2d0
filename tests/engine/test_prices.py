"""Prices of provider calls: part of the cost and of the budget of a run."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from tests.small_world import World

Worlds = Callable[..., World]
PRICES = {"faulty": {"add": 0.01, "search": 0.002}}


async def test_provider_prices_are_part_of_the_cost_of_the_run(world_of: Worlds) -> None:
    world = world_of(corpora=2, items=4)
    outcome = await world.run(providers="faulty", prices=PRICES, isolation="off")
    adds, searches = world.calls("add"), world.calls("search")
    assert adds and searches
    assert Decimal(outcome.cost_usd) == adds * Decimal("0.01") + searches * Decimal("0.002")


async def test_max_cost_stops_a_run_that_has_only_provider_costs(world_of: Worlds) -> None:
    world = world_of(corpora=2, items=8)
    outcome = await world.run(providers="faulty", prices=PRICES, max_cost=0.05, concurrency=1)
    assert (outcome.status, outcome.exit_code) == ("stopped", 3) and outcome.message.startswith("max_cost")
    assert Decimal("0.05") <= Decimal(outcome.cost_usd) < Decimal("0.08")
