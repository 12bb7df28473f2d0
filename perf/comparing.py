"""Measure the time of ``bench compare``: ``python perf/comparing.py [--items N] [--rounds N] [--json]``.

* S3: comparing two runs of 100,000 items in a separate process, start included, takes at most 3 s of wall time for a
  benchmark with one metric. The CPU time is also printed, and both times for a benchmark with ten metrics, two of them
  percentiles of times.

The journals contain what such runs write: 50 conversations, five question types, one value per item and metric. The
files are read once before the measurement; the figure is the median of the rounds.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import anyio
from figures import Figure, environment, machine, table

from tests.small_journal import Job, made, measuring, record

WALL_GOAL_S = 3.0
CONVERSATIONS, TYPES = 50, 5
ONE = ("accuracy",)
TEN = (
    "accuracy", "correctness", "hit_at_5", "hit_at_10", "recall_fraction_at_10", "ndcg_at_10", "mrr", "map",
    "latency_p50", "latency_p95",
)  # fmt: skip
ROUNDS = 3


def column(metric: str, items: Sequence[str], rng: random.Random) -> dict[str, float]:
    """Return realistic values of a metric: microseconds, zeros and ones, or shares."""
    if metric.startswith("latency"):
        return {item: float(round(rng.lognormvariate(10, 0.5))) for item in items}
    if metric.startswith(("accuracy", "correctness", "hit")):
        return {item: float(rng.random() < 0.6) for item in items}
    return {item: rng.random() for item in items}


def fill(workspace: Path, items: int, metrics: Sequence[str]) -> None:
    """Write the journals of the runs ``a`` and ``b``."""
    rng = random.Random(0)
    names = [f"q{number:06d}" for number in range(items)]
    corpora = {name: f"c{at % CONVERSATIONS:02d}" for at, name in enumerate(names)}
    types = {name: f"t{at % TYPES}" for at, name in enumerate(names)}
    for provider in ("a", "b"):
        first, *more = (column(metric, names, rng) for metric in metrics)
        job = Job(
            record=record(provider, cluster_by="corpus", **measuring(*metrics)),
            values=first,
            more=dict(zip(metrics[1:], more, strict=True)),
            corpora=corpora,
            types=types,
        )
        anyio.run(made, workspace, provider, [job])


def timed(workspace: Path) -> tuple[float, float]:
    """Return wall and CPU seconds of one comparison."""
    command = [sys.executable, "-m", "bench", "--workspace", str(workspace), "compare", "a:a", "b:b", "--json"]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=environment())
    wall_s, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def figures(items: int, metrics: Sequence[str], *, rounds: int = ROUNDS) -> list[Figure]:
    """Measure S3 for one set of metrics."""
    with tempfile.TemporaryDirectory(prefix="bench-perf-") as folder:
        fill(Path(folder), items, metrics)
        timed(Path(folder))
        walls, cpus = zip(*(timed(Path(folder)) for _ in range(rounds)), strict=True)
    wall_s, cpu_s = statistics.median(walls), statistics.median(cpus)
    of = f"2 x {items:,} items, {len(metrics)} metric{'' if len(metrics) == 1 else 's'}"
    detail = {"wall_s": walls, "cpu_s": cpus}
    goal = f"<= {WALL_GOAL_S:g} s"
    return [
        Figure(id="S3", what=f"compare {of}, s", value=wall_s, goal=goal, ok=wall_s <= WALL_GOAL_S, detail=detail),
        Figure(id="S3", what="the same, CPU s", value=cpu_s, goal="-", ok=None),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = [one for metrics in (ONE, TEN) for one in figures(given.items, metrics, rounds=given.rounds)]
    shown = {"machine": machine(), "figures": [asdict(one) for one in found]}
    print(json.dumps(shown, indent=2) if given.json else table(found))


if __name__ == "__main__":
    main()
