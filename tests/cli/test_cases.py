"""The acceptance cases of benchmark loading, through the program: describe, validate, run, score."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from bench.cli import run

CASES = Path(os.environ.get("MEMORYBENCH_SHARED", Path(__file__).resolve().parents[3] / "shared")) / "cases/benchmarks"
EXPECTED: dict[str, dict[str, Any]] = {
    path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(CASES.glob("*/expect.json"))
}

pytestmark = pytest.mark.skipif(not EXPECTED, reason="MEMORYBENCH_SHARED is not there")


def cases_with(key: str) -> pytest.MarkDecorator:
    """Parametrize over the cases that expect something for ``key``."""
    return pytest.mark.parametrize("name", [name for name, expect in EXPECTED.items() if key in expect])


class Case:
    """A copy of one case as a workspace; the program runs in this process."""

    def __init__(self, name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder / name
        shutil.copytree(CASES / name, self.folder)
        self.expect = EXPECTED[name]
        self.benchmark: str = self.expect["benchmark"]
        self._capsys = capsys

    def bench(self, *arguments: str, code: int = 0) -> tuple[str, str]:
        self._capsys.readouterr()
        found = run(["--workspace", str(self.folder), *arguments])
        captured = self._capsys.readouterr()
        assert found == code, captured.err
        assert "Traceback" not in captured.err
        return captured.out, captured.err

    def document(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.bench(*arguments)[0])
        return found


@pytest.fixture
def case(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Case:
    return Case(name, tmp_path, capsys)


def includes(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    return all(found.get(key) == value for key, value in expected.items())


def assert_metrics(found: dict[str, Any], expected: dict[str, dict[str, float]]) -> None:
    (job,) = found["jobs"]
    for name, parts in expected.items():
        for key, value in parts.items():
            assert job["metrics"][name][key] == pytest.approx(value, abs=1e-9), name


def assert_lines(case: Case, what: str) -> None:
    out, _ = case.bench("describe", case.benchmark, f"--{what}", "--json")
    found = [json.loads(line) for line in out.splitlines()]
    for line, wanted in zip(found, case.expect[what], strict=True):
        assert includes(line, wanted), (line, wanted)


@cases_with("items")
def test_describe_items_lists_the_expected_items_of_a_case(case: Case) -> None:
    assert_lines(case, "items")


@cases_with("memories")
def test_describe_memories_lists_the_expected_memories_of_a_case(case: Case) -> None:
    assert_lines(case, "memories")


@cases_with("describe")
def test_describe_shows_the_expected_document_of_a_case(case: Case) -> None:
    assert includes(case.document("describe", case.benchmark, "--json"), case.expect["describe"])


@cases_with("error")
def test_validate_and_run_reject_a_malformed_case_with_exit_code_2_and_without_a_journal(case: Case) -> None:
    error = case.expect["error"]
    _, output = case.bench("validate", str(case.folder / error["config"]), code=error["exit"])
    for text in error["contains"]:
        assert text in output
    case.bench("run", "--benchmarks", case.benchmark, "--providers", "bm25", "--answering-model", "none", code=2)
    assert not list(case.folder.glob("checkpoints/*/journal.sqlite"))


@cases_with("items")
def test_validate_accepts_a_well_formed_case(case: Case) -> None:
    counted, _ = case.bench("validate", str(case.folder / "configs"))
    assert ", 0 with errors" in counted


@cases_with("run")
def test_a_run_of_a_case_reports_the_expected_metrics(case: Case) -> None:
    expected = case.expect["run"]
    flags = ("--benchmarks", case.benchmark, "--providers", expected["provider"])
    case.bench("run", *flags, "--answering-model", "none", "--judge-model", "none", "--run-id", "r")
    assert_metrics(case.document("results", "r", "--json"), expected["metrics"])


@cases_with("score")
def test_score_of_the_rows_of_a_case_reports_the_expected_metrics(case: Case) -> None:
    rows = case.folder / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in case.expect["score"]["rows"]), encoding="utf-8")
    found = case.document("score", str(rows), "--benchmark", case.benchmark, "--json")
    assert_metrics(found, case.expect["score"]["metrics"])
