"""What a measure gives: one figure against its goal, and how figures are taken so that noise stays out.

Ratios come from one interleaved run (floor, ours, floor, ours, ...) and are quotients of medians.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured number; ``ok`` None = measured, but this machine or scale says nothing about the goal."""

    id: str
    what: str
    value: float
    goal: str
    ok: bool | None
    gated: bool = False
    """CPU, memory, journal and resume ratios are gated; wall times are only printed"""
    detail: Mapping[str, object] = field(default_factory=dict)

    def line(self) -> str:
        """The figure as a table row."""
        mark = {True: "ok", False: "MISSED", None: "-"}[self.ok]
        return f"{self.id:<4} {self.what:<58} {self.value:>10.3f}   {self.goal:<34} {mark}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A measure that could not be taken, and why: said aloud, never silent."""

    id: str
    why: str

    def line(self) -> str:
        return f"{self.id:<4} SKIPPED: {self.why}"


def interleaved(rounds: int, floor: Callable[[], float], ours: Callable[[], float]) -> tuple[float, float]:
    """Take both in turns; give the two medians."""
    pairs = [(floor(), ours()) for _ in range(rounds)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def child(script: str, *arguments: str) -> dict[str, object]:
    """Run a script of this folder in a process of its own; its last line is one JSON object."""
    command = [sys.executable, str(HERE / script), *arguments]
    process = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{process.stderr[-4000:]}")
    found: dict[str, object] = json.loads(process.stdout.splitlines()[-1])
    return found


def environment() -> dict[str, str]:
    """This environment, with the checkout first on the path; what is compiled is kept, as where it is installed."""
    return {**os.environ, "PYTHONPATH": str(HERE.parent), "PYTHONDONTWRITEBYTECODE": ""}


def number(tree: Mapping[str, object], name: str) -> float:
    """A number out of a child's answer."""
    value = tree[name]
    assert isinstance(value, int | float)
    return float(value)


def cpu_s(work: Callable[[], object]) -> float:
    """CPU seconds of this process, all threads."""
    before = time.process_time()
    work()
    return time.process_time() - before


def machine() -> dict[str, object]:
    """Where the figures were taken."""
    model = ""
    if (cpuinfo := Path("/proc/cpuinfo")).exists():
        names = [line.partition(":")[2] for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].strip() if names else ""
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "load": os.getloadavg()[0],
    }


def table(found: Sequence[Figure | Skipped]) -> str:
    """All figures, a line each."""
    return "\n".join(one.line() for one in found)


def markdown(found: Sequence[Figure | Skipped]) -> str:
    """The table of docs/performance.md."""
    rows = ["| id | what | measured | goal | |", "|---|---|---|---|---|"]
    for one in found:
        if isinstance(one, Figure):
            mark = {True: "met", False: "missed", None: "not judged"}[one.ok]
            rows.append(f"| {one.id} | {one.what} | {one.value:.3g} | {one.goal} | {mark} |")
        else:
            rows.append(f"| {one.id} | skipped: {one.why} | | | |")
    facts = ", ".join(f"{name} {value}" for name, value in machine().items())
    return "\n".join([*rows, "", f"Taken on: {facts}."])
