"""The program in a process of its own, with nothing of our environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def bench(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end."""
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=folder, env=clean(**variables), capture_output=True, check=False, timeout=120)


def clean(**variables: str) -> dict[str, str]:
    """The variables of such a process."""
    root = str(Path(__file__).resolve().parents[2])
    return {"PATH": "/usr/bin:/bin", "PYTHONPATH": root, **variables}
