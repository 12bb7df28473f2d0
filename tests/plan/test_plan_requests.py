"""Plans of requests: defaults, errors and shards."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.errors import DataError, UsageError
from tests.small_world import World


def test_without_names_the_plan_is_the_demo_with_the_keyless_built_in_providers(root: Path) -> None:
    from bench.config.catalog import Catalog
    from bench.config.run import RunRequest
    from bench.plan import make_plan
    from bench.settings import Environment

    plan = make_plan(Catalog.load(root), RunRequest(limit=3), Environment())
    assert [lane.provider.label for lane in plan.lanes] == ["bm25", "full-context", "no-memory", "oracle", "random"]
    assert {lane.benchmark.name for lane in plan.lanes} == {"demo"}


def test_an_unknown_benchmark_suggests_the_nearest_name(world: World) -> None:
    with pytest.raises(UsageError, match='did you mean "facts"'):
        world.plan(benchmarks="fact")


def test_evidence_that_is_not_ingested_is_rejected(world: World) -> None:
    path = world.workspace / "configs/benchmarks/facts.yaml"
    path.write_text(
        path.read_text().replace("batchSize: 1}", "batchSize: 1, preprocessing: {formatTemplate: 'On ${date}'}}")
    )
    with pytest.raises(DataError, match="evidence of 12 items"):
        world.plan(providers="bm25")


def test_shards_select_each_item_once_and_have_the_same_digest(world: World) -> None:
    plans = [world.plan(providers="bm25", shard=f"{i}/5") for i in range(1, 6)]
    covered = [
        position
        for plan in plans
        for position in plan.lanes[0].benchmark.dataset.selected(plan.lanes[0].benchmark.selection)
    ]
    assert covered == list(range(1, 13))
    assert len({plan.digest for plan in plans}) == 1
    assert world.plan(providers="bm25", start=1, end=12).ranges == ()
