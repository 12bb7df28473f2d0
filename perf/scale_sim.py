"""How time and cost grow with a run: a simulation of 1,000 to 1,000,000 items under given rate limits, no call made.

``python perf/scale_sim.py [--shards 1 4 32] [--concurrency 32] [--limit answer=10000/m ...] [--json]``. A shard has
``--concurrency`` workers; each takes an item through search, answer and judge, waits at every endpoint until the
shard's part of the limit lets the call go, and then for its latency. An item begins when its corpus is ingested. The
shards of a run are alike, so one is simulated; a run is cut into no more shards than it has corpora. ``bound by``
names the endpoints at whose limit the run spends a good part of its time, or ``latency``: only then more shards help.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

SIZES = (1_000, 10_000, 100_000, 1_000_000)
ITEMS_A_CORPUS = 200
"""about LoCoMo's: 1,986 questions on 10 conversations"""
ADDS_A_CORPUS = 60
"""5,882 turns in batches of ten"""
SPREAD = 0.3
"""sigma of the logarithm of a latency"""
GOOD_PART = 0.3
UNITS = {"s": 1.0, "m": 60.0}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One place that calls go to; ``rate`` is of the whole run."""

    name: str
    rate: float | None
    """calls a second, None = no limit"""
    latency_s: float
    """median"""
    cost_usd: float
    """one call"""


ENDPOINTS = (
    Endpoint("add", 20.0, 0.25, 0.0),
    Endpoint("search", 50.0, 0.12, 0.0),
    Endpoint("answer", 10_000 / 60, 1.2, (1_500 * 0.15 + 40 * 0.60) / 1e6),
    Endpoint("judge", 10_000 / 60, 0.9, (500 * 0.15 + 60 * 0.60) / 1e6),
)
"""a hosted memory, and a small hosted model at USD 0.15 and 0.60 a million tokens"""


class Gate:
    """One endpoint as one shard sees it."""

    def __init__(self, endpoint: Endpoint, share: float, chance: random.Random) -> None:
        self.apart_s = 0.0 if endpoint.rate is None else 1 / (endpoint.rate * share)
        self.latency_s, self.chance = endpoint.latency_s, chance
        self.free_at = self.calls = 0.0

    def call(self, now: float) -> float:
        """When a call that is ready ``now`` has its answer."""
        begun = max(now, self.free_at)
        self.free_at = begun + self.apart_s
        self.calls += 1
        return begun + self.latency_s * self.chance.lognormvariate(0, SPREAD)

    def used(self, wall_s: float) -> float:
        """The share of the time in which the limit was the reason to wait."""
        return self.calls * self.apart_s / wall_s


def simulate(endpoints: Sequence[Endpoint], *, items: int, shards: int, concurrency: int) -> dict[str, object]:
    """One run: hours, cost and what held it up."""
    chance = random.Random(7)
    shards = min(shards, -(-items // ITEMS_A_CORPUS))
    gates = [Gate(one, 1 / shards, chance) for one in endpoints]
    add, asked = gates[0], gates[1:]
    own = -(-items // shards)
    corpora = -(-own // ITEMS_A_CORPUS)
    ready = chains(corpora, [0.0] * corpora, concurrency, [add] * ADDS_A_CORPUS)
    begin = [ready[at // ITEMS_A_CORPUS] for at in range(own)]
    wall_s = max(chains(own, begin, concurrency, asked))
    used = {one.name: gate.used(wall_s) for one, gate in zip(endpoints, gates, strict=True)}
    bound = [name for name, part in sorted(used.items(), key=lambda one: -one[1]) if part >= GOOD_PART]
    calls = [gate.calls * items / own for gate in gates]
    return {
        "items": items,
        "shards": shards,
        "wall_s": wall_s,
        "cost_usd": sum(count * one.cost_usd for count, one in zip(calls, endpoints, strict=True)),
        "bound_by": ", ".join(bound) or "latency",
    }


def chains(count: int, begin: Sequence[float], workers: int, path: Sequence[Gate]) -> list[float]:
    """When each of ``count`` chains of calls has ended, if so many workers take them in order."""
    ended = [0.0] * count
    waiting = iter(range(count))
    at_work = [(begin[at], at, 0) for at, _ in zip(waiting, range(workers), strict=False)]
    heapq.heapify(at_work)
    while at_work:
        now, at, step = heapq.heappop(at_work)
        if step < len(path):
            heapq.heappush(at_work, (path[step].call(now), at, step + 1))
            continue
        ended[at] = now
        if (following := next(waiting, None)) is not None:
            heapq.heappush(at_work, (max(now, begin[following]), following, 0))
    return ended


def time_text(seconds: float) -> str:
    """``38 s``, ``12 min``, ``7.4 h``, ``3.1 days``."""
    for unit, size in (("days", 86_400 * 2), ("h", 3_600 * 2), ("min", 60 * 2)):
        if seconds >= size:
            return f"{seconds / size * 2:.1f} {unit}"
    return f"{seconds:.0f} s"


def limited(endpoints: Sequence[Endpoint], limits: Sequence[str]) -> list[Endpoint]:
    """Apply ``NAME=R/s`` and ``NAME=R/m``; ``NAME=none`` takes a limit away."""
    found = {one.name: one for one in endpoints}
    for text in limits:
        name, _, value = text.partition("=")
        count, _, unit = value.partition("/")
        found[name] = replace(found[name], rate=None if value == "none" else float(count) / UNITS[unit])
    return list(found.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 4, 32])
    parser.add_argument("--concurrency", type=int, default=32, help="of one shard")
    parser.add_argument("--limit", nargs="+", default=[], metavar="NAME=R/s|R/m|none")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    endpoints = limited(ENDPOINTS, given.limit)
    found = [
        simulate(endpoints, items=items, shards=shards, concurrency=given.concurrency)
        for items in given.items
        for shards in given.shards
    ]
    if given.json:
        print(json.dumps(found, indent=2))
        return
    print("| items | shards | time | cost | bound by |")
    print("|---|---|---|---|---|")
    for one in found:
        wall = time_text(float(str(one["wall_s"])))
        print(f"| {one['items']:,} | {one['shards']} | {wall} | USD {one['cost_usd']:,.2f} | {one['bound_by']} |")


if __name__ == "__main__":
    main()
