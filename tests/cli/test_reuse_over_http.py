"""``bench retry``, ``rescore``, ``fork``, ``clean``: reuse of stored work, and cleanup."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Bench = Callable[..., Any]
Results = Callable[[str], dict[str, Any]]

SMALL = """\
name: small
type: hosted
connection: {{baseUrl: "{url}"}}
endpoints:
  add:
    method: POST
    path: /v1/add
    body: {{id: $.id, content: $.content, namespace: $.runTag, metadata: $.metadata}}
  search:
    method: POST
    path: /v1/search
    body: {{query: $.query, namespace: $.runTag, limit: $.k}}
    response:
      results: $.results
      contentField: $.memory
      scoreField: $.score
  clear: {{method: DELETE, path: "/v1/namespaces/${{runTag}}"}}
rateLimit: {{maxRetries: 0}}
"""


@pytest.fixture
def service(fault_server: Callable[..., str], tmp_path: Path) -> str:
    """A memory service over HTTP whose search fails once per question that contains one word."""
    url = fault_server("search:status:code=400,match=kennel")
    folder = tmp_path / "configs/providers"
    folder.mkdir(parents=True)
    (folder / "small.yaml").write_text(SMALL.format(url=url))
    return url


def stats(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}/control/stats") as answer:
        found: dict[str, Any] = json.load(answer)["providers"]["default"]["endpoints"]
    return found


def test_rescore_computes_other_metrics_without_a_provider_call(bench: Bench, service: str, results: Results) -> None:
    flags = ("--providers", "small", "--limit", "8", "--max-error-rate", "1", "--run-id", "r")
    bench("run", "-q", *flags)
    before, (scored,) = stats(service), results("r")["jobs"]
    bench("rescore", "r", "--metrics", "token_f1", "mrr")
    assert stats(service) == before
    (job,) = results("r")["jobs"]
    assert set(job["metrics"]) == {"token_f1", "mrr"} and results("r")["status"] == "complete"
    assert job["metrics"]["mrr"]["value"] == scored["metrics"]["mrr"]["value"]
    assert job["usage"]["provider"] == scored["usage"]["provider"]


def test_fork_from_answer_reuses_the_stored_searches(bench: Bench, service: str, results: Results) -> None:
    flags = ("--providers", "small", "--limit", "8", "--answering-model", "none", "--run-id", "r")
    bench("run", "-q", *flags)
    searches = stats(service)["search"]["calls"]
    bench("fork", "r", "--from", "answer", "--answering-model", "builtin/extractive", "--run-id", "f")
    (job,) = results("f")["jobs"]
    assert job["models"]["answering"] == "builtin/extractive" and job["n_scored"] == 8
    assert stats(service)["search"]["calls"] == searches
    assert results("r")["jobs"][0]["counts"] == {"measured": 8}, "the other run is unchanged"


def test_fork_reads_settings_from_a_run_file(bench: Bench, results: Results, tmp_path: Path) -> None:
    bench("run", "-q", "--providers", "bm25", "--limit", "4", "--answering-model", "none", "--run-id", "r")
    file = tmp_path / "answers.yaml"
    file.write_text("answering_model: builtin/extractive\nrun_id: other\n")
    bench("fork", "r", "--from", "answer", "-c", str(file), "--run-id", "f")
    (job,) = results("f")["jobs"]
    assert job["models"]["answering"] == "builtin/extractive"


def test_retry_of_a_run_without_failed_items_reports_nothing_to_retry(bench: Bench) -> None:
    bench("run", "-q", "--providers", "bm25", "--limit", "4", "--run-id", "r")
    assert "nothing to retry" in bench("retry", "r").stderr
    output = json.loads(bench("retry", "r", "--json").stdout)
    assert output == {
        "event": "done", "run_id": "r", "status": "complete", "exit_code": 0, "jobs": [], "resume": None,
        "cost_usd": "0", "cost_unknown_calls": 0,
        "message": "nothing to retry: no selected item has the state error or not_ready",
    }  # fmt: skip


def test_clean_clears_namespaces_and_deletes_the_run_only_with_yes(bench: Bench, service: str, tmp_path: Path) -> None:
    bench("run", "-q", "--providers", "small", "--limit", "4", "--cleanup", "never", "--run-id", "r")
    with urllib.request.urlopen(f"{service}/control/namespaces?provider=default") as answer:
        assert any(one["count"] for one in json.load(answer).values())
    listed = bench("clean", "r")
    assert "nothing was changed" in listed.stderr and (tmp_path / "checkpoints/r").is_dir()
    bench("clean", "r", "--yes")
    assert not (tmp_path / "checkpoints/r").exists()
    with urllib.request.urlopen(f"{service}/control/namespaces?provider=default") as answer:
        assert not any(one["count"] for one in json.load(answer).values())


def test_P2_corpora_that_a_service_lost_between_two_processes_are_ingested_again(
    bench: Bench, service: str, results: Results
) -> None:
    flags = ("--providers", "small", "--limit", "12", "--answering-model", "none", "--cleanup", "never")
    bench("run", "-q", *flags, "--run-id", "whole")
    bench("run", "-q", *flags, "--run-id", "r", "--phases", "ingest,index")
    reset = urllib.request.Request(f"{service}/control/reset", data=b'{"keep": ["faults"]}', method="POST")
    urllib.request.urlopen(reset).close()
    whole_way = ("run", "--resume", "r", "--phases", "ingest,index,search,answer,evaluate")
    done = bench(*whole_way, check=4)
    assert "INVALID" in done.stdout
    (job,) = results("r")["jobs"]
    assert job["counts"] == {"not_ready": 12}, "never a wrong answer"
    bench(*whole_way)
    (job,), (whole,) = results("r")["jobs"], results("whole")["jobs"]
    assert job["metrics"]["ndcg_at_10"]["value"] == whole["metrics"]["ndcg_at_10"]["value"] > 0.5


def test_an_invalid_gate_or_setting_is_rejected_before_the_run_starts(bench: Bench, tmp_path: Path) -> None:
    for flags in (
        ("--min-score", "nonsense=0.9"),
        ("--min-score", "ndcg_at_10=high"),
        ("--set", "bm25.ingest.batch=x"),
    ):
        assert "Traceback" not in bench("run", "--providers", "bm25", "--limit", "2", *flags, check=2).stderr
    assert not list(tmp_path.glob("checkpoints/*/journal.sqlite"))
