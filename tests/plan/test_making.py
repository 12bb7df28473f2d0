"""A plan finds everything that is wrong before anything is called, and says what a run would do."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from bench.errors import BenchError, ConfigError, DataError, UsageError
from bench.plan import NONE, estimate
from tests.small_world import World

DELETING = """
name: forgetting
version: "1"
extends: facts
requiredCapabilities: [add_memory, retrieve_memory, delete_memory]
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World.make(tmp_path, "http://127.0.0.1:9", corpora=3, items=4)
    world.variables["OPENAI_API_KEY"] = "test-key-of-nobody"
    return world


def test_without_names_the_demo_meets_the_keyless_built_ins(root: Path) -> None:
    from bench.config.catalog import Catalog
    from bench.config.run import RunRequest
    from bench.plan import make_plan
    from bench.settings import Environment

    plan = make_plan(Catalog.load(root), RunRequest(limit=3), Environment())
    assert [lane.provider.label for lane in plan.lanes] == ["bm25", "full-context", "no-memory", "oracle", "random"]
    assert {lane.benchmark.name for lane in plan.lanes} == {"demo"}


def test_jobs_are_every_combination_of_the_models_that_are_needed(world: World) -> None:
    plan = world.plan(
        providers=["bm25", "oracle"], answering_model=["openai/a", "openai/b", "none"], judge_model="openai/j"
    )
    assert len(plan.lanes) == 2
    assert {(job.answering, job.judge) for job in plan.jobs} == {("openai/a", NONE), ("openai/b", NONE), (NONE, NONE)}
    assert len({job.key for job in plan.jobs}) == 6


def test_variants_have_their_own_values(world: World) -> None:
    plan = world.plan(
        providers=["faulty@small", "faulty@big"],
        set={"faulty@big.ingest.text": "dated", "faulty.connection.timeout": "900"},
    )
    small, big = plan.lanes
    assert (small.provider.config.ingest.text, big.provider.config.ingest.text) == (None, "dated")
    assert {lane.provider.config.connection.timeout for lane in plan.lanes} == {900}
    assert small.provider.config.sha256 != big.provider.config.sha256


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ({"benchmarks": "fcats"}, UsageError),
        ({"providers": "bm26"}, UsageError),
        ({"providers": ["bm25", "bm25"]}, UsageError),
        ({"providers": "bm25", "set": {"chroma.x": 1}}, UsageError),
        ({"providers": "faulty", "set": {"faulty.nonsense": 1}}, ConfigError),
        ({"providers": "bm25", "metrics": "recal@5"}, ConfigError),
        ({"providers": "bm25", "evaluators": "guess"}, ConfigError),
        ({"providers": "bm25", "answering_model": "nobody/x"}, ConfigError),
        ({"providers": "bm25", "answering_model": "anthropic/claude"}, ConfigError),
        ({"providers": "bm25", "answer_prompt": "Say ${gold}"}, ConfigError),
        ({"providers": "bm25", "answer_prompt": "@missing.txt"}, ConfigError),
        ({"providers": "bm25", "shard": "3/2"}, UsageError),
        ({"providers": "bm25", "items": "nobody"}, UsageError),
    ],
)
def test_what_is_wrong_is_found_before_anything_starts(
    world: World, flags: dict[str, object], error: type[BenchError]
) -> None:
    with pytest.raises(error):
        world.plan(**flags)


def test_a_near_name_is_offered(world: World) -> None:
    with pytest.raises(UsageError, match='did you mean "facts"'):
        world.plan(benchmarks="fact")


def test_a_provider_that_lacks_a_capability_is_skipped_and_said(world: World) -> None:
    world.write("configs/benchmarks/forgetting.yaml", DELETING)
    plan = world.plan(benchmarks=["facts", "forgetting"], providers="faulty")
    assert [lane.skipped is None for lane in plan.lanes] == [True, False]
    assert "forgetting needs delete_memory, which faulty does not have" in " ".join(plan.notes)
    with pytest.raises(UsageError, match="no job is left"):
        world.plan(benchmarks="forgetting", providers="faulty")


def test_evidence_that_would_not_be_sent_is_refused(world: World) -> None:
    path = world.workspace / "configs/benchmarks/facts.yaml"
    path.write_text(
        path.read_text().replace("batchSize: 1}", "batchSize: 1, preprocessing: {formatTemplate: 'On ${date}'}}")
    )
    with pytest.raises(DataError, match="evidence of 12 items"):
        world.plan(providers="bm25")


def test_ranges_and_shards_cover_every_position_once(world: World) -> None:
    plans = [world.plan(providers="bm25", shard=f"{i}/5") for i in range(1, 6)]
    covered = [
        position
        for plan in plans
        for position in plan.lanes[0].benchmark.dataset.selected(plan.lanes[0].benchmark.selection)
    ]
    assert covered == list(range(1, 13))
    assert len({plan.digest for plan in plans}) == 1
    assert world.plan(providers="bm25", start=1, end=12).ranges == ()


def test_an_estimate_counts_calls_tokens_and_money(world: World) -> None:
    prices = {"openai/m": {"input": 1, "output": 2}, "faulty": {"add": 0.01, "search": 0.001}}
    plan = world.plan(
        providers="faulty", answering_model="openai/m", prices=prices, rate=["faulty.search=2/s"], isolation="off"
    )
    found = estimate(plan)
    calls = {one.endpoint: one.calls for one in found.endpoints}
    assert calls == {"faulty.add": 9, "faulty.search": 12, "openai/m.answering": 12}
    assert (found.items, found.corpora, found.least_s) == (12, 3, 6.0)
    assert found.cost_usd is not None and Decimal("0.1") < found.cost_usd < Decimal("0.2")
    unknown = world.plan(providers="faulty", answering_model="openai/nobody-knows-it")
    assert estimate(unknown).cost_usd is None


def test_no_secret_is_in_a_plan(world: World) -> None:
    plan = world.plan(providers="faulty", answering_model="openai/m")
    assert "test-key-of-nobody" not in json.dumps(plan.identity)


def test_what_only_describes_a_benchmark_is_no_part_of_the_plan(tmp_path: Path) -> None:
    from bench.config.catalog import Catalog
    from bench.config.run import RunRequest
    from bench.plan import make_plan
    from bench.settings import Environment

    def digest_with(*lines: str) -> str:
        folder = tmp_path / "configs/benchmarks"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "mine.yaml").write_text("\n".join(["name: mine", "extends: demo", *lines]), encoding="utf-8")
        request = RunRequest(benchmarks=("mine",), providers=("no-memory",))
        return make_plan(Catalog.load(tmp_path), request, Environment()).digest

    plain = digest_with()
    assert digest_with("description: in other words", "tags: [x]", "displayName: Mine") == plain
    assert digest_with("search: {defaultLimit: 11}") != plain


EVALUATOR = """
class Kind:
    name, needs_judge, scores_hits = "kind", False, False

    async def evaluate(self, item, answer, hits, judge):
        from bench.model import Verdict

        return Verdict(evaluator=self.name, value=1.0, correct=True)
"""


def test_code_beside_a_config_that_scores_is_part_of_the_plan(tmp_path: Path) -> None:
    from bench.config.catalog import Catalog
    from bench.config.run import RunRequest
    from bench.plan import make_plan
    from bench.settings import Environment

    folder = tmp_path / "configs/benchmarks"
    folder.mkdir(parents=True)
    evaluation = "evaluation: {method: custom, customEvaluator: './kind.py:Kind'}"
    (folder / "mine.yaml").write_text(f"name: mine\nextends: demo\n{evaluation}\nmetrics: [accuracy]\n", "utf-8")
    digests = []
    for code in (EVALUATOR, EVALUATOR, EVALUATOR.replace("1.0", "0.5")):
        (folder / "kind.py").write_text(code, "utf-8")
        plan = make_plan(
            Catalog.load(tmp_path), RunRequest(benchmarks=("mine",), providers=("no-memory",)), Environment()
        )
        digests.append(plan.digest)
        assert list(plan.lanes[0].benchmark.scoring.code) == ["./kind.py:Kind"]
    assert digests[0] == digests[1] != digests[2]
