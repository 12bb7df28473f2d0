"""Does ``compare`` keep its word? ``python perf/significance.py [--rounds N] [--items N] [--json] [--gate]``.

* S1: two systems that are equally good are told apart in at most 6 of 100 comparisons (goal of the test: 5);
* S2: where the printed MDE is no larger than the true difference, that difference is found at least 8 times in 10;
  beside it, ungated, how often a difference of the median MDE is found whatever is printed: the MDE rests on an error
  estimated from ten conversations, and the exact sign flip is a little weaker than the t quantiles of its formula;
* S3: comparing two runs of 100,000 items takes at most 3 s of wall time, program start included.

S1 and S2 draw questions in ten conversations of LoCoMo's sizes. A system's strength varies from conversation to
conversation, so the ten conversations, not the 1,986 questions, are the sample.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from figures import Figure, environment, table

LOCOMO = (199, 105, 193, 260, 242, 158, 190, 239, 196, 204)
"""questions of each conversation of LoCoMo10"""
ALPHA, TYPE_ONE_LIMIT, POWER_GOAL, WALL_GOAL_S = 0.05, 0.06, 0.8, 3.0
SPREADS = (0.0, 0.03, 0.06)
"""standard deviation of the difference between two systems from conversation to conversation"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One simulated comparison."""

    p: float
    mde: float
    covers: bool
    """the interval holds the true difference"""


def draw(rng: random.Random, *, effect: float, spread: float) -> Drawn:
    """Ask two systems the same questions and compare them as ``bench compare`` does."""
    from bench import stats

    left, right, groups = [], [], []
    for conversation, size in enumerate(LOCOMO):
        ahead = effect + rng.gauss(0, spread)
        for _ in range(size):
            chance = rng.uniform(0.3, 0.7)  # how easy the question is for both
            left.append(float(rng.random() < chance + ahead))
            right.append(float(rng.random() < chance))
        groups += [conversation] * size
    found = stats.compare_columns(left, right, groups)
    assert found.p is not None and found.mde is not None and found.interval is not None
    covers = found.interval.low <= effect <= found.interval.high
    return Drawn(p=found.p, mde=found.mde, covers=covers)


def simulated(rounds: int, *, spread: float, seed: int) -> tuple[list[Drawn], list[Drawn], float]:
    """Comparisons of equals, comparisons that differ by the printed MDE, and that MDE (the median)."""
    rng = random.Random(seed)
    equals = [draw(rng, effect=0.0, spread=spread) for _ in range(rounds)]
    mde = statistics.median(one.mde for one in equals)
    return equals, [draw(rng, effect=mde, spread=spread) for _ in range(rounds)], mde


def share_found(drawn: Sequence[Drawn]) -> float:
    """How many were told apart."""
    return sum(one.p < ALPHA for one in drawn) / len(drawn)


def errors(rounds: int) -> list[Figure]:
    """S1 and S2 for each spread."""
    return [figure for seed, spread in enumerate(SPREADS) for figure in _errors(rounds, seed=seed, spread=spread)]


def _errors(rounds: int, *, seed: int, spread: float) -> list[Figure]:
    equals, apart, mde = simulated(rounds, spread=spread, seed=seed)
    type_one, overall = share_found(equals), share_found(apart)
    power = share_found([one for one in apart if one.mde <= mde])
    detail = {"rounds": rounds, "spread": spread, "mde": mde, "coverage": sum(o.covers for o in equals) / rounds}
    return [
        Figure(
            id="S1",
            what=f"equal systems told apart, spread {spread:g}",
            value=type_one,
            goal=f"<= {TYPE_ONE_LIMIT}",
            ok=type_one <= TYPE_ONE_LIMIT,
            gated=True,
            detail=detail,
        ),
        Figure(
            id="S2",
            what=f"found where the MDE says so, difference {mde:.3f}",
            value=power,
            goal=f">= {POWER_GOAL}",
            ok=power >= POWER_GOAL,
            gated=True,
            detail=detail,
        ),
        Figure(id="S2", what="found whatever the MDE says", value=overall, goal="-", ok=None, detail=detail),
    ]


def wall(items: int) -> Figure:
    """S3: ``bench compare`` of two made runs in a process of its own; the best of three."""
    import anyio

    from tests.small_journal import Job, made, record

    rng = random.Random(0)
    names = [f"q{n:06d}" for n in range(items)]
    corpora = {name: f"c{at % 50:02d}" for at, name in enumerate(names)}
    types = {name: f"t{at % 5}" for at, name in enumerate(names)}
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder)
        for provider in ("a", "b"):
            values = {name: float(rng.random() < 0.6) for name in names}
            own = record(provider, cluster_by="corpus")
            anyio.run(made, workspace, provider, [Job(record=own, values=values, corpora=corpora, types=types)])
        times = [_timed(workspace) for _ in range(3)]
    goal = f"<= {WALL_GOAL_S:g} s"
    return Figure(
        id="S3",
        what=f"compare 2 x {items} items",
        value=min(times),
        goal=goal,
        ok=min(times) <= WALL_GOAL_S,
        detail={"all_s": times},
    )


def _timed(workspace: Path) -> float:
    started = time.perf_counter()
    command = [sys.executable, "-m", "bench", "--workspace", str(workspace), "compare", "a:a", "b:b", "--json"]
    subprocess.run(command, check=True, capture_output=True, env=environment())
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--gate", action="store_true", help="exit 1 when S1 or S2 misses its goal")
    given = parser.parse_args()
    found = [*errors(given.rounds), wall(given.items)]
    print(json.dumps([asdict(one) for one in found], indent=1) if given.json else table(found))
    if given.gate and any(one.gated and not one.ok for one in found):
        sys.exit(1)


if __name__ == "__main__":
    main()
