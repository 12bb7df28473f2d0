"""Evidence without a memory is not a miss of a provider: the item has no retrieval score, and a note names it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Bench

CONFIG = """
name: trips
version: "1"
data: {type: local, path: ./trips.json}
schema:
  itemId: id
  question: question
  answer: answer
  context: {field: sessions, type: array, sessionIdField: ids, itemSchema: {role: $.role, content: $.content}}
evidence: {sessionIdsField: gold}
evaluation: {method: contains}
metrics: [accuracy, hit_at_5]
"""


@pytest.mark.parametrize("turns", [[], [{"role": "user", "content": " \n"}]])
def test_an_item_whose_evidence_is_an_empty_session_has_no_retrieval_score(
    turns: list[dict[str, str]], tmp_path: Path, bench: Bench
) -> None:
    talk = [{"role": "user", "content": "I missed the 9:05 to Lund."}]
    rows = [
        {"id": "t1", "question": "Which train?", "answer": "9:05", "sessions": [talk, turns], "ids": ["a", "b"],
         "gold": ["b"]},
        {"id": "t2", "question": "Which train to Lund?", "answer": "9:05", "sessions": [talk, turns],
         "ids": ["a", "b"], "gold": ["a"]},
    ]  # fmt: skip
    (tmp_path / "trips.json").write_text(json.dumps(rows), encoding="utf-8")
    config = tmp_path / "configs" / "benchmarks" / "trips.yaml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(CONFIG, encoding="utf-8")
    done = bench("validate", str(config))
    assert '"b" of item "t1"' in done.stdout + done.stderr
    bench("run", "--benchmarks", "trips", "--providers", "bm25", "--run-id", "r")
    (job,) = json.loads(bench("results", "r", "--json").stdout)["jobs"]
    assert job["metrics"]["hit_at_5"]["value"] == 1.0
    assert job["metrics"]["hit_at_5"]["n"] == 1
