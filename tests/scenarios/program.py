"""Start the program in its own process with a minimal environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests import forked

PEAK = """
import re, sys
from pathlib import Path
from bench.cli import main
sys.argv = ["bench", *sys.argv[1:]]
try:
    sys.exit(main())
finally:
    for file, pattern in (("status", r"VmHWM:\\s+(\\d+) kB"), ("io", r"rchar: (\\d+)")):
        print(re.search(pattern, Path("/proc/self", file).read_text())[1], file=sys.stderr)
"""
"""the program; its last two lines on stderr are its peak of memory in KB and the number of bytes that it read. It does
not use ru_maxrss, because that starts with the size of the parent process."""


ONE_BY_ONE = """
import json, os, sys
from bench.cli import run
for number, words in enumerate(json.loads(sys.argv[1])):
    for stream, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{sys.argv[2]}/{number}.{name}", os.O_CREAT | os.O_TRUNC | os.O_WRONLY), stream)
    code = run(words)
    sys.stdout.flush()
    sys.stderr.flush()
    if code:
        sys.exit(code)
"""
"""several commands in one process, because starting an interpreter for each takes most of the time"""


def bench(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command and wait until it ends."""
    command = [sys.executable, "-m", "bench", *arguments]
    return forked.run(command, cwd=folder, env=clean(**variables))


def peak_and_bytes_read(stderr: bytes) -> tuple[int, int]:
    """Parse the lines that ``PEAK`` adds: the peak of memory in KB and the number of bytes that were read."""
    peak, read = stderr.split()[-2:]
    return int(peak), int(read)


def started(folder: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Start a command and return its process."""
    command = [sys.executable, "-m", "bench", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return forked.Popen(command, cwd=folder, env=clean(**variables), text=True, **pipes)


def clean(**variables: str) -> dict[str, str]:
    """Return the environment variables of such a process."""
    root = str(Path(__file__).resolve().parents[2])
    return {"PATH": "/usr/bin:/bin", "PYTHONPATH": root, **variables}
