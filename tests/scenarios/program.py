"""The program in a process of its own, with nothing of our environment."""

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
"""the program, with its own peak of memory in KB and the bytes that it read as its last two lines on stderr; not
ru_maxrss, which begins with the size of the process that started it"""


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
"""many commands in one process, where it is the start of an interpreter that is the claim and takes the time"""


def bench(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end."""
    command = [sys.executable, "-m", "bench", *arguments]
    return forked.run(command, cwd=folder, env=clean(**variables))


def told(said: bytes) -> tuple[int, int]:
    """What ``PEAK`` said of the program: its peak in KB, the bytes that it read."""
    peak, read = said.split()[-2:]
    return int(peak), int(read)


def started(folder: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Start a command."""
    command = [sys.executable, "-m", "bench", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return forked.Popen(command, cwd=folder, env=clean(**variables), text=True, **pipes)


def clean(**variables: str) -> dict[str, str]:
    """The variables of such a process."""
    root = str(Path(__file__).resolve().parents[2])
    return {"PATH": "/usr/bin:/bin", "PYTHONPATH": root, **variables}
