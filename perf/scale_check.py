"""Compare real runs with the prediction of scale_sim.py: ``python perf/scale_sim.py --check``.

The exit code is 1 if a run differs from its prediction by more than 10%.

Each run of ``bench`` calls a stub server, and its wall time is compared with that of a simulated shard of the same
limits, latencies and sizes. The shares of failed calls are measured at the server; all other numbers are known before
the run.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from figures import child, machine, number
from scale_sim import Endpoint, Load, simulate
from stub import stats, stub
from workspace import write

ALLOWED = 0.10
SEEDS = 5
"""number of simulations of a run; their mean is its prediction"""
REPLY = 1_024
"""maximum tokens of an answer or a verdict"""
CALLS = {"add": 0, "search": 0, "answer": 107 + REPLY, "first judge": 228 + REPLY, "second judge": 228 + REPLY}
"""tokens of each call in the workspaces of workspace.py: its prompt and the longest reply"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run; ``name`` is the limit that should determine its time."""

    name: str
    items: int
    latency_ms: float
    concurrency: int
    corpora: int = 4
    turns: int = 4
    batch: int = 100
    k: tuple[int, ...] = (10,)
    """one job per value, over one ingest"""
    rates: Mapping[str, float] = field(default_factory=dict)
    """endpoint -> calls per second"""
    tokens_a_minute: int | None = None
    """token limit of each model"""
    faults: float = 0.0


CASES = (
    Case(name="latency", items=700, latency_ms=600, concurrency=32),
    Case(name="calls per second, batches of 10, two jobs on one build", items=500, latency_ms=100, concurrency=32,
         corpora=10, turns=60, batch=10, k=(3, 5), rates={"add": 5, "search": 20}),
    Case(name="tokens per minute", items=1000, latency_ms=100, concurrency=32, tokens_a_minute=1_200_000),
    Case(name="faults and retries", items=600, latency_ms=500, concurrency=32, faults=0.03),
)  # fmt: skip


def measure(case: Case) -> tuple[float, float, float]:
    """Run a case; return its wall seconds, and the shares of calls that were refused and lost."""
    flags = {"k": case.k, "rate": {f"stub.{name}": f"{rate}/s" for name, rate in case.rates.items()},
             "max_answer_tokens": REPLY, "max_judge_tokens": REPLY}  # fmt: skip
    with (
        stub(latency_ms=case.latency_ms, faults=case.faults) as url,
        tempfile.TemporaryDirectory(prefix="bench-perf-") as folder,
    ):
        write(Path(folder), items=case.items, url=url, corpora=case.corpora, turns=case.turns, batch=case.batch,
              tokens_a_minute=case.tokens_a_minute)  # fmt: skip
        arguments = ["--concurrency", str(case.concurrency), "--flags", json.dumps(flags)]
        found = child("child.py", "ours", folder, *arguments)
        assert (found["status"], found["exit_code"]) == ("complete", 0), found
        seen = stats(url)
    calls, refused = number(seen, "calls"), number(seen, "refused")
    return number(found, "wall_s"), refused / calls, (number(seen, "faults") - refused) / calls


def predict(case: Case, refused: float, lost: float) -> tuple[float, str]:
    """Simulate a case; return its wall seconds, and the limit that determines them."""
    token_rate = None if case.tokens_a_minute is None else case.tokens_a_minute / 60
    endpoints = [
        Endpoint(name, case.rates.get(name), case.latency_ms / 1000, 0.0, tokens, token_rate)
        for name, tokens in CALLS.items()
    ]
    load = Load(items_a_corpus=case.items // case.corpora, memories_a_corpus=case.turns, batch=case.batch,
                jobs=len(case.k), refused=refused, lost=lost, spread=0.0)  # fmt: skip
    found = [
        simulate(endpoints, items=case.items, shards=1, concurrency=case.concurrency, load=load, seed=seed)
        for seed in range(SEEDS)
    ]
    return statistics.mean(number(one, "wall_s") for one in found), str(found[0]["bound_by"])


def main() -> int:
    """Print each run with its prediction."""
    off = []
    print("| run | items | bound by | predicted | measured | off by |")
    print("|---|---|---|---|---|---|")
    for case in CASES:
        measured_s, refused, lost = measure(case)
        predicted_s, bound_by = predict(case, refused, lost)
        off.append(measured_s / predicted_s - 1)
        print(
            f"| {case.name} | {case.items} | {bound_by} | {predicted_s:.1f} s | {measured_s:.1f} s | {off[-1]:+.1%} |",
            flush=True,
        )
    print(f"\nTaken on: {', '.join(f'{name} {value}' for name, value in machine().items())}.")
    return int(max(map(abs, off)) > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
