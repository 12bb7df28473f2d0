"""A question dated before its evidence is noted, because a memory system that uses dates can miss the evidence."""

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
  context: {field: sessions, type: array, sessionIdField: ids, dateField: dates,
            itemSchema: {role: $.role, content: $.content}}
  metadata: {questionDate: asked}
evidence: {sessionIdsField: gold}
evaluation: {method: contains}
metrics: [accuracy]
"""


def write(folder: Path, dates: list[str], config: str = CONFIG, **more: object) -> str:
    sessions = [[{"role": "user", "content": text}] for text in ("I missed the 9:05 to Lund.", "I took the 9:35.")]
    rows = [
        {"id": f"t{number}", "question": "Which train?", "answer": "9:35", "sessions": sessions, "ids": ["a", "b"],
         "dates": ["2024-05-01 10:00", "2024-05-03 10:00"], "gold": ["b"], "asked": when, "c": "one", **more}
        for number, when in enumerate(dates, 1)
    ]  # fmt: skip
    (folder / "trips.json").write_text(json.dumps(rows), encoding="utf-8")
    path = folder / "configs" / "benchmarks" / "trips.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(config, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("config", [CONFIG, CONFIG + "corpus: {field: c}\n"])
def test_questions_dated_before_their_evidence_are_noted_with_examples(
    config: str, tmp_path: Path, bench: Bench
) -> None:
    dates = ["2024-05-02 09:00", "2024-05-03 09:59", "2024-05-04", "2024-05-02", "2024-04-01"]
    path = write(tmp_path, dates, config)
    note = (
        "4 questions are dated before their evidence, so a memory system that uses dates can miss this evidence (UTC): "
        '"t1" is dated 2024-05-02 09:00, "b" 2024-05-03 10:00; "t2" is dated 2024-05-03 09:59, '
        '"b" 2024-05-03 10:00; "t4" is dated 2024-05-02 00:00, "b" 2024-05-03 10:00 and 1 more; '
        "check the dates and timezone"
    )
    assert any(note in one for one in json.loads(bench("--json", "validate", path).stdout)["notes"])
    plan = bench("plan", "--benchmarks", "trips", "--providers", "bm25", "--json").stdout
    assert note in json.loads(plan)["notes"]
    bench("run", "--benchmarks", "trips", "--providers", "bm25", "--run-id", "r")
    (job,) = json.loads(bench("results", "r", "--json").stdout)["jobs"]
    assert note in job["notes"]
    assert "4 questions are dated before their evidence" in bench("results", "r").stdout


@pytest.mark.parametrize("date", ["2024-05-03 10:00", "2024-05-03", "2024-05-03 10:01"])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_a_question_at_or_after_its_evidence_or_on_its_day_is_not_noted(
    date: str, zone: str, tmp_path: Path, bench: Bench
) -> None:
    path = write(tmp_path, [date], CONFIG + f"timezone: {zone}\n")
    assert not [note for note in json.loads(bench("--json", "validate", path).stdout)["notes"] if "dated" in note]
