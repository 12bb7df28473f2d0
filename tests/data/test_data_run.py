"""A run over the shipped data ranks the built-in providers in the expected order."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests import forked

PROVIDERS = ("oracle", "bm25", "random", "no-memory", "full-context")
BENCHMARKS = ("demo", "demo-deletion", "rag-template", "legal-rag", "financial-rag", "code-rag")
Jobs = dict[tuple[str, str], dict[str, object]]


@pytest.fixture(scope="module")
def jobs(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    """Return the jobs of one run of every shipped benchmark with every provider that needs no key."""
    workspace = tmp_path_factory.mktemp("workspace")
    chosen = ["--benchmarks", ",".join(BENCHMARKS), "--providers", ",".join(PROVIDERS)]
    command = [sys.executable, "-m", "bench", "--workspace", str(workspace), "run", *chosen]
    done = forked.run(
        [*command, "--answering-model", "builtin/extractive", "--allow-code-execution"],
        cwd=root,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr
    (report,) = workspace.glob("results/*/report.json")
    expected = json.loads(report.read_text("utf-8"))["results"]["jobs"]
    return {(job["benchmark"], job["provider"]): job for job in expected}


def value(jobs: Jobs, benchmark: str, provider: str, metric: str) -> float:
    return jobs[benchmark, provider]["metrics"][metric]["value"]  # type: ignore[index,no-any-return]


def test_the_demo_ranks_oracle_above_bm25_above_random_above_no_memory(jobs: Jobs) -> None:
    oracle, bm25, chance, none = (value(jobs, "demo", provider, "ndcg_at_10") for provider in PROVIDERS[:4])
    assert oracle == 1.0
    assert oracle > bm25 > chance > none == 0.0
    assert bm25 == pytest.approx(0.61, abs=0.02)


def test_full_context_and_oracle_answer_the_demo_at_least_as_well_as_bm25(jobs: Jobs) -> None:
    assert value(jobs, "demo", "full-context", "accuracy") >= value(jobs, "demo", "bm25", "accuracy")
    assert value(jobs, "demo", "oracle", "accuracy") > value(jobs, "demo", "bm25", "accuracy")


def test_every_item_of_every_shipped_benchmark_is_scored(jobs: Jobs) -> None:
    for (benchmark, provider), job in jobs.items():
        if job["skipped"] is None:
            assert job["error_kinds"] == {}, (benchmark, provider)
            assert job["n_scored"] == job["n_planned"], (benchmark, provider)


@pytest.mark.parametrize("benchmark", ["demo", "rag-template", "legal-rag", "financial-rag", "code-rag"])
def test_the_extractive_reader_answers_some_items_of_each_benchmark(jobs: Jobs, benchmark: str) -> None:
    metric = "correctness" if benchmark == "rag-template" else "accuracy"
    assert 0.2 < value(jobs, benchmark, "bm25", metric) < 0.9


def test_the_oracle_finds_all_evidence_of_the_document_sets(jobs: Jobs) -> None:
    assert value(jobs, "rag-template", "oracle", "ndcg_at_5") == 1.0
    assert value(jobs, "legal-rag", "oracle", "ndcg_at_10") == 1.0
    assert value(jobs, "financial-rag", "oracle", "ndcg_at_10") == 1.0


def test_bm25_deletes_memories_and_providers_without_delete_are_skipped(jobs: Jobs) -> None:
    assert value(jobs, "demo-deletion", "bm25", "correctness") == 1.0
    assert jobs["demo-deletion", "bm25"]["n_scored"] == 10
    for provider in ("oracle", "no-memory"):
        assert "needs delete_memory" in str(jobs["demo-deletion", provider]["skipped"])


def test_citations_of_several_clauses_count_in_part(jobs: Jobs) -> None:
    whole = value(jobs, "legal-rag", "oracle", "accuracy")
    assert whole == pytest.approx(0.85)
    assert value(jobs, "legal-rag", "oracle", "legal_citation_accuracy") > whole
