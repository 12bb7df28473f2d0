"""``bench failures``: every lost item has one reason, and the reasons add up to the lost items."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.small_world import write_codes

READ = ("--answering-model", "builtin/extractive")
Bench = Callable[..., Any]
Ran = Callable[..., None]
Results = Callable[[str], dict[str, Any]]


def losses(bench: Bench, *flags: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(bench("failures", "r", "--json", *flags).stdout)["jobs"]
    return found


@pytest.fixture
def four(ran: Ran) -> None:
    """A run ``r`` of four providers."""
    ran("--run-id", "r", "--providers", "bm25", "no-memory", "oracle", "full-context", "--limit", "40")


def test_the_counts_of_losses_add_up_to_the_items_that_are_not_correct(
    bench: Bench, four: None, results: Results
) -> None:
    states = {job["provider"]: job["counts"] for job in results("r")["jobs"]}
    for job in losses(bench):
        counts = states[job["provider"]]
        assert job["n_lost"] == sum(counts.values()) - counts.get("correct", 0)
        assert job["counts"] == Counter(item["loss"] for item in job["items"])
        assert sum(job["counts"].values()) == job["n_lost"] > 0


def test_the_retrieved_evidence_decides_the_kind_of_loss(bench: Bench, four: None) -> None:
    jobs = {job["provider"]: job for job in losses(bench)}
    assert set(jobs["no-memory"]["counts"]) <= {"not_retrieved", "no_evidence_known"}
    assert not {"not_retrieved", "below_cut"} & set(jobs["oracle"]["counts"])
    for item in jobs["bm25"]["items"]:
        found = {name for hit in item["retrieved"] for name in hit} & set(item["evidence"])
        if item["loss"] == "answer_wrong":
            assert found and item["partial_evidence"] == (found != set(item["evidence"]))
        if item["loss"] == "not_retrieved":
            assert not found and item["evidence"]


def test_evidence_beyond_the_context_budget_is_below_cut(bench: Bench) -> None:
    bench("run", "--run-id", "r", "--providers", "full-context", "--limit", "40", "--context-budget", "40")
    (job,) = losses(bench)
    assert job["counts"]["below_cut"] > 0
    assert "not_retrieved" not in job["counts"], "everything was returned"


def test_in_a_retrieval_only_run_every_loss_is_not_retrieved(bench: Bench) -> None:
    bench("run", "--run-id", "r", "--providers", "bm25", "--limit", "40", "--answering-model", "none", "-k", "1")
    (job,) = losses(bench)
    assert set(job["counts"]) == {"not_retrieved"}
    assert {item["state"] for item in job["items"]} == {"measured"}


def test_failures_filters_by_kind_and_job_without_changing_the_counts(bench: Bench, four: None) -> None:
    (whole,) = losses(bench, "--provider", "bm25")
    (part,) = losses(bench, "--provider", "bm25", "--kind", "answer_wrong")
    assert part["counts"] == whole["counts"]
    assert {item["loss"] for item in part["items"]} == {"answer_wrong"}
    shown = bench("failures", "r", "--kind", "answer_wrong", "not_retrieved").stdout
    assert "answer_wrong" in shown and "no-memory" in shown


@pytest.mark.parametrize(
    ("flags", "text"),
    [(("--kind", "unlucky"), "not_retrieved"), (("--provider", "mem0"), "bm25"), (("--benchmark", "locomo"), "demo")],
)
def test_an_unknown_kind_provider_or_benchmark_is_rejected_with_the_known_ones(
    bench: Bench, four: None, flags: tuple[str, ...], text: str
) -> None:
    done = bench("failures", "r", *flags, check=2)
    assert text in done.stderr and len(done.stderr.splitlines()) == 2


def test_gold_suspect_marks_items_of_an_overlay_and_an_overlay_of_other_data_is_rejected(
    bench: Bench, tmp_path: Path
) -> None:
    rows = [
        {"id": f"c{n}", "content": f"The code is {n}.", "question": f"Code {n}?", "answer": str(n)} for n in range(3)
    ]
    folder = write_codes(tmp_path, rows)
    bench("run", "--run-id", "r", "--benchmarks", "codes", "--providers", "no-memory", *READ)
    (job,) = losses(bench)
    assert job["counts"] == {"no_evidence_known": 3}
    entry = {
        "benchmark": "codes",
        "dataset_sha256": "0" * 64,
        "source": "an audit",
        "items": [{"id": "c1", "kind": "typo"}],
    }
    (folder / "overlays").mkdir()
    overlay = folder / "overlays/audit.yaml"
    overlay.write_text(json.dumps(entry))
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "overlay": "audit"}))
    refused = bench("run", "--run-id", "s", "--benchmarks", "codes", "--providers", "no-memory", *READ, check=2)
    assert "overlay is for the dataset" in refused.stderr
    described = json.loads(bench("describe", "codes", "--json").stdout)
    overlay.write_text(json.dumps({**entry, "dataset_sha256": described["dataset"]["sha256"]}))
    bench("run", "--run-id", "s", "--benchmarks", "codes", "--providers", "no-memory", *READ)
    (job,) = json.loads(bench("failures", "s", "--json").stdout)["jobs"]
    assert job["counts"] == {"gold_suspect": 1, "no_evidence_known": 2}
