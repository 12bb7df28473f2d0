"""Simulate time and cost of runs of 1,000 to 10,000,000 items under given limits, without any call.

``python perf/scale_sim.py [--shards 1 4 32] [--concurrency 32] [--limit answer=10000/m answer=2000000t/m ...]
[--batch 10] [--jobs 3] [--refused 0.01] [--lost 0.01] [--json]``. A shard works as the engine does. Each of its
``--concurrency`` preparing workers ingests one corpus, batch by batch. As many item workers take the items of ready
corpora through search, answer and judge, once for each of the ``--jobs`` that share the ingest. A call waits in the
line of its endpoint for tokens, for the rate (the shard's part of the limit) and for one of the ``--concurrency``
slots. A failed call is repeated after the wait of a retry; a refused one (429) also closes its endpoint.

The shards of a run are alike, so one is simulated. A run is split into at most as many shards as it has corpora. Of a
long shard a steady part is simulated and extrapolated. ``bound by`` names the endpoints whose limit determines a large
part of the time, or ``latency``: only then do more shards help.

``--check`` compares the simulation with real runs, see scale_check.py.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import random
import sys
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench.http.endpoint import Limits, Retry
from bench.http.rate_limiter import BURST_SLACK, TOKEN_BURST_S, USED_SHARE
from bench.http.retry import JITTER_AFTER_WAIT_S

SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
SAMPLE = 20_000
"""items of the shorter of two simulated shards; their difference extrapolates to a longer one"""
GOOD_PART = 0.3
UNITS = {"s": 1.0, "m": 60.0}
RETRY = Retry()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint; its limits are those of the whole run."""

    name: str
    rate: float | None
    """calls per second; None = no limit"""
    latency_s: float
    """median latency"""
    cost_usd: float
    """cost of one call"""
    tokens: int = 0
    """tokens that a call takes from a token limit: its prompt, and the longest reply that it allows"""
    token_rate: float | None = None
    """tokens per second; None = no limit"""


ENDPOINTS = (
    Endpoint("add", 20.0, 0.25, 0.0),
    Endpoint("search", 50.0, 0.12, 0.0),
    Endpoint("answer", 10_000 / 60, 1.2, (1_500 * 0.15 + 40 * 0.60) / 1e6, 1_500 + 1_024, 1e7 / 60),
    Endpoint("judge", 10_000 / 60, 0.9, (500 * 0.15 + 60 * 0.60) / 1e6, 500 + 1_024, 1e7 / 60),
)
"""a hosted memory, and a small hosted model at USD 0.15 and 0.60 per million tokens"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The work of a run, except its size."""

    items_a_corpus: int = 200
    """about as in LoCoMo: 1,986 questions on 10 conversations"""
    memories_a_corpus: int = 588
    """5,882 turns on 10 conversations"""
    batch: int = 10
    """memories per add"""
    jobs: int = 1
    """number of jobs; each searches, answers and judges every item, over one ingest"""
    refused: float = 0.0
    """share of calls that are answered with 429 and Retry-After"""
    lost: float = 0.0
    """share of calls that are answered with 5xx or not at all"""
    retry_after_s: float = 1.0
    spread: float = 0.3
    """standard deviation of the logarithm of a latency"""

    @property
    def adds(self) -> int:
        """The number of adds of one corpus."""
        return -(-self.memories_a_corpus // self.batch)


Worker = Generator[float | None, None, None]
"""yields the time at which it continues, or None if another worker wakes it"""


class Clock:
    """A clock that continues workers in the order of their times."""

    def __init__(self) -> None:
        self.now = 0.0
        self._order = itertools.count()
        self._due: list[tuple[float, int, Worker]] = []
        self._current: Worker

    def wake(self, worker: Worker, at: float | None = None) -> None:
        heapq.heappush(self._due, (self.now if at is None else at, next(self._order), worker))

    def park(self, where: deque[Worker]) -> Worker:
        """Wait until another worker wakes this one."""
        where.append(self._current)
        yield None

    def run(self) -> None:
        while self._due:
            self.now, _, self._current = heapq.heappop(self._due)
            if (at := next(self._current, None)) is not None:
                self.wake(self._current, at)


class Slots:
    """Slots that are given out in the order of requests."""

    def __init__(self, clock: Clock, free: int) -> None:
        self._clock, self._free = clock, free
        self._waiting: deque[Worker] = deque()

    def take(self) -> Worker:
        if self._free:
            self._free -= 1
        else:
            yield from self._clock.park(self._waiting)

    def give(self) -> None:
        if self._waiting:
            self._clock.wake(self._waiting.popleft())
        else:
            self._free += 1


class Bucket:
    """A leaky bucket: its content leaks at ``rate`` and never exceeds ``capacity``."""

    def __init__(self, rate: float, capacity: float) -> None:
        self._rate, self._capacity = rate, capacity
        self._empty_at = 0.0

    def opens(self, amount: float) -> float:
        """Return the time from which the amount fits into the bucket."""
        return self._empty_at - max(0.0, self._capacity - amount) / self._rate

    def take(self, now: float, amount: float) -> None:
        self._empty_at = max(now, self._empty_at) + amount / self._rate


class Gate:
    """The rate limit of one endpoint for one shard."""

    def __init__(self, endpoint: Endpoint, share: float, clock: Clock) -> None:
        self.endpoint, self.turn = endpoint, Slots(clock, 1)
        self.waited_s = self.waited_for_tokens_s = 0.0
        """seconds that the calls at the front of the line waited: the time for which the limit delayed the shard"""
        self.closed_until = 0.0
        self.requests: Bucket | None = None
        self.tokens: Bucket | None = None
        if endpoint.rate is not None:
            rate, burst = endpoint.rate * share * USED_SHARE, Limits(rps=endpoint.rate).burst_size * share
            self.requests = Bucket(rate, max(1.0, burst) + BURST_SLACK)
        if endpoint.token_rate is not None and endpoint.tokens:
            rate = endpoint.token_rate * share
            self.tokens = Bucket(rate, max(1.0, rate * TOKEN_BURST_S))


class Shard:
    """One process with its part of the limits."""

    def __init__(
        self, endpoints: Sequence[Endpoint], load: Load, *, items: int, share: float, concurrency: int, seed: int
    ) -> None:
        self.load, self.width, self.chance = load, concurrency, random.Random(seed)
        self.clock = Clock()
        self.slots = Slots(self.clock, concurrency)
        self.gates = [Gate(one, share, self.clock) for one in endpoints]
        whole, rest = divmod(items, load.items_a_corpus)
        sizes = [load.items_a_corpus] * whole + [rest] * (rest > 0)
        self.corpora = iter(sizes)
        self.preparing = min(concurrency, len(sizes))
        self.ready: deque[int] = deque()
        """number of remaining items of each ingested corpus"""
        self.idle: deque[Worker] = deque()
        self.ahead: deque[Worker] = deque()

    def run(self) -> list[float]:
        """Simulate the shard; return wall seconds, and per endpoint the seconds for which its limits were the delay."""
        for _ in range(self.preparing):
            self.clock.wake(self.prepare())
        for _ in range(self.width):
            self.clock.wake(self.work())
        self.clock.run()
        return [self.clock.now, *(one for gate in self.gates for one in (gate.waited_s, gate.waited_for_tokens_s))]

    def prepare(self) -> Worker:
        """Ingest corpora one by one; pause while more corpora are ready than there are workers."""
        for items in self.corpora:
            for _ in range(self.load.adds):
                yield from self.call(self.gates[0])
            while len(self.ready) > self.width:
                yield from self.clock.park(self.ahead)
            self.ready.append(items * self.load.jobs)
            self.wake_all(self.idle)
        self.preparing -= 1
        self.wake_all(self.idle)

    def work(self) -> Worker:
        """Take items one by one from the first corpus that is ready."""
        while self.ready or self.preparing:
            if not self.ready:
                yield from self.clock.park(self.idle)
                continue
            self.ready[0] -= 1
            if not self.ready[0]:
                self.ready.popleft()
                self.wake_all(self.ahead)
            for gate in self.gates[1:]:
                yield from self.call(gate)

    def call(self, gate: Gate) -> Worker:
        """Simulate one call with its retries."""
        for attempt in itertools.count():
            yield from self.enter(gate)
            failed, refused = self.chance.random(), self.load.refused
            if failed >= refused + self.load.lost:
                latency = self.chance.lognormvariate(0, self.load.spread) * gate.endpoint.latency_s
                yield self.clock.now + latency
                self.slots.give()
                return
            self.slots.give()
            span = min(RETRY.max_delay_s, RETRY.delay_s * 2.0**attempt)
            wait = self.chance.uniform(0, span)
            if failed < refused:
                gate.closed_until = max(gate.closed_until, self.clock.now + self.load.retry_after_s)
                wait = self.load.retry_after_s + self.chance.uniform(0, min(span, JITTER_AFTER_WAIT_S))
            yield self.clock.now + wait

    def enter(self, gate: Gate) -> Worker:
        """Wait in line for tokens, for the rate and for a slot, as ``bench.http.rate_limiter`` does."""
        clock = self.clock
        yield from gate.turn.take()
        if gate.tokens is not None:
            if (at := gate.tokens.opens(gate.endpoint.tokens)) > clock.now:
                gate.waited_for_tokens_s += at - clock.now
                yield at
            gate.tokens.take(clock.now, gate.endpoint.tokens)
        if gate.requests is not None and (at := gate.requests.opens(1)) > clock.now:
            gate.waited_s += at - clock.now
            yield at
        while gate.closed_until > clock.now:
            yield gate.closed_until
        yield from self.slots.take()
        if gate.requests is not None:
            gate.requests.take(clock.now, 1)
        gate.turn.give()

    def wake_all(self, workers: deque[Worker]) -> None:
        while workers:
            self.clock.wake(workers.popleft())


def simulate(
    endpoints: Sequence[Endpoint],
    *,
    items: int,
    shards: int,
    concurrency: int,
    load: Load | None = None,
    seed: int = 7,
) -> dict[str, object]:
    """Simulate one run: wall seconds, cost, and the endpoints that limit it."""
    load = load or Load()
    corpora = -(-items // load.items_a_corpus)
    shards = min(shards, corpora)
    own = -(-items // shards)

    def play(count: int) -> list[float]:
        return Shard(endpoints, load, items=count, share=1 / shards, concurrency=concurrency, seed=seed).run()

    # a shard is steady once as many corpora are ready as may wait: the stretch begins behind them
    sample = max(SAMPLE, 3 * concurrency * load.items_a_corpus)
    if own <= 2 * sample:
        wall_s, *waited = play(own)
    else:
        more = (own - 2 * sample) / sample
        pairs = zip(play(sample), play(2 * sample), strict=True)
        wall_s, *waited = (long + (long - short) * more for short, long in pairs)
    limits = (name for one in endpoints for name in (one.name, f"{one.name} tokens"))
    used = {name: part / wall_s for name, part in zip(limits, waited, strict=True)}
    bound = [name for name, part in sorted(used.items(), key=lambda one: -one[1]) if part >= GOOD_PART]
    add, *asked = (one.cost_usd for one in endpoints)
    return {
        "items": items,
        "shards": shards,
        "wall_s": wall_s,
        "cost_usd": corpora * load.adds * add + items * load.jobs * sum(asked),
        "bound_by": ", ".join(bound) or "latency",
    }


def time_text(seconds: float) -> str:
    """Format a duration as in ``38 s``, ``12 min``, ``7.4 h``, ``3.1 days``."""
    for unit, size in (("days", 86_400 * 2), ("h", 3_600 * 2), ("min", 60 * 2)):
        if seconds >= size:
            return f"{seconds / size * 2:.1f} {unit}"
    return f"{seconds:.0f} s"


def limited(endpoints: Sequence[Endpoint], limits: Sequence[str]) -> list[Endpoint]:
    """Apply limits such as ``NAME=R/s``, ``NAME=R/m`` and ``NAME=Nt/m`` (tokens); ``NAME=none`` removes both limits."""
    found = {one.name: one for one in endpoints}
    for text in limits:
        name, _, value = text.partition("=")
        count, _, unit = value.partition("/")
        if value == "none":
            found[name] = replace(found[name], rate=None, token_rate=None)
        elif count.endswith("t"):
            found[name] = replace(found[name], token_rate=float(count[:-1]) / UNITS[unit])
        else:
            found[name] = replace(found[name], rate=float(count) / UNITS[unit])
    return list(found.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 4, 32])
    parser.add_argument("--concurrency", type=int, default=32, help="of one shard")
    parser.add_argument("--limit", nargs="+", default=[], metavar="NAME=R/s|R/m|Nt/m|none")
    parser.add_argument("--batch", type=int, default=Load().batch, help="memories of one add")
    parser.add_argument("--jobs", type=int, default=1, help="that share one ingest")
    parser.add_argument("--refused", type=float, default=0.0, help="share of calls that are answered with 429")
    parser.add_argument("--lost", type=float, default=0.0, help="share of calls that fail otherwise")
    parser.add_argument("--check", action="store_true", help="compare with real runs")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.check:
        import scale_check

        sys.exit(scale_check.main())
    load = Load(batch=given.batch, jobs=given.jobs, refused=given.refused, lost=given.lost)
    endpoints = limited(ENDPOINTS, given.limit)
    found = [
        simulate(endpoints, items=items, shards=shards, concurrency=given.concurrency, load=load)
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
