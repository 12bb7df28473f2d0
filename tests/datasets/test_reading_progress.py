"""Progress of reading large data; small data and ``-q`` report nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.cli import console, global_flags
from bench.config.catalog import Catalog
from bench.datasets import stored_index
from bench.datasets.dataset import open_benchmark
from bench.datasets.rows import reading, row_source

CONFIG = """
name: mine
version: "1"
data: {type: local, path: ./mine.jsonl}
schema: {itemId: id, question: q, answer: a, context: {field: c, type: string}}
corpus: {field: k}
evaluation: {method: contains}
metrics: [accuracy]
"""


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[reading.ReadingProgress]:
    rows = [
        {"id": str(number), "q": "Who?", "a": "Ada", "c": f"Ada {number} did.", "k": number % 3} for number in range(40)
    ]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    config = tmp_path / "configs" / "benchmarks" / "mine.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(CONFIG, encoding="utf-8")
    for room in (row_source, stored_index):
        monkeypatch.setattr(room, "LARGE_DATA", 1000)
    monkeypatch.setattr(reading, "REPORT_EVERY_S", 0)
    found: list[reading.ReadingProgress] = []
    monkeypatch.setattr(reading.progress_sink, "to", found.append)
    return found


def opened(workspace: Path) -> None:
    open_benchmark(Catalog.load(workspace).benchmark("mine"), workspace)


def test_each_pass_over_large_data_reports_its_progress(tmp_path: Path, reports: list[reading.ReadingProgress]) -> None:
    opened(tmp_path)
    whats = list(dict.fromkeys(one.what for one in reports))
    assert whats == ["reading mine", "checking mine"]
    for what in whats:
        done = [one.done for one in reports if one.what == what]
        assert done == sorted(done)
        assert done[-1] == next(one.total for one in reports if one.what == what)
    assert reports[-1].total == 3
    reports.clear()
    opened(tmp_path)
    assert reports == []


def test_progress_is_one_line_per_tenth_without_a_terminal(
    tmp_path: Path,
    reports: list[reading.ReadingProgress],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    console.show_reading()
    opened(tmp_path)
    lines = capsys.readouterr().err.splitlines()
    assert 10 <= len(lines) <= 16
    assert lines[0].startswith("reading mine: 0 of 0 MB, ")
    assert lines[-1].startswith("checking mine: 3 of 3 corpora, 100%")
    quiet = global_flags.current.set(global_flags.Globals(quiet=True))
    console.show_reading()
    global_flags.current.reset(quiet)
    assert reading.progress_sink.to is None


def test_small_data_reports_no_progress(
    tmp_path: Path, reports: list[reading.ReadingProgress], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_source, "LARGE_DATA", 1_000_000)
    opened(tmp_path)
    assert reports == []
