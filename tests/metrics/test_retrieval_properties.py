"""Laws of the retrieval metrics, and the cross-check with trec_eval."""

from __future__ import annotations

import math

import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from bench import metrics
from bench.model import Row

IDS = st.sampled_from([f"d{i}" for i in range(12)])
RANKED = st.lists(IDS, max_size=15)
RELEVANT = st.dictionaries(IDS, st.integers(0, 3), max_size=6)
CUT = ("hit", "recall", "recall_fraction", "recall_all", "recall_capped", "precision", "ndcg", "map", "mrr")
WHOLE = ("retrieval_precision", "retrieval_recall", "retrieval_f1", "retrieval_coverage", "map", "mrr")


@given(retrieved=RANKED, relevant=RELEVANT, k=st.integers(1, 12))
def test_retrieval_metrics_are_between_0_and_1_or_None_without_relevant_ids(
    retrieved: list[str], relevant: dict[str, int], k: int
) -> None:
    for name in (*(f"{name}_at_{k}" for name in CUT), *WHOLE):
        value = metrics.score(name, retrieved=retrieved, relevant=relevant)
        if any(grade > 0 for grade in relevant.values()):
            assert value is not None and 0 <= value <= 1 + 1e-12
        else:
            assert value is None


@given(retrieved=RANKED, relevant=RELEVANT, k=st.integers(1, 11))
def test_recall_hit_map_and_mrr_do_not_fall_with_larger_k(
    retrieved: list[str], relevant: dict[str, int], k: int
) -> None:
    for name in ("hit", "recall_fraction", "recall_all", "map", "mrr"):
        low = metrics.score(f"{name}_at_{k}", retrieved=retrieved, relevant=relevant)
        high = metrics.score(f"{name}_at_{k + 1}", retrieved=retrieved, relevant=relevant)
        assert low is None or (high is not None and low <= high + 1e-12)


@given(retrieved=RANKED, relevant=RELEVANT, at=st.integers(0, 14), k=st.integers(1, 12))
def test_a_repeated_hit_never_raises_a_score(retrieved: list[str], relevant: dict[str, int], at: int, k: int) -> None:
    if not retrieved:
        return
    place = at % len(retrieved)
    doubled = [*retrieved[: place + 1], retrieved[place], *retrieved[place + 1 :]]
    for name in CUT:
        once = metrics.score(f"{name}_at_{k}", retrieved=retrieved, relevant=relevant)
        twice = metrics.score(f"{name}_at_{k}", retrieved=doubled, relevant=relevant)
        assert once is None or (twice is not None and twice <= once + 1e-12)


@given(retrieved=st.lists(IDS, max_size=12, unique=True), relevant=RELEVANT)
def test_scores_agree_with_trec_eval(retrieved: list[str], relevant: dict[str, int]) -> None:
    if not any(grade > 0 for grade in relevant.values()) or not retrieved:
        return
    names = {
        "success.5": "hit_at_5",
        "recall.5": "recall_fraction_at_5",
        "P.5": "precision_at_5",
        "ndcg_cut.10": "ndcg_at_10",
        "map": "map",
        "recip_rank": "mrr",
    }
    evaluator = pytrec_eval.RelevanceEvaluator({"q": relevant}, set(names))
    run = {doc: float(len(retrieved) - rank) for rank, doc in enumerate(retrieved)}
    theirs = evaluator.evaluate({"q": run})["q"]
    for trec, ours in names.items():
        got = metrics.score(ours, retrieved=retrieved, relevant=relevant)
        assert got == pytest.approx(theirs[trec.replace(".", "_")], abs=1e-9), ours


@given(relevant=st.dictionaries(IDS, st.integers(1, 3), min_size=1, max_size=6), k=st.integers(1, 12))
def test_the_ideal_order_has_ndcg_1(relevant: dict[str, int], k: int) -> None:
    ideal = sorted(relevant, key=lambda i: -relevant[i])
    for params in ({}, {"gain": "exponential"}, {"variant": "longmemeval"}):
        got = metrics.score(f"ndcg_at_{k}", params=params, retrieved=ideal, relevant=relevant)
        assert got == pytest.approx(1.0)


def test_a_hit_with_several_ids_uses_one_slot_and_its_best_new_grade() -> None:
    got = metrics.score("ndcg_at_2", retrieved=[["a", "b"], "b"], relevant={"a": 1, "b": 3})
    assert got == pytest.approx(3 / (3 + 1 / math.log2(3)))
    assert metrics.score("recall_fraction_at_1", retrieved=[["a", "b"], "b"], relevant={"a": 1, "b": 3}) == 1


def test_a_row_without_retrieved_is_not_scored_and_an_empty_result_scores_0() -> None:
    ndcg = metrics.registry().measure("ndcg_at_10")
    row = Row(benchmark="b", corpus="c", item_id="i", relevant=("a",))
    assert ndcg.score(row) is None
    empty = Row(benchmark="b", corpus="c", item_id="i", relevant=("a",), retrieved=())
    assert ndcg.score(empty) == 0
