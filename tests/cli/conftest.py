"""A workspace of its own and the program as a user starts it: a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Bench = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environment() -> dict[str, str]:
    """The process environment without any key of a real service."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    return {**kept, "PYTHONWARNINGS": "error", "PYTHONFAULTHANDLER": "1"}


@pytest.fixture
def bench(tmp_path: Path, environment: dict[str, str]) -> Bench:
    """``bench("run", "--limit", "5")`` in an empty folder."""

    def call(*arguments: str, check: int | None = 0, **extra: Any) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "bench", *arguments],
            cwd=tmp_path,
            env={**environment, **extra.pop("env", {})},
            capture_output=True,
            text=True,
            timeout=120,
            **extra,
        )
        if check is not None:
            assert done.returncode == check, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    return call


@pytest.fixture
def results(bench: Bench) -> Callable[[str], dict[str, Any]]:
    """The document of ``bench results RUN --json``."""

    def read(run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(bench("results", run_id, "--json").stdout)
        return found

    return read
