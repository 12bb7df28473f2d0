"""Figures with their goals, and functions to measure them with little noise.

A ratio is a quotient of medians from one interleaved run (floor, ours, floor, ours, ...).
"""

from __future__ import annotations

import json
import operator
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
GOAL = re.compile(r"(<=|>=|) ?([\d.]+)")
COMPARE = {"<=": operator.le, ">=": operator.ge, "": operator.eq}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured number; ``ok`` is None if this machine or scale cannot decide the goal."""

    id: str
    what: str
    value: float
    goal: str
    ok: bool | None
    gated: bool = False
    """CPU, memory, journal and resume ratios are gated; wall times are only printed"""
    detail: Mapping[str, object] = field(default_factory=dict)
    runs: int = 1
    """number of runs of which ``value`` is the median"""
    spread: tuple[float, float] | None = None
    """smallest and largest value of several runs"""

    def line(self) -> str:
        """Return the figure as a table row."""
        mark = {True: "ok", False: "MISSED", None: "-"}[self.ok]
        between = f" ({self.spread_text})" if self.spread else ""
        return f"{self.id:<4} {self.what:<58} {self.value:>10.3f}{between}   {self.goal:<34} {mark}"

    @property
    def spread_text(self) -> str:
        """The spread as in ``1.02 to 1.31``; "" for one run."""
        return " to ".join(map(short, self.spread or ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A measurement that was not possible, with the reason."""

    id: str
    why: str

    def line(self) -> str:
        return f"{self.id:<4} SKIPPED: {self.why}"


def interleaved(rounds: int, floor: Callable[[], float], ours: Callable[[], float]) -> tuple[float, float]:
    """Call both alternately; return the two medians."""
    pairs = [(floor(), ours()) for _ in range(rounds)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def child(script: str, *arguments: str) -> dict[str, object]:
    """Run a script of this folder in its own process; return the JSON object in its last line."""
    command = [sys.executable, str(HERE / script), *arguments]
    process = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{process.stderr[-4000:]}")
    found: dict[str, object] = json.loads(process.stdout.splitlines()[-1])
    return found


def environment() -> dict[str, str]:
    """Return the environment variables with the checkout first on PYTHONPATH; compiled files are written."""
    return {**os.environ, "PYTHONPATH": str(HERE.parent), "PYTHONDONTWRITEBYTECODE": ""}


def number(tree: Mapping[str, object], name: str) -> float:
    """Return a number from a child's JSON."""
    value = tree[name]
    assert isinstance(value, int | float)
    return float(value)


def cpu_s(work: Callable[[], object]) -> float:
    """Return the CPU seconds of ``work`` in this process, over all threads."""
    before = time.process_time()
    work()
    return time.process_time() - before


def machine() -> dict[str, object]:
    """Return a description of this machine."""
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


def medians(runs: Sequence[Sequence[Mapping[str, object]]]) -> list[Figure | Skipped]:
    """Combine the figures of several runs of ``run.py --json``: rows by id and text, ordered by id.

    The goal is that of the last run.
    """
    rows: dict[tuple[str, str], list[Any]] = {}
    for tree in (tree for run in runs for tree in run):
        rows.setdefault((str(tree["id"]), str(tree.get("what", tree.get("why")))), []).append(tree)
    ids = list(dict.fromkeys(name for name, _ in rows))
    found = [Skipped(**same[0]) if "why" in same[0] else _median(same) for same in rows.values()]
    return sorted(found, key=lambda one: ids.index(one.id))


def _median(same: Sequence[Any]) -> Figure:
    """Return the median of one figure; ``ok`` is None if a run could not decide the goal."""
    figures = [Figure(**tree) for tree in same]
    values = [one.value for one in figures]
    middle, last = statistics.median(values), figures[-1]
    ok = None if any(one.ok is None for one in figures) else reached(middle, last.goal)
    spread = (min(values), max(values))
    return replace(last, value=middle, ok=ok, detail={"values": values}, runs=len(values), spread=spread)


def reached(value: float, goal: str) -> bool:
    """Return whether a value meets the text of its goal: ``<= 1.06``, ``>= 0.40 x``, ``0``."""
    found = GOAL.match(goal)
    assert found is not None, goal
    return bool(COMPARE[found[1]](value, float(found[2])))


def short(value: float) -> str:
    """Format a number with three significant digits, or all digits from a thousand on."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def table(found: Sequence[Figure | Skipped]) -> str:
    """Return all figures, one per line."""
    return "\n".join(one.line() for one in found)


def markdown(found: Sequence[Figure | Skipped], machines: Sequence[Mapping[str, object]]) -> str:
    """Return the table for docs/performance.md; for several runs with the smallest and largest values."""
    runs = len(machines)
    value, between = ("measured", "") if runs == 1 else ("median", " min to max |")
    rows = [f"| id | what | {value} |{between} goal | |", f"|---|---|---|{'---|' if between else ''}---|---|"]
    for one in found:
        if isinstance(one, Figure):
            mark = {True: "met", False: "**missed**", None: "not judged"}[one.ok]
            few = f" ({one.runs} of {runs} runs)" if one.runs < runs else ""
            cell = f" {one.spread_text}{few} |" if between else ""
            rows.append(f"| {one.id} | {one.what} | {short(one.value)} |{cell} {one.goal} | {mark} |")
        else:
            rows.append(f"| {one.id} | skipped: {one.why} | |{' |' if between else ''} | |")
    facts = ((name, dict.fromkeys(str(where[name]) for where in machines)) for name in machines[0])
    place = ", ".join(f"{name} {' / '.join(values)}" for name, values in facts)
    return "\n".join([*rows, "", f"Taken on: {place}."])
