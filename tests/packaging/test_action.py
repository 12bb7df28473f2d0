"""The GitHub Action and the pre-commit hook: their shell steps work as written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests import forked

RUN_FILE = "benchmarks: [demo]\nproviders: [bm25, random]\nsample: 20\nanswering_model: none\n"


@pytest.fixture(scope="module")
def action(root: Path) -> dict[str, Any]:
    text = (root / "action.yml").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    found: dict[str, Any] = YAML(typ="safe").load(text)
    return found


def test_no_step_of_the_action_expands_an_expression_in_its_shell_script(action: dict[str, Any]) -> None:
    assert all("${{" not in step["run"] for step in action["runs"]["steps"])


def shell(step: dict[str, Any], folder: Path, **variables: str) -> int:
    named = set(step.get("env", {}))
    assert named - {"GH_TOKEN"} <= set(variables)
    environment = {
        **os.environ,
        **variables,
        "PATH": os.pathsep.join((str(forked.program()), str(Path(sys.executable).parent), os.environ["PATH"])),
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "GITHUB_REPOSITORY": "me/mine",
    }
    script = f"set -euo pipefail\n{step['run']}"
    return subprocess.run(["bash", "-c", script], cwd=folder, env=environment, capture_output=True).returncode


def test_the_steps_of_the_action_run_compare_and_comment(action: dict[str, Any], tmp_path: Path) -> None:
    _, run, report, comment = action["runs"]["steps"]
    (tmp_path / "ci.yaml").write_text(RUN_FILE, encoding="utf-8")
    assert shell(run, tmp_path, RUN_FILE="ci.yaml", RUN_ID="commit") == 0
    assert shell(run, tmp_path, RUN_FILE="ci.yaml", RUN_ID="commit") == 0, "a second attempt resumes"
    sides = {"BASE": "commit:bm25", "HEAD": "random", "RUN_ID": "commit"}
    assert shell(report, tmp_path, REGRESSION="", **sides) == 0
    assert shell(report, tmp_path, REGRESSION="hit_at_5:2", **sides) == 4
    assert (tmp_path / "bench-junit.xml").read_text(encoding="utf-8").count("<testcase ") == 40
    assert "hit_at_5" in (tmp_path / "summary.md").read_text(encoding="utf-8")
    tool = tmp_path / "bin/gh"
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\necho "$@" > called\n', encoding="utf-8")
    tool.chmod(0o755)
    path = f"{tool.parent}{os.pathsep}{os.environ['PATH']}"
    script = comment["run"].replace("gh ", f"{tool} ")
    assert shell({**comment, "run": script}, tmp_path, PULL="7", PATH=path) == 0
    assert "pr comment 7 --repo me/mine --body-file bench-comment.md" in (tmp_path / "called").read_text()


def test_the_pre_commit_hook_validates_the_given_files(root: Path, tmp_path: Path) -> None:
    (hook,) = YAML(typ="safe").load((root / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    broken = tmp_path / "configs/runs/ci.yaml"
    broken.parent.mkdir(parents=True)
    broken.write_text("benchmark: [demo]\nprovders: [bm25]\n", encoding="utf-8")
    program = Path(sys.executable).parent / hook["entry"].split()[0]
    command = [str(program), *hook["entry"].split()[1:], str(broken.relative_to(tmp_path))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "ci.yaml:2" in done.stderr + done.stdout
