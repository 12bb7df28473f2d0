"""A workspace of its own and the program in it."""

from __future__ import annotations

import json
import os
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


@pytest.fixture
def environment() -> dict[str, str]:
    """The process environment without any key of a real service, for a process of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith(KEYS)}
    return {**kept, "PYTHONWARNINGS": "error", "PYTHONFAULTHANDLER": "1"}


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Bench:
    """``bench("run", "--limit", "5")`` in an empty folder, in this process."""
    monkeypatch.chdir(tmp_path)
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
