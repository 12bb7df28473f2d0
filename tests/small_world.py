"""A small world to run in: a benchmark of invented facts, a provider at the fault server, and functions to run it.

Example::

    world = World.make(tmp_path, url, corpora=2, items=5)
    outcome = await world.run(providers="faulty", answering_model="builtin/extractive")
"""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.config.catalog import Catalog
from bench.config.run import RunRequest
from bench.engine import Observer, Outcome, execute, resumed_plan
from bench.plan import Plan, make_plan
from bench.settings import Environment
from tests import forked

BENCHMARK = """
name: facts
version: "1"
data: {type: local, path: ./datasets/facts.jsonl, format: jsonl}
schema:
  itemId: id
  context: {field: sessions, type: array, dateField: dates, sessionIdField: session_ids,
            itemSchema: {role: $.role, content: $.content, id: $.id}}
  questions: {field: qa, questionField: q, answerField: a, evidenceField: evidence, idField: id, categoryField: type}
categories: {one: one, two: two}
evidence: {parser: direct}
ingestion: {mode: session-based, batchSize: 1}
evaluation: {method: contains}
metrics: [accuracy, hit_at_5, recall_fraction_at_10, mrr]
"""

PROVIDER = """
name: faulty
type: hosted
connection: {baseUrl: "${FAULT_URL}", timeout: 2000}
ingest: {on_unknown: reset}
endpoints:
  add:
    method: POST
    path: /v1/add
    body: {id: "$.id", content: "$.content", namespace: "$.runTag", metadata: "$.metadata"}
    response: {ids: "$.job_id"}
  search:
    method: POST
    path: /v1/search
    body: {query: "$.query", namespace: "$.runTag", limit: "$.k"}
    response: {results: "$.results", contentField: "$.memory", scoreField: "$.score"}
  count: {method: GET, path: /v1/memories, query: {namespace: "$.runTag"}, value: "$.count"}
  clear: {method: DELETE, path: "/v1/namespaces/${runTag}"}
rateLimit: {maxRetries: 1, retryDelayMs: 20}
capabilities: {supportsMetadata: true}
"""

WAITING = """
wait:
  request: {method: GET, path: "/v1/status/${jobId}"}
  until: {"$.status": [done]}
  fail_on: {"$.status": [failed]}
  interval_ms: 50
  timeout_s: 3
"""

DRIVER = """
import json, sys
import anyio
from pathlib import Path
from bench.config.catalog import Catalog
from bench.config.run import RunRequest
from bench.engine import execute, resumed_plan
from bench.plan import make_plan
from bench.settings import Environment

class PrintingObserver:
    def launched(self, progress): print("launched", progress.run_id, flush=True)
    def stopping(self, reason, in_flight): print("stopping", reason.value, in_flight, flush=True)
    def finished(self, outcome): print("done", outcome.status.value, outcome.exit_code, flush=True)

async def main(workspace, flags, resume):
    catalog, environment = Catalog.load(workspace), Environment.load(workspace)
    if resume:
        folder, plan = await resumed_plan(resume, catalog=catalog, flags=flags, environment=environment)
        return await execute(plan, environment=environment, observer=PrintingObserver(), resume=folder)
    plan = make_plan(catalog, RunRequest.combine(None, flags), environment)
    return await execute(plan, environment=environment, observer=PrintingObserver())

outcome = anyio.run(main, Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
sys.exit(outcome.exit_code)
"""


@dataclass(frozen=True, kw_only=True)
class World:
    """One workspace and the server of its provider."""

    workspace: Path
    url: str | None = None
    variables: dict[str, str] = field(default_factory=dict)

    @classmethod
    def make(
        cls, folder: Path, url: str | None = None, *, corpora: int = 2, items: int = 4, sessions: int = 3
    ) -> World:
        """Write configs and data; each corpus has ``items`` questions, one fact each, spread over its sessions."""
        world = cls(workspace=folder, url=url, variables={} if url is None else {"FAULT_URL": url})
        world.write("configs/benchmarks/facts.yaml", BENCHMARK)
        world.write("configs/providers/faulty.yaml", PROVIDER)
        rows = [row(corpus, items, sessions) for corpus in range(corpora)]
        world.write("datasets/facts.jsonl", "".join(json.dumps(one) + "\n" for one in rows))
        return world

    def write(self, name: str, text: str) -> Path:
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def provider(self, name: str, *, base: str = PROVIDER, extra: str = "", **replaced: str) -> None:
        """Write a variant of the provider's config, with texts replaced and blocks added."""
        text = base.replace("name: faulty", f"name: {name}") + extra
        for old, new in replaced.items():
            text = text.replace(old.replace("__", ": "), new)
        self.write(f"configs/providers/{name}.yaml", text)

    @property
    def environment(self) -> Environment:
        return Environment(values=dict(self.variables))

    def plan(self, **flags: object) -> Plan:
        request = RunRequest.combine(None, {"benchmarks": "facts", **flags})
        return make_plan(Catalog.load(self.workspace), request, self.environment)

    async def run(self, observer: Observer | None = None, **flags: object) -> Outcome:
        return await execute(self.plan(**flags), environment=self.environment, observer=observer)

    async def resume(self, run_id: str, observer: Observer | None = None, **flags: object) -> Outcome:
        catalog = Catalog.load(self.workspace)
        folder, plan = await resumed_plan(run_id, catalog=catalog, flags=flags, environment=self.environment)
        return await execute(plan, environment=self.environment, observer=observer, resume=folder)

    def start(self, *, resume: str | None = None, **flags: object) -> subprocess.Popen[str]:
        """Start a run in its own process, for tests with signals and kills."""
        given = flags if resume else {"benchmarks": "facts", **flags}
        command = [sys.executable, "-c", DRIVER, str(self.workspace), json.dumps(given), *([resume] if resume else [])]
        variables = {"PATH": "/usr/bin:/bin", "PYTHONUNBUFFERED": "1", **self.variables}
        return forked.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables)

    # ---- what the server saw

    def control(self, path: str, data: object = None, method: str | None = None) -> Any:
        body = None if data is None else json.dumps(data).encode()
        request = urllib.request.Request(f"{self.url}/control/{path}", data=body, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.loads(answer.read() or b"null")

    def calls(self, endpoint: str) -> int:
        endpoints = self.control("stats")["providers"].get("default", {}).get("endpoints", {})
        return int(endpoints.get(endpoint, {}).get("calls", 0))

    def keys(self, endpoint: str) -> dict[str, int]:
        return dict(self.control(f"keys?provider=default&endpoint={endpoint}"))

    def namespaces(self) -> set[str]:
        """Return the namespaces with memories."""
        return {name for name, one in self.control("namespaces?provider=default").items() if one["count"]}

    def heal(self) -> None:
        """Remove every fault."""
        self.control("faults", method="DELETE")

    def fault(self, *specs: str) -> None:
        self.control("faults", list(specs))

    # ---- what the journal holds

    def query(self, run_id: str, sql: str) -> list[tuple[Any, ...]]:
        path = self.workspace / "checkpoints" / run_id / "journal.sqlite"
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()


def wait_for(holds: Callable[[], bool], *, seconds: float = 120) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"the condition is still false after {seconds:g} s"
        time.sleep(0.02)


def kill(process: subprocess.Popen[str]) -> None:
    """Send SIGKILL and wait until the process has ended."""
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=120)


def ended(process: subprocess.Popen[str]) -> int:
    """Wait for the end of the process and return the exit code."""
    process.communicate(timeout=300)
    return process.returncode


def row(corpus: int, items: int, sessions: int) -> dict[str, object]:
    """Return one conversation: fact I is in session I modulo the number of sessions."""
    turns_by_session: list[list[dict[str, str]]] = [[] for _ in range(sessions)]
    asked = []
    for number in range(items):
        name, code = f"K{corpus}x{number}", f"W{corpus}y{number}"
        at = number % sessions
        turn = f"c{corpus}t{number}"
        turns_by_session[at].append({"role": "user", "content": f"The vault {name} opens with {code}", "id": turn})
        asked.append(
            {
                "id": f"c{corpus}q{number}",
                "q": f"What opens the vault {name}?",
                "a": code,
                "evidence": [turn],
                "type": "one" if number % 2 else "two",
            }
        )
    for number, turns in enumerate(turns_by_session):
        turns.append({"role": "assistant", "content": f"Noted in c{corpus} part {number}", "id": f"c{corpus}e{number}"})
    return {
        "id": f"c{corpus}",
        "sessions": turns_by_session,
        "dates": [f"2024-{1 + day // 28:02d}-{day % 28 + 1:02d} 10:00" for day in range(sessions)],
        "session_ids": [f"answer_{corpus}_{number}" for number in range(sessions)],
        "qa": asked,
    }


def write_codes(
    workspace: Path, rows: Sequence[Mapping[str, str]], *, protocol: str = "exact-match", metric: str = "correctness"
) -> Path:
    """Write a benchmark ``codes`` in the manifest dialect from rows of id, content, question and answer.

    Return its folder.
    """
    folder = workspace / "configs/benchmarks/codes"
    folder.mkdir(parents=True)
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    manifest = {
        "manifest_version": "1",
        "name": "codes",
        "version": "1.0.0",
        "data_file": "data.jsonl",
        "ingestion": {"strategy": "simple", "content_field": "content"},
        "query": {"question_field": "question", "expected_answer_field": "answer", "retrieval_limit": 5},
        "evaluation": {"protocol": protocol},
        "metrics": [metric],
        "required_capabilities": ["add_memory", "retrieve_memory"],
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder
