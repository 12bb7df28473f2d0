"""``bench retry``, ``rescore``, ``fork``: retry runs failed items only, rescore and fork use stored results."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.small_world import World

Bench = Callable[..., Any]
Results = Callable[[str], dict[str, Any]]
RUN = ("run", "--run-id", "r", "--providers", "bm25", "--limit", "20")


@pytest.fixture
def world(tmp_path: Path, fault_server: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> World:
    """A benchmark of facts and a provider that rejects every third search, in the folder of ``bench``."""
    url = fault_server("search:status:code=400,every=3,match=What opens")
    world = World.make(tmp_path, url, corpora=2, items=6)
    monkeypatch.setenv("FAULT_URL", url)
    return world


def job_of(results: Results, run_id: str) -> dict[str, Any]:
    (job,) = results(run_id)["jobs"]
    found: dict[str, Any] = job
    return found


def test_fork_from_evaluate_repeats_the_values_of_its_run_without_an_ingest(bench: Bench, results: Results) -> None:
    bench(*RUN)
    bench("fork", "r", "--from", "evaluate", "--run-id", "f")
    ours, theirs = job_of(results, "f"), job_of(results, "r")
    assert ours["counts"] == theirs["counts"]
    for name in ("accuracy", "mrr", "ndcg_at_10"):
        assert ours["metrics"][name]["value"] == theirs["metrics"][name]["value"]
    assert ours["isolation"]["probed"] == 0, "nothing was ingested"


def test_retry_runs_only_failed_items_again_and_counts_their_attempts(
    bench: Bench, results: Results, world: World
) -> None:
    run = ("run", "--run-id", "r", "--benchmarks", "facts", "--providers", "faulty", "--max-error-rate", "1")
    bench(*run, "--answering-model", "builtin/extractive", "--concurrency", "1")
    before = job_of(results, "r")["counts"]
    failed = before["error"]
    assert failed > 0
    world.heal()
    asked = world.calls("search")
    bench("retry", "r")
    after = job_of(results, "r")["counts"]
    assert "error" not in after and sum(after.values()) == 12
    rows = [json.loads(line) for line in bench("export", "r").stdout.splitlines()]
    assert Counter(row["attempts"]["evaluate"] for row in rows) == {1: 12 - failed, 2: failed}
    assert world.calls("search") - asked <= failed + 2, "the failed items, and at most one sentinel per corpus"
    assert "nothing to retry" in bench("retry", "r").stderr


def test_retry_rejects_an_item_that_did_not_fail(bench: Bench) -> None:
    bench(*RUN)
    done = bench("retry", "r", "--items", "irena-q01", check=2)
    assert "did not fail" in done.stderr and len(done.stderr.splitlines()) == 2


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (("fork", "r", "--from", "evaluate", "--answering-model", "builtin/extractive"), "--from answer"),
        (("fork", "r", "--from", "answer", "--run-id", "r"), "r"),
        (("fork", "nobody", "--from", "answer"), "nobody"),
        (("rescore", "nobody"), "nobody"),
        (("rescore", "r", "--metrics", "ndgc_at_10"), "ndcg_at_10"),
        (("rescore", "r", "--metrics"), "--metrics needs a value"),
        (("rescore", "r", "--evaluators", "llm-judge"), "llm-judge needs --judge-model"),
        (("rescore", "r", "--evaluators", "llm-judge", "--judge-model", "none"), "llm-judge needs --judge-model"),
        (("retry", "nobody"), "nobody"),
    ],
)
def test_invalid_fork_rescore_and_retry_commands_are_errors_of_two_lines(
    bench: Bench, command: tuple[str, ...], text: str
) -> None:
    bench(*RUN)
    done = bench(*command, check=2)
    assert text in done.stderr and done.stderr.startswith("error: ") and len(done.stderr.splitlines()) == 2
