"""A workspace whose one benchmark, provider and models all live at a stub server.

``write(folder, items=2000, url=...)`` makes a benchmark of that many items over a few small corpora, a declarative
provider and a model file. An item costs four calls: search, answer, and a verdict of each of two judges.
"""

from __future__ import annotations

import json
from pathlib import Path

CALLS_AN_ITEM = 4
TURNS = 4

BENCHMARK = """
name: perf
version: "1.0.0"
description: Items that cost four calls each
data: {type: local, path: ./datasets/perf.json, format: json}
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
evaluation: {method: llm-judge}
metrics: [accuracy, latency_p50]
"""

PROVIDER = """
apiVersion: bench/v1
name: stub
description: Answers everything alike
type: hosted
connection: {baseUrl: "URL"}
ingest: {unit: turn, on_unknown: repeat, batch: {max_items: 100}}
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


def write(folder: Path, *, items: int, url: str, corpora: int = 4) -> None:
    """Make the workspace; an answer of the stub is judged correct."""
    texts = {
        "configs/benchmarks/perf.yaml": BENCHMARK,
        "configs/providers/stub.yaml": PROVIDER.replace("URL", url),
        "configs/models/stub.yaml": MODELS.replace("URL", url),
    }
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.lstrip(), encoding="utf-8")
    dataset = folder / "datasets" / "perf.json"
    dataset.parent.mkdir(parents=True, exist_ok=True)
    trees = [_corpus(number, items // corpora + (number < items % corpora)) for number in range(corpora)]
    dataset.write_text(json.dumps(trees), encoding="utf-8")


def _corpus(number: int, items: int) -> dict[str, object]:
    return {
        "id": f"c{number}",
        "session_ids": ["s1"],
        "session_dates": ["2024/01/09 (Tue) 07:50"],
        "sessions": [[{"id": f"t{at}", "role": "user", "text": f"a short fact, number {at}"} for at in range(TURNS)]],
        "questions": [
            {
                "id": f"c{number}-q{at:06d}",
                "question": f"Which fact is number {at}?",
                "answer": "so",
                "evidence": ["t0"],
            }
            for at in range(items)
        ],
    }
