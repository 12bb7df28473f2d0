"""Measure the CPU seconds and the peak memory of a process.

``peak_mb()`` measures this process. ``used_by(command)`` runs another process and returns ``wall_s``, ``cpu_s`` and
``rss_mb``. On Linux the ``ru_maxrss`` of a process is at least the size of the process that started it. Therefore this
file, run as a script, is the small process that starts the command: ``usage.py COMMAND...`` prints one JSON object as
its last line.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak_mb() -> float:
    """Return the peak memory of this process in MB; without that of its parent if the system reports it separately."""
    if STATUS.exists() and (peak := re.search(r"VmHWM:\s+(\d+) kB", STATUS.read_text())):
        return int(peak[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def used_by(command: Sequence[str], *, folder: Path, variables: Mapping[str, str]) -> dict[str, float]:
    """Run a command to its end; raise RuntimeError with its output if it does not exit with 0."""
    small = [sys.executable, __file__, *command]
    process = subprocess.run(small, cwd=folder, env=dict(variables), capture_output=True, text=True, check=False)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} gave {process.returncode}:\n{process.stderr[-4000:]}")
    found: dict[str, float] = json.loads(process.stdout.splitlines()[-1])
    return found


def main() -> None:
    started = time.monotonic()
    process = subprocess.Popen(sys.argv[1:], stdout=sys.stderr)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    found = {
        "wall_s": time.monotonic() - started,
        "cpu_s": used.ru_utime + used.ru_stime,
        "rss_mb": used.ru_maxrss / 1024,
    }
    print(json.dumps(found))
    sys.exit(process.returncode)


if __name__ == "__main__":
    main()
