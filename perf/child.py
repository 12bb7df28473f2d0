"""Run one measurement in its own process: ``child.py KIND WORKSPACE [--concurrency N] [--items N]``.

KIND ``ours`` runs the engine over the workspace. ``told`` starts or resumes such a run, and keeps printing the number
of durable phases. ``floor`` makes the same calls, adds first, in a bare aiohttp loop, without journal, retry, limiter
or log. The output is one JSON object: wall and CPU seconds of the work itself, peak memory, outcome.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import anyio

sys.path.insert(0, str(Path(__file__).resolve().parent))
from usage import peak_mb
from workspace import CALLS_AN_ITEM, FLAGS

if TYPE_CHECKING:
    from bench.engine import Outcome, Progress

SEARCH = {"query": "Which fact is number 1?", "k": 10, "space": "bench-0123456789abcdef"}
PROMPT = {
    "model": "m",
    "temperature": 0,
    "messages": [{"role": "user", "content": "a short fact " * 40}],
    "max_tokens": 256,
}


def used() -> dict[str, float]:
    """Return the CPU seconds and the peak memory of this process."""
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return {"cpu_s": spent.ru_utime + spent.ru_stime, "rss_mb": peak_mb()}


def measured(work: Callable[[], dict[str, object]]) -> dict[str, object]:
    """Call ``work`` and return its outcome with wall seconds, CPU seconds and peak memory."""
    before, started = used(), time.perf_counter()
    outcome = work()
    after = used()
    return {
        "wall_s": time.perf_counter() - started,
        "cpu_s": after["cpu_s"] - before["cpu_s"],
        "rss_mb": after["rss_mb"],
        **outcome,
    }


def ours(workspace: Path, flags: dict[str, object]) -> dict[str, object]:
    """Make the plan (not timed), then execute it. The CPU of ``workers`` processes is not counted."""
    from bench.config.catalog import Catalog
    from bench.config.run import RunRequest
    from bench.engine import execute
    from bench.plan import make_plan
    from bench.settings import Environment

    environment = Environment.load(workspace)
    plan = make_plan(Catalog.load(workspace), RunRequest.combine(None, {**FLAGS, **flags}), environment)
    act: Callable[..., Awaitable[Outcome]] = execute
    if plan.is_spread:
        from bench.cluster import execute_on_cluster as act  # not for all: it would count as memory of every run

    def work() -> dict[str, object]:
        async def run() -> dict[str, object]:
            outcome = await act(plan, environment=environment)
            return {"status": outcome.status, "exit_code": outcome.exit_code, "run_id": outcome.run_id}

        return anyio.run(run)

    return measured(work)


class Telling:
    """An observer that prints the number of durable phases every few milliseconds."""

    def launched(self, progress: Progress) -> None:
        def tell() -> None:
            while True:
                bars = [bar for lane in progress.lanes.values() for bar in lane.phases.values()]
                print(sum(bar.done + bar.failed for bar in bars), flush=True)
                time.sleep(0.005)

        threading.Thread(target=tell, daemon=True).start()

    def stopping(self, reason: object, in_flight: int) -> None:
        pass

    def finished(self, outcome: object) -> None:
        pass


def told(workspace: Path, flags: dict[str, object]) -> dict[str, object]:
    """Start or resume a run that prints the number of durable phases."""
    from bench.config.catalog import Catalog
    from bench.config.run import RunRequest
    from bench.engine import execute, resumed_plan
    from bench.plan import make_plan
    from bench.settings import Environment

    environment = Environment.load(workspace)
    catalog = Catalog.load(workspace)
    folder = workspace / "checkpoints" / str(flags["run_id"])

    async def run() -> dict[str, object]:
        if (folder / "journal.sqlite").exists():
            path, plan = await resumed_plan(str(folder), catalog=catalog, flags={}, environment=environment)
            outcome = await execute(plan, environment=environment, observer=Telling(), resume=path)
        else:
            plan = make_plan(catalog, RunRequest.combine(None, {**FLAGS, **flags}), environment)
            outcome = await execute(plan, environment=environment, observer=Telling())
        return {"status": outcome.status, "exit_code": outcome.exit_code}

    return anyio.run(run)


def floor(workspace: Path, concurrency: int, items: int) -> dict[str, object]:
    """Make the same HTTP calls as a run, without the engine."""
    url = (workspace / "url").read_text(encoding="utf-8")
    corpora = json.loads((workspace / "datasets/perf.json").read_text(encoding="utf-8"))
    turns = [[turn for session in one["sessions"] for turn in session] for one in corpora]
    adds = [{"items": [{"id": turn["id"], "text": turn["text"]} for turn in some]} for some in turns]
    bodies = [(f"{url}/search", SEARCH), *[(f"{url}/v1/chat/completions", PROMPT)] * (CALLS_AN_ITEM - 1)]

    async def run() -> dict[str, object]:
        left = iter(range(items))
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def call(address: str, body: object) -> None:
                async with session.post(address, json=body) as answer:
                    json.loads(await answer.read())

            async def work() -> None:
                for _ in left:
                    for address, body in bodies:
                        await call(address, body)

            async with anyio.create_task_group() as tasks:
                for body in adds:
                    tasks.start_soon(call, f"{url}/add", body)
            async with anyio.create_task_group() as tasks:
                for _ in range(concurrency):
                    tasks.start_soon(work)
        return {"status": "complete", "exit_code": 0}

    return measured(lambda: anyio.run(run))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["ours", "told", "floor"])
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--items", type=int, default=0)
    parser.add_argument("--flags", type=json.loads, default={})
    flags = parser.parse_args()
    if flags.kind in ("ours", "told"):
        act = ours if flags.kind == "ours" else told
        print(json.dumps(act(flags.workspace, {"concurrency": flags.concurrency, **flags.flags})))
    else:
        print(json.dumps(floor(flags.workspace, flags.concurrency, flags.items)))


if __name__ == "__main__":
    main()
