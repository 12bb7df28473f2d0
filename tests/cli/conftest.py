"""A workspace per test, and the program in it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.cli import run

KEYS = ("_API_KEY", "_BASE_URL")


@dataclass(frozen=True)
class Done:
    """What a command printed and its exit code."""

    returncode: int
    stdout: str
    stderr: str


Bench = Callable[..., Done]
Ran = Callable[..., None]


@pytest.fixture
def environment() -> dict[str, str]:
    """The process environment without any key of a real service, for a subprocess."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith(KEYS)}
    return {**kept, "PYTHONWARNINGS": "error", "PYTHONFAULTHANDLER": "1"}


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Bench:
    """``bench("run", "--limit", "5")`` in an empty folder, in this process, on lines wide enough for every number."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "240")
    for name in os.environ:
        if name.endswith(KEYS):
            monkeypatch.delenv(name)

    def call(*arguments: str, check: int | None = 0) -> Done:
        capsys.readouterr()
        code = run(arguments)
        printed = capsys.readouterr()
        if check is not None:
            assert code == check, f"exit {code}\n{printed.out}\n{printed.err}"
        assert "Traceback" not in printed.err
        return Done(code, printed.out, printed.err)

    return call


@pytest.fixture
def results(bench: Bench) -> Callable[[str], dict[str, Any]]:
    """The document of ``bench results RUN --json``."""

    def read(run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(bench("results", run_id, "--json").stdout)
        return found

    return read


@pytest.fixture(scope="session")
def left_by_runs() -> dict[tuple[tuple[str, ...], ...], Path]:
    """Workspaces after runs, by the flags of each run in order."""
    return {}


@pytest.fixture
def ran(
    bench: Bench,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    left_by_runs: dict[tuple[tuple[str, ...], ...], Path],
) -> Ran:
    """Execute ``bench run -q``, or copy the workspace of the same runs: ``ran("--run-id", "r", "--limit", "5")``.

    The same sequence of runs is executed once and copied from then on, so nothing else may be in the
    workspace when this is called.
    """
    done: tuple[tuple[str, ...], ...] = ()

    def run_or_copy(*flags: str) -> None:
        nonlocal done
        done = (*done, flags)
        if done in left_by_runs:
            shutil.copytree(left_by_runs[done], tmp_path, dirs_exist_ok=True)
            return
        bench("run", "-q", *flags)
        left_by_runs[done] = tmp_path_factory.mktemp("ran") / "workspace"
        shutil.copytree(tmp_path, left_by_runs[done])

    return run_or_copy
