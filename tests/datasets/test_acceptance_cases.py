"""Acceptance cases of benchmarks: expected items and memories, or expected errors."""

from __future__ import annotations

import json
from pathlib import Path

from bench.config.catalog import Catalog
from bench.datasets import open_benchmark
from bench.datasets.dataset_json import describe, item_lines, memory_lines
from bench.datasets.validation import validate_benchmark
from bench.errors import BenchError
from tests.rows import each_row

CASES = [
    "csv-quoted",
    "seed-deletion",
    "seed-flatten",
    "seed-locomo-sessions",
    "seed-locomo-turns",
    "seed-longmemeval",
    "seed-sessions",
    "seed-simple",
    "shared-corpus",
]
ERRORS = [
    "err-bad-date",
    "err-bad-line",
    "err-duplicate-id",
    "err-metric",
    "err-missing-field",
    "err-sha256",
    "err-unknown-key",
    "err-unknown-key-yaml",
    "err-version",
]


def _expected(shared: Path, case: str) -> tuple[Path, dict]:
    folder = shared / "cases" / "benchmarks" / case
    return folder, json.loads((folder / "expect.json").read_text(encoding="utf-8"))


@each_row("case", CASES)
def test_an_acceptance_case_loads_with_the_expected_items_and_memories(shared: Path, case: str) -> None:
    folder, expected = _expected(shared, case)
    dataset = open_benchmark(Catalog.load(folder).benchmark(expected["benchmark"]), folder)
    for key, lines in (("items", item_lines(dataset)), ("memories", memory_lines(dataset))):
        if key in expected:
            got = list(lines)
            assert len(got) == len(expected[key])
            for line, wanted in zip(got, expected[key], strict=True):
                assert {name: line[name] for name in wanted} == wanted
    shown = describe(dataset)
    for key, value in expected.get("describe", {}).items():
        assert shown[key] == value
    json.dumps(shown)


@each_row("case", ERRORS)
def test_an_invalid_acceptance_case_fails_with_the_expected_texts(shared: Path, case: str) -> None:
    folder, expected = _expected(shared, case)

    report = validate_benchmark(folder / expected["error"]["config"], Catalog.load(folder))
    assert not report.ok
    text = "\n".join(str(error) for error in report.errors)
    assert all(isinstance(error, BenchError) and error.exit_code == 2 for error in report.errors)
    for part in expected["error"]["contains"]:
        assert part in text


def test_has_answer_never_reaches_a_memory(shared: Path) -> None:
    folder, expected = _expected(shared, "seed-longmemeval")
    dataset = open_benchmark(Catalog.load(folder).benchmark(expected["benchmark"]), folder)
    for corpus in dataset.corpora():
        for rendered in dataset.memories(corpus):
            assert "has_answer" not in repr(rendered.memory.content) + repr(rendered.memory.metadata)
