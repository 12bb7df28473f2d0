"""n + n_excluded + n_failed is the number of planned items for every metric and every label."""

from __future__ import annotations

import itertools
import math
import random
from array import array
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import metrics
from bench.metrics import CorpusFacts, FoldRow, FoldTable, JobFacts, Measure, fold, item_metrics, open_metrics
from bench.metrics.fold_input import (
    MIN_RUN,
    NO_LABEL,
    by_label,
    cluster_code,
    fold_table,
    has_dimension,
    item_outcome,
    labels_of,
    labels_of_each,
    reduce_repeats,
    reduce_values,
)
from bench.metrics.protocol import MAX_VALUE
from bench.model import FAILED_STATES, Measurement, State
from tests.laws import examples
from tests.rows import each_row

Labels = tuple[tuple[str, str], ...]
A: Labels = (("question_type", "a"),)
B: Labels = (("question_type", "b"),)


def opened(*names: object) -> list[Measure]:
    return open_metrics(names, k=10, folder=Path())


FEW_TIMES = ("latency", "latency_p95", "answer_latency_mean", "ingest_latency_p50", "ingest_throughput")
"""percentiles are bootstrapped, which is slow, so one of them represents all"""


def every_metric() -> list[Measure]:
    """Return every metric of the catalog that can be opened by name."""
    known = [info for info in metrics.catalog() if info.category != "performance" or info.name in FEW_TIMES]
    return opened(*(info.name.replace("_at_K", "_at_5") for info in known))


def row(
    number: int, state: str | None, *values: float | None, labels: Labels = A, corpus: str = "c", why: str = ""
) -> FoldRow:
    return FoldRow(f"q{number}", corpus, 1, state, labels, values, why)


def counted(one: Measurement) -> tuple[int, int, int]:
    return one.n, one.n_excluded, one.n_failed


ALL = every_metric()
WIDTH = len(item_metrics(ALL))


@st.composite
def jobs(draw: st.DrawFn) -> list[FoldRow]:
    rng = random.Random(draw(st.integers(0, 10**6)))
    kinds = [*State, None]
    rows = []
    for number in range(draw(st.integers(0, 14))):
        values = [rng.choice([None, 0.0, 1.0, rng.random()]) for _ in range(WIDTH)]
        state = rng.choice(kinds)
        given_values = [] if state in (*FAILED_STATES, None) and rng.random() < 0.5 else values
        labels = rng.choice([A, B, (), (("group", "g"), *A)])
        rows.append(
            row(
                number,
                state,
                *given_values,
                labels=labels,
                corpus=f"c{rng.randrange(3)}",
                why=rng.choice(["", "no_evidence"]),
            )
        )
    return rows


@settings(max_examples=examples(20))
@given(rows=jobs())
def test_n_n_excluded_and_n_failed_add_up_to_all_items_for_every_metric(rows: list[FoldRow]) -> None:
    lost = sum(one.state is None or one.state in FAILED_STATES for one in rows)
    for metric, found in zip(ALL, fold(ALL, rows).values(), strict=True):
        assert found.value is None or math.isfinite(found.value)
        if metric.scope == "corpus":
            assert sum(counted(found)) == 0
            continue
        assert sum(counted(found)) == len(rows), metric.name
        assert found.n_failed == lost
        assert sum(found.excluded_reasons.values()) == found.n_excluded
        for labels in found.breakdown.values():
            assert [sum(one) for one in zip((0, 0, 0), *map(counted, labels.values()), strict=True)] == [
                *counted(found)
            ]
        if found.value_failures_as_zero is not None and metric.aggregation == "mean" and found.n:
            assert found.value is not None
            assert found.value_failures_as_zero == pytest.approx(found.value * found.n / (found.n + found.n_failed))


@settings(max_examples=examples(10))
@given(rows=jobs(), seed=st.integers(0, 99))
def test_fold_does_not_depend_on_the_order_of_rows(rows: list[FoldRow], seed: int) -> None:
    mixed = list(rows)
    random.Random(seed).shuffle(mixed)
    assert fold(ALL, rows) == fold(ALL, mixed)


@pytest.mark.parametrize("clustered", [True, False])
def test_fold_of_no_rows_gives_None_without_an_error(clustered: bool) -> None:
    for found in fold(ALL, [], clustered=clustered).values():
        assert (found.value, found.interval, counted(found)) == (None, None, (0, 0, 0))


def test_one_item_has_a_value_and_a_suitable_interval() -> None:
    (accuracy, p95) = fold(opened("accuracy", "latency_p95"), [row(0, "correct", 1.0, 2_000.0)]).values()
    assert (accuracy.value, accuracy.n) == (1.0, 1)
    assert accuracy.interval is not None and accuracy.interval.method == "wilson"
    assert (p95.value, p95.interval, p95.note) == (2.0, None, "")


STATES_OF_NDCG = {
    "correct": "not_applicable",
    "unscored": "unscored",
    "unsupported": "unsupported",
    "measured": "not_applicable",
}


@each_row(
    ("name", "reasons"),
    [
        ("ndcg_at_5", {**STATES_OF_NDCG}),
        ("accuracy", {**STATES_OF_NDCG, "measured": "measured"}),
        ("avg_retrieval_score", {**STATES_OF_NDCG, "correct": "no_scores", "measured": "no_scores"}),
        ("faithfulness", {**STATES_OF_NDCG, "correct": "no_faithfulness", "measured": "measured"}),
        ("abstention_accuracy", {**STATES_OF_NDCG, "correct": "answerable", "measured": "measured"}),
        ("over_abstention_rate", {**STATES_OF_NDCG, "correct": "unanswerable", "measured": "measured"}),
        ("accuracy_excl_adversarial", {**STATES_OF_NDCG, "correct": "adversarial", "measured": "measured"}),
        ("cost_total", {**STATES_OF_NDCG, "correct": "unknown", "measured": "unknown"}),
        ("latency_p50", {**STATES_OF_NDCG}),
    ],
)
def test_each_missing_value_has_a_reason(name: str, reasons: dict[str, str]) -> None:
    for state, reason in reasons.items():
        found = fold(opened(name), [row(0, state, None)])[name]
        assert (found.excluded_reasons, found.value, found.note) == ({reason: 1}, None, reason)


def test_reasons_of_rows_and_of_states_are_counted() -> None:
    rows = [
        row(0, "correct", None, why="no_evidence"),
        row(1, "correct", None, why="no_source_ids"),
        row(2, "correct", None),
        row(3, "correct", 1.0),
        row(4, "unsupported", None, why="no_evidence"),
    ]
    found = fold(opened("mrr"), rows)["mrr"]
    assert found.excluded_reasons == {"no_evidence": 1, "no_source_ids": 1, "not_applicable": 1, "unsupported": 1}
    assert counted(found) == (1, 4, 0)
    assert found.note == ""


def test_a_reason_of_a_row_with_a_value_is_not_counted() -> None:
    rows = [row(0, "correct", 1.0, why="no_evidence"), row(1, "correct", None, why="no_evidence")]
    assert fold(opened("mrr"), rows)["mrr"].excluded_reasons == {"no_evidence": 1}


# ------------------------------------------------------------------------------------ pools


def alike(
    pool: FoldTable, corpora: list[str], *columns: list[float] | None, labels: Labels = A, state: str = "correct"
) -> None:
    pool.add_group(
        labels=labels,
        state=state,
        corpora=corpora,
        columns=[None if column is None else array("d", column) for column in columns],
    )


def test_a_column_of_None_has_no_values() -> None:
    pool = FoldTable(2)
    alike(pool, ["c"] * 40, [1.0] * 40, None)
    alike(pool, ["c", "d"], [0.0, math.nan], None)
    accuracy, mrr = fold(opened("accuracy", "mrr"), pool).values()
    assert (counted(accuracy), accuracy.value) == ((41, 1, 0), 40 / 41)
    assert (counted(mrr), mrr.value) == ((0, 42, 0), None)


@each_row("size", [1, MIN_RUN - 1, MIN_RUN, MIN_RUN + 1, 3 * MIN_RUN])
def test_runs_of_any_length_fold_like_single_rows(size: int) -> None:
    corpora = ["a"] * size + ["b"] * MIN_RUN + ["c", "a"]
    values = [float(at % 3 > 0) for at in range(len(corpora))]
    pool = FoldTable(1)
    alike(pool, corpora, values)
    rows = [
        row(at, "correct", value, corpus=corpus) for at, (value, corpus) in enumerate(zip(values, corpora, strict=True))
    ]
    assert fold(opened("mrr"), pool) == fold(opened("mrr"), rows)
    (cell,) = pool.cells()
    assert cell.n(0) == len(corpora)
    assert set(cell.by_cluster[0]) == {cluster_code("b")} | ({cluster_code("a")} if size >= MIN_RUN else set())
    assert len(cell.mixed[0]) == 2 + (size if size < MIN_RUN else 0)


def test_FoldTable_without_clusters_adds_up_runs() -> None:
    pool = FoldTable(1, clustered=False)
    alike(pool, [f"c{n}" for n in range(50)], [1.0] * 50)
    alike(pool, ["x"], [0.0])
    pool.add(row(0, "correct", 1.0))
    found = fold(opened("mrr"), pool, clustered=False)["mrr"]
    assert (found.n, found.value) == (52, 51 / 52)
    assert found.interval is not None and found.interval.method == "wilson"


def test_an_empty_group_adds_no_cell() -> None:
    pool = FoldTable(1)
    alike(pool, [], [])
    pool.add_pending(0)
    assert pool.cells() == []
    assert not pool.lacks(0)


def test_lacks_reports_whether_a_finished_row_has_no_value() -> None:
    pool = fold_table([row(0, "correct", 1.0, None), row(1, "error")], 2)
    assert (pool.lacks(0), pool.lacks(1)) == (False, True)


def test_add_reason_counts_reasons_after_the_rows_were_added() -> None:
    pool = FoldTable(1)
    alike(pool, ["c"] * 3, [1.0, math.nan, math.nan])
    for _ in range(2):
        pool.add_reason(A, "correct", "no_evidence")
    assert fold(opened("mrr"), pool)["mrr"].excluded_reasons == {"no_evidence": 2}


def test_pending_items_are_failed_and_have_no_label() -> None:
    pool = fold_table([row(0, "correct", 1.0)], 1)
    pool.add_pending(2)
    found = fold(opened("accuracy"), pool)["accuracy"]
    assert counted(found) == (1, 0, 2)
    assert {label: counted(one) for label, one in found.breakdown["question_type"].items()} == {
        "a": (1, 0, 0),
        NO_LABEL: (0, 0, 2),
    }


def test_cells_are_sorted_and_grouped_by_label() -> None:
    pool = fold_table(
        [row(0, "unscored", None), row(1, "correct", 1.0, labels=B), row(2, None), row(3, "correct", 1.0)], 1
    )
    cells = pool.cells()
    assert [(dict(one.labels)["question_type"], one.state) for one in cells] == [
        ("a", None),
        ("a", "correct"),
        ("a", "unscored"),
        ("b", "correct"),
    ]
    assert {label: len(group) for label, group in by_label(cells, "question_type").items()} == {"a": 3, "b": 1}
    assert {label: len(group) for label, group in by_label(cells, "speaker").items()} == {NO_LABEL: 4}
    assert has_dimension(cells, "question_type") and not has_dimension(cells, "speaker")


def test_cluster_code_is_the_same_in_every_process() -> None:
    assert cluster_code("conv-26") == 0x2A715689F7474B43
    codes = [cluster_code(f"c{n}") for n in range(2_000)] + [cluster_code("\ud800"), cluster_code("")]
    assert len(set(codes)) == len(codes)
    assert all(0 <= code < 2**64 for code in codes)


def test_labels_of_each_reuses_equal_label_sets() -> None:
    first, second = {"b": "2", "a": "1"}, {"a": "9"}
    assert labels_of(first) == (("a", "1"), ("b", "2"))
    found = labels_of_each([first, second, first])
    assert found == [(("a", "1"), ("b", "2")), (("a", "9"),), (("a", "1"), ("b", "2"))]
    assert found[0] is found[2]
    assert labels_of_each([]) == []


# ------------------------------------------------------------------------------------ epochs


def epochs(*states_and_values: tuple[str | None, float | None], item: str = "q") -> list[FoldRow]:
    return [
        FoldRow(item, "c", number, state, A, () if value is None and state is None else (value,), "")
        for number, (state, value) in enumerate(states_and_values, start=1)
    ]


@each_row(
    ("values", "mean", "mode", "most"),
    [
        ([], None, None, None),
        ([0.3], 0.3, 0.3, 0.3),
        ([0.0, 1.0], 0.5, 0.0, 1.0),
        ([1.0, 0.0, 1.0], 2 / 3, 1.0, 1.0),
        ([0.5, 0.2, 0.8], 0.5, 0.2, 0.8),
        ([1.0, 1.0, 0.0, 0.0], 0.5, 0.0, 1.0),
    ],
)
def test_reduce_values_computes_mean_mode_and_max_of_repeats(
    values: list[float], mean: float | None, mode: float | None, most: float | None
) -> None:
    wanted = [one if one is None else pytest.approx(one) for one in (mean, mode, most)]
    assert [reduce_values(values, reducer) for reducer in ("mean", "mode", "max")] == wanted  # type: ignore[arg-type]


@given(values=st.lists(st.floats(0, 1), min_size=1, max_size=7), seed=st.integers(0, 9))
def test_a_reduced_value_is_within_its_repeats_in_any_order(values: list[float], seed: int) -> None:
    mixed = random.Random(seed).sample(values, len(values))
    for reducer in ("mean", "mode", "max"):
        found = reduce_values(values, reducer)  # type: ignore[arg-type]
        assert found == reduce_values(mixed, reducer)  # type: ignore[arg-type]
        assert found is not None and min(values) <= found <= max(values)


def test_the_mean_of_equal_repeats_is_exactly_the_value() -> None:
    """3 * 0.003 / 3 is not the same double as 0.003."""
    assert math.fsum([0.003] * 3) / 3 != 0.003
    found = {value for value in (n / 1000 for n in range(1001)) if reduce_values([value] * 3, "mean") != value}
    assert found == set()


@each_row(
    ("repeats", "state", "value"),
    [
        ([("correct", 1.0), ("correct", 1.0), ("incorrect", 0.0)], "correct", 2 / 3),
        ([("correct", 1.0), ("incorrect", 0.0)], "incorrect", 0.5),
        ([("correct", 1.0), ("abstained", 0.0)], "abstained", 0.5),
        ([("error", None), ("correct", 1.0)], "correct", 1.0),
        ([("error", 0.5), ("incorrect", 0.0)], "incorrect", 0.0),
        ([("error", None), ("error", None), ("not_ready", None)], "error", None),
        ([(None, None), (None, None)], None, None),
        ([(None, None), ("error", None)], None, None),
        ([("unscored", None), ("unscored", None), ("correct", 1.0)], "unscored", 1.0),
    ],
)
def test_the_state_of_repeats_is_the_most_frequent_finished_state(
    repeats: list[tuple[str | None, float | None]], state: str | None, value: float | None
) -> None:
    (one,), _ = reduce_repeats(epochs(*repeats), ["accuracy"], "mean", epochs=len(repeats))
    assert one.state == state
    assert list(one.values) == [value if value is None else pytest.approx(value)]


def test_a_tie_with_correct_is_not_correct() -> None:
    for repeats in ([("correct", 1.0), ("partial", 0.0)], [("partial", 0.0), ("correct", 1.0)]):
        (one,), _ = reduce_repeats(epochs(*repeats), ["accuracy"], "mode", epochs=2)
        assert (one.state, list(one.values)) == ("partial", [0.0])


def test_an_item_is_pending_until_its_last_repeat_has_finished() -> None:
    """Two of three repeats give no value of the item, but their costs count."""
    rows = [FoldRow("q1", "c", n, "correct", A, (1.0, 0.5)) for n in (1, 2)]
    rows += [FoldRow("q2", "c", n, state, A, (1.0, 0.5)) for n, state in enumerate(("error", "correct", "error"), 1)]
    found = fold(opened("accuracy", "cost_total"), rows, epochs=3)
    assert (found["accuracy"].value, counted(found["accuracy"])) == (1.0, (1, 0, 1))
    assert found["cost_total"].value == 2.5


@each_row(
    ("repeats", "ended"),
    [
        ([], None),
        ([("correct", "ok"), ("correct", "ok")], None),
        ([("correct", "ok"), ("error", "timeout"), ("error", "timeout")], ("correct", "ok")),
        ([("incorrect", "ok"), ("error", "timeout"), ("correct", "ok")], ("incorrect", "ok")),
        ([("error", "timeout"), ("error", "http_500"), ("error", "timeout")], ("error", "timeout")),
        ([("error", "timeout"), ("not_ready", "not_ready"), ("not_ready", "not_ready")], ("not_ready", "not_ready")),
        ([("unsupported", "ok"), ("unsupported", "ok"), ("unsupported", "ok")], ("unsupported", "ok")),
    ],
)
def test_item_outcome_does_not_depend_on_the_order_of_repeats(
    repeats: list[tuple[str, str]], ended: tuple[str, str] | None
) -> None:
    for order in itertools.permutations(repeats):
        assert item_outcome(order, epochs=3) == ended


def test_equal_item_ids_in_two_corpora_are_two_items() -> None:
    rows = [FoldRow("q", corpus, epoch, "correct", A, (1.0,)) for corpus in ("c", "d") for epoch in (1, 2)]
    found, _ = reduce_repeats(rows, ["accuracy"], "mean", epochs=2)
    assert [(one.corpus, one.item_id, one.epoch) for one in found] == [("c", "q", 1), ("d", "q", 1)]


def test_spread_is_the_mean_standard_deviation_within_repeated_items() -> None:
    rows = [
        *epochs(("correct", 1.0), ("incorrect", 0.0), item="q1"),
        *epochs(("correct", 1.0), ("correct", 1.0), item="q2"),
        *epochs(("correct", 1.0), ("error", None), item="q3"),
    ]
    _, spread = reduce_repeats(rows, ["accuracy"], "mean", epochs=2)
    assert spread == {"accuracy": pytest.approx((math.sqrt(0.5) + 0) / 2)}
    assert reduce_repeats(epochs(("correct", 1.0)), ["accuracy"], "mean", epochs=1)[1] == {}


@pytest.mark.parametrize("reducer", ["mean", "mode", "max"])
def test_costs_of_all_epochs_are_added_up(reducer: str) -> None:
    """Two items, three epochs of 1 USD each, one epoch failed after 0.25 USD."""
    metrics_asked = opened("cost_total", "cost_judge", "cost_per_query", "cost_per_correct", "accuracy")
    values = (1.0, 0.5, 1.0, 1.0, 1.0)
    rows = [FoldRow("q1", "c", n, "correct", A, values) for n in (1, 2, 3)]
    rows += [FoldRow("q2", "c", n, "correct", A, values) for n in (1, 2)]
    rows += [FoldRow("q2", "c", 3, "error", A, (0.25, None, 0.25, 0.25, None))]
    found = fold(metrics_asked, rows, epochs=3, epochs_reducer=reducer)  # type: ignore[arg-type]
    assert found["cost_total"].value == 5.25
    assert found["cost_judge"].value == 2.5
    assert found["cost_per_correct"].value == 2.625
    assert (found["cost_per_query"].value, found["accuracy"].value) == (1.0, 1.0)


def test_an_unknown_cost_of_one_epoch_makes_the_item_unknown() -> None:
    rows = [FoldRow("q1", "c", 1, "correct", A, (1.0,)), FoldRow("q1", "c", 2, "correct", A, (None,))]
    rows += [FoldRow("q2", "c", n, "correct", A, (2.0,)) for n in (1, 2)]
    found = fold(opened("cost_total"), rows, epochs=2)["cost_total"]
    assert (found.value, found.n_unknown, found.note) == (4.0, 1, "at least: 1 value is unknown")


def test_costs_of_failed_epochs_are_counted() -> None:
    rows = [FoldRow("q1", "c", n, "error", A, (0.5,)) for n in (1, 2)]
    found = fold(opened("cost_total"), rows, epochs=2)["cost_total"]
    assert (found.value, counted(found)) == (1.0, (0, 0, 1))


@given(
    drawn=st.lists(
        st.tuples(st.integers(0, 4), st.integers(1, 3), st.sampled_from([*State, None]), st.floats(0, 1)), max_size=15
    )
)
def test_with_epochs_each_item_is_counted_once(drawn: list[tuple[int, int, State | None, float]]) -> None:
    once = {(item, epoch): (state, value) for item, epoch, state, value in drawn}
    rows = [FoldRow(f"q{item}", "c", epoch, state, A, (value,)) for (item, epoch), (state, value) in once.items()]
    found = fold(opened("accuracy"), rows, epochs=3)["accuracy"]
    assert sum(counted(found)) == len({item for item, _ in once})
    ended = Counter(item for (item, _), (state, _) in once.items() if state is not None)
    good = {item for (item, _), (state, _) in once.items() if state is not None and state not in FAILED_STATES}
    assert found.n_failed == len({item for item, _ in once} - {item for item in good if ended[item] == 3})


# ------------------------------------------------------------------------------------ corpora and money


def test_cost_total_is_a_lower_bound_if_some_costs_are_unknown() -> None:
    job = JobFacts(corpora=[CorpusFacts(corpus="c", cost_usd="0.5"), CorpusFacts(corpus="d", cost_usd=None)])
    total = fold(opened("cost_total"), [row(0, "correct", None)], job=job)["cost_total"]
    assert (total.value, total.n_unknown, total.note) == (0.5, 2, "at least: 2 values are unknown")
    assert counted(total) == (0, 1, 0)


def test_free_ingest_does_not_make_unknown_items_free() -> None:
    job = JobFacts(corpora=[CorpusFacts(corpus="c", priced=False)])
    total = fold(opened("cost_total"), [row(0, "correct", None)], job=job)["cost_total"]
    assert (total.value, total.n_unknown) == (None, 1)
    free = fold(opened("cost_total"), [row(0, "correct", 0.0)], job=job)["cost_total"]
    assert (free.value, free.n_unknown) == (0.0, 0)


def test_ingest_cost_is_in_the_total_but_in_no_label() -> None:
    job = JobFacts(corpora=[CorpusFacts(corpus="c", cost_usd="2")])
    found = fold(opened("cost_total"), [row(0, "correct", 1.0), row(1, "correct", 0.5, labels=B)], job=job)[
        "cost_total"
    ]
    assert found.value == 3.5
    assert {label: one.value for label, one in found.breakdown["question_type"].items()} == {"a": 1.0, "b": 0.5}


def test_failed_corpora_and_their_costs_are_counted() -> None:
    job = JobFacts(
        corpora=[
            CorpusFacts(corpus="a", cost_usd="1", times_us={"ingest": 2_000}),
            CorpusFacts(corpus="b", cost_usd="0.5", failed=True, times_us={"ingest": 9_000}),
            CorpusFacts(corpus="c", cost_usd=None),
            CorpusFacts(corpus="d", cost_usd=None, known_usd=0.25, failed=True),
        ]
    )
    cost, longest = fold(opened("cost_ingest", "ingest_latency_max"), [], job=job).values()
    assert (cost.value, counted(cost), cost.n_unknown) == (1.75, (1, 1, 2), 2)
    assert (longest.value, counted(longest), longest.excluded_reasons) == (2.0, (1, 1, 2), {"not_applicable": 1})


def test_parts_of_phases_can_be_measured_for_corpora() -> None:
    times = {"ingest": 9_000, "ingest.network": 1_000, "ingest.provider": 2_000, "ingest.queue": 6_000}
    job = JobFacts(corpora=[CorpusFacts(corpus="a", times_us=times)])
    found = fold(opened("ingest_latency_mean", "ingest_latency_mean.queue"), [], job=job)
    assert [one.value for one in found.values()] == [3.0, 6.0]


@each_row(
    ("wall", "memories", "value"), [(2_000_000, 30, 15.0), (None, 30, None), (0, 30, None), (2_000_000, None, None)]
)
def test_ingest_throughput_needs_memories_and_wall_time(
    wall: int | None, memories: int | None, value: float | None
) -> None:
    job = JobFacts(ingest_wall_us=wall, corpora=[CorpusFacts(corpus="a", memories=memories)])
    found = fold(opened("ingest_throughput"), [], job=job)["ingest_throughput"]
    assert (found.value, found.unit) == (value, "memories/s")


def test_token_and_cost_metrics_report_their_counting_method() -> None:
    job = JobFacts(
        token_methods={"context": ("chars/4", True), "judge_in": ("usage", False)},
        price_methods={"judge": ("genai-prices 1",)},
    )
    rows = [row(0, "correct", 4.0, 5.0, 6.0, 7.0)]
    found = fold(opened("tokens_context", "tokens_judge_in", "tokens_answer_in", "cost_judge"), rows, job=job)
    assert [(one.method, one.estimated, one.unit) for one in found.values()] == [
        ("chars/4", True, "tokens"),
        ("usage", False, "tokens"),
        (None, False, "tokens"),
        ("genai-prices 1", False, "USD"),
    ]


# ------------------------------------------------------------------------------------ seeds


def test_the_seed_changes_no_value() -> None:
    rows = [row(n, "correct", float(n % 5 > 1), float(n * n)) for n in range(60)]
    names = ("accuracy", "latency_p50")
    usual = fold(opened(*names), rows, clustered=False)
    other = fold(opened(*names), rows, clustered=False, seed=7)
    assert usual["accuracy"] == other["accuracy"]
    assert usual["latency_p50"].value == other["latency_p50"].value


def test_values_up_to_MAX_VALUE_fold_without_overflow() -> None:
    """The largest allowed value of a metric is folded without an error."""
    rows = [row(n, "correct", sign * MAX_VALUE) for n, sign in enumerate((1, -1, 1))]
    found = fold(opened("mrr"), rows, clustered=False)["mrr"]
    assert found.value == pytest.approx(1e100 / 3)
    assert found.interval is not None and math.isfinite(found.interval.high)


def test_the_spread_of_a_latency_is_in_milliseconds() -> None:
    rows = [FoldRow("q1", "c", n, "correct", A, (us,)) for n, us in ((1, 4000.0), (2, 6000.0))]
    found = fold(opened("latency_mean"), rows, epochs=2)["latency_mean"]
    assert (found.value, found.unit, found.spread) == (5.0, "ms", pytest.approx(math.sqrt(2)))
