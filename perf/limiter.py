"""P9: measure the rates that the limiter allows, as the server counts them.

``python perf/limiter.py [--seconds 6] [--rates 1 50 200]`` prints a JSON list. For each rate it has the calls per
second that were reached, and the largest number of calls in any second: of received calls, and of sent calls. On a busy
machine the server may receive calls later than they were sent, and closer together; then the number of sent calls is
the relevant one.
"""

from __future__ import annotations

import argparse
import bisect
import json
import sys
import time
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).resolve().parent))
from stub import stats, stub

from bench.http import Endpoint, Http, Limits, Request, recording


def fullest_window(starts: list[float], length_s: float = 1.0) -> int:
    """Return the largest number of starts in any window of this length."""
    return max((bisect.bisect_left(starts, start + length_s) - at for at, start in enumerate(starts)), default=0)


async def spend(url: str, rate: float, seconds: float, workers: int) -> list[float]:
    """Call as fast as the limiter allows for ``seconds``; return the times at which calls were sent."""
    endpoint = Endpoint(name=f"perf.{rate}", role="provider", limits=Limits(rps=rate))
    end = time.perf_counter() + seconds

    async def work(http: Http) -> None:
        while time.perf_counter() < end:
            await http.call(endpoint, Request("POST", f"{url}/search", json={"q": "cats"}, idempotent=True))

    with recording() as calls:
        async with Http(concurrency=workers) as http, anyio.create_task_group() as tasks:
            for _ in range(workers):
                tasks.start_soon(work, http)
    return sorted(call.started_at.timestamp() for call in calls)


def measure(rate: float, seconds: float, workers: int) -> dict[str, object]:
    """Measure one rate with a new server."""
    with stub(latency_ms=20) as url:
        sent = anyio.run(spend, url, rate, max(seconds, 8 / rate), min(workers, max(2, int(rate))))
        starts = stats(url)["starts"]
    assert isinstance(starts, list)
    starts.sort()
    reached = (len(starts) - 1) / (starts[-1] - starts[0])
    burst = Limits(rps=rate).burst_size
    return {
        "rate": rate,
        "burst": burst,
        "calls": len(starts),
        "reached_per_s": round(reached, 3),
        "share": round(reached / rate, 4),
        "max_in_1s": fullest_window(starts),
        "max_sent_in_1s": fullest_window(sent),
        "allowed_in_1s": int(rate + burst),
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--rates", type=float, nargs="+", default=[1.0, 50.0, 200.0])
    parser.add_argument("--workers", type=int, default=40)
    flags = parser.parse_args()
    print(json.dumps([measure(rate, flags.seconds, flags.workers) for rate in flags.rates], indent=1))


if __name__ == "__main__":
    main()
