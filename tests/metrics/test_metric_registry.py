"""Names: one spelling, aliases, K, parameters, near matches, plug-ins."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import metrics
from bench.errors import ConfigError, UnknownMetric
from bench.metrics import Measure, open_metrics
from bench.metrics.protocol import canonical
from bench.metrics.registry import FAMILIES, Registry
from tests.rows import each_row


def opened(*specs: object, k: int = 10, folder: Path = Path()) -> list[Measure]:
    return open_metrics(specs, k=k, folder=folder)


@each_row("spelling", ["ndcg@10", "nDCG@10", "ndcg_at_10", "NDCG-at-10"])
def test_every_spelling_is_one_metric(spelling: str) -> None:
    assert canonical(spelling) == "ndcg_at_10"
    assert metrics.resolve(spelling).definition == "ndcg@10/1"


@each_row(
    ("alias", "name", "definition"),
    [
        ("success@5", "hit_at_5", "hit@5/1"),
        ("recall_any_at_5", "hit_at_5", "hit@5/1"),
        ("recall@5", "recall_at_5", "recall_any@5/1"),
        ("llm_score", "accuracy.llm_judge", "accuracy.llm_judge/1"),
        ("f1", "token_f1", "token_f1.multilingual/1"),
        ("token_f1.squad", "token_f1.squad", "token_f1.squad/1"),
        ("latency_ms", "latency", "latency/1"),
        ("p95_latency_ms", "latency_p95", "latency_p95/1"),
        ("avg_total_latency_ms", "total_latency_mean", "total_latency_mean/1"),
        ("token_count", "tokens_context", "tokens_context/1"),
        ("ingest_throughput_items_per_sec", "ingest_throughput", "ingest_throughput/1"),
        ("legal_citation_accuracy", "citation_accuracy", "citation_accuracy/1"),
        ("retrieval_ndcg", "ndcg", "ndcg@K/1"),
    ],
)
def test_an_alias_resolves_to_its_metric(alias: str, name: str, definition: str) -> None:
    found = metrics.resolve(alias)
    assert (found.name, found.definition) == (name, definition)


def test_every_registered_name_can_be_resolved_and_described() -> None:
    for name in metrics.names():
        found = metrics.resolve(name.replace("_at_K", "_at_7"))
        assert found.definition.rpartition("/")[2].isdecimal()
        assert found.summary


def test_recall_is_printed_with_what_it_means() -> None:
    assert metrics.resolve("recall@5").title == "recall@5 (any)"


@pytest.mark.parametrize(
    ("wrong", "near"), [("retrival_map", "retrieval_map"), ("recal@5", "recall_at_5"), ("acuracy", "accuracy")]
)
def test_an_unknown_name_is_told_the_near_ones(wrong: str, near: str) -> None:
    with pytest.raises(UnknownMetric, match=near) as caught:
        metrics.resolve(wrong)
    assert str(caught.value).count('"') <= 2 * 4


@each_row("name", ["hit_at_0", "accuracy_at_5", "accuracy.nonsense", "token_f1.nonsense", ""])
def test_a_name_that_means_nothing_is_refused(name: str) -> None:
    with pytest.raises(UnknownMetric):
        metrics.resolve(name)


def test_without_k_the_search_limit_is_used() -> None:
    ndcg, everything = opened("ndcg", "map", k=25)
    assert (ndcg.name, ndcg.definition) == ("ndcg", "ndcg@25/1")
    assert everything.definition == "map/1"


def test_a_score_that_needs_k_says_so() -> None:
    with pytest.raises(UnknownMetric, match="needs a cutoff K"):
        metrics.score("hit", retrieved=[], relevant={"a"})


def test_the_generic_form_equals_the_full_name() -> None:
    inputs = {"retrieved": ["a", "x"], "relevant": {"a", "b"}}
    generic = metrics.score("recall_at_k", params={"k": 2, "variant": "all"}, **inputs)
    assert generic == metrics.score("recall_all_at_2", **inputs)


def test_a_parameter_at_its_default_is_accepted_and_a_contradiction_is_not() -> None:
    inputs = {"retrieved": ["a"], "relevant": {"a"}}
    assert metrics.score("recall_all_at_5", params={"variant": "all", "duplicates": "keep"}, **inputs) == 1
    with pytest.raises(UnknownMetric, match="its name already sets"):
        metrics.score("recall_all_at_5", params={"variant": "any"}, **inputs)
    with pytest.raises(UnknownMetric, match="its name already sets"):
        metrics.score("hit_at_5", params={"k": 3}, **inputs)


@each_row("params", [{"gian": "exponential"}, {"gain": "cubic"}, {"duplicates": True}, {"k": 0}, {"k": "ten"}])
def test_a_wrong_parameter_is_refused(params: dict[str, object]) -> None:
    with pytest.raises(UnknownMetric):
        metrics.score("ndcg_at_k", params={"k": 10} | params, retrieved=[], relevant={"a"})


def test_an_unknown_input_is_refused() -> None:
    with pytest.raises(UnknownMetric, match="retreived"):
        metrics.score("hit_at_5", retrieved=[], retreived=[], relevant={"a"})


def test_arithmetic_options_show_in_the_definition() -> None:
    (metric,) = opened({"name": "ndcg@10", "config": {"gain": "exponential"}})
    assert metric.definition == "ndcg@10[gain=exponential]/1"


def test_the_seed_entries_of_a_config_are_understood() -> None:
    found = opened(
        {"name": "accuracy", "method": "llm_judge", "config": {"model": "gpt-4o", "threshold": 0.8}},
        {"name": "accuracy_by_question_type", "method": "llm_judge", "breakdown": ["questionType"]},
        {"name": "accuracy_by_category", "method": "exact_match", "breakdown": ["category"]},
        "ndcg_at_10",
    )
    assert [m.name for m in found] == [
        "accuracy.llm_judge",
        "accuracy_by_question_type.llm_judge",
        "accuracy_by_category.exact_match",
        "ndcg_at_10",
    ]
    assert found[1].breakdown == found[2].breakdown == ("question_type",)
    assert metrics.evaluators_needed(found) == {
        "llm-judge": {"threshold": 0.8, "model": "gpt-4o"},
        "exact-match": {},
    }


def test_every_mistake_of_a_list_is_told_at_once_with_its_place() -> None:
    with pytest.raises(ConfigError) as caught:
        open_metrics(
            ["acuracy", "hit_at_5", {"name": "map", "methdo": "x"}],
            k=5,
            folder=Path(),
            places=["b.yaml:7:3", "b.yaml:8:3", "b.yaml:9:3"],
        )
    text = str(caught.value)
    assert "b.yaml:7:3" in text and "b.yaml:9:3" in text
    assert "accuracy" in text and "method" in text


@each_row(
    "entry",
    [
        {"name": "accuracy", "method": "nonsense"},
        {"name": "map", "method": "llm_judge"},
        {"method": "llm_judge"},
        {"name": "map", "evaluator": "./absent.py:Thing"},
        {"name": "map", "evaluator": "./metric.ts"},
    ],
)
def test_an_entry_that_cannot_work_is_refused(entry: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        opened(entry, folder=tmp_path)


def test_a_breakdown_that_the_data_lacks_is_refused_with_the_near_one() -> None:
    with pytest.raises(ConfigError, match="speeker") as caught:
        open_metrics([{"name": "accuracy", "breakdown": ["speeker"]}], k=5, folder=Path(), dimensions=["speaker"])
    assert "speaker" in caught.value.hint


def test_the_same_metric_twice_is_once_and_two_definitions_are_a_mistake() -> None:
    assert len(opened("hit@5", "hit_at_5")) == 1
    with pytest.raises(ConfigError, match="twice"):
        opened("ndcg_at_10", {"name": "ndcg@10", "config": {"gain": "exponential"}})


def test_a_name_registered_twice_is_a_config_error() -> None:
    entry = FAMILIES[0].ENTRIES[0]
    with pytest.raises(ConfigError, match="is registered by"):
        Registry((entry, entry))


def test_the_catalog_lists_every_entry_once() -> None:
    names = [info.name for info in metrics.catalog()]
    assert len(names) == len(set(names))
    assert {"accuracy", "ndcg_at_K", "latency_p95", "cost_total"} <= set(names)
