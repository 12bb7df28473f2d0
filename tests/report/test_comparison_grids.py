"""A comparison as tables, conclusions and gates, also for rows with little data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bench.errors import UsageError
from bench.model import Interval, State, Verdict
from bench.plan.job_record import ModelNames
from bench.report.comparison.compare import compare_sides
from bench.report.comparison.comparison_rows import ComparisonRow, Comparisons, conclusion_sentences, gate_outcomes
from bench.report.comparison.comparison_targets import ComparisonTarget, parse_targets, sides_of
from bench.report.comparison.formats import (
    HEAD,
    comparison_grids,
    comparison_json,
    comparison_markdown,
    conclusions,
)
from bench.report.comparison.paired_tests import headline_metrics, metrics_to_compare
from bench.report.comparison.sides import Side, judge_noise
from bench.report.summary import rebuild
from bench.stats import Comparison
from tests.full_journal import ItemData, write_run
from tests.small_journal import Job, made, measuring, record

ITEMS = [f"q{at:03d}" for at in range(60)]
GOOD: Mapping[str, float] = {name: float(at % 4 != 0) for at, name in enumerate(ITEMS)}
BAD: Mapping[str, float] = {name: float(at % 4 == 0) for at, name in enumerate(ITEMS)}
TYPES = {name: f"t{at % 2}" for at, name in enumerate(ITEMS)}


def job(provider: str, values: Mapping[str, float | None], **changes: object) -> Job:
    own = {name: changes.pop(name) for name in ("types", "more", "corpora", "planned") if name in changes}
    return Job(record=record(provider, **changes), values=values, **own)  # type: ignore[arg-type]


async def sides(workspace: Path, *jobs: Job) -> list[Side]:
    await made(workspace, "r", list(jobs))
    targets = [ComparisonTarget(run="r", provider="", job=one.record.key) for one in jobs]
    return (await sides_of(workspace, targets, benchmark=None))[0]


async def compared(workspace: Path, *jobs: Job, metrics: Sequence[str] = (), force: bool = False) -> Comparisons:
    return compare_sides([await sides(workspace, *jobs)], metrics=metrics, force=force)


# ------------------------------------------------------------------------------ grids


async def test_a_pair_has_a_grid_of_headlines_and_a_grid_of_exploratory_rows(tmp_path: Path) -> None:
    found = await compared(tmp_path, job("x", GOOD, types=TYPES), job("y", BAD, types=TYPES))
    headline, exploratory = comparison_grids(found)
    assert headline.title == "facts 1 | A = x (run r), B = y (run r)"
    assert headline.head == exploratory.head == HEAD
    (row,) = headline.rows
    assert (
        row[:5] == ("accuracy", "60", "0.7500", "0.2500", "+0.5000") and row[7] == "A higher" and row[10] == "45/15/0"
    )
    assert exploratory.title == "exploratory | 2 rows, corrected together"
    assert [line[0] for line in exploratory.rows] == ["  t0", "  t1"]
    assert headline.notes[0] == "verdict on accuracy: A higher"
    assert headline.notes[1].startswith("like for like: yes, ") and headline.notes[1].endswith(" checks agree")
    assert "A is better on 45: q001, q002, q003, q005, q006 and 40 more" in headline.notes
    assert any(
        "p adjusted by Holm over 1 headline and, separately, maxT over 2 exploratory rows" in note
        for note in headline.notes
    )


async def test_with_several_headlines_each_label_row_names_its_metric(tmp_path: Path) -> None:
    changes = measuring("accuracy", "mrr")
    jobs = [job(p, v, types=TYPES, more={"mrr": v}, **changes) for p, v in (("x", GOOD), ("y", BAD))]
    found = await compared(tmp_path, *jobs, metrics=["mrr", "accuracy", "mrr"])
    headline, exploratory = comparison_grids(found)
    assert [row[0] for row in headline.rows] == ["mrr", "accuracy"]
    assert {row[0] for row in exploratory.rows} == {"mrr: t0", "mrr: t1", "accuracy: t0", "accuracy: t1"}
    assert found.family_size == {"headline": 2, "exploratory": 4, "percentiles": 0}


async def test_metrics_without_values_have_a_note_and_no_row(tmp_path: Path) -> None:
    changes = measuring("accuracy", "mrr", "cost_total")
    found = await compared(tmp_path, *(job(p, v, **changes) for p, v in (("x", GOOD), ("y", BAD))))
    (headline,) = [grid for grid in comparison_grids(found) if grid.rows]
    assert [row[0] for row in headline.rows] == ["accuracy"]
    (pair,) = found.comparisons
    assert pair.notes == ("not compared, because there is no value per item: cost_total",)
    assert any(row.metric == "mrr" and not row.found.n for row in pair.rows)


async def test_items_that_are_not_paired_are_counted_by_side_and_reason(tmp_path: Path) -> None:
    a, b = {**GOOD, "q000": None}, dict(list(BAD.items())[:50])
    found = await compared(tmp_path, job("x", a), job("y", b, planned=60), force=True)
    (headline,) = comparison_grids(found)
    assert "items: A 60, B 60, paired 49; not paired of A: error=1, not_in_this_run=0" not in headline.notes
    assert any(
        note.startswith("items: A 60, B 60, paired 49; not paired of A: error=1; of B: pending=10")
        for note in headline.notes
    )
    assert headline.title.startswith("NOT LIKE FOR LIKE | ")
    assert any(note.startswith("NOT LIKE FOR LIKE: ") and "items: A has" in note for note in headline.notes)
    assert all(text.startswith("NOT LIKE FOR LIKE, do not quote: ") for text in conclusions(found))
    assert comparison_markdown(found).startswith(
        "# Comparison\n\n**NOT LIKE FOR LIKE: forced. Do not quote these numbers as a comparison.**\n"
    )


async def test_items_of_the_other_run_only_count_as_not_in_this_run(tmp_path: Path) -> None:
    found = await compared(tmp_path, job("x", dict(list(GOOD.items())[:50])), job("y", BAD), force=True)
    assert found.comparisons[0].items.excluded == {"a": {"not_in_this_run": 10}, "b": {}}


async def test_too_few_clusters_for_any_finding_are_reported_as_undecidable(tmp_path: Path) -> None:
    corpora = {name: f"c{at % 4}" for at, name in enumerate(ITEMS)}
    jobs = [job(p, v, types=TYPES, corpora=corpora, cluster_by="corpus") for p, v in (("x", GOOD), ("y", BAD))]
    found = await compared(tmp_path, *jobs)
    headline, exploratory = comparison_grids(found)
    assert headline.notes[0] == "verdict on accuracy: cannot be decided: 4 conversations"
    assert "cannot be decided: 4 conversations can give no p below 0.125 (accuracy)" in headline.notes
    assert [line[HEAD.index("MDE")] for line in (*headline.rows, *exploratory.rows)] == ["-"] * 3
    assert {line[HEAD.index("difference")] for line in (*headline.rows, *exploratory.rows)} == {"cannot be decided"}
    assert any("over 4 clusters (corpus)" in note for note in headline.notes)
    assert (
        "cannot be decided: 2 conversations can give no p below 0.5 (accuracy: t0, accuracy: t1)" in exploratory.notes
    )
    (text,) = conclusions(found)
    assert "over 60 paired items in 4 clusters (corpus)" in text
    assert "cannot be decided: 4 conversations give no p below 0.125" in text


async def test_embedding_models_that_differ_by_design_are_noted(tmp_path: Path) -> None:
    other = ModelNames(embedding="acme/e", answering="acme/m1", judge=None)
    found = await compared(tmp_path, job("x", GOOD), job("y", BAD, models=other))
    notes = comparison_grids(found)[0].notes
    assert "differs by design: embedding model: A has none, B has acme/e" in notes
    assert not any("differs by design: provider:" in note for note in notes), (
        "the provider is the subject of the comparison"
    )


async def test_conclusions_of_several_benchmarks_name_their_benchmark(tmp_path: Path) -> None:
    tales = {"benchmark": "tales", "lane": "tales", "answer_owner": "tales"}
    jobs = [job("x", GOOD), job("y", BAD)]
    others = [job(p, v, key=f"tales-{p}", **tales) for p, v in (("x", GOOD), ("y", BAD))]
    groups = [await sides(tmp_path / "1", *jobs), await sides(tmp_path / "2", *others)]
    found = compare_sides(groups)
    assert [text.partition(":")[0] for text in conclusions(found)] == ["facts", "tales"]
    assert [one.is_against_first for one in found.comparisons] == [True, True]
    text = comparison_markdown(found)
    assert text.startswith("# Comparison\n\n### Conclusion\n") and "**" not in text


async def test_latencies_are_shown_in_ms_and_tokens_in_tokens(tmp_path: Path) -> None:
    changes = measuring("latency_mean", "tokens_context")
    slow = {name: 2_000_000.0 + at for at, name in enumerate(ITEMS)}
    fast = {name: 1_000_000.0 + at for at, name in enumerate(ITEMS)}
    few, many = dict.fromkeys(ITEMS, 1500.0), {name: 3000.0 + at for at, name in enumerate(ITEMS)}
    jobs = [
        job("x", slow, more={"tokens_context": few}, **changes),
        job("y", fast, more={"tokens_context": many}, **changes),
    ]
    headline, exploratory = comparison_grids(await compared(tmp_path, *jobs))
    assert headline.rows[0][:5] == ("latency_mean (ms)", "60", "2000", "1000", "+100.0%")
    assert exploratory.rows[0][0] == "tokens_context (tokens)" and exploratory.rows[0][4].startswith("-1529")


async def test_the_title_counts_the_rows_that_are_corrected_together(tmp_path: Path) -> None:
    changes = measuring("accuracy", "mrr", "latency_p50")
    slow = {name: 2_000_000.0 + at * 7 for at, name in enumerate(ITEMS)}
    fast = {name: 1_000_000.0 + at * 9 for at, name in enumerate(ITEMS)}
    jobs = [
        job(provider, values, types=TYPES, more={"mrr": values, "latency_p50": times}, **changes)
        for provider, values, times in (("x", GOOD, slow), ("y", BAD, fast))
    ]
    _, exploratory = comparison_grids(await compared(tmp_path, *jobs))
    assert [row[0] for row in exploratory.rows] == ["  t0", "  t1", "mrr", "latency_p50 (ms)"]
    assert exploratory.title == "exploratory | 4 rows, 3 of them corrected together"
    assert exploratory.notes[0] == "corrected separately, because they have no difference per item: latency_p50 (ms)"


async def test_without_paired_items_the_conclusion_names_the_excluded_ones(tmp_path: Path) -> None:
    nothing: Mapping[str, float | None] = dict.fromkeys(ITEMS[:3])
    found = await compared(tmp_path, job("x", nothing), job("y", dict(list(GOOD.items())[:3])), force=True)
    (text,) = conclusions(found)
    assert text.startswith("NOT LIKE FOR LIKE, do not quote: Nothing can be concluded about accuracy: ")
    assert "no item is scored on both sides (0 paired items" in text and "error" in text
    assert comparison_grids(found)[0].rows[0][1:8] == ("0", "-", "-", "-", "-", "-", "not testable")


async def test_compare_sides_rejects_fewer_than_two_sides(tmp_path: Path) -> None:
    (side,) = await sides(tmp_path, job("x", GOOD))
    for groups in ([], [[]], [[side]], [[side], [side]]):
        with pytest.raises(UsageError) as refused:
            compare_sides(groups)
        output = ("a comparison needs two sides", "name two sides as RUN_ID:PROVIDER")
        assert (str(refused.value), refused.value.hint) == output


async def test_a_side_compared_with_itself_is_not_better(tmp_path: Path) -> None:
    (side,) = await sides(tmp_path, job("x", GOOD))
    (row,) = compare_sides([[side, side]]).comparisons[0].rows
    assert (row.found.delta, row.found.p, row.better) == (0.0, 1.0, None)


# ------------------------------------------------------------------------------ which metrics


async def test_metrics_to_compare_accepts_aliases_and_rejects_a_metric_that_one_side_lacks(tmp_path: Path) -> None:
    changes = measuring("accuracy", "ndcg_at_10", "latency_p50")
    a, b = await sides(tmp_path, job("x", GOOD, **changes), job("y", BAD, **changes))
    assert metrics_to_compare(a, b, ["nDCG@10", "ndcg", "ACCURACY"]) == ["ndcg_at_10", "accuracy"]
    assert metrics_to_compare(a, b, []) == ["accuracy", "ndcg_at_10", "latency_p50"]
    with pytest.raises(UsageError) as refused:
        metrics_to_compare(a, b, ["mrr"])
    assert str(refused.value) == "the metric mrr was not computed for both sides of facts"
    assert (
        refused.value.hint == "metrics of both sides: accuracy, ndcg_at_10, latency_p50; "
        "add a metric with: bench rescore RUN_ID --metrics METRIC"
    )
    other = replace(b, measures={})
    with pytest.raises(UsageError) as refused:
        metrics_to_compare(a, other, ["accuracy"])
    assert refused.value.hint == "metrics of both sides: none; add a metric with: bench rescore RUN_ID --metrics METRIC"
    assert metrics_to_compare(a, other, []) == []


async def test_the_headline_is_the_first_metric_that_applies_on_both_sides(tmp_path: Path) -> None:
    changes = measuring("accuracy", "mrr")
    silent = ModelNames(embedding=None, answering=None, judge=None)
    measured: Mapping[str, float | None] = dict.fromkeys(ITEMS)
    jobs = [job(p, measured, models=silent, more={"mrr": GOOD}, **changes) for p in ("x", "y")]
    a, b = await sides(tmp_path / "1", *jobs)
    assert headline_metrics(["accuracy", "mrr"], a, b, wanted=()) == ["accuracy"], (
        "without any value the first metric is used"
    )
    assert headline_metrics([], a, b, wanted=()) == []
    assert headline_metrics(["mrr", "accuracy"], a, b, wanted=["x"]) == ["mrr", "accuracy"]
    speaking = replace(silent, answering="acme/m1")
    answered = [replace(one, record=replace(one.record, models=speaking)) for one in jobs]
    a, b = await sides(tmp_path / "2", *answered)
    assert headline_metrics(["accuracy", "mrr"], a, b, wanted=()) == ["accuracy"], (
        "unscored answers do not change the headline"
    )


# ------------------------------------------------------------------------------ gates


def row(**changes: object) -> ComparisonRow:
    found = Comparison(n=50, excluded=0, a=0.7, b=0.5, delta=0.2, p=0.01, mde=0.05, test="paired_t")
    plain = ComparisonRow(
        metric="accuracy", definition="accuracy/1", dimension=None, label=None, lower_is_better=False, unit=None,
        is_ratio=False, family="headline", found=found, p_adjusted=0.01,
    )  # fmt: skip
    return replace(plain, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("delta", "lower", "points", "missed"),
    [
        (0.2, False, 19.9, True), (0.2, False, 20, False), (0.2, False, 25, False), (-0.2, False, 0, False),
        (0.0, False, 0, False), (0.3, False, 30, False), (0.8 - 0.5, False, 30, False), (-0.2, True, 10, True),
        (0.2, True, 0, False), (1e-15, False, 0, False),
    ],
)  # fmt: skip
async def test_the_regression_gate_fails_only_above_the_allowed_points(
    tmp_path: Path, delta: float, lower: bool, points: float, missed: bool
) -> None:
    found = await compared(tmp_path, job("x", GOOD), job("y", BAD))
    (pair,) = found.comparisons
    changed = row(found=replace(row().found, delta=delta), lower_is_better=lower)
    (one,) = gate_outcomes(replace(found, comparisons=(replace(pair, rows=(changed,)),)), points)
    assert one.missed is missed
    assert one.text.startswith("regression: " if missed else "no regression: ")


async def test_the_regression_gate_prints_difference_interval_and_limit(tmp_path: Path) -> None:
    found = await compared(tmp_path, job("x", GOOD), job("y", BAD))
    (pair,) = found.comparisons
    span = Interval(low=0.1, high=0.3, level=0.95, method="t")
    shown = row(found=replace(row().found, interval=span))
    (one,) = gate_outcomes(replace(found, comparisons=(replace(pair, rows=(shown,)),)), 5)
    assert one.text == (
        "regression: accuracy of y (run r) against x (run r): A - B = +0.2 [0.1, 0.3], allowed 5 points"
    )
    nothing = row(found=Comparison(n=0, excluded=3, note="no item is scored on both sides"), p_adjusted=None)
    (one,) = gate_outcomes(replace(found, comparisons=(replace(pair, rows=(nothing,)),)), 5)
    assert one.missed
    assert one.text == "gate failed: accuracy of y (run r) against x (run r): no item is scored on both sides"
    later = replace(found, comparisons=(replace(pair, is_against_first=False),))
    assert list(gate_outcomes(later, 0)) == [], "only the first side named is a baseline"


# ------------------------------------------------------------------------------ names and settings


async def test_parse_targets_returns_given_and_selected_targets(tmp_path: Path) -> None:
    await made(tmp_path, "r1", [job("x", GOOD), job("y", BAD)])
    await rebuild(tmp_path)
    pairs = await parse_targets(tmp_path, ["r1:x", "r1:y"], benchmark=None, providers=())
    assert [(target.run, target.provider, target.job, chosen) for target, chosen in pairs] == [
        ("r1", "x", None, None), ("r1", "y", None, None),
    ]  # fmt: skip
    named = await parse_targets(tmp_path, [], benchmark="facts", providers=("y", "x"))
    assert [(target.run, target.job) for target, _ in named] == [("r1", "job-y"), ("r1", "job-x")]
    assert all(chosen is not None and chosen.benchmark == "facts" for _, chosen in named)
    with pytest.raises(UsageError) as refused:
        await parse_targets(tmp_path, [], benchmark="facts", providers=("x", "x"))
    assert "second" in refused.value.hint


async def test_sides_of_an_unknown_job_names_the_jobs_of_the_run(tmp_path: Path) -> None:
    await made(tmp_path, "r1", [job("x", GOOD)])
    await made(tmp_path, "r2", [])
    for text, message, hint in (
        ("r1:z", "run r1 has no job z", "jobs of this run: facts x x"),
        ("r2:x", "run r2 has no job x", "jobs of this run: none"),
        ("r1:x:acme/m9", "run r1 has no job x", "jobs of this run: facts x x"),
    ):  # fmt: skip
        with pytest.raises(UsageError) as refused:
            await sides_of(tmp_path, [ComparisonTarget.parse(text)], benchmark=None)
        assert (str(refused.value), refused.value.hint) == (message, hint)


async def test_sides_without_a_common_benchmark_are_rejected(tmp_path: Path) -> None:
    await made(tmp_path, "r1", [job("x", GOOD)])
    await made(tmp_path, "r2", [job("y", BAD, benchmark="tales")])
    groups = await sides_of(tmp_path, [ComparisonTarget.parse("r1:x"), ComparisonTarget.parse("r2:y")], benchmark=None)
    with pytest.raises(UsageError, match="benchmark: A has facts, B has tales"):
        compare_sides(groups)


async def test_judge_noise_is_the_larger_of_the_two_error_rates(tmp_path: Path) -> None:
    from bench.journal import Event, Reader

    models = ModelNames(embedding=None, answering="acme/m1", judge="acme/j")
    own = record("x", models=models)

    def calibrated(judge: str, fpr: object, fnr: object) -> Event:
        return Event(kind="judge_calibration", data={"judge": judge, "fpr": fpr, "fnr": fnr})

    events = [
        calibrated("acme/other", {"value": 0.9}, {"value": 0.9}), calibrated("acme/j", {"value": 0.1}, {"value": None}),
        calibrated("acme/j", {"value": 0.05}, {"value": 0.2}), calibrated("acme/j", "x", None),
        Event(kind="odd", data={"judge": "acme/j", "fpr": {"value": 1.0}}),
    ]  # fmt: skip
    folder = await write_run(tmp_path, "r", [(own, [ItemData(item="q")])], more=events)
    async with Reader.open(folder) as reader:
        assert await judge_noise(reader, own) == 0.2
        assert await judge_noise(reader, record("x")) is None, "no judge"
        assert await judge_noise(reader, replace(own, models=replace(models, judge="acme/new"))) is None


async def test_items_without_a_value_are_excluded_under_their_state(tmp_path: Path) -> None:
    none = Verdict(evaluator="exact-match", value=None, correct=None)
    ended = [
        ("q1", State.CORRECT, "ok", {"accuracy": 1.0}), ("q2", State.ERROR, "timeout", {}),
        ("q3", State.NOT_READY, "not_ready", {}), ("q4", State.UNSUPPORTED, "unsupported", {}),
        ("q5", State.UNSCORED, "ok", {"accuracy": None}), ("q6", State.MEASURED, "ok", {"accuracy": None}),
    ]  # fmt: skip
    items = [ItemData(item=n, state=s, outcome=o, values=v, verdicts=(none,)) for n, s, o, v in ended]
    right = [ItemData(item=name) for name, *_ in ended]
    await write_run(tmp_path, "r", [(record("x"), items), (record("y"), right)])
    targets = [ComparisonTarget.parse("r:x"), ComparisonTarget.parse("r:y")]
    (pair,) = compare_sides(await sides_of(tmp_path, targets, benchmark=None), force=True).comparisons
    assert pair.items.excluded == {
        "a": {"error": 1, "not_applicable": 1, "not_ready": 1, "unscored": 1, "unsupported": 1}, "b": {},
    }  # fmt: skip
    assert json.loads(json.dumps(comparison_json(compare_sides([[pair.b, pair.b]]))))["forced"] is False
    assert len(conclusion_sentences(pair)) == 1


JUDGED = {
    ("accuracy", "llm-judge"): True, ("accuracy", "exact-match"): False, ("accuracy.llm_judge", "exact-match"): True,
    ("accuracy.exact_match", "llm-judge"): False, ("correctness", "rubric"): True,
    ("faithfulness", "exact-match"): True, ("answer_length", "llm-judge"): False, ("hit_at_10", "llm-judge"): False,
    ("token_f1", "llm-judge"): False, ("accuracy_macro", "llm-judge"): True,
}  # fmt: skip


@pytest.mark.parametrize(("metric", "evaluator"), JUDGED)
async def test_judge_noise_applies_only_to_metrics_that_a_judge_decides(
    tmp_path: Path, metric: str, evaluator: str
) -> None:
    models = ModelNames(embedding=None, answering="acme/m1", judge="acme/j")
    changes = {**measuring(metric), "models": models, "evaluators": (evaluator,)}
    a, b = await sides(tmp_path, job("x", GOOD, **changes), job("y", BAD, **changes))
    a, b = replace(a, judge_noise=0.1), replace(b, judge_noise=0.3)
    (pair,) = compare_sides([[a, b]]).comparisons
    assert pair.judge_noise == 0.3, "the larger of the two"
    assert {row.noise for row in pair.rows} == {0.3 if JUDGED[metric, evaluator] else None}
    unjudged = [replace(one, record=replace(one.record, models=replace(models, judge=None))) for one in (a, b)]
    (pair,) = compare_sides([unjudged]).comparisons
    assert {row.noise for row in pair.rows} == {None}
