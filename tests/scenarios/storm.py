"""A run that prints the number of its durable phases until it is killed: ``storm.py WORKSPACE RUN_ID``.

It has no latency and 200 requests in flight. Each start resumes the run if it exists.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from bench.config.catalog import Catalog
from bench.config.run import RunRequest
from bench.engine import SilentObserver, execute, resumed_plan
from bench.plan import make_plan
from bench.settings import Environment
from tests import forked

if TYPE_CHECKING:
    from bench.engine import Progress

FLAGS = {
    "benchmarks": "facts",
    "providers": "bm25",
    "answering_model": "builtin/extractive",
    "concurrency": 200,
    "isolation": "off",
}


class PrintedCounts(SilentObserver):
    """Print every few milliseconds how many phases are durable."""

    def launched(self, progress: Progress) -> None:
        def print_counts() -> None:
            while True:
                bars = [bar for lane in progress.lanes.values() for bar in lane.phases.values()]
                print(sum(bar.done for bar in bars), flush=True)
                time.sleep(0.004)

        threading.Thread(target=print_counts, daemon=True).start()


async def run_or_resume(workspace: Path, run_id: str) -> int:
    """Start the run, or resume it if it exists; return the exit code."""
    catalog, environment = Catalog.load(workspace), Environment.load(workspace)
    if (workspace / "checkpoints" / run_id / "journal.sqlite").exists():
        folder, plan = await resumed_plan(run_id, catalog=catalog, flags={}, environment=environment)
        return (await execute(plan, environment=environment, observer=PrintedCounts(), resume=folder)).exit_code
    plan = make_plan(catalog, RunRequest.combine(None, {**FLAGS, "run_id": run_id}), environment)
    return (await execute(plan, environment=environment, observer=PrintedCounts())).exit_code


def killed_after(workspace: Path, run_id: str, phases: int) -> int:
    """Kill a run after it printed that many durable phases; return the last number that it printed."""
    process = forked.Popen([sys.executable, __file__, str(workspace), run_id], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while (printed := int(process.stdout.readline())) < phases:
        pass
    process.kill()
    # the kill can leave an incomplete last line
    whole = [line for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    process.stdout.close()
    process.wait(timeout=120)
    return int(whole[-1]) if whole else printed


if __name__ == "__main__":
    sys.exit(anyio.run(run_or_resume, Path(sys.argv[1]), sys.argv[2]))
