"""Models of a run, and prices of their calls."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.engine.budget import Budget
from bench.engine.models import CallPricing, open_models
from bench.engine.progress import Progress
from bench.engine.run_context import RunContext, RunScope
from bench.engine.stopping import StopControl
from bench.errors import ConfigError
from bench.http import Http
from bench.journal import Journal, RunMeta
from bench.metrics import pricing
from bench.model import Usage
from tests.small_world import World

WHEN = datetime(2026, 3, 1, tzinfo=UTC)
PRICES = {"acme/m1": {"input": 2, "output": 10, "cacheRead": 1}}
JUDGED = "name: judged\nversion: '1'\nextends: facts\nevaluation: {method: llm-judge}\n"


def context_of(world: World, **flags: object) -> RunContext:
    """Return the context of a run without open resources."""
    progress, stopping, folder = Progress(), StopControl(), world.workspace / "checkpoints/r"
    return RunContext(
        run_id="r", folder=folder, plan=world.plan(**flags),
        journal=Journal.create(folder, RunMeta(run_id="r", plan_digest="d", identity={})), http=Http(),
        environment=world.environment, progress=progress, stopping=stopping,
        budget=Budget(max_usd=None, stopping=stopping, progress=progress), scope=RunScope(), resumed=False,
    )  # fmt: skip


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World.make(tmp_path, corpora=1, items=2)
    world.write("configs/benchmarks/judged.yaml", JUDGED)
    world.write("script.jsonl", '{"match": ".", "reply": "yes"}\n')
    world.variables.update(MEMORYBENCH_SCRIPT=str(tmp_path / "script.jsonl"), OPENAI_API_KEY="test-key-of-nobody")
    return world


async def test_each_model_is_opened_once_per_role(world: World) -> None:
    run = context_of(
        world, benchmarks=["judged", "facts"], providers=["bm25", "no-memory"],
        answering_model=["builtin/extractive", "openai/m1"], judge_model=["builtin/scripted", "openai/j1"],
    )  # fmt: skip
    models = open_models(run)
    assert set(models.models) == {"builtin/extractive", "openai/m1"}
    assert set(models.judges) == {"builtin/scripted", "openai/j1"}
    assert models.embedders == {}
    assert set(models.evaluators_by_lane) == {lane.key for lane in run.plan.lanes}
    assert models.model("openai/m1") is models.models["openai/m1"]
    assert models.judge("none") is None
    names = {lane.benchmark.name: [one.name for one in models.evaluators(lane)] for lane in run.plan.lanes}
    assert names == {"judged": ["llm-judge"], "facts": ["contains"]}


async def test_a_run_without_answering_opens_no_model(world: World) -> None:
    models = open_models(context_of(world, providers="bm25"))
    assert (dict(models.models), dict(models.judges)) == ({}, {})


async def test_a_provider_with_client_embeddings_has_its_embedder(world: World) -> None:
    run = context_of(world, providers="vector", embedding_model="openai/text-embedding-3-small")
    models = open_models(run)
    (key,) = models.embedders
    assert key == run.plan.lanes[0].key
    assert models.embedders[key].name == "openai/text-embedding-3-small"


async def test_a_missing_key_is_an_error_before_the_first_call(world: World) -> None:
    run = context_of(world, providers="bm25", answering_model="openai/m1")
    del run.environment.values["OPENAI_API_KEY"]  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        open_models(run)


@pytest.mark.parametrize(
    ("usage", "usd"),
    [
        (Usage(input_tokens=1_000_000, output_tokens=0, total_tokens=1_000_000), "2"),
        (Usage(input_tokens=0, output_tokens=500_000, total_tokens=500_000), "5"),
        (Usage(), "0"),
    ],
)
def test_prices_of_the_run_file_override_the_price_table(usage: Usage, usd: str) -> None:
    found = CallPricing(PRICES)("acme/m1", usage, returned=None, when=WHEN)
    assert found is not None
    assert float(found) == float(usd)


def test_an_unknown_model_is_looked_up_in_the_price_table_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = pricing.cost

    def counted(usage: Usage, **given: object) -> object:
        asked.append(str(given["model"]))
        return real(usage, **given)  # type: ignore[arg-type]

    monkeypatch.setattr("bench.metrics.cost", counted)
    price, usage = CallPricing({}), Usage(input_tokens=5, total_tokens=5)
    assert [price("nobody/x-1", usage, returned=None, when=WHEN) for _ in range(3)] == [None] * 3
    assert asked == ["x-1"]


def test_an_inconsistent_usage_has_no_price_but_later_calls_have_one() -> None:
    price = CallPricing(PRICES)
    more_cached_than_sent = Usage(input_tokens=1, cache_read_tokens=9, total_tokens=1)
    assert price("acme/m1", more_cached_than_sent, returned=None, when=WHEN) is None
    assert price("acme/m1", Usage(input_tokens=1_000_000, total_tokens=1_000_000), returned=None, when=WHEN) is not None
