"""Large data is parsed once: later commands use the stored index unless a file or the config changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.config.catalog import Catalog
from bench.datasets import dataset as module
from bench.datasets import stored_index
from bench.datasets.dataset import Dataset, open_benchmark
from bench.datasets.dataset_json import describe, item_lines, memory_lines
from bench.errors import DataError

CONFIG = """
name: big
version: "1"
data:
  type: local
  path: rows.jsonl
  with: {talk: {file: talks.jsonl, key: id, by: talk_id}}
schema:
  itemId: id
  context: {field: $.talk.turns, type: session}
  questions: {field: qa, questionField: question, answerField: answer, categoryField: kind}
corpus: {field: talk_id}
evaluation: {method: contains}
metrics: [accuracy]
"""
ROWS = [
    {"id": f"r{number}", "talk_id": f"t{number % 2}", "qa": [
        {"question": f"Q{number}?", "answer": "A", "kind": "fact"}, {"question": "So?", "answer": "B", "kind": "rest"}]}
    for number in range(5)
]  # fmt: skip
TALKS = [{"id": f"t{number}", "turns": [{"role": "user", "content": "A and B"}]} for number in range(2)]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(stored_index, "LARGE_DATA", 1)
    (tmp_path / "configs/benchmarks").mkdir(parents=True)
    (tmp_path / "configs/benchmarks/big.yaml").write_text(CONFIG)
    write(tmp_path / "rows.jsonl", ROWS)
    write(tmp_path / "talks.jsonl", TALKS)
    return tmp_path


def write(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def opened(root: Path) -> Dataset:
    return open_benchmark(Catalog.load(root).benchmark("big"), root)


def whole(dataset: Dataset) -> list[object]:
    return [describe(dataset), *item_lines(dataset), *memory_lines(dataset)]


def test_a_second_open_reads_no_rows_and_returns_the_same_data(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = whole(opened(root))
    monkeypatch.setattr(module, "scan", lambda *given: pytest.fail("the rows are read again"))
    assert whole(opened(root)) == first


@pytest.mark.parametrize("file", ["rows.jsonl", "talks.jsonl", "configs/benchmarks/big.yaml"])
def test_a_changed_file_or_config_is_read_again(root: Path, file: str) -> None:
    opened(root)
    path = root / file
    path.write_text(path.read_text().replace("A and B", "C").replace("Q1?", "Q9?").replace(", categoryField: kind", ""))
    if file.endswith("yaml"):
        assert not opened(root).counts.question_types
    else:
        assert any("Q9?" in str(line) or "'C'" in str(line) or ": C" in str(line) for line in whole(opened(root)))


def test_a_malformed_row_is_reported_despite_a_stored_index(root: Path) -> None:
    opened(root)
    (root / "rows.jsonl").write_text('{"id"')
    with pytest.raises(DataError):
        opened(root)


@pytest.mark.parametrize("cut", [0, 10, -5])
def test_a_damaged_stored_index_is_not_used(root: Path, cut: int) -> None:
    first = whole(opened(root))
    path = root / "datasets/.index/big.index"
    path.write_bytes(path.read_bytes()[:cut])
    assert whole(opened(root)) == first


def test_small_data_has_no_stored_index(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_index, "LARGE_DATA", 1_000_000)
    opened(root)
    assert not (root / "datasets").exists()


def test_evidence_coverage_is_checked_once_for_whole_data(root: Path) -> None:
    checks: list[str] = []
    for _ in range(2):
        opened(root).check_coverage_once("session", None, lambda: checks.append("x"), whole=True)
    opened(root).check_coverage_once("turn", None, lambda: checks.append("y"), whole=False)
    opened(root).check_coverage_once("turn", None, lambda: checks.append("y"), whole=True)
    assert checks == ["x", "y", "y"]
