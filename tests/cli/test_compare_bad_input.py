"""Bad input of ``bench compare``: an error of two lines, or a result without a claim."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from bench.journal import RunState
from bench.plan.job_record import MetricRecord
from tests.small_journal import RECORD, Job, made, measuring, record

Bench = Callable[..., Any]
ITEMS = [f"q{at:02d}" for at in range(24)]
MIXED = {item: float(at % 3 != 0) for at, item in enumerate(ITEMS)}
OTHER = {item: float(at % 4 != 0) for at, item in enumerate(ITEMS)}
SOME = {item: f"c{at % 4}" for at, item in enumerate(ITEMS)}
ONE = dict.fromkeys(ITEMS, "c0")


def write(workspace: Path, *sides: Job, state: RunState = RunState.COMPLETE) -> list[str]:
    """Write one run per side and return the sides as command-line arguments."""
    named = []
    for at, job in enumerate(sides, start=1):
        own = state if at == 1 else RunState.COMPLETE
        anyio.run(partial(made, workspace, f"r{at}", [job], state=own))
        named.append(f"r{at}:{job.record.provider}")
    return named


def side(provider: str, values: Mapping[str, float | None], **changes: object) -> Job:
    return Job(record=record(provider, **changes), values=values)


def assert_sound(document: dict[str, Any]) -> None:
    """Assert that intervals have a width, that p is in (0, 1], and that no verdict claims equality."""
    for pair in document["comparisons"]:
        for row in pair["rows"]:
            interval = row["interval"]
            assert interval is None or interval["low"] < interval["high"], row
            assert row["p"] is None or 0 < row["p"] <= 1, row
            assert "equal" not in row["verdict"]


LIKE = {
    "one item, right against wrong": (side("x", {"q": 1.0}), side("y", {"q": 0.0})),
    "one item, both right": (side("x", {"q": 1.0}), side("y", {"q": 1.0})),
    "all right": (side("x", dict.fromkeys(ITEMS, 1.0)), side("y", dict.fromkeys(ITEMS, 1.0))),
    "all wrong": (side("x", dict.fromkeys(ITEMS, 0.0)), side("y", dict.fromkeys(ITEMS, 0.0))),
    "all against": (side("x", dict.fromkeys(ITEMS, 1.0)), side("y", dict.fromkeys(ITEMS, 0.0))),
    "one fraction against another": (side("x", dict.fromkeys(ITEMS, 0.5)), side("y", dict.fromkeys(ITEMS, 0.25))),
}


@pytest.mark.parametrize("case", LIKE)
@pytest.mark.parametrize("corpora", [{}, SOME, ONE], ids=["unclustered", "four clusters", "one cluster"])
def test_degenerate_data_is_compared_without_an_unfounded_claim(
    bench: Bench, tmp_path: Path, case: str, corpora: Mapping[str, str]
) -> None:
    cluster_by = "corpus" if corpora else None
    jobs = [replace(job, record=replace(job.record, cluster_by=cluster_by), corpora=corpora) for job in LIKE[case]]
    named = write(tmp_path, *jobs)
    document = json.loads(bench("compare", *named, "--json").stdout)
    assert_sound(document)
    (row,) = document["comparisons"][0]["rows"]
    text = bench("compare", *named).stdout
    assert text.startswith("conclusion: ") and "Traceback" not in text
    if corpora is ONE and len(jobs[0].values) > 1:
        assert row["verdict"] == "not testable: one cluster" and row["p"] is None and row["interval"] is None
        assert "Nothing can be concluded about accuracy: one cluster" in text
    if corpora is SOME and len(jobs[0].values) > 1:
        assert row["better"] is None, "four clusters give no p below 0.125"


def test_too_few_clusters_for_any_finding_are_reported_as_undecidable(bench: Bench, tmp_path: Path) -> None:
    jobs = [replace(side(p, v, cluster_by="corpus"), corpora=SOME) for p, v in (("x", MIXED), ("y", OTHER))]
    named = write(tmp_path, *jobs)
    (row,) = json.loads(bench("compare", *named, "--json").stdout)["comparisons"][0]["rows"]
    assert row["verdict"] == "cannot be decided: 4 conversations" and row["mde"] is None
    assert "cannot be decided: 4 conversations give no p below 0.125" in bench("compare", *named).stdout


REFUSED = {
    "no item in common": (side("x", {"q1": 1.0}), side("y", {"z1": 1.0}), "items: A has n=1"),
    "other items of the same number": (side("x", MIXED), side("y", {f"z{n}": 1.0 for n in range(24)}), "items: A has"),
    "INVALID": (side("x", {**MIXED, "q00": None, "q01": None}), side("y", OTHER), "valid: A has INVALID"),
    "items to come": (replace(side("x", MIXED), planned=30), side("y", OTHER), "complete: A has complete, 24 of 30"),
    "two definitions under one name": (
        side("x", MIXED),
        side("y", OTHER, metrics=(replace(RECORD.metrics[0], definition="accuracy/2"),)),
        "metric definition: A has accuracy=accuracy/1, B has accuracy=accuracy/2",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_sides_that_are_not_comparable_are_rejected_with_each_difference_and_marked_if_forced(
    bench: Bench, tmp_path: Path, case: str
) -> None:
    *jobs, output = REFUSED[case]
    named = write(tmp_path, *jobs)
    done = bench("compare", *named, check=2)
    assert done.stdout == "" and done.stderr.count("\n  ") + 2 == done.stderr.count("\n")
    assert output in done.stderr and "--force" in done.stderr
    refusal = json.loads(bench("compare", *named, "--json", check=2).stdout)["error"]
    assert refusal["kind"] == "usage" and output in refusal["message"] and refusal["hint"]
    text = bench("compare", *named, "--force").stdout
    assert text.startswith("conclusion: NOT LIKE FOR LIKE, do not quote: ")
    assert re.search(r"^NOT LIKE FOR LIKE \| facts 1", text, re.MULTILINE)
    document = json.loads(bench("compare", *named, "--force", "--json").stdout)
    assert document["forced"] is True and document["comparisons"][0]["like_for_like"]["ok"] is False
    assert_sound(document)


def test_compare_rejects_a_paused_run(bench: Bench, tmp_path: Path) -> None:
    named = write(tmp_path, side("x", MIXED), side("y", OTHER), state=RunState.PAUSED)
    assert "complete: A has paused" in bench("compare", *named, check=2).stderr


def test_a_forced_comparison_without_common_items_concludes_nothing(bench: Bench, tmp_path: Path) -> None:
    named = write(tmp_path, side("x", {"q1": 1.0}), side("y", {"z1": 1.0}))
    text = bench("compare", *named, "--force").stdout
    assert "Nothing can be concluded about accuracy: no item is scored on both sides (0 paired items" in text
    assert "1 not in this run" in text


ARGUMENTS = {
    "one side": (("r1:x",), "needs two sides"),
    "no colon": (("r1", "r2:y"), "is not RUN_ID:PROVIDER"),
    "an unknown run": (("r1:x", "r9:y"), "r9"),
    "an unknown provider": (("r1:x", "r2:z"), "has no job z"),
    "an unknown model": (("r1:x:acme/m9", "r2:y"), "has no job"),
    "names without a benchmark": (("--providers", "x", "y"), "no sides to compare were given"),
    "both ways to name": (("r1:x", "r2:y", "--providers", "x"), "cannot be used together"),
    "an unknown metric": (("r1:x", "r2:y", "--metric", "acuracy"), "acuracy"),
    "a metric that they lack": (("r1:x", "r2:y", "--metric", "mrr"), "for both sides"),
    "another benchmark": (("r1:x", "r2:y", "--benchmark", "nope"), "has no job"),
    "a gate without points": (("r1:x", "r2:y", "--fail-on-regression", "accuracy"), "METRIC:POINTS"),
    "a gate below nothing": (("r1:x", "r2:y", "--fail-on-regression", "accuracy:-1"), "METRIC:POINTS"),
    "a gate of no number": (("r1:x", "r2:y", "--fail-on-regression", "accuracy:nan"), "METRIC:POINTS"),
    "a gate on an unknown metric": (("r1:x", "r2:y", "--fail-on-regression", "acuracy:1"), "acuracy"),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_an_invalid_argument_of_compare_is_an_error_of_two_lines_and_prints_no_result(
    bench: Bench, tmp_path: Path, case: str
) -> None:
    write(tmp_path, side("x", MIXED), side("y", OTHER))
    arguments, output = ARGUMENTS[case]
    done = bench("compare", *arguments, check=2)
    assert output in done.stderr and done.stderr.count("\n") == 2 and done.stdout == ""


def test_the_regression_gate_prints_the_difference_whether_it_passes_or_fails(bench: Bench, tmp_path: Path) -> None:
    named = write(tmp_path, side("x", OTHER), side("y", MIXED))
    assert "no regression: accuracy of y" in bench("compare", *named, "--fail-on-regression", "accuracy:10").stderr
    done = bench("compare", *named, "--fail-on-regression", "accuracy:5", "--json", check=4)
    assert re.search(r"regression: .* A - B = \+0\.0833 \[-?\d.*\], allowed 5 points", done.stderr)
    assert json.loads(done.stdout)["kind"] == "comparison"


def test_the_regression_gate_fails_if_its_metric_has_no_value(bench: Bench, tmp_path: Path) -> None:
    changes = measuring("accuracy", "mrr")
    named = write(tmp_path, side("x", MIXED, **changes), side("y", OTHER, **changes))
    done = bench("compare", *named, "--fail-on-regression", "mrr:1", check=4)
    assert "gate failed: mrr" in done.stderr


def test_latencies_are_compared_by_ratio_and_their_gate_is_in_percent(bench: Bench, tmp_path: Path) -> None:
    metric = MetricRecord(
        name="latency_mean", definition="latency_mean/1", category="performance", unit="ms", lower_is_better=True
    )
    changes = {"metrics": (metric,), "metric_entries": ("latency_mean",)}
    fast = {item: 1000.0 + 7 * at for at, item in enumerate(ITEMS)}
    slow = {item: value * 1.1 + at % 3 for at, (item, value) in enumerate(fast.items())}
    named = write(tmp_path, side("fast", fast, **changes), side("slow", slow, **changes))
    bench("compare", *named, "--fail-on-regression", "latency_mean:12")
    bench("compare", *named, "--fail-on-regression", "latency_mean:9.7", check=4)
    assert "A (fast) is better than B (slow) on latency_mean" in bench("compare", *named).stdout


def test_the_gate_of_a_latency_is_a_share_of_the_first_latency(bench: Bench, tmp_path: Path) -> None:
    metric = MetricRecord(
        name="latency_mean", definition="latency_mean/1", category="performance", unit="ms", lower_is_better=True
    )
    changes = {"metrics": (metric,), "metric_entries": ("latency_mean",)}
    fast = {item: 1000.0 + 7 * at for at, item in enumerate(ITEMS)}
    slow = {item: value * 3 for item, value in fast.items()}
    named = write(tmp_path, side("fast", fast, **changes), side("slow", slow, **changes))
    bench("compare", *named, "--fail-on-regression", "latency_mean:201")
    done = bench("compare", *named, "--fail-on-regression", "latency_mean:199", check=4)
    assert "B / A - 1 = +200%" in done.stderr and "allowed 199%" in done.stderr
    bench("compare", *reversed(named), "--fail-on-regression", "latency_mean:0")
