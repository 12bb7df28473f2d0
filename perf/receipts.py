"""Sign and verify receipts of many rows: ``python perf/receipts.py [--rows 10000]`` prints one JSON object.

A run of built-in parts makes the journal; ``bench sign`` (which verifies all that it wrote) and ``bench verify`` are
then timed in processes of their own, imports included. CPU seconds, wall seconds, the memory that was held at most.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import environment, machine

GOALS_S = {10_000: 2.0, 100_000: 15.0}
GOAL_MB = 200
CORPORA = 50
TURNS = 30

BENCHMARK = """
name: rows
version: "1.0.0"
description: Many items over few memories
data: {type: local, path: ./datasets/rows.json, format: json}
schema:
  itemId: id
  context:
    field: sessions
    type: array
    dateField: session_dates
    sessionIdField: session_ids
    itemSchema: {dialogId: "$.id", role: "$.role", text: "$.text"}
  questions: {field: questions, idField: id, questionField: question, answerField: answer, evidenceField: evidence}
evidence: {parser: direct}
ingestion: {mode: incremental}
search: {defaultLimit: 10}
evaluation: {method: none}
metrics: [recall_at_5, recall_at_10, ndcg_at_10, mrr]
"""


def write(folder: Path, rows: int) -> None:
    """Make a workspace with one benchmark of that many items."""
    for name in ("configs/benchmarks", "datasets"):
        (folder / name).mkdir(parents=True)
    (folder / "configs/benchmarks/rows.yaml").write_text(BENCHMARK.lstrip(), encoding="utf-8")
    trees = [_corpus(number, rows // CORPORA) for number in range(CORPORA)]
    (folder / "datasets/rows.json").write_text(json.dumps(trees), encoding="utf-8")


def _corpus(number: int, items: int) -> dict[str, object]:
    turns = [{"id": f"c{number}-t{at}", "role": "user", "text": f"fact number {at} of them all"} for at in range(TURNS)]
    questions = [
        {
            "id": f"c{number}-q{at}",
            "question": f"fact {at % TURNS}?",
            "answer": "so",
            "evidence": [turns[at % TURNS]["id"]],
        }
        for at in range(items)
    ]
    dated = {"session_ids": ["s1"], "session_dates": ["2024/01/09 (Tue) 07:50"]}
    return {"id": f"c{number}", **dated, "sessions": [turns], "questions": questions}


def bench(folder: Path, *arguments: str) -> dict[str, float]:
    """Run one command in the workspace; say what it took."""
    variables = {**environment(), "XDG_CONFIG_HOME": str(folder / "config")}
    command = [sys.executable, "-m", "bench", "--workspace", str(folder), *arguments]
    began = time.perf_counter()
    with (folder / "said.txt").open("w+") as said:
        process = subprocess.Popen(command, env=variables, stdout=said, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise RuntimeError(f"{' '.join(command)} gave {process.returncode}:\n{said.read()[-3000:]}")
    took = {"cpu_s": used.ru_utime + used.ru_stime, "wall_s": time.perf_counter() - began}
    return {**{name: round(value, 2) for name, value in took.items()}, "rss_mb": round(used.ru_maxrss / 1024, 1)}


def measure(folder: Path, rows: int) -> dict[str, object]:
    """Run, sign and verify that many rows."""
    write(folder, rows)
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
