"""Measure how much faster a run is with more workers: as 1, 2 and 4 shards on dask processes of this machine.

``python perf/scale.py [--items 400] [--concurrency 1] [--latency 50] [--shards 1 2 4] [--json]``. Every call takes
``--latency`` milliseconds at a stub server in its own process. The workers are started before the measurement, as on a
cluster. ``--concurrency`` is that of one shard; it is small, so that latency is measured and not this machine's CPU.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).resolve().parent))
from stub import stats, stub
from workspace import CALLS_AN_ITEM, FLAGS, write

START_S = 60


@contextmanager
def cluster(workers: int, folder: Path) -> Iterator[str]:
    """Start a scheduler and workers as processes; yield the address when all are ready."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    dask = [sys.executable, "-m"]
    port = address.rpartition(":")[2]
    commands = [
        [*dask, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard"],
        *[[*dask, "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]] * workers,
    ]
    with (folder / "dask.log").open("wb") as log:
        processes = [subprocess.Popen(words, cwd=folder, stdout=log, stderr=log) for words in commands]
        try:
            wait_for_workers(address, workers)
            yield address
        finally:
            for process in reversed(processes):
                process.kill()
                process.wait()


def wait_for_workers(address: str, workers: int) -> None:
    """Wait until this number of workers is connected."""
    from bench.cluster.backend import Cluster
    from bench.errors import UsageError

    async def there() -> int:
        try:
            async with Cluster.open(address, token="scale") as found:
                return sum((await found.slots()).values())
        except UsageError:
            return 0

    deadline = time.monotonic() + START_S
    while anyio.run(there) < workers:
        if time.monotonic() > deadline:
            raise SystemExit("the workers did not start")
        time.sleep(0.5)


def measure(workspace: Path, address: str, shards: int, concurrency: int, url: str) -> dict[str, float]:
    """Measure one run: wall seconds from the start of the command to the merged journal."""
    from bench.cluster import execute_on_cluster
    from bench.config.catalog import Catalog
    from bench.config.run import RunRequest
    from bench.plan import make_plan
    from bench.settings import Environment

    stats(url, forget=True)
    environment = Environment.load(workspace)
    flags = {**FLAGS, "concurrency": concurrency, "cluster": address, "shards": shards}
    began = time.perf_counter()
    plan = make_plan(Catalog.load(workspace), RunRequest.combine(None, flags), environment)
    outcome = anyio.run(lambda: execute_on_cluster(plan, environment=environment))
    wall_s = time.perf_counter() - began
    assert outcome.exit_code == 0, outcome.message
    seen = stats(url)
    calls, most = seen["calls"], seen["max_in_flight"]
    assert isinstance(calls, int)
    assert isinstance(most, int)
    return {"shards": shards, "wall_s": wall_s, "calls": calls, "calls_per_s": calls / wall_s, "max_in_flight": most}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=400)
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--latency", type=float, default=50.0, metavar="MS")
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, stub(latency_ms=given.latency) as url:
        workspace = Path(name)
        write(workspace, items=given.items, url=url, corpora=4 * max(given.shards))
        with cluster(max(given.shards), workspace) as address:
            measure(workspace, address, max(given.shards), given.concurrency, url)  # imports and page cache
            found = [measure(workspace, address, count, given.concurrency, url) for count in given.shards]
    if given.json:
        print(json.dumps(found, indent=2))
        return
    ideal_s = given.items * CALLS_AN_ITEM * given.latency / 1000 / given.concurrency
    print("| shards | wall | ideal | calls a second | in flight at most | sooner by |")
    print("|---|---|---|---|---|---|")
    for one in found:
        shards = int(one["shards"])
        cells = [f"{one['wall_s']:.1f} s", f"{ideal_s / shards:.1f} s", f"{one['calls_per_s']:.0f}"]
        cells += [f"{one['max_in_flight']:.0f}", f"{found[0]['wall_s'] / one['wall_s']:.2f} x"]
        print(f"| {shards} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
