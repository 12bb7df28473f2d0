"""The sixteen checks of ``bench doctor``, run on every provider that this project claims to support."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.config.file import Source
from bench.config.provider.config import ProviderConfig
from bench.config.provider.file import load_provider
from bench.providers.adapters import builtin_config
from bench.providers.doctor import DoctorReport, examine
from tests.contract.running import context_for
from tests.contract.servers import free_port

PLAYED = """
name: played
type: hosted
connection: {baseUrl: "${PLAYED_URL}", headers: {X-Client: bench}}
auth: {type: bearer, envVar: PLAYED_KEY}
endpoints:
  add:
    method: POST
    path: /v1/add
    idempotency: {header: Idempotency-Key}
    body:
      items: {$each: $.items, $do: {id: "@.id", content: "@.content", metadata: "@.metadata", timestamp: "@.when"}}
      namespace: $.runTag
    response: {ids: "$.jobs"}
  search:
    method: POST
    path: /v1/search
    body: {query: $.query, namespace: $.runTag, limit: $.k}
    response:
      results: $.results
      contentField: $.memory
      scoreField: $.score
      when: $.timestamp
      id_from: [{metadata: bench_id}]
  count: {method: GET, path: /v1/memories, query: {namespace: $.runTag}, value: $.count}
  clear: {method: DELETE, path: "/v1/namespaces/${runTag}"}
  verify_clear: {method: GET, path: /v1/memories, query: {namespace: $.runTag}, empty: $.count}
wait:
  request: {method: GET, path: "/v1/status/${jobId}"}
  until: {$.status: done}
  fail_on: {$.status: failed}
  interval_ms: 50
ingest: {batch: {max_items: 50}, on_unknown: repeat}
"""


def outcomes_without_failure(report: DoctorReport) -> dict[str, str]:
    assert len(report.checks) == 16
    failed = [f"{check.name}: {check.detail}" for check in report.checks if check.outcome == "fail"]
    assert report.ok, failed
    return {check.name: check.outcome for check in report.checks}


@pytest.mark.parametrize("name", ["bm25", "full-context", "random", "no-memory"])
async def test_builtin_provider_passes_the_doctor_checks_and_writes_no_files(name: str, tmp_path: Path) -> None:
    config = builtin_config(name)
    async with context_for(config, tmp_path, {}) as context:
        outcomes_without_failure(await examine(config, context))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


async def test_vector_provider_passes_all_doctor_checks(fault_server: Callable[..., str], tmp_path: Path) -> None:
    config = builtin_config("vector")
    async with context_for(config, tmp_path, embeddings(fault_server())) as context:
        outcomes = outcomes_without_failure(await examine(config, context))
    assert set(outcomes.values()) == {"pass"}


@pytest.mark.parametrize("faults", [[], ["add:lag:ms=200"], ["search:latency:ms=30"]], ids=["plain", "lag", "slow"])
async def test_declarative_provider_passes_all_doctor_checks(
    faults: list[str], fault_server: Callable[..., str], tmp_path: Path
) -> None:
    config = load_provider(Source.parse(PLAYED, tmp_path / "played.yaml"))
    variables = {"PLAYED_URL": fault_server(*faults), "PLAYED_KEY": "sk-played-0123456789abcdef"}
    async with context_for(config, tmp_path, variables) as context:
        outcomes = outcomes_without_failure(await examine(config, context))
    assert set(outcomes.values()) == {"pass"}


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("search:leak:n=3", "empty namespace"),
        ("add:drop", "found by own text"),
        ("add:failindex", "ready"),
        ("search:rename:from=memory,to=chunk", "found by own text"),
        ("clear:status:code=500", "clear"),
    ],
)
async def test_doctor_fails_the_check_that_a_server_fault_breaks(
    fault: str, check: str, fault_server: Callable[..., str], tmp_path: Path
) -> None:
    text = PLAYED + "rateLimit: {maxRetries: 0}\n"
    config = load_provider(Source.parse(text, tmp_path / "played.yaml"))
    variables = {"PLAYED_URL": fault_server(fault), "PLAYED_KEY": "sk-played-0123456789abcdef"}
    async with context_for(config, tmp_path, variables) as context:
        if fault.startswith("search:leak"):
            await _foreign(config, variables, tmp_path)
        report = await examine(config, context)
    failed = [one.name for one in report.checks if one.outcome == "fail"]
    assert check in failed, report.as_json()


async def _foreign(config: ProviderConfig, variables: dict[str, str], folder: Path) -> None:
    """Let another namespace hold the text that the leak will show."""
    from bench.model import Memory, Space
    from bench.providers import open_provider

    async with context_for(config, folder, variables) as context, open_provider(config, context) as provider:
        space = Space(namespace="foreign", run_id="r", benchmark="b", corpus="c")
        await provider.ingest(space, [Memory(id="f1", content="Ana moved to Lisbon in May and has a new job")])


async def test_chroma_passes_all_doctor_checks(
    chroma_url: str, root: Path, fault_server: Callable[..., str], tmp_path: Path
) -> None:
    config = load_provider(root / "configs/providers/chroma.yaml")
    variables = {**embeddings(fault_server()), "CHROMA_URL": chroma_url}
    async with context_for(config, tmp_path, variables) as context:
        outcomes = outcomes_without_failure(await examine(config, context))
    assert set(outcomes.values()) == {"pass"}


@pytest.mark.parametrize("index", ["exact", "hnsw"])
async def test_pgvector_passes_all_doctor_checks(
    index: str, postgres_url: str, root: Path, fault_server: Callable[..., str], tmp_path: Path
) -> None:
    text = (root / "configs/providers/pgvector.yaml").read_text(encoding="utf-8")
    text = text.replace("index: exact", f"index: {index}").replace("batch: 64", "batch: 64, dimensions: 64")
    config = load_provider(Source.parse(text, tmp_path / "pgvector.yaml"))
    variables = {**embeddings(fault_server()), "PGVECTOR_URL": postgres_url}
    async with context_for(config, tmp_path, variables) as context:
        outcomes = outcomes_without_failure(await examine(config, context))
    assert set(outcomes.values()) == {"pass"}


def embeddings(url: str) -> dict[str, str]:
    """An OpenAI-compatible endpoint of deterministic embeddings."""
    return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "sk-embeddings-0123456789abcdef"}


async def test_doctor_reports_an_unreachable_server_once_within_ten_seconds(tmp_path: Path) -> None:
    config = load_provider(Source.parse(PLAYED, tmp_path / "played.yaml"))
    variables = {"PLAYED_URL": f"http://127.0.0.1:{free_port()}", "PLAYED_KEY": "sk-played-0123456789abcdef"}
    started = time.perf_counter()
    async with context_for(config, tmp_path, variables) as context:
        report = await examine(config, context)
    assert time.perf_counter() - started < 10
    (failed,) = [one for one in report.checks if one.outcome == "fail"]
    assert failed.detail.startswith("unavailable: ")
    later = report.checks[report.checks.index(failed) + 1 : -1]
    assert {(one.outcome, one.detail) for one in later} == {("skip", f'not run, because of "{failed.name}"')}


async def test_doctor_names_the_variable_of_a_refused_key(fault_server: Callable[..., str], tmp_path: Path) -> None:
    config = load_provider(Source.parse(PLAYED, tmp_path / "played.yaml"))
    variables = {"PLAYED_URL": fault_server("search:status:code=401"), "PLAYED_KEY": "sk-played-0123456789abcdef"}
    async with context_for(config, tmp_path, variables) as context:
        report = await examine(config, context)
    assert report.refused and not report.ok
    (failed,) = [one for one in report.checks if one.outcome == "fail"]
    assert "PLAYED_KEY" in failed.detail and "sk-played" not in failed.detail


async def test_doctor_skips_the_checks_that_need_a_failed_check(
    fault_server: Callable[..., str], tmp_path: Path
) -> None:
    config = load_provider(Source.parse(PLAYED + "rateLimit: {maxRetries: 0}\n", tmp_path / "played.yaml"))
    url = fault_server("add:status:code=422")
    variables = {"PLAYED_URL": url, "PLAYED_KEY": "sk-played-0123456789abcdef"}
    async with context_for(config, tmp_path, variables) as context:
        checks = {one.name: (one.outcome, one.detail) for one in (await examine(config, context)).checks}
    assert checks["add"][0] == "fail"
    assert checks["ready"] == ("skip", 'needs "add", which failed')
    assert checks["k is kept"] == ("skip", 'needs "add", which failed'), "the first cause is named"
    assert checks["clear"][0] == "pass"
