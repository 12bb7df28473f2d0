"""A run that says all the while how many phases it made durable, to be killed: ``storm.py WORKSPACE RUN_ID``.

It has no latency and 200 requests in flight; each start goes on with the run where there is one.
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


class Telling(SilentObserver):
    """Says every few milliseconds how many phases are durable."""

    def launched(self, progress: Progress) -> None:
        def tell() -> None:
            while True:
                bars = [bar for lane in progress.lanes.values() for bar in lane.phases.values()]
                print(sum(bar.done for bar in bars), flush=True)
                time.sleep(0.004)

        threading.Thread(target=tell, daemon=True).start()


async def storm(workspace: Path, run_id: str) -> int:
    """Begin or go on."""
    catalog, environment = Catalog.load(workspace), Environment.load(workspace)
    if (workspace / "checkpoints" / run_id / "journal.sqlite").exists():
        folder, plan = await resumed_plan(run_id, catalog=catalog, flags={}, environment=environment)
        return (await execute(plan, environment=environment, observer=Telling(), resume=folder)).exit_code
    plan = make_plan(catalog, RunRequest.combine(None, {**FLAGS, "run_id": run_id}), environment)
    return (await execute(plan, environment=environment, observer=Telling())).exit_code


def killed_after(workspace: Path, run_id: str, phases: int) -> int:
    """Start one and kill it when it told of that many durable phases; gives how many it had told of by then."""
    process = forked.Popen([sys.executable, __file__, str(workspace), run_id], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while (told := int(process.stdout.readline())) < phases:
        pass
    process.kill()
    # a line that the kill cut off was not told
    whole = [line for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    process.stdout.close()
    process.wait(timeout=120)
    return int(whole[-1]) if whole else told


if __name__ == "__main__":
    sys.exit(anyio.run(storm, Path(sys.argv[1]), sys.argv[2]))
