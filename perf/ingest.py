"""Measure the ingest of 50 conversations of the size of LongMemEval-S (115,000 tokens each) at 50 ms per add.

``python perf/ingest.py [--corpora 50] [--latency 50]`` compares sequential single adds with batches of the size that
the provider's config allows, and for one conversation also with parallel single adds. The server counts adds, and
checks that the dates of each namespace arrive in order; with parallel adds they may not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web
from workspace import BENCHMARK, PROVIDER

from bench.config.catalog import Catalog
from bench.config.run import RunRequest
from bench.engine import execute
from bench.plan import make_plan
from bench.settings import Environment

SESSIONS, TURNS, WORDS = 48, 10, 184
"""88,000 words or 115,000 tokens in total"""
WAYS = {"single": "max_items: 1}", "batches": "max_items: 100}", "window": "max_items: 1}, order: parallel"}


@dataclass
class Server:
    """A server that answers adds after a delay."""

    latency_s: float
    dates: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    adds: int = 0

    async def add(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.adds += 1
        self.dates[body["space"]] += [one["when"] for one in body["items"]]
        await asyncio.sleep(self.latency_s)
        return web.json_response({})

    @property
    def is_in_order(self) -> bool:
        return all(dates == sorted(dates) for dates in self.dates.values())


def write(folder: Path, corpora: int, url: str) -> None:
    """Write a corpus of dated sessions per question, and one provider config per way to add."""
    dice = random.Random(7)
    words = ["".join(dice.choices("aeiklmnorstu", k=dice.randint(2, 7))) for _ in range(4000)]
    rows = [
        {
            "id": f"c{corpus}",
            "session_dates": [f"2024-{1 + at // 28:02d}-{1 + at % 28:02d} 10:00" for at in range(SESSIONS)],
            "sessions": [
                [
                    {"id": f"c{corpus}s{at}t{turn}", "role": "user", "text": " ".join(dice.choices(words, k=WORDS))}
                    for turn in range(TURNS)
                ]
                for at in range(SESSIONS)
            ],
            "session_ids": [f"c{corpus}s{at}" for at in range(SESSIONS)],
            "questions": [{"id": f"q{corpus}", "question": "Who?", "answer": "no one", "evidence": []}],
        }
        for corpus in range(corpora)
    ]
    for part in ("datasets", "configs/benchmarks", "configs/providers"):
        (folder / part).mkdir(parents=True)
    text = BENCHMARK.replace("NAME", "long").replace("EVALUATION", "contains").replace("METRICS", "accuracy")
    (folder / "datasets/long.json").write_text(json.dumps(rows))
    (folder / "configs/benchmarks/long.yaml").write_text(text)
    base = PROVIDER.replace("body: {items:", 'body: {space: "$.runTag", items:')
    base = base.replace('text: "@.content"', 'text: "@.content", when: "@.when"')
    for name, batch in WAYS.items():
        config = base.replace("name: stub", f"name: {name}").replace("URL", url).replace("max_items: 100}", batch)
        (folder / f"configs/providers/{name}.yaml").write_text(config)


async def measured(folder: Path, server: Server, way: str, **selection: object) -> tuple[float, int, bool]:
    """Ingest the corpora; return (seconds, number of adds, True if the dates arrived in order)."""
    server.adds = 0
    server.dates.clear()
    flags = {"benchmarks": "long", "providers": way, "phases": "ingest", "isolation": "off", **selection}
    environment = Environment(values={})
    plan = make_plan(Catalog.load(folder), RunRequest.combine(None, flags), environment)
    began = time.perf_counter()
    outcome = await execute(plan, environment=environment)
    assert outcome.exit_code == 0, outcome
    return time.perf_counter() - began, server.adds, server.is_in_order


async def main(corpora: int, latency_ms: float) -> None:
    """Print one line per way to add."""
    server = Server(latency_ms / 1000)
    app = web.Application(client_max_size=1 << 28)
    app.router.add_post("/add", server.add)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    address = runner.addresses[0]
    with tempfile.TemporaryDirectory(prefix="bench-perf-") as name:
        folder = Path(name)
        write(folder, corpora, f"http://127.0.0.1:{address[1]}")
        for count, ways in ((corpora, ("single", "batches")), (1, ("single", "batches", "window"))):
            first = 0.0
            for way in ways:
                seconds, adds, in_order = await measured(folder, server, way, limit=count)
                first = first or seconds
                order = "in order" if in_order else "not in order"
                print(f"{count} corpora, {way}: {seconds:.1f} s, {adds} adds, dates {order}, {first / seconds:.1f} x")
    await runner.cleanup()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", type=int, default=50)
    parser.add_argument("--latency", type=float, default=50)
    arguments = parser.parse_args()
    asyncio.run(main(arguments.corpora, arguments.latency))
