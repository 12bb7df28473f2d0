"""Who waits for large data sees how far it is; small data and ``-q`` say nothing."""

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
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[reading.ReadingProgress]:
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


def test_each_pass_over_large_data_tells_how_far_it_is(tmp_path: Path, told: list[reading.ReadingProgress]) -> None:
    opened(tmp_path)
    whats = list(dict.fromkeys(one.what for one in told))
    assert whats == ["reading mine", "checking mine"]
    for what in whats:
        done = [one.done for one in told if one.what == what]
        assert done == sorted(done)
        assert done[-1] == next(one.total for one in told if one.what == what)
    assert told[-1].total == 3
    told.clear()
    opened(tmp_path)
    assert told == []


def test_a_line_for_each_tenth_where_there_is_no_terminal(
    tmp_path: Path,
    told: list[reading.ReadingProgress],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    console.show_reading()
    opened(tmp_path)
    lines = capsys.readouterr().err.splitlines()
    assert 10 <= len(lines) <= 16
    assert lines[0].startswith("reading mine: 0 of 0 MB, ")
    assert lines[-1].startswith("checking mine: 3 of 3 corpora, 100 %")
    quiet = global_flags.current.set(global_flags.Globals(quiet=True))
    console.show_reading()
    global_flags.current.reset(quiet)
    assert reading.progress_sink.to is None


def test_small_data_is_read_without_a_word(
    tmp_path: Path, told: list[reading.ReadingProgress], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_source, "LARGE_DATA", 1_000_000)
    opened(tmp_path)
    assert told == []
