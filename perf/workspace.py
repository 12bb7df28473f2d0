"""Workspaces for measurements: one benchmark with any number of items.

``write(folder, items=2000, url=...)`` adds a provider and models at a stub server. An item takes four calls: search,
answer, and one verdict of each of two judges. ``write_benchmark`` alone is for measurements of built-in parts.
"""

from __future__ import annotations

import json
from pathlib import Path

CALLS_AN_ITEM = 4

BENCHMARK = """
name: NAME
version: "1.0.0"
description: Many items over few memories
data: {type: local, path: ./datasets/NAME.json, format: json}
schema:
  itemId: id
  context:
    field: sessions
    type: array
    dateField: session_dates
    sessionIdField: session_ids
    itemSchema: {dialogId: "$.id", role: "$.role", text: "$.text"}
  questions: {field: questions, idField: id, questionField: question, answerField: answer, evidenceField: evidence}
evidence: {parser: direct}
ingestion: {mode: incremental}
search: {defaultLimit: 10}
evaluation: {method: EVALUATION}
metrics: [METRICS]
"""

PROVIDER = """
apiVersion: bench/v1
name: stub
description: Answers everything alike
type: hosted
connection: {baseUrl: "URL"}
ingest: {unit: turn, on_unknown: repeat, batch: {max_items: BATCH}}
endpoints:
  add:
    method: POST
    path: /add
    idempotent: true
    body: {items: {$each: "$.items", $do: {id: "@.id", text: "@.content"}}}
  search:
    method: POST
    path: /search
    body: {query: "$.query", k: "$.k", space: "$.runTag"}
    response: {results: "$.results", contentField: "$.memory", score: {field: "$.score"}}
  clear: {method: POST, path: /clear, body: {space: "$.runTag"}}
"""

MODELS = """
apiVersion: bench/v1
name: stub
dialect: openai
base_url: "URL/v1"
auth: {type: none}
"""

FLAGS: dict[str, object] = {
    "benchmarks": ("perf",),
    "providers": ("stub",),
    "answering_model": ("stub/reader",),
    "judge_model": ("stub/first", "stub/second"),
    "isolation": "off",
    "circuit_breaker": False,
    "cleanup": "never",
}


def write(
    folder: Path,
    *,
    items: int,
    url: str,
    corpora: int = 4,
    turns: int = 4,
    batch: int = 100,
    tokens_a_minute: int | None = None,
) -> None:
    """Write the workspace; the judges of the stub call every answer correct. The token limit is that of each model."""
    limits = "" if tokens_a_minute is None else f"limits: {{tpm: {tokens_a_minute}}}\n"
    _write(folder / "configs/providers/stub.yaml", PROVIDER.replace("URL", url).replace("BATCH", str(batch)))
    _write(folder / "configs/models/stub.yaml", MODELS.replace("URL", url) + limits)
    write_benchmark(
        folder,
        "perf",
        items=items,
        corpora=corpora,
        turns=turns,
        evaluation="llm-judge",
        metrics="accuracy, latency_p50",
    )


def write_benchmark(
    folder: Path, name: str, *, items: int, corpora: int, turns: int, evaluation: str, metrics: str
) -> None:
    """Write the config and the data of one benchmark; the items ask for the turns in rotation."""
    config = BENCHMARK.replace("NAME", name).replace("EVALUATION", evaluation).replace("METRICS", metrics)
    _write(folder / f"configs/benchmarks/{name}.yaml", config)
    trees = [_corpus(number, items // corpora + (number < items % corpora), turns) for number in range(corpora)]
    _write(folder / f"datasets/{name}.json", json.dumps(trees))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.lstrip(), encoding="utf-8")


def _corpus(number: int, items: int, turns: int) -> dict[str, object]:
    return {
        "id": f"c{number}",
        "session_ids": ["s1"],
        "session_dates": ["2024/01/09 (Tue) 07:50"],
        "sessions": [[{"id": f"t{at}", "role": "user", "text": f"a short fact, number {at}"} for at in range(turns)]],
        "questions": [
            {
                "id": f"c{number}-q{at:06d}",
                "question": f"Which fact is number {at}?",
                "answer": "so",
                "evidence": [f"t{at % turns}"],
            }
            for at in range(items)
        ],
    }
