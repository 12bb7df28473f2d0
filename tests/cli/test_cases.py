"""The acceptance cases of benchmark loading, through the program: describe, validate, run, score."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CASES = Path(os.environ.get("MEMORYBENCH_SHARED", Path(__file__).resolve().parents[3] / "shared")) / "cases" / "benchmarks"
NAMES = sorted(path.parent.name for path in CASES.glob("*/expect.json"))

pytestmark = pytest.mark.skipif(not NAMES, reason="MEMORYBENCH_SHARED is not there")


class Case:
    """A copy of one case as a workspace."""

    def __init__(self, name: str, folder: Path) -> None:
        self.folder = folder / name
        shutil.copytree(CASES / name, self.folder)
        self.expect: dict[str, Any] = json.loads((CASES / name / "expect.json").read_text(encoding="utf-8"))
        self.benchmark: str = self.expect["benchmark"]

    def bench(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "bench", "--workspace", str(self.folder), *arguments],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def lines(self, *arguments: str) -> list[dict[str, Any]]:
        done = self.bench(*arguments)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def document(self, *arguments: str) -> dict[str, Any]:
        done = self.bench(*arguments)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@pytest.fixture(params=NAMES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return Case(str(request.param), tmp_path)


def includes(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    return all(found.get(key) == value for key, value in expected.items())


def assert_metrics(found: dict[str, Any], expected: dict[str, dict[str, float]]) -> None:
    (job,) = found["jobs"]
    for name, parts in expected.items():
        for key, value in parts.items():
            assert job["metrics"][name][key] == pytest.approx(value, abs=1e-9), name


@pytest.mark.parametrize("what", ["items", "memories"])
def test_a_case_shows_the_expected_lines(case: Case, what: str) -> None:
    if what not in case.expect:
        pytest.skip(f"the case says nothing of {what}")
    found = case.lines("describe", case.benchmark, f"--{what}", "--json")
    expected = case.expect[what]
    assert len(found) == len(expected)
    for line, wanted in zip(found, expected, strict=True):
        assert includes(line, wanted), (line, wanted)


def test_a_case_is_described_as_expected(case: Case) -> None:
    if "describe" not in case.expect:
        pytest.skip("the case says nothing of describe")
    assert includes(case.document("describe", case.benchmark, "--json"), case.expect["describe"])


def test_a_malformed_case_is_exit_2_in_validate_and_run_and_begins_no_journal(case: Case) -> None:
    if "error" not in case.expect:
        pytest.skip("the case is well formed")
    error = case.expect["error"]
    checked = case.bench("validate", str(case.folder / error["config"]))
    assert checked.returncode == error["exit"]
    for text in error["contains"]:
        assert text in checked.stderr
    ran = case.bench("run", "--benchmarks", case.benchmark, "--providers", "bm25", "--answering-model", "none")
    assert ran.returncode == 2
    assert not list(case.folder.glob("checkpoints/*/journal.sqlite"))


def test_a_well_formed_case_validates(case: Case) -> None:
    if "error" in case.expect:
        pytest.skip("the case is malformed")
    done = case.bench("validate", str(case.folder / "configs"))
    assert done.returncode == 0, done.stderr


def test_a_run_of_a_case_gives_its_metrics(case: Case) -> None:
    if "run" not in case.expect:
        pytest.skip("the case says nothing of run")
    expected = case.expect["run"]
    flags = ("--benchmarks", case.benchmark, "--providers", expected["provider"])
    done = case.bench("run", *flags, "--answering-model", "none", "--judge-model", "none", "--run-id", "r")
    assert done.returncode == 0, done.stderr
    assert_metrics(case.document("results", "r", "--json"), expected["metrics"])


def test_scoring_the_rows_of_a_case_gives_its_metrics(case: Case) -> None:
    if "score" not in case.expect:
        pytest.skip("the case says nothing of score")
    rows = case.folder / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in case.expect["score"]["rows"]), encoding="utf-8")
    found = case.document("score", str(rows), "--benchmark", case.benchmark, "--json")
    assert_metrics(found, case.expect["score"]["metrics"])
