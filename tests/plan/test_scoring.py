"""Scoring of a benchmark: evaluators, options, models and code."""

from __future__ import annotations

from hashlib import sha256

import pytest

from bench.errors import ConfigError, UsageError
from bench.plan.benchmark import scoring_problems
from bench.plan.scoring import PlannedEmbedder, Scoring
from tests.small_world import World

METRICS = "metrics: [accuracy, hit_at_5, recall_fraction_at_10, mrr]"
MINE = """
class Mine:
    name, needs_judge = "mine", False

    def __init__(self, letter="A"):
        self.letter = letter

    async def evaluate(self, item, answer, hits, judge):
        from bench.model import Verdict

        return Verdict(evaluator=self.name, value=1.0, correct=True)


class Length:
    name, definition = "length", "length/1"

    def score(self, row):
        return float(len(row.prediction or ""))
"""


def rewritten(world: World, **replaced: str) -> None:
    """Replace the lines ``metrics`` and ``evaluation`` of the benchmark."""
    path = world.workspace / "configs/benchmarks/facts.yaml"
    text = path.read_text()
    for old, new in (
        (METRICS, replaced.get("metrics")),
        ("evaluation: {method: contains}", replaced.get("evaluation")),
    ):
        if new is not None:
            assert old in text
            text = text.replace(old, new)
    path.write_text(text)


def scoring(world: World, **flags: object) -> Scoring:
    return world.plan(**{"providers": "bm25", **flags}).lanes[0].benchmark.scoring


def specs(found: Scoring) -> list[tuple[str, dict[str, object]]]:
    return [(spec.method, dict(spec.config)) for spec in found.specs]


EXACT: dict[str, object] = {"case_sensitive": False, "normalize_whitespace": True}
JUDGE: dict[str, object] = {"temperature": 0.0}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("contains", [("contains", {})]),
        ("exact-match", [("exact-match", EXACT)]),
        ("Exact_Match", [("exact-match", EXACT)]),
        ("llm-as-judge", [("llm-judge", JUDGE)]),
        ("rubric faithfulness", [("rubric", JUDGE), ("faithfulness", JUDGE)]),
        ("contains Contains contains-match", [("contains", {})]),
        ("none", [("none", {})]),
    ],
)
def test_each_spelling_of_an_evaluator_means_the_same_with_the_options_of_the_config(
    world: World, given: str, expected: object
) -> None:
    path = world.workspace / "configs/benchmarks/facts.yaml"
    path.write_text(path.read_text().replace("  questions:", "  rubric: a\n  questions:"))
    assert specs(scoring(world, evaluators=given)) == expected


@pytest.mark.parametrize("given", [{"evaluators": "contains rubric"}, {"metrics": "memory_recall"}])
def test_an_evaluator_that_needs_a_rubric_is_refused_without_schema_rubric(world: World, given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match='needs "rubric" in "schema"') as caught:
        scoring(world, **given)
    assert str(caught.value.where).endswith("facts.yaml:5:1")


def test_judge_options_of_the_config_apply_to_evaluators_set_by_flag(world: World) -> None:
    rewritten(world, evaluation="evaluation: {method: contains, judge: {temperature: 0.5}}")
    assert specs(scoring(world, evaluators="llm_judge")) == [("llm-judge", {"temperature": 0.5})]


def test_a_pack_sets_the_reply_protocol_of_its_judge(world: World) -> None:
    rewritten(world, evaluation="evaluation: {method: llm-judge, pack: longmemeval@1}")
    for name in ("llm-judge", "llm-as-judge"):
        assert specs(scoring(world, evaluators=name)) == [("llm-judge", {"temperature": 0.0, "protocol": "auto"})]


def test_metrics_add_the_evaluators_that_they_need_once(world: World) -> None:
    found = scoring(world, metrics="accuracy accuracy.faithfulness accuracy.llm_judge hit_at_5")
    assert (found.names, found.judging) == (("contains", "faithfulness", "llm-judge"), ("faithfulness", "llm-judge"))
    judged = scoring(world, metrics="accuracy accuracy.llm_judge", evaluators="llm-as-judge")
    assert judged.names == ("llm-judge",)
    retrieval = scoring(world, metrics="mrr")
    assert (retrieval.names, retrieval.judging, retrieval.judge, retrieval.embedding) == (("contains",), (), None, None)


def test_with_method_none_metrics_add_no_evaluator(world: World) -> None:
    rewritten(world, evaluation="evaluation: {method: none}")
    assert scoring(world, metrics="faithfulness mrr").names == ()


@pytest.mark.parametrize(
    ("flags", "message", "where"),
    [
        ({"evaluators": "exact-mach"}, 'unknown evaluator "exact-mach"', None),
        ({"evaluators": "custom"}, "the config does not name a custom evaluator", None),
        ({"evaluators": "custom:./absent.py:Mine"}, "./absent.py:Mine: no file absent.py in {folder}", None),
        ({"evaluators": "semantic-similarity"}, "evaluator semantic-similarity: needs an embedding model", None),
        ({"metrics": "acuracy"}, 'unknown metric "acuracy"; did you mean "accuracy"?', None),
        (
            {"metrics": "accuracy.semantic_similarity"},
            "evaluator semantic-similarity: needs an embedding model",
            "13:14",
        ),
    ],
)
def test_an_invalid_evaluator_or_metric_is_reported_with_its_line(
    world: World, flags: dict[str, object], message: str, where: str | None
) -> None:
    with pytest.raises(ConfigError) as caught:
        scoring(world, **flags)
    place = f"{world.workspace}/configs/benchmarks/facts.yaml:{where}" if where else None
    assert (caught.value.message.partition(";")[0], caught.value.where) == (
        message.partition(";")[0].format(folder=world.workspace / "configs/benchmarks"),
        place,
    )


# ------------------------------------------------------------------------ models that a metric names


def test_a_judge_model_required_by_a_metric_is_used_and_other_flags_are_rejected(world: World) -> None:
    rewritten(world, metrics="metrics: [{name: accuracy, method: llm_judge, config: {model: openai/q}}]")
    plan = world.plan(providers="bm25", answering_model="openai/a")
    assert [job.judge for job in plan.jobs] == ["openai/q"]
    (metric,) = plan.lanes[0].benchmark.scoring.metrics
    assert metric.definition == "accuracy.llm_judge[model=openai/q]/1"
    for flag in ("openai/q", "none"):
        assert world.plan(providers="bm25", answering_model="openai/a", judge_model=flag)
    with pytest.raises(UsageError) as caught:
        world.plan(providers="bm25", answering_model="openai/a", judge_model="openai/z")
    assert caught.value.message == "--judge-model cannot be used: a metric of this benchmark requires openai/q"
    assert caught.value.hint == "remove the flag"


def test_an_embedding_model_required_by_a_metric_is_used_and_other_flags_are_rejected(world: World) -> None:
    by_meaning = "{name: accuracy, method: semantic_similarity, config: {model: text-embedding-3-small}}"
    rewritten(world, metrics=f"metrics: [{by_meaning}]")
    assert scoring(world).embedding == "openai/text-embedding-3-small"
    assert scoring(world, embedding_model="openai/text-embedding-3-small").embedding == "openai/text-embedding-3-small"
    with pytest.raises(
        UsageError,
        match="--embedding-model cannot be used: a metric of this benchmark requires openai/text-embedding-3-s",
    ):
        scoring(world, embedding_model="openai/other")
    config = world.plan(providers="bm25").lanes[0].benchmark.config
    assert scoring_problems(config, world.workspace) == []


def test_the_embedding_model_is_set_only_if_an_evaluator_uses_it(world: World) -> None:
    assert scoring(world, embedding_model="openai/e").embedding is None
    assert scoring(world, embedding_model="text-embedding-3-small", evaluators="semantic-similarity").embedding == (
        "openai/text-embedding-3-small"
    )


async def test_a_planned_embedder_raises_when_used() -> None:
    with pytest.raises(RuntimeError, match="openai/e is only planned, not opened"):
        await PlannedEmbedder("openai/e").embed(["x"], kind="query")


def test_planned_evaluators_are_opened_with_the_real_embedder(world: World) -> None:
    found = scoring(world, evaluators="semantic-similarity contains", embedding_model="openai/e")
    similar, contains = found.open(PlannedEmbedder("opened"))
    assert (similar.embedder.name, contains.name) == ("opened", "contains")  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="needs an embedding model"):
        found.open(None)


# ------------------------------------------------------------------------ code next to a config


def digest_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def test_files_of_custom_evaluators_and_metrics_are_recorded_by_digest(world: World) -> None:
    world.write("configs/benchmarks/mine.py", MINE)
    world.write("configs/benchmarks/other.py", MINE.replace("Mine", "Other"))
    rewritten(
        world,
        evaluation="evaluation: {method: custom, customEvaluator: './mine.py:Mine'}",
        metrics="metrics: [accuracy, {name: length, evaluator: './other.py:Length'}]",
    )
    found = scoring(world)
    assert found.names == ("custom:./mine.py:Mine",)
    assert found.code == {
        "./mine.py:Mine": digest_of(MINE),
        "./other.py:Length": digest_of(MINE.replace("Mine", "Other")),
    }
    assert scoring(world, evaluators="contains", metrics="accuracy").code == {}


def test_editing_a_custom_evaluator_changes_the_plan_digest(world: World) -> None:
    rewritten(world, evaluation="evaluation: {method: custom, customEvaluator: './mine.py:Mine'}")
    digests = []
    for text in (MINE, MINE + "# a word\n", MINE):
        world.write("configs/benchmarks/mine.py", text)
        digests.append(world.plan(providers="bm25").digest)
    assert digests[0] == digests[2] != digests[1]


# ------------------------------------------------------------------------ bench validate finds the same


@pytest.mark.parametrize(
    ("metrics", "messages"),
    [
        ("metrics: [accuracy]", []),
        ("metrics: [acuracy, mrr, hit_at_0]", ['unknown metric "acuracy"', 'metric "hit_at_0": K must be 1 or more']),
        ("metrics: [{name: accuracy, breakdown: [colour]}]", ['metric "accuracy": unknown breakdown "colour"']),
    ],
)
def test_scoring_problems_lists_all_invalid_metrics(world: World, metrics: str, messages: list[str]) -> None:
    config = world.plan(providers="bm25").lanes[0].benchmark.config.__class__
    rewritten(world, metrics=metrics)
    from bench.config.catalog import Catalog

    read = Catalog.load(world.workspace).benchmark("facts")
    assert isinstance(read, config)
    found = scoring_problems(read, world.workspace)
    assert [problem.message.partition(";")[0] for problem in found] == messages
    assert all(problem.where and ":14:" in problem.where for problem in found)
