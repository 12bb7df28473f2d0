"""Verdicts of findings, totals recomputed from rows, and the invariants of a receipt."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import tests.receipt.receipt_making as make
from bench import stats
from bench.receipt.base_model import validate
from bench.receipt.items_file import ItemRow
from bench.receipt.schema import Body
from bench.receipt.schema_results import ReceiptScore
from bench.receipt.verification.checks import invariants
from bench.receipt.verification.findings import (
    Finding,
    ReceiptVerdict,
    fail,
    ok,
    or_ok,
    overall_verdict,
    skip,
    warn,
    worst,
)
from bench.receipt.verification.recompute import (
    RATES,
    MetricDefinition,
    Recomputation,
    RecomputedTally,
    RowLabels,
    cut_of,
    dimensions,
    mean,
    measure_of,
    read_definition,
)
from tests.cpu_time import at_most
from tests.rows import each_row

Json = dict[str, Any]

# ------------------------------------------------------------------------- findings and verdicts

VERDICTS: list[tuple[list[Finding], ReceiptVerdict, int]] = [
    ([], ReceiptVerdict.VALID, 0),
    ([ok("parse"), skip("log", "no log"), warn("policy", "dirty", "x")], ReceiptVerdict.VALID, 0),
    ([fail("policy", "dirty", "x")], ReceiptVerdict.POLICY, 7),
    ([fail("log", "superseded", "x"), fail("policy", "dirty", "x")], ReceiptVerdict.SUPERSEDED, 4),
    ([fail("log", "superseded", "x"), fail("log", "retracted", "x")], ReceiptVerdict.RETRACTED, 4),
    ([fail("trust", "key_unknown", "x"), fail("log", "retracted", "x")], ReceiptVerdict.UNTRUSTED, 3),
    ([fail("log", "key_retired", "x")], ReceiptVerdict.UNTRUSTED, 3),
    ([fail("trust", "key_revoked", "x")], ReceiptVerdict.UNTRUSTED, 3),
    ([fail("trust", "key_role", "x")], ReceiptVerdict.UNTRUSTED, 3),
    ([fail("trust", "key_unknown", "x"), fail("digest", "config_digest", "x")], ReceiptVerdict.INVALID, 5),
    ([fail("parse", "syntax", "x")], ReceiptVerdict.INVALID, 5),
    ([fail("policy", "not_logged", "x"), warn("log", "not_logged", "x")], ReceiptVerdict.POLICY, 7),
]


@each_row(("findings", "verdict", "code"), VERDICTS)
def test_the_worst_finding_decides_the_verdict_and_exit_code(
    findings: list[Finding], verdict: ReceiptVerdict, code: int
) -> None:
    for order in itertools.permutations(findings):
        assert overall_verdict(order) is verdict
    assert verdict.exit_code == code


def test_verdicts_rank_by_exit_code_in_the_order_5_3_4_7_0() -> None:
    order = [
        ReceiptVerdict.INVALID,
        ReceiptVerdict.UNTRUSTED,
        ReceiptVerdict.RETRACTED,
        ReceiptVerdict.SUPERSEDED,
        ReceiptVerdict.POLICY,
        ReceiptVerdict.VALID,
    ]
    for place, verdict in enumerate(order):
        assert worst(reversed(order[place:])) is verdict
    assert worst([]) is ReceiptVerdict.VALID


def test_a_finding_as_json_has_a_code_only_if_there_is_one() -> None:
    assert ok("parse", "fine").value() == {"id": "parse", "status": "ok", "detail": "fine"}
    assert warn("log", "not_logged", "x").value() == {
        "id": "log",
        "status": "warn",
        "code": "not_logged",
        "detail": "x",
    }
    assert or_ok("digest", []) == [ok("digest")]
    assert or_ok("digest", [skip("digest", "x")], "y") == [skip("digest", "x")]


# ------------------------------------------------------------------------- definitions

DEFINITIONS: list[tuple[str, MetricDefinition]] = [
    ("mrr/1", MetricDefinition(base="mrr", k=None, options={}, version="1")),
    ("recall_any@10/1", MetricDefinition(base="recall_any", k=10, options={}, version="1")),
    ("ndcg@5[duplicates=first]/2", MetricDefinition(base="ndcg", k=5, options={"duplicates": "first"}, version="2")),
    ("x[a=1,b=2,c]/1", MetricDefinition(base="x", k=None, options={"a": "1", "b": "2", "c": ""}, version="1")),
    ("token_f1.max/1", MetricDefinition(base="token_f1.max", k=None, options={}, version="1")),
    ("a/b/c", MetricDefinition(base="a", k=None, options={}, version="b/c")),
    ("no version", MetricDefinition(base="no version", k=None, options={}, version="")),
    ("mrr@/1", MetricDefinition(base="mrr@/1", k=None, options={}, version="")),
    ("mrr@1234567890/1", MetricDefinition(base="mrr@1234567890/1", k=None, options={}, version="")),
    ("mrr@\u0661/1", MetricDefinition(base="mrr@\u0661/1", k=None, options={}, version="")),
    ("@5/1", MetricDefinition(base="@5/1", k=None, options={}, version="")),
    ("mrr/", MetricDefinition(base="mrr/", k=None, options={}, version="")),
    ("", MetricDefinition(base="", k=None, options={}, version="")),
]


@each_row(("text", "expected"), DEFINITIONS)
def test_read_definition_splits_a_definition_or_keeps_it_as_its_base(text: str, expected: MetricDefinition) -> None:
    assert read_definition(text) == expected


@each_row(
    ("name", "definition", "k"),
    [
        ("mrr", "mrr/1", None), ("mrr_at_10", "mrr/1", 10), ("mrr_at_10", "mrr@5/1", 5), ("mrr_at_", "mrr/1", None),
        ("my_at_3_at_7", "x/1", 7), ("mrr_at_10x", "mrr/1", None), ("mrr_at_\u0661", "mrr/1", None),
    ],
)  # fmt: skip
def test_cut_of_reads_k_from_the_definition_or_the_metric_name(name: str, definition: str, k: int | None) -> None:
    assert cut_of(name, read_definition(definition)) == k


def test_is_rate_depends_on_the_base_of_a_definition() -> None:
    assert read_definition("accuracy/1").is_rate and read_definition("token_f1.max/1").is_rate
    assert not read_definition("avg_rank/1").is_rate and not read_definition("accuracyx/1").is_rate
    assert {"mrr", "ndcg", "hit", "faithfulness"} <= RATES and "avg_retrieval_score" not in RATES


# ------------------------------------------------------------------------- tallies

values = st.lists(st.floats(-1e6, 1e6), max_size=8)
labels = st.sampled_from(["a", "b", "c"])


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), labels), max_size=10), st.integers(0, 3), st.integers(0, 3), st.data())
def test_a_tally_does_not_depend_on_the_order_of_the_rows(
    rows: list[tuple[float, str]], failed: int, pending: int, data: st.DataObject
) -> None:
    folds = []
    for order in (rows, data.draw(st.permutations(rows))):
        tally = RecomputedTally()
        for value, label in order:
            tally.scored(value, [("type", label)])
        for _ in range(failed):
            tally.lost([("type", "a")])
        folds.append(
            [tally.fold(name, pending) for name in ("mean", "macro:type", "other")] + [tally.labels_of("type")]
        )
    assert folds[0] == folds[1]


@given(values, st.integers(0, 5), st.integers(0, 5))
def test_a_mean_divides_the_exact_sum_by_scored_items_and_by_all_items(
    stated: list[float], failed: int, pending: int
) -> None:
    tally = RecomputedTally()
    for value in stated:
        tally.scored(value, [])
    for _ in range(failed):
        tally.lost([])
    lost = len(stated) + failed + pending
    expected = math.fsum(stated)
    assert tally.fold("mean", pending) == (
        expected / len(stated) if stated else None, expected / lost if lost else None,
    )  # fmt: skip


def test_a_macro_mean_weighs_every_label_equally_and_counts_its_failures() -> None:
    tally = RecomputedTally()
    for value, label in [(1.0, "a"), (1.0, "a"), (0.0, "b")]:
        tally.scored(value, [("type", label), ("other", "x")])
    tally.lost([("type", "b")])
    tally.lost([("type", "c")])
    assert tally.fold("macro:type", 0) == (0.5, math.fsum([1.0, 0.0, 0.0]) / 3)
    assert tally.fold("macro:other", 0) == (mean(tally.values), mean(tally.values))
    assert tally.fold("macro:none", 0) == (None, None) == RecomputedTally().fold("macro:type", 0)
    assert tally.fold("other", 5) == (None, None)
    assert [(name, one.value, one.n) for name, one in tally.labels_of("type").items()] == [("a", 1.0, 2), ("b", 0.0, 1)]


def test_a_metric_is_grouped_by_its_breakdown_and_macro_dimensions() -> None:
    assert dimensions(["b", "a", "a"], "mean") == ("a", "b")
    assert dimensions([], "macro:type") == ("type",)
    assert dimensions(["type", "a"], "macro:type") == ("a", "type")
    places = RowLabels({"a": "x"})
    assert places.under(("a", "b")) == [("a", "x"), ("b", "(none)")]
    assert places.under(("a", "b")) is places.under(("a", "b")), "computed once per row"


# ------------------------------------------------------------------------- from rows to totals


def findings_of_rows(body: Json, rows: list[Json]) -> list[tuple[str, str, str]]:
    check = Recomputation(validate(Body, body))
    for row in rows:
        check.add(validate(ItemRow, row))
    return [(f.status, str(f.code), f.detail) for f in (*check.findings(), *check.hit_findings())]


ALL_OK = ("ok", "None", "every total was recomputed from the rows")


def changed(change: Callable[[Json, list[Json]], object]) -> list[tuple[str, str, str]]:
    rows = make.default_rows()
    body = make.body(rows)
    change(body, rows)
    return findings_of_rows(body, rows)


def score(body: Json, name: str = "recall_at_10") -> Json:
    found: Json = body["scores"]["judged" if name == "accuracy" else "deterministic"][name]
    return found


TOTALS: list[tuple[Callable[[Json, list[Json]], object], list[tuple[str, str]]]] = [
    (lambda body, rows: score(body).update(value=0.91), [("score_mismatch",
    "recall_at_10.value is 0.91, but the rows give 0.9")]),
    (lambda body, rows: score(body).update(value=0.9000000000000001),
     [("score_mismatch", "recall_at_10.value is 0.9000000000000001, but the rows give 0.9")]),
    (lambda body, rows: score(body).update(value=None), [("score_mismatch",
    "recall_at_10.value is None, but the rows give 0.9")]),
    (lambda body, rows: score(body).update(valueFailuresAsZero=1),
     [("score_mismatch", "recall_at_10.valueFailuresAsZero is 1.0, but the rows give 0.9")]),
    (lambda body, rows: score(body).update(n=9),
     [("count_mismatch", "recall_at_10: the rows give n, nExcluded, nFailed = (10, 0, 0)")]),
    (lambda body, rows: score(body).update(nExcluded=1),
     [("count_mismatch", "recall_at_10: the rows give n, nExcluded, nFailed = (10, 0, 0)")]),
    (lambda body, rows: score(body).update(aggregate="other", value=0.99),
     [("score_mismatch", "recall_at_10.aggregate is other, but recall_any@10/1 is aggregated by mean")]),
    (lambda body, rows: score(body).update(aggregate="macro:question_type"),
     [("score_mismatch", "recall_at_10.aggregate is macro:question_type, but recall_any@10/1 is aggregated by mean")]),
    (lambda body, rows: score(body, "accuracy").update(aggregate="other", value=0.99),
     [("score_mismatch", "accuracy.aggregate is other, but accuracy/1 is aggregated by mean")]),
    (lambda body, rows: score(body, "accuracy").update(value=0.8), [("score_mismatch",
    "accuracy.value is 0.8, but the rows give 0.9")]),
    (lambda body, rows: score(body)["breakdown"]["question_type"]["single"].update(value=0.5),
     [("breakdown_mismatch", "recall_at_10.question_type: single")]),
    (lambda body, rows: score(body)["breakdown"]["question_type"].pop("temporal"),
     [("breakdown_mismatch", "recall_at_10.question_type: temporal")]),
    (lambda body, rows: score(body)["breakdown"]["question_type"].update(ghost={"value": None, "n": 0}), []),
    (lambda body, rows: score(body)["breakdown"].update(corpus={}), [("breakdown_mismatch",
    "recall_at_10.corpus: (none)")]),
    (lambda body, rows: body["counts"]["byState"].update(correct=8, partial=1),
     [("count_mismatch", "counts.byState: the rows give {'correct': 9, 'incorrect': 1}")]),
    (lambda body, rows: body["counts"].update(errorKinds={"timeout": 0}), []),
    (lambda body, rows: body["counts"].update(errorKinds={"timeout": 2}),
     [("count_mismatch", "counts.errorKinds: the rows give {}")]),
    (lambda body, rows: rows[0]["metrics"].update(mrr=0.5),
     [("score_mismatch", "item-00000: mrr is 0.5, but the row gives 1.0"), ("score_mismatch", "mrr.value is ")]),
    (lambda body, rows: rows[0]["metrics"].update(mrr=None),
     [("score_mismatch", "item-00000: mrr is None, but the row gives 1.0")]),
    (lambda body, rows: rows[0]["metrics"].pop("mrr"), [("score_mismatch",
    "item-00000: the item did not fail, but has no value of mrr")]),
    (lambda body, rows: rows[0].update(state="error", errorKind="timeout"),
     [("score_mismatch", f"item-00000: the item failed, but has a value of {name}") for name in make.DEFINITIONS]),
    (lambda body, rows: rows[0].update(state="not_ready"),
     [("score_mismatch", f"item-00000: the item failed, but has a value of {name}") for name in make.DEFINITIONS]),
    (lambda body, rows: rows[0].update(retrieved=None), [("score_mismatch", "item-00000: recall_at_5 is ")]),
    (lambda body, rows: rows[0].update(gold=[]),
     [("score_mismatch", "item-00000: recall_at_5 is 1.0, but the row gives None")]),
    (lambda body, rows: rows[0].update(retrieved=rows[0]["retrieved"][::-1]),
     [("score_mismatch", "item-00000: recall_at_5 is 1.0, but the row gives 0.0")]),
]  # fmt: skip


@each_row(("change", "expected"), TOTALS)
def test_each_total_that_differs_from_the_rows_is_reported_with_both_numbers(
    change: Callable[[Json, list[Json]], object], expected: list[tuple[str, str]]
) -> None:
    found = changed(change)
    if not expected:
        assert found == [ALL_OK]
        return
    assert {status for status, _, _ in found} == {"fail"}
    for code, words in expected:
        assert any(one == code and detail.startswith(words) for _, one, detail in found), (words, found)
    assert ALL_OK not in found


def test_a_row_value_may_differ_from_the_recomputed_one_by_1e_12() -> None:
    def off_by(difference: float) -> list[tuple[str, str, str]]:
        rows = make.default_rows()
        rows[2]["metrics"]["ndcg_at_10"] += difference
        return findings_of_rows(make.body(rows), rows)

    assert off_by(9e-13) == [ALL_OK] == off_by(-9e-13)
    assert [code for _, code, _ in off_by(2e-12)] == ["score_mismatch"]


def test_more_than_ten_wrong_rows_are_reported_as_ten_and_a_number() -> None:
    rows = [make.row(n, 1) for n in range(15)]
    body = make.body(rows)
    for row in rows:
        row["retrieved"] = [["x"]] * 11
    found = findings_of_rows(body, rows)
    wrong = [detail for _, code, detail in found if code == "score_mismatch"]
    assert len(wrong) == 11 and wrong[-1] == "and 50 more"
    over = [detail for _, code, detail in found if code == "invariant_over_k"]
    assert over[0] == "more than k hits: item-00000" and over[-1] == "more than k hits: and 5 more"
    assert found[-1] == ("warn", "duplicate_retrieved", "15 items have the same id more than once in their hits")


@each_row(
    ("retrieved", "repeated"),
    [
        ([], False), ([["a"]], False), ([["a"], ["a"]], True), ([["a"], ["b"], ["a"]], True),
        ([["a", "b"], ["a"]], True),
        ([["a"], ["a", "b"]], False), ([["a"], ["b"], ["a", "b"]], True), ([[], []], False), ([["a"], []], False),
    ],
)  # fmt: skip
def test_a_hit_without_a_new_id_counts_as_a_duplicate(retrieved: list[list[str]], repeated: bool) -> None:
    rows = [make.row(0, 1, retrieved=retrieved, gold=[], metrics=dict.fromkeys(make.DEFINITIONS))]
    found = findings_of_rows(make.body(rows), rows)
    assert (("warn", "duplicate_retrieved", "1 item has the same id more than once in its hits") in found) is repeated


def test_more_than_k_hits_are_reported_only_if_the_run_has_a_k() -> None:
    rows = make.default_rows()
    body = make.body(rows)
    body["run"]["k"] = None
    assert findings_of_rows(body, rows) == [ALL_OK]
    body["run"]["k"] = 9
    assert findings_of_rows(body, rows)[1] == ("fail", "invariant_over_k", "more than k hits: item-00000")


def with_interval(
    method: str, low: float, high: float, name: str = "mrr", *, epochs: int = 1, level: float = 0.95
) -> list[tuple[str, str, str]]:
    """Return the findings for the receipt of the default rows with this interval of one metric."""

    def change(body: Json, rows: list[Json]) -> None:
        body["run"]["epochs"] = epochs
        stated = {"low": low, "high": high, "level": level, "method": method}
        score(body, name).update(interval=stated)

    return changed(change)


def interval_of_rows(name: str = "mrr", *, clustered: bool = True, level: float = 0.95) -> tuple[str, float, float]:
    rows = make.default_rows()
    values = [row["metrics"][name] for row in rows]
    found = stats.interval(values, [row["corpusId"] for row in rows] if clustered else None, level)
    assert found is not None
    return found.method, found.low, found.high


def test_an_interval_that_follows_from_the_rows_is_accepted() -> None:
    for name in ("mrr", "recall_at_10"):
        for clustered in (True, False):
            assert with_interval(*interval_of_rows(name, clustered=clustered), name) == [ALL_OK]
    assert with_interval(*interval_of_rows(level=0.5), level=0.5) == [ALL_OK]


def test_an_interval_that_the_rows_contradict_is_reported_with_both() -> None:
    method, low, high = interval_of_rows()
    [(status, code, detail)] = with_interval(method, low + 1e-6, high)
    assert (status, code) == ("fail", "interval_mismatch")
    assert detail == f"mrr.interval is [{low + 1e-6}, {float(high)}] (cluster_t), but the rows give [{low}, {high}]"
    assert with_interval(method, low, high - 1e-6)[0][1] == "interval_mismatch"
    [(_, code, detail)] = with_interval("wilson", 0.6, 0.9)
    assert (code, detail) == (
        "interval_mismatch", "mrr.interval is [0.6, 0.9] (wilson), but the rows give none by this method",
    )  # fmt: skip


def test_an_interval_that_rows_cannot_show_is_listed_as_not_recomputed() -> None:
    listed = ("skip", "None", "intervals not recomputed, only checked for plausibility: mrr")
    assert with_interval("bootstrap_bca", 0.6, 0.9) == [ALL_OK, listed]
    assert with_interval("cluster_t", 0.6, 0.9, epochs=2) == [ALL_OK, listed]
    assert with_interval("cluster_t", 0.6, 0.9, level=1) == [ALL_OK, listed]


def test_an_interval_of_a_macro_mean_is_recomputed() -> None:
    def found(change: float) -> list[str]:
        rows = make.default_rows()
        for row in rows:
            row["metrics"]["token_f1"] = row["metrics"]["mrr"]
        groups = [[row for row in rows if row["labels"]["question_type"] == kind] for kind in ("single", "temporal")]
        tallies = [
            stats.Tally.of([row["metrics"]["mrr"] for row in group], [row["corpusId"] for row in group])
            for group in groups
        ]
        right = stats.interval_macro_of(tallies)
        assert right is not None
        body = make.body(rows)
        made = make.score(rows, lambda r: r["metrics"]["mrr"], "token_f1/1", 10)
        means = [tally.total / tally.n for tally in tallies]
        body["scores"]["deterministic"]["token_f1"] = {
            **made,
            "aggregate": "macro:question_type",
            "value": math.fsum(means) / 2,
            "valueFailuresAsZero": math.fsum(means) / 2,
            "interval": {"low": right.low, "high": right.high + change, "level": 0.95, "method": right.method},
        }
        return [code for status, code, _ in findings_of_rows(body, rows) if status == "fail"]

    assert found(0) == []
    assert found(-0.01) == ["interval_mismatch"]


def test_scores_that_rows_cannot_show_are_listed_as_not_recomputed() -> None:
    rows = make.default_rows()
    for row in rows:
        row["metrics"]["token_f1"] = 0.5
    body = make.body(rows)
    body["scores"]["deterministic"]["token_f1"] = make.score(rows, lambda r: 0.5, "token_f1/1", 10)
    body["scores"]["judged"]["faithfulness"] = make.score(rows, lambda r: 0.7, "faithfulness/1", 10)
    assert findings_of_rows(body, rows) == [
        ALL_OK,
        ("skip", "None", "not recomputed, stated by the signer: token_f1, faithfulness"),
    ]


UNKNOWN: list[tuple[str, str]] = [
    ("mine", "recall_any@10/1"), ("recall_at_10", "recall_any@10/999"), ("recall_at_10", "recall_any@5/1"),
    ("mrr", "mrr"), ("mrr", "mrr[duplicates=what]/1"), ("mrr", "mrr[nonsense=1]/1"), ("token_f1", "token_f1/1"),
    ("faithfulness", "faithfulness/1"), ("os.system", "os.system/1"), ("../x.py:Metric", "x/1"), ("", "/1"),
    ("avg_retrieval_score", "avg_retrieval_score/1"),
]  # fmt: skip


@each_row(("name", "definition"), UNKNOWN)
def test_measure_of_returns_none_for_unknown_metrics_and_definitions(name: str, definition: str) -> None:
    stated = make.score(make.default_rows(), lambda r: 1.0, definition, 10)
    assert measure_of(name, validate(ReceiptScore, stated)) is None


@each_row(("name", "definition"), [*make.DEFINITIONS.items(), ("accuracy", "accuracy/1")])
def test_measure_of_uses_the_stated_definition_of_a_known_metric(name: str, definition: str) -> None:
    measure = measure_of(name, validate(ReceiptScore, make.score(make.default_rows(), lambda r: 1.0, definition, 10)))
    assert measure is not None and (measure.definition, measure.aggregation) == (definition, "mean")


# ------------------------------------------------------------------------- invariants


def broken(**changes: Any) -> list[tuple[str, str]]:
    body = make.body(make.default_rows())
    for place, value in changes.items():
        make.change(body, place.replace("__", "."), value)
    return [(str(f.code), f.detail) for f in invariants(validate(Body, body))]


C, R, V = "invariant_counts", "invariant_rate_range", "invariant_interval"
WIDE: Json = {"low": 0.5, "high": 0.9, "level": 0.95, "method": "other"}
D, J = "scores__deterministic__", "scores__judged__accuracy__"
TIMES: Json = {"n": 3, "min": 1, "p50": 2, "p95": 3, "p99": 3, "max": 3}
FALSE: list[tuple[Json, list[tuple[str, str]]]] = [
    ({}, []),
    ({"counts__pending": 1, "kind": "partial"},
     [(C, "counts: 10 ended and 1 pending do not add up to 10 planned"),
      (C, "perQuery.count: 10 rows for 9 ended items")]),
    ({"counts__planned": 11}, [
        (C, "counts: 10 ended and 0 pending do not add up to 11 planned"),
         (C, "perQuery.count: 10 rows for 11 ended items"),
        *((C, f"deterministic.{name}: n + nExcluded + nFailed is not 11") for name in make.DEFINITIONS),
        (C, "judged.accuracy: n + nExcluded + nFailed is not 11"),
    ]),
    ({"counts__scored": 9}, [(C, "counts.scored: 9 is not correct + incorrect + partial + abstained")]),
    ({"counts__errorKinds": {"timeout": 1}}, [(C, "counts.errorKinds: the counts do not add up to 0 errors")]),
    ({"perQuery__count": 11}, [(C, "perQuery.count: 11 rows for 10 ended items")]),
    ({J + "nFailed": 1}, [(C, "judged.accuracy: n + nExcluded + nFailed is not 10")]),
    ({J + "n": 0, J + "nExcluded": 10, J + "breakdown": {}}, [(C, "judged.accuracy: a value, but n is 0")]),
    ({J + "value": None}, [(C, "judged.accuracy: no value, but n is 10")]),
    ({J + "value": None, J + "aggregate": "other"}, []),
    ({J + "breakdown": {}}, []),
    ({J + "breakdown": {"x": {}}}, [(C, "judged.accuracy: the labels of x do not add up to n")]),
    ({D + "mrr__value": 1.0000001}, [(R, "deterministic.mrr: a share is not in 0..1"),
                                     ("invariant_mrr_le_hit", "mrr 1.0000001 > hit rate at 10 0.9")]),
    ({D + "mrr__value": -1e-9}, [(R, "deterministic.mrr: a share is not in 0..1")]),
    ({D + "mrr__valueFailuresAsZero": 2}, [(R, "deterministic.mrr: a share is not in 0..1")]),
    ({J + "breakdown__question_type__single__value": 1.5}, [(R, "judged.accuracy: a share is not in 0..1")]),
    ({J + "value": 99, J + "definition": "points/1"}, []),
    ({D + "recall_at_5__value": 0.95}, [("invariant_recall_monotone", "recall_any@5 0.95 > recall_any@10 0.9")]),
    ({D + "recall_at_5__value": 0.9 + 1e-13}, []),
    ({D + "recall_at_5__value": 0.95, D + "recall_at_5__n": 9, D + "recall_at_5__nExcluded": 1,
      D + "recall_at_5__breakdown": {}}, []),
    ({D + "recall_at_5__value": 0.95, D + "recall_at_5__aggregate": "macro:question_type"}, []),
    ({D + "ndcg_at_10__value": 0.95}, [("invariant_ndcg_le_hit", "ndcg@10 0.95 > hit rate 0.9")]),
    ({D + "ndcg_at_10__value": 0.95, D + "ndcg_at_10__definition": "ndcg@10[duplicates=first]/1"}, []),
    ({D + "mrr__value": 0.95}, [("invariant_mrr_le_hit", "mrr 0.95 > hit rate at 10 0.9")]),
    ({D + "mrr__value": 0.95, "run__k": None}, []),
    ({D + "mrr__value": 0.95, D + "mrr__definition": "mrr@3/1"}, []),
    ({D + "mrr__interval": WIDE}, []),
    ({D + "mrr__interval": {**WIDE, "low": 0.9, "high": 0.95}},
     [(V, "deterministic.mrr: the interval [0.9, 0.95] is impossible: it does not contain the value "
       "0.5326190476190475")]),
    ({D + "mrr__interval": {**WIDE, "low": 0.9, "high": 0.95}, "run__epochs": 2}, []),
    ({D + "mrr__interval": {**WIDE, "low": 0.75, "high": 0.73}, "run__epochs": 2},
     [(V, "deterministic.mrr: the interval [0.75, 0.73] is impossible: its lower bound is above its upper bound")]),
    ({D + "mrr__interval": {**WIDE, "high": 1.01}},
     [(V, "deterministic.mrr: the interval [0.5, 1.01] is impossible: a share is in 0..1")]),
    ({D + "mrr__interval": {**WIDE, "level": 1}},
     [(V, "deterministic.mrr: the interval [0.5, 0.9] is impossible: its level 1.0 is not between 0 and 1")]),
    ({J + "value": None, J + "aggregate": "other", J + "interval": WIDE},
     [(V, "judged.accuracy: the interval [0.5, 0.9] is impossible: the score has no value")]),
    ({J + "value": 9, J + "definition": "points/1", J + "interval": {**WIDE, "high": 12}}, []),
    ({"run__isolationProof__failed": 3, "run__isolationProof__passed": 0},
     [("invariant_isolation", "run.isolationProof: 3 of 3 checks failed, but such a job gets no receipt")]),
    ({"run__isolationProof__passed": 2},
     [("invariant_isolation", "run.isolationProof: 2 passed and 0 failed do not add up to 3 probed")]),
    ({"scores__measured__search_us": {**TIMES, "min": 3}},
     [("invariant_percentiles", "search_us: expected min <= p50 <= p95 <= p99 <= max")]),
    ({"scores__measured__search_us": {**TIMES, "n": 0}},
     [("invariant_percentiles", "search_us: expected min <= p50 <= p95 <= p99 <= max")]),
    ({"scores__measured__search_us": {"n": 0, **dict.fromkeys(["min", "p50", "p95", "p99", "max"])}}, []),
    ({"scores__measured__search_us": {**TIMES, "p99": None}},
     [("invariant_percentiles", "search_us: expected min <= p50 <= p95 <= p99 <= max")]),
    ({"scores__measured__ingest_us": {**TIMES, "p95": 2, "p99": 1}},
     [("invariant_percentiles", "ingest_us: expected min <= p50 <= p95 <= p99 <= max")]),
    ({"ranAt": "2026-11-01T11:00:00.500001Z"}, [("invariant_times", "expected ranAt <= finishedAt <= issuedAt")]),
    ({"ranAt": "2026-11-01T11:00:00.5Z"}, []),
    ({"finishedAt": "2026-11-01T11:30:00.000001Z"}, [("invariant_times", "expected ranAt <= finishedAt <= issuedAt")]),
    ({"issuedAt": "2025-12-31T23:59:59Z"}, [("invariant_times", "expected ranAt <= finishedAt <= issuedAt")]),
]  # fmt: skip


@each_row(("changes", "expected"), FALSE)
def test_each_violated_invariant_is_reported_with_its_message(changes: Json, expected: list[tuple[str, str]]) -> None:
    assert broken(**changes) == expected


def test_a_receipt_of_kind_run_has_no_pending_items() -> None:
    body = make.body(make.default_rows(), pending=2)
    assert list(invariants(validate(Body, body))) == []
    body["kind"] = "run"
    assert [f.detail for f in invariants(validate(Body, body))] == [
        'counts.pending: 2, but a receipt of kind "run" has no pending items'
    ]


def cuts(*stated: tuple[str, float | None]) -> list[str]:
    """Return the findings for recall at these cuts, next to the two of every receipt (5: 0.7, 10: 0.9)."""
    body = make.body(make.default_rows())
    scores = body["scores"]["deterministic"]
    for number, (cut, value) in enumerate(stated):
        scores[f"more_{number}"] = {**scores["recall_at_10"], "definition": f"recall_any@{cut}/1", "value": value}
    return [f.detail for f in invariants(validate(Body, body)) if f.code == "invariant_recall_monotone"]


CUTS: list[tuple[list[tuple[str, float | None]], list[str]]] = [
    ([("100", 0.95), ("20", 0.9), ("3", 0.5)], []),
    ([("100", 0.6)], ["recall_any@10 0.9 > recall_any@100 0.6"]),
    ([("7", 0.6), ("8", 0.65)], ["recall_any@5 0.7 > recall_any@7 0.6", "recall_any@5 0.7 > recall_any@8 0.65"]),
    ([("1", 0.95)], ["recall_any@1 0.95 > recall_any@5 0.7", "recall_any@1 0.95 > recall_any@10 0.9"]),
    ([("50[duplicates=first]", 0.2), ("20[duplicates=first]", 0.3)],
     ["recall_any@20 0.3 > recall_any@50 0.2"]),
    ([("50[duplicates=first]", 0.2)], []),
]  # fmt: skip


@each_row(("stated", "expected"), CUTS)
def test_recall_at_a_larger_k_must_not_be_smaller(stated: list[tuple[str, float | None]], expected: list[str]) -> None:
    assert cuts(*stated) == expected


def test_recall_at_4000_cuts_is_compared_within_seconds() -> None:
    falling = at_most(20, lambda: cuts(*((str(number + 20), 0.9 - number / 10_000) for number in range(4000))))
    assert (len(falling), falling[0]) == (3999, "recall_any@10 0.9 > recall_any@21 0.8999")
