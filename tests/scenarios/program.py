"""The program in a process of its own, with nothing of our environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PEAK = """
import re, sys
from pathlib import Path
from bench.cli import main
sys.argv = ["bench", *sys.argv[1:]]
code = main()
print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1], file=sys.stderr)
print(re.search(r"rchar: (\\d+)", Path("/proc/self/io").read_text())[1], file=sys.stderr)
sys.exit(code)
"""
"""the program, with its own peak of memory in KB and the bytes that it read as its last two lines on stderr; not
ru_maxrss, which begins with the size of the process that started it"""


def bench(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end."""
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=folder, env=clean(**variables), capture_output=True, check=False, timeout=120)


def started(folder: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Start a command."""
    command = [sys.executable, "-m", "bench", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=folder, env=clean(**variables), text=True, **pipes)  # type: ignore[call-overload,no-any-return]


def clean(**variables: str) -> dict[str, str]:
    """The variables of such a process."""
    root = str(Path(__file__).resolve().parents[2])
    return {"PATH": "/usr/bin:/bin", "PYTHONPATH": root, **variables}
