"""Retrieval metrics: expected values of single lists, and bounds between metrics."""

from __future__ import annotations

import math

import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from bench import metrics
from bench.metrics.retrieval import Ranking, graded, slot_ids, without_repeats
from bench.model import Row
from tests.rows import each_row

LOG3, LOG5 = math.log2(3), math.log2(5)

# a b c are relevant; d e f are not. Values at K = 3.
BASIC = ["a", "d", "b", "e", "c"]
ABC = {"a", "b", "c"}


@each_row(
    ("name", "expected"),
    [
        ("hit_at_1", 1.0),
        ("hit_at_3", 1.0),
        ("recall_at_3", 1.0),
        ("recall_fraction_at_1", 1 / 3),
        ("recall_fraction_at_3", 2 / 3),
        ("recall_fraction_at_5", 1.0),
        ("recall_all_at_3", 0.0),
        ("recall_all_at_5", 1.0),
        ("recall_capped_at_1", 1.0),
        ("recall_capped_at_2", 1 / 2),
        ("recall_capped_at_3", 2 / 3),
        ("precision_at_1", 1.0),
        ("precision_at_2", 1 / 2),
        ("precision_at_3", 2 / 3),
        ("precision_at_5", 3 / 5),
        ("precision_at_10", 3 / 10),
        ("map", (1 + 2 / 3 + 3 / 5) / 3),
        ("map_at_3", (1 + 2 / 3) / 3),
        ("map_at_1", 1 / 3),
        ("mrr", 1.0),
        ("ndcg_at_1", 1.0),
        ("ndcg_at_2", 1 / (1 + 1 / LOG3)),
        ("ndcg_at_3", (1 + 1 / 2) / (1 + 1 / LOG3 + 1 / 2)),
        ("ndcg_longmemeval_at_3", (1 + 1 / LOG3) / (1 + 1 + 1 / LOG3)),
        ("ndcg_longmemeval_at_5", (1 + 1 / LOG3 + 1 / LOG5) / (2 + 1 / LOG3)),
        ("retrieval_precision", 3 / 5),
        ("retrieval_recall", 1.0),
        ("retrieval_f1", 2 * (3 / 5) / (8 / 5)),
        ("retrieval_coverage", 1.0),
    ],
)
def test_each_metric_has_its_expected_value_for_one_list(name: str, expected: float) -> None:
    assert metrics.score(name, retrieved=BASIC, relevant=ABC) == pytest.approx(expected, rel=1e-14)


@each_row(
    ("retrieved", "relevant", "mrr", "mrr_2", "hit_2"),
    [
        (["a"], {"a"}, 1.0, 1.0, 1.0),
        (["d", "a"], {"a"}, 0.5, 0.5, 1.0),
        (["d", "e", "a"], {"a"}, 1 / 3, 0.0, 0.0),
        (["d", "e"], {"a"}, 0.0, 0.0, 0.0),
        ([], {"a"}, 0.0, 0.0, 0.0),
        (["d", "b", "a"], {"a", "b"}, 0.5, 0.5, 1.0),
        ([[], ["d", "a"]], {"a"}, 0.5, 0.5, 1.0),
    ],
)
def test_mrr_and_hit_have_their_expected_values(
    retrieved: list[object], relevant: set[str], mrr: float, mrr_2: float, hit_2: float
) -> None:
    found = [metrics.score(name, retrieved=retrieved, relevant=relevant) for name in ("mrr", "mrr_at_2", "hit_at_2")]
    assert found == [mrr, mrr_2, hit_2]


GRADED = {"a": 3, "b": 2, "c": 1, "d": 0, "e": -1}


@each_row(
    ("retrieved", "linear", "exponential"),
    [
        (["a", "b", "c"], 1.0, 1.0),
        (
            ["c", "b", "a"],
            (1 + 2 / LOG3 + 3 / 2) / (3 + 2 / LOG3 + 1 / 2),
            (1 + 3 / LOG3 + 7 / 2) / (7 + 3 / LOG3 + 1 / 2),
        ),
        (["b"], 2 / (3 + 2 / LOG3 + 1 / 2), 3 / (7 + 3 / LOG3 + 1 / 2)),
        (["d", "e", "x"], 0.0, 0.0),
        (["d", "a"], (3 / LOG3) / (3 + 2 / LOG3 + 1 / 2), (7 / LOG3) / (7 + 3 / LOG3 + 1 / 2)),
    ],
)
def test_graded_ndcg_has_its_expected_values(retrieved: list[str], linear: float, exponential: float) -> None:
    inputs = {"retrieved": retrieved, "relevant": GRADED}
    assert metrics.score("ndcg@3", **inputs) == pytest.approx(linear, rel=1e-14)
    assert metrics.score("ndcg@3", params={"gain": "exponential"}, **inputs) == pytest.approx(exponential, rel=1e-14)


def test_grades_of_0_or_less_are_not_relevant() -> None:
    assert metrics.score("recall_fraction_at_5", retrieved=["a", "d", "e"], relevant=GRADED) == 1 / 3
    assert metrics.score("hit_at_5", retrieved=["d"], relevant={"d": 0, "e": -3}) is None


def test_both_gains_agree_for_binary_grades() -> None:
    inputs = {"retrieved": BASIC, "relevant": dict.fromkeys(ABC, 1)}
    assert metrics.score("ndcg@4", params={"gain": "exponential"}, **inputs) == metrics.score("ndcg@4", **inputs)


@pytest.mark.parametrize("grade", [math.nan, math.inf, -math.inf])
def test_a_grade_that_is_not_finite_is_refused(grade: float) -> None:
    with pytest.raises(ValueError) as caught:
        metrics.score("ndcg@5", retrieved=["a"], relevant={"a": grade, "b": 1})
    assert str(caught.value) == "a grade is not a finite number"


DUPLICATED = ["a", "a", "d", "d", "b"]


@each_row(
    ("name", "kept", "collapsed"),
    [
        ("precision_at_3", 1 / 3, 2 / 3),
        ("recall_fraction_at_3", 1 / 2, 1.0),
        ("recall_all_at_3", 0.0, 1.0),
        ("map", (1 + 2 / 5) / 2, (1 + 2 / 3) / 2),
        ("ndcg_at_3", 1 / (1 + 1 / LOG3), (1 + 1 / 2) / (1 + 1 / LOG3)),
        ("retrieval_precision", 2 / 5, 2 / 3),
        ("retrieval_recall", 1.0, 1.0),
        ("mrr", 1.0, 1.0),
    ],
)
def test_duplicates_are_kept_or_collapsed_by_option(name: str, kept: float, collapsed: float) -> None:
    inputs = {"retrieved": DUPLICATED, "relevant": {"a", "b"}}
    assert metrics.score(name, **inputs) == pytest.approx(kept)
    assert metrics.score(name, params={"duplicates": "collapse"}, **inputs) == pytest.approx(collapsed)


def test_without_repeats_drops_repeated_ids_but_keeps_empty_slots() -> None:
    slots = [("a", "b"), ("a",), (), ("b", "c"), (), ("c", "a")]
    assert without_repeats(slots) == [("a", "b"), (), ("b", "c"), ()]


@each_row(
    ("retrieved", "new", "gains"),
    [
        ([["a", "b"], "c"], (2, 1), (3.0, 1.0)),
        ([["b", "c"], ["a", "b"]], (2, 1), (2.0, 3.0)),
        (["b", ["a", "b", "c"]], (1, 2), (2.0, 3.0)),
        ([["x", "y"], [], "b"], (0, 0, 1), (0.0, 0.0, 2.0)),
        ([["a", "a"]], (1,), (3.0,)),
        ([], (), ()),
    ],
)
def test_Ranking_uses_the_best_new_grade_of_each_hit(
    retrieved: list[object], new: tuple[int, ...], gains: tuple[float, ...]
) -> None:
    ranking = Ranking.of(retrieved, {"a": 3, "b": 2, "c": 1})
    assert ranking is not None
    assert (ranking.new, ranking.gains, ranking.grades) == (new, gains, (3.0, 2.0, 1.0))
    assert (ranking.expected, ranking.returned) == (3, len(retrieved))


@each_row(
    ("entry", "ids"),
    [
        ("ab", ("ab",)),
        (["a", "b"], ("a", "b")),
        (("a",), ("a",)),
        ({"a"}, ("a",)),
        (iter(["a", 2]), ("a", "2")),
        ([], ()),
        (7, ("7",)),
        (None, ("None",)),
    ],
)
def test_slot_ids_accepts_an_id_or_a_collection_of_ids(entry: object, ids: tuple[str, ...]) -> None:
    assert slot_ids(entry) == ids


def test_ids_are_compared_as_text() -> None:
    assert metrics.score("hit@1", retrieved=[7], relevant={"7"}) == 1
    assert metrics.score("hit@1", retrieved=["7"], relevant={7: 2}) == 1
    assert graded([1, "b"]) == {"1": 1.0, "b": 1.0}


def test_a_single_string_is_one_id() -> None:
    assert metrics.score("recall_fraction@5", retrieved="d1", relevant="d1") == 1
    assert metrics.score("precision@1", retrieved="d1", relevant=["d", "1"]) == 0


@each_row("name", ["hit_at_5", "ndcg_at_5", "map", "mrr", "retrieval_f1", "retrieval_coverage"])
def test_without_relevant_ids_the_score_is_None_and_without_results_0(name: str) -> None:
    assert metrics.score(name, retrieved=["a"], relevant=[]) is None
    assert metrics.score(name, retrieved=[], relevant=[]) is None
    assert metrics.score(name, retrieved=[], relevant=["a"]) == 0


@each_row(("returned", "expected"), [([], 0.0), (["a"], 1.0), (["d", "a"], 0.5), (["d", "e", "f", "a"], 0.0)])
def test_precision_over_returned_hits_divides_by_at_most_k(returned: list[str], expected: float) -> None:
    found = metrics.score("precision@3", params={"denominator": "returned"}, retrieved=returned, relevant=["a"])
    assert found == expected


def test_retrieval_coverage_is_a_share_or_any() -> None:
    inputs = {"retrieved": ["d", "a"], "relevant": ABC}
    assert metrics.score("retrieval_coverage", **inputs) == pytest.approx(1 / 3)
    assert metrics.score("retrieval_coverage", params={"variant": "any"}, **inputs) == 1
    assert metrics.score("retrieval_coverage", params={"variant": "any"}, retrieved=["d"], relevant=ABC) == 0


def test_k_beyond_the_list_changes_only_precision() -> None:
    for name in ("hit", "recall_fraction", "recall_all", "map", "mrr"):
        at = [metrics.score(f"{name}_at_{k}", retrieved=BASIC, relevant=ABC) for k in (5, 6, 10**9 - 1)]
        assert len(set(at)) == 1
    assert metrics.score("precision_at_1000", retrieved=BASIC, relevant=ABC) == 3 / 1000


@each_row(
    ("scores", "expected"),
    [
        ([0.5, 1.0], 0.75),
        ([-1.0], -1.0),
        ([0.0, 0.0], 0.0),
        ([], None),
        ([0.5, None], None),
        ([None], None),
        ([0.5, math.nan], None),
        ([math.inf], None),
    ],
)
def test_avg_retrieval_score_needs_a_finite_score_for_every_hit(
    scores: list[float | None], expected: float | None
) -> None:
    assert metrics.score("avg_retrieval_score", scores=scores) == expected


# ------------------------------------------------------------------------------------ laws

IDS = st.sampled_from([f"d{i}" for i in range(10)])
SLOTS = st.lists(st.one_of(IDS, st.lists(IDS, max_size=3)), max_size=12)
RELEVANT = st.dictionaries(IDS, st.integers(1, 3), min_size=1, max_size=6)
KS = st.integers(1, 12)


def scores(names: list[str], retrieved: list[object], relevant: object, **params: object) -> list[float]:
    found = [metrics.score(name, params=params, retrieved=retrieved, relevant=relevant) for name in names]
    assert all(value is not None for value in found)
    return [value for value in found if value is not None]


@given(retrieved=SLOTS, relevant=RELEVANT, k=KS)
def test_ndcg_mrr_map_and_recall_are_at_most_the_hit_rate(
    retrieved: list[object], relevant: dict[str, int], k: int
) -> None:
    hit, *others = scores(
        [f"{name}_at_{k}" for name in ("hit", "ndcg", "mrr", "map", "recall_fraction")], retrieved, relevant
    )
    assert all(value <= hit for value in others)
    assert (hit == 0) == all(value == 0 for value in others)


@given(retrieved=SLOTS, relevant=RELEVANT, k=KS)
def test_recall_variants_are_ordered(retrieved: list[object], relevant: dict[str, int], k: int) -> None:
    every, fraction, capped, some = scores(
        [f"{name}_at_{k}" for name in ("recall_all", "recall_fraction", "recall_capped", "recall")], retrieved, relevant
    )
    assert every <= fraction <= capped
    assert fraction <= some
    assert (every == 1) == (fraction == 1)


@given(retrieved=SLOTS, relevant=RELEVANT, k=KS)
def test_recall_any_equals_hit_and_one_relevant_id_makes_all_recalls_equal(
    retrieved: list[object], relevant: dict[str, int], k: int
) -> None:
    hit, some = scores([f"hit_at_{k}", f"recall_any_at_{k}"], retrieved, relevant)
    assert hit == some
    one = [next(iter(relevant))]
    names = [f"{name}_at_{k}" for name in ("hit", "recall_fraction", "recall_all", "recall_capped")]
    assert len(set(scores(names, retrieved, one))) == 1


@given(retrieved=SLOTS, relevant=RELEVANT, k=KS, data=st.data())
def test_the_order_of_relevant_ids_does_not_matter(
    retrieved: list[object], relevant: dict[str, int], k: int, data: st.DataObject
) -> None:
    mixed = dict(data.draw(st.permutations(list(relevant.items()))))
    names = [f"{name}_at_{k}" for name in ("ndcg", "map", "recall_fraction", "precision")]
    assert scores(names, retrieved, relevant) == scores(names, retrieved, mixed)


@given(retrieved=SLOTS, relevant=RELEVANT, k=KS, scale=st.sampled_from([2, 10, 1000]))
def test_ndcg_does_not_depend_on_the_scale_of_grades(
    retrieved: list[object], relevant: dict[str, int], k: int, scale: int
) -> None:
    plain = scores([f"ndcg_at_{k}"], retrieved, relevant)
    assert scores([f"ndcg_at_{k}"], retrieved, {i: g * scale for i, g in relevant.items()}) == pytest.approx(plain)


@given(retrieved=SLOTS, relevant=RELEVANT, k=KS)
def test_the_order_within_the_first_k_does_not_change_hit_and_recall(
    retrieved: list[object], relevant: dict[str, int], k: int
) -> None:
    names = [f"{name}_at_{k}" for name in ("hit", "recall_fraction", "recall_all", "recall_capped")]
    assert scores(names, retrieved, relevant) == scores(names, [*retrieved[:k][::-1], *retrieved[k:]], relevant)


@given(retrieved=SLOTS, relevant=RELEVANT, k=KS, tail=SLOTS)
def test_hits_beyond_k_do_not_count(
    retrieved: list[object], relevant: dict[str, int], k: int, tail: list[object]
) -> None:
    head = [*retrieved, *["x"] * k][:k]
    names = [f"{name}_at_{k}" for name in ("hit", "recall_fraction", "precision", "ndcg", "map", "mrr")]
    assert scores(names, head, relevant) == scores(names, [*head, *tail], relevant)


@given(ranked=st.lists(IDS, min_size=2, max_size=10, unique=True), relevant=RELEVANT, at=st.integers(0, 8))
def test_moving_a_better_hit_up_never_lowers_a_score(ranked: list[str], relevant: dict[str, int], at: int) -> None:
    place = at % (len(ranked) - 1)
    if relevant.get(ranked[place], 0) < relevant.get(ranked[place + 1], 0):
        better = [*ranked[:place], ranked[place + 1], ranked[place], *ranked[place + 2 :]]
        for name in ("ndcg_at_10", "map", "mrr", "ndcg_longmemeval_at_10"):
            before, after = scores([name], ranked, relevant)[0], scores([name], better, relevant)[0]
            assert after >= before - 1e-12


@given(retrieved=SLOTS, relevant=RELEVANT)
def test_F1_is_between_precision_and_recall(retrieved: list[object], relevant: dict[str, int]) -> None:
    precision, recall, f1 = scores(["retrieval_precision", "retrieval_recall", "retrieval_f1"], retrieved, relevant)
    assert min(precision, recall) - 1e-12 <= f1 <= max(precision, recall) + 1e-12
    assert scores(["retrieval_coverage"], retrieved, relevant) == [recall]


@given(retrieved=SLOTS, relevant=RELEVANT, k=KS)
def test_the_score_of_a_row_equals_the_score_of_its_inputs(
    retrieved: list[object], relevant: dict[str, int], k: int
) -> None:
    row = Row(
        benchmark="b", corpus="c", item_id="i", retrieved=tuple(map(slot_ids, retrieved)), relevant=tuple(relevant)
    )
    for name in (f"ndcg_at_{k}", f"precision_at_{k}", "map", "retrieval_f1"):
        for params in ({}, {"duplicates": "collapse"}):
            measure = metrics.registry().measure(name, params)
            assert measure.score(row) == metrics.score(
                name, params=params, retrieved=retrieved, relevant=list(relevant)
            )


@given(
    queries=st.lists(st.tuples(st.lists(IDS, min_size=1, max_size=9, unique=True), RELEVANT), min_size=1, max_size=5),
    k=st.sampled_from([1, 3, 5, 10]),
)
def test_means_over_queries_agree_with_trec_eval(queries: list[tuple[list[str], dict[str, int]]], k: int) -> None:
    """Graded judgements, every query scored, the mean over all of them."""
    judged = {str(n): relevant for n, (_, relevant) in enumerate(queries)}
    run = {str(n): {doc: float(-rank) for rank, doc in enumerate(ranked)} for n, (ranked, _) in enumerate(queries)}
    names = {f"ndcg_cut.{k}": f"ndcg_at_{k}", f"map_cut.{k}": f"map_at_{k}", f"recall.{k}": f"recall_fraction_at_{k}"}
    theirs = pytrec_eval.RelevanceEvaluator(judged, set(names)).evaluate(run)
    for trec, ours in names.items():
        expected = math.fsum(one[trec.replace(".", "_")] for one in theirs.values()) / len(queries)
        found = metrics.measure(ours, [{"retrieved": ranked, "relevant": relevant} for ranked, relevant in queries])
        assert found.value == pytest.approx(expected, abs=1e-9), ours
        assert found.n == len(queries)
