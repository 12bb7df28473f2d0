"""Sign and verify receipts with many rows: ``python perf/receipts.py [--rows 10000]`` prints one JSON object.

A run of built-in parts makes the journal. ``bench sign`` (which also verifies its receipts) and ``bench verify`` are
then measured in their own processes, imports included: CPU seconds, wall seconds, and peak memory.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from figures import environment, machine
from usage import used_by
from workspace import write_benchmark

GOALS_S = {10_000: 2.0, 100_000: 15.0}
GOAL_MB = 200
METRICS = "recall_at_5, recall_at_10, ndcg_at_10, mrr"


def bench(folder: Path, *arguments: str) -> dict[str, float]:
    """Run one command in the workspace; return its times and memory."""
    variables = {**environment(), "XDG_CONFIG_HOME": str(folder / "config")}
    command = [sys.executable, "-m", "bench", "--workspace", str(folder), *arguments]
    return {name: round(value, 2) for name, value in used_by(command, folder=folder, variables=variables).items()}


def measure(folder: Path, rows: int) -> dict[str, object]:
    """Run, sign and verify ``rows`` rows."""
    write_benchmark(folder, "rows", items=rows, corpora=50, turns=30, evaluation="none", metrics=METRICS)
    bench(folder, "keys", "new")
    ran = bench(
        folder,
        "run",
        "--benchmarks",
        "rows",
        "--providers",
        "bm25",
        "--run-id",
        "r",
        "--answering-models",
        "none",
        "--isolation",
        "off",
    )
    found = {
        "run": ran,
        "sign": bench(folder, "sign", "r"),
        "verify": bench(folder, "verify", str(folder / "results/r/receipts")),
    }
    goal_s = GOALS_S.get(rows)
    met = {
        name: found[name]["cpu_s"] <= goal_s and found[name]["rss_mb"] <= GOAL_MB
        for name in ("sign", "verify")
        if goal_s
    }
    return {"rows": rows, "goal_s": goal_s, "goal_mb": GOAL_MB, **found, "met": met}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--keep", type=Path, help="make the workspace here and leave it")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-perf-") as scratch:
        found = measure(given.keep or Path(scratch), given.rows)
    print(json.dumps({"machine": machine(), **found}, indent=2))


if __name__ == "__main__":
    main()
