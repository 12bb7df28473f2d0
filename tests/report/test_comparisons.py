"""Comparisons of journals: paired items, statistical tests, rejected sides and conclusions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bench import stats
from bench.errors import UsageError
from bench.journal import Event, RunState
from bench.plan.job_record import MetricRecord, ModelNames
from bench.plan.shared_builds import PROVIDER_VERSION
from bench.report.comparison.compare import compare_sides
from bench.report.comparison.comparison_rows import Comparisons, PairComparison, conclusion_sentences, gate_outcomes
from bench.report.comparison.comparison_targets import ComparisonTarget, sides_of
from bench.report.comparison.formats import comparison_json, comparison_markdown
from tests.small_journal import RECORD, Job, made, record

NAMES = [f"q{n:03d}" for n in range(60)]
GOOD = {name: float(n % 4 != 0) for n, name in enumerate(NAMES)}
BAD = {name: float(n % 4 == 0) for n, name in enumerate(NAMES)}


async def compared(workspace: Path, *targets: str, force: bool = False, metrics: Sequence[str] = ()) -> Comparisons:
    groups = await sides_of(workspace, [ComparisonTarget.parse(text) for text in targets], benchmark=None)
    return compare_sides(groups, metrics=metrics, force=force)


async def pair_of(workspace: Path, a: Job, b: Job, *, force: bool = False) -> PairComparison:
    await made(workspace, "r1", [a])
    await made(workspace, "r2", [b])
    targets = f"r1:{a.record.provider}", f"r2:{b.record.provider}"
    return (await compared(workspace, *targets, force=force)).comparisons[0]


def job(provider: str, values: dict[str, float | None], **changes: object) -> Job:
    return Job(record=record(provider, **changes), values=values)


def assert_rows_are_sound(one: PairComparison) -> None:
    for row in one.rows:
        interval = row.found.interval
        assert interval is None or interval.low < interval.high
        for number in (row.found.delta, row.found.p, row.p_adjusted, row.found.mde):
            assert number is None or math.isfinite(number)
        assert row.verdict and "equal" not in row.verdict
    assert all(text.endswith(".") for text in conclusion_sentences(one))


async def test_a_clear_difference_names_the_better_side(tmp_path: Path) -> None:
    one = await pair_of(tmp_path, job("good", dict(GOOD)), job("bad", dict(BAD)))
    (row,) = one.rows
    assert (row.found.a, row.found.b, row.found.n) == (0.75, 0.25, 60)
    assert row.found.test == "mcnemar_exact" and row.verdict == "A higher" and row.better == "a"
    (text,) = conclusion_sentences(one)
    assert text.startswith("A (good) is better than B (bad) on accuracy") and "60 paired items" in text
    assert_rows_are_sound(one)


async def test_only_items_scored_on_both_sides_are_paired_and_the_others_are_counted_by_side(tmp_path: Path) -> None:
    left: dict[str, float | None] = {**GOOD, "q000": None}
    right: dict[str, float | None] = {**BAD, "q001": None, "q002": None}
    one = await pair_of(tmp_path, job("good", left), job("bad", right), force=True)
    assert one.items.paired == one.rows[0].found.n == 57
    assert one.items.excluded == {"a": {"error": 1}, "b": {"error": 2}}


async def test_flips_are_the_items_on_which_one_side_is_better(tmp_path: Path) -> None:
    one = await pair_of(
        tmp_path, job("x", {"q1": 1.0, "q2": 0.0, "q3": 1.0}), job("y", {"q1": 0.0, "q2": 1.0, "q3": 1.0})
    )
    assert one.items.flips == {"a": ("q1",), "b": ("q2",)}


NUMBER_CASES = {
    "one item": ({"q1": 1.0}, {"q1": 0.0}),
    "all right": (dict.fromkeys(NAMES, 1.0), dict.fromkeys(NAMES, 1.0)),
    "all wrong": (dict.fromkeys(NAMES, 0.0), dict.fromkeys(NAMES, 0.0)),
    "all against": (dict.fromkeys(NAMES, 1.0), dict.fromkeys(NAMES, 0.0)),
    "fractions, all alike": (dict.fromkeys(NAMES, 0.3), dict.fromkeys(NAMES, 0.2)),
}


@pytest.mark.parametrize("case", NUMBER_CASES)
@pytest.mark.parametrize("clusters", [None, "one", "some"])
async def test_degenerate_values_give_no_interval_without_width(
    tmp_path: Path, case: str, clusters: str | None
) -> None:
    a, b = NUMBER_CASES[case]
    cluster_by = None if clusters is None else "corpus"
    corpora = {name: "c0" if clusters == "one" else f"c{at % 6}" for at, name in enumerate(a)}
    sides = [
        Job(record=record(name, cluster_by=cluster_by), values=values, corpora=corpora)
        for name, values in (("x", a), ("y", b))
    ]
    one = await pair_of(tmp_path, *sides)
    assert_rows_are_sound(one)
    if clusters == "one" and len(a) > 1:
        assert one.rows[0].verdict == "not testable: one cluster"
        assert one.rows[0].found.p is None and one.rows[0].found.interval is None


async def test_runs_without_a_common_item_are_rejected_and_not_testable_if_forced(tmp_path: Path) -> None:
    a, b = job("x", {"q1": 1.0}), job("y", {"z1": 1.0})
    with pytest.raises(UsageError, match="items: A has n=1"):
        await pair_of(tmp_path, a, b)
    found = await compared(tmp_path, "r1:x", "r2:y", force=True)
    (row,) = found.comparisons[0].rows
    assert row.verdict == "not testable: no item is scored on both sides" and row.found.n == 0
    assert_rows_are_sound(found.comparisons[0])


DIFFERENCES: dict[str, dict[str, object]] = {
    "benchmark version": {"benchmark_version": "2"},
    "dataset": {"dataset": {"content_sha256": "e" * 64}},
    "k": {"k": 5},
    "context budget": {"context_budget": 900},
    "track": {"track": "vendor"},
    "answer prompt": {"prompts": {"answer.default": "z" * 64}},
    "answering model": {"models": ModelNames(embedding=None, answering="acme/m2", judge=None)},
    "judge model": {"models": ModelNames(embedding=None, answering="acme/m1", judge="acme/j")},
    "sample seed": {"selection": {"sample": 60, "seed": 3}},
    "metric definition": {"metrics": (replace(RECORD.metrics[0], definition="accuracy/2"),)},
}


@pytest.mark.parametrize("name", DIFFERENCES)
async def test_a_setting_that_affects_scores_and_differs_is_rejected_with_both_values(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(UsageError, match=f"{name}: A has .*, B has ") as caught:
        await pair_of(tmp_path, job("x", dict(GOOD)), job("y", dict(GOOD), **DIFFERENCES[name]))
    assert caught.value.exit_code == 2 and "--force" in caught.value.hint


async def test_a_forced_comparison_is_marked_in_json_and_markdown(tmp_path: Path) -> None:
    await made(tmp_path, "r1", [job("x", dict(GOOD)), job("y", dict(GOOD), k=5)])
    found = await compared(tmp_path, "r1:x", "r1:y", force=True)
    assert comparison_json(found)["forced"] is True
    assert comparison_markdown(found).count("NOT LIKE FOR LIKE") >= 2


async def test_embedding_model_and_provider_config_can_differ(tmp_path: Path) -> None:
    other = ModelNames(embedding="acme/e2", answering="acme/m1", judge=None)
    right = job("y", dict(GOOD), models=other, config_sha256={"benchmark": "b", "provider": "q" * 64})
    one = await pair_of(tmp_path, job("x", dict(GOOD)), right)
    assert {check.name for check in one.comparability.by_design} == {"provider", "provider_config", "embedding_model"}


async def test_the_reported_versions_of_both_systems_are_compared(tmp_path: Path) -> None:
    def reported(provider: str, *versions: str) -> list[Event]:
        return [
            Event(kind=PROVIDER_VERSION, scope=f"lane-{provider}", data={"upstream": version}) for version in versions
        ]

    await made(tmp_path, "r1", [job("x", dict(GOOD))], events=reported("x", "2.1", "2.1", "2.2"))
    await made(tmp_path, "r2", [job("y", dict(GOOD))])
    (one,) = (await compared(tmp_path, "r1:x", "r2:y")).comparisons
    texts = [check.text for check in one.comparability.by_design]
    assert "provider version: A has 2.1 and 2.2, B has unknown" in texts


async def test_two_models_of_one_provider_are_compared_if_the_targets_name_them(tmp_path: Path) -> None:
    jobs = [
        Job(
            record=record("x", key=f"job-{model}", models=ModelNames(embedding=None, answering=model, judge=None)),
            values=dict(values),
        )
        for model, values in (("acme/m1", GOOD), ("acme/m2", BAD))
    ]
    await made(tmp_path, "r1", jobs)
    with pytest.raises(UsageError, match="several jobs"):
        await compared(tmp_path, "r1:x", "r1:x")
    found = await compared(tmp_path, "r1:x:acme/m1", "r1:x:acme/m2")
    assert found.comparisons[0].rows[0].better == "a"


async def test_invalid_and_partial_jobs_are_rejected(tmp_path: Path) -> None:
    broken: dict[str, float | None] = {**GOOD, "q000": None, "q001": None}
    with pytest.raises(UsageError, match="valid: A has INVALID"):
        await pair_of(tmp_path, job("x", broken), job("y", dict(BAD)))
    await made(tmp_path, "r3", [replace(job("z", dict(GOOD)), planned=61)])
    with pytest.raises(UsageError, match="complete: A has complete, 60 of 61"):
        await compared(tmp_path, "r3:z", "r2:y")
    await made(tmp_path, "r4", [job("w", dict(GOOD))], state=RunState.PAUSED)
    with pytest.raises(UsageError, match="complete: A has paused"):
        await compared(tmp_path, "r4:w", "r2:y")


async def test_headline_and_exploratory_p_values_are_adjusted_separately(tmp_path: Path) -> None:
    types = {name: f"t{at % 3}" for at, name in enumerate(NAMES)}
    await made(
        tmp_path, "r1", [replace(job(p, dict(v)), types=types) for p, v in (("x", GOOD), ("y", BAD), ("z", BAD))]
    )
    found = await compared(tmp_path, "r1:x", "r1:y", "r1:z")
    assert len(found.comparisons) == 3
    assert found.family_size == {"headline": 3, "exploratory": 9, "percentiles": 0}
    rows = [row for one in found.comparisons for row in one.rows]
    for family in ("headline", "exploratory"):
        own = [row for row in rows if row.family == family]
        assert all(row.verdict.startswith("exploratory: ") == (family == "exploratory") for row in own)
    least = min(found.comparisons[0].headlines[0].found.p or 1, found.comparisons[1].headlines[0].found.p or 1)
    assert min(row.p_adjusted or 0 for row in rows if row.family == "headline") == pytest.approx(3 * least)
    for one in found.comparisons:
        own = list(one.rows_of("exploratory"))
        alone = stats.max_t([row.sums for row in own], seed=found.seed)
        expected = [max(row.found.p or 0, min(1.0, 3 * p)) for row, p in zip(own, alone, strict=True)]
        assert [row.p_adjusted for row in own] == expected, "maxT within a pair, times the three pairs"


async def test_epochs_of_an_item_are_reduced_before_pairing(tmp_path: Path) -> None:
    first = Job(record=record("x", epochs=2), values={"q1": 1.0, "q2": 0.0}, epochs={2: {"q1": 0.0, "q2": 0.0}})
    best = Job(record=record("y", epochs=2, epochs_reducer="max"), values=first.values, epochs=first.epochs)
    await made(tmp_path, "r1", [first])
    await made(tmp_path, "r2", [best])
    one = (await compared(tmp_path, "r1:x", "r2:y", force=True)).comparisons[0]
    assert (one.rows[0].found.a, one.rows[0].found.b, one.rows[0].found.n) == (0.25, 0.5, 2)
    assert "epochs_reducer" in {check.name for check in one.comparability.differences}


async def test_the_regression_gate_measures_from_the_first_side(tmp_path: Path) -> None:
    await made(tmp_path, "r1", [job("x", dict(GOOD)), job("y", dict(BAD))])

    async def missed(a: str, b: str, points: float) -> list[bool]:
        return [one.missed for one in gate_outcomes(await compared(tmp_path, a, b), points)]

    assert await missed("r1:x", "r1:y", 49) == [True]
    assert await missed("r1:x", "r1:y", 50) == [False]
    assert await missed("r1:y", "r1:x", 0) == [False]
    assert await missed("r1:x", "r1:x", 0) == [False]


async def test_latencies_are_compared_as_ratios_and_lower_is_better(tmp_path: Path) -> None:
    metric = MetricRecord(
        name="latency_mean", definition="latency_mean/1", category="performance", unit="ms", lower_is_better=True
    )
    changes = {"metrics": (metric,), "metric_entries": ("latency_mean",)}
    slow = {name: 2000.0 + at for at, name in enumerate(NAMES)}
    fast = {name: 1000.0 + at * 3 for at, name in enumerate(NAMES)}
    one = await pair_of(tmp_path, job("slow", dict(slow), **changes), job("fast", dict(fast), **changes))
    (row,) = one.rows
    assert row.found.delta == pytest.approx(0.9, abs=0.2) and row.better == "b"
    assert row.verdict == "B lower, better"


def test_a_target_consists_of_run_provider_and_optional_model() -> None:
    found = ComparisonTarget.parse("r1:vector@big:ollama/llama3:8b")
    assert (found.run, found.provider, found.model) == ("r1", "vector@big", "ollama/llama3:8b")
    for text in ("r1", "r1:", ":p", ""):
        with pytest.raises(UsageError, match="is not RUN_ID:PROVIDER"):
            ComparisonTarget.parse(text)


async def test_the_comparison_json_has_exactly_the_documented_fields(tmp_path: Path) -> None:
    await made(tmp_path, "r1", [job("x", dict(GOOD)), job("y", dict(BAD))])
    found = comparison_json(await compared(tmp_path, "r1:x", "r1:y"))
    assert set(found) == {
        "kind", "version", "level", "alpha", "correction", "family_size", "seed", "forced", "target", "comparisons",
    }  # fmt: skip
    pairs = found["comparisons"]
    assert isinstance(pairs, list)
    (pair,) = pairs
    assert set(pair) == {
        "benchmark", "a", "b", "like_for_like", "items", "cluster_by", "n_clusters", "judge_noise", "rows",
    }  # fmt: skip
    assert set(pair["rows"][0]) == {
        "metric", "definition", "dimension", "label", "n", "a", "b", "delta", "interval", "p", "p_adjusted", "mid_p",
        "test", "wins", "losses", "ties", "mde", "correlation", "better", "family", "verdict",
    }  # fmt: skip
