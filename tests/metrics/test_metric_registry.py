"""Names of metrics: spellings, aliases, K, parameters, definitions."""

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
def test_spellings_of_a_metric_name_resolve_to_one_metric(spelling: str) -> None:
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


def test_every_registered_name_resolves_with_a_definition_and_summary() -> None:
    for name in metrics.names():
        found = metrics.resolve(name.replace("_at_K", "_at_7"))
        assert found.definition.rpartition("/")[2].isdecimal()
        assert found.summary


def test_the_title_of_recall_names_its_variant() -> None:
    assert metrics.resolve("recall@5").title == "recall@5 (any)"


@each_row("name", ["hit_at_0", "accuracy_at_5", "accuracy.nonsense", "token_f1.nonsense", ""])
def test_a_name_without_a_metric_is_refused(name: str) -> None:
    with pytest.raises(UnknownMetric):
        metrics.resolve(name)


def test_without_K_the_search_limit_is_the_cutoff() -> None:
    ndcg, everything = opened("ndcg", "map", k=25)
    assert (ndcg.name, ndcg.definition) == ("ndcg", "ndcg@25/1")
    assert everything.definition == "map/1"


def test_k_and_variant_as_parameters_equal_the_full_name() -> None:
    inputs = {"retrieved": ["a", "x"], "relevant": {"a", "b"}}
    generic = metrics.score("recall_at_k", params={"k": 2, "variant": "all"}, **inputs)
    assert generic == metrics.score("recall_all_at_2", **inputs)


def test_a_parameter_equal_to_the_value_set_by_the_name_is_accepted() -> None:
    inputs = {"retrieved": ["a"], "relevant": {"a"}}
    assert metrics.score("recall_all_at_5", params={"variant": "all", "duplicates": "keep"}, **inputs) == 1


def test_a_parameter_that_changes_the_result_is_part_of_the_definition() -> None:
    (metric,) = opened({"name": "ndcg@10", "config": {"gain": "exponential"}})
    assert metric.definition == "ndcg@10[gain=exponential]/1"


def test_metric_entries_of_older_configs_are_accepted() -> None:
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


def test_a_name_registered_twice_is_a_ConfigError() -> None:
    entry = FAMILIES[0].ENTRIES[0]
    with pytest.raises(ConfigError, match="is registered by"):
        Registry((entry, entry))


def test_the_catalog_lists_each_metric_once() -> None:
    names = [info.name for info in metrics.catalog()]
    assert len(names) == len(set(names))
    assert {"accuracy", "ndcg_at_K", "latency_p95", "cost_total"} <= set(names)
