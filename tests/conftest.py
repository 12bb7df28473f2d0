"""What every test may use: the shared material and a fault-injecting server on the loopback interface."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of vectors, captures, cases and datasets; the test skips where it is absent."""
    path = Path(os.environ.get("MEMORYBENCH_SHARED", ROOT.parent / "shared")).resolve()
    if not path.is_dir():
        pytest.skip("MEMORYBENCH_SHARED is not there")
    return path


@pytest.fixture
def fault_server(shared: Path) -> Iterator[Callable[..., str]]:
    """Start fault servers: ``url = fault_server("search:status:code=503", "--record")``."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> str:
        faults = [part for argument in arguments if ":" in argument for part in ("--fault", argument)]
        flags = [argument for argument in arguments if ":" not in argument]
        command = [sys.executable, str(shared / "tools" / "fault_server.py"), "--parent-watch", *faults, *flags]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        return str(json.loads(process.stdout.readline())["url"])

    yield start
    for process in processes:
        process.terminate()
        process.wait(timeout=10)
        assert process.stdout is not None
        process.stdout.close()
