"""P2, the HTTP part: CPU per call, ours against a bare aiohttp loop.

``python perf/http_cpu.py [--calls 3000] [--rounds 5]`` prints one JSON object. Floor and ours run alternately in one
process, because times of different processes are not comparable. The figures are medians of CPU per call, and their
ratio.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import anyio

sys.path.insert(0, str(Path(__file__).resolve().parent))
from stub import stub

from bench.http import Endpoint, Http, Request, recording

BODY = {"query": "what is the name of the cat", "namespace": "n1", "limit": 10}
WORKERS = 50


async def share_out(calls: int, call: Callable[[], Awaitable[object]]) -> float:
    """Make the calls with 50 workers; return CPU microseconds per call."""
    left = iter(range(calls))

    async def work() -> None:
        for _ in left:
            await call()

    before = time.process_time()
    async with anyio.create_task_group() as tasks:
        for _ in range(WORKERS):
            tasks.start_soon(work)
    return (time.process_time() - before) / calls * 1e6


async def compare(url: str, calls: int, rounds: int) -> dict[str, object]:
    """Measure floor and ours alternately."""
    endpoint = Endpoint(name="perf.search", role="provider")
    payload = json.dumps(BODY).encode()

    async def bare(session: aiohttp.ClientSession) -> object:
        headers = {"Content-Type": "application/json"}
        async with session.post(f"{url}/search", data=payload, headers=headers) as answer:
            return json.loads(await answer.read())

    async def through(http: Http) -> object:
        with recording():
            response = await http.call(endpoint, Request("POST", f"{url}/search", json=BODY, idempotent=True))
        return response.json()

    floor: list[float] = []
    ours: list[float] = []
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session, Http(concurrency=WORKERS) as http:
        for _ in range(rounds + 1):
            floor.append(await share_out(calls, lambda: bare(session)))
            ours.append(await share_out(calls, lambda: through(http)))
    floor_us, ours_us = statistics.median(floor[1:]), statistics.median(ours[1:])
    return {
        "floor_us": round(floor_us, 1),
        "ours_us": round(ours_us, 1),
        "ratio": round(ours_us / floor_us, 3),
        "calls": calls,
        "rounds": rounds,
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=5)
    flags = parser.parse_args()
    with stub() as url:
        print(json.dumps(anyio.run(compare, url, flags.calls, flags.rounds)))


if __name__ == "__main__":
    main()
