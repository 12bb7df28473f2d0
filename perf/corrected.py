"""Coverage and width of the corrected score: seeded judges with known error, people who label 50 of 500 answers.

    python -m perf.corrected [SIMULATIONS]

The truth of each simulation is the share of right answers among its 500. Half of the judge's errors look doubtful, and
so does a tenth of its right verdicts.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from typing import NamedTuple

from bench.stats import Stratum, allocation, corrected_share

ERRORS = (0.05, 0.10, 0.20)
ACCURACY = (0.35, 0.70, 0.91)
ITEMS, LABELS = 500, 50
DOUBT_WEIGHT = 2.0
"""a doubtful answer gets so many times the labels of a clear one"""


class Simulated(NamedTuple):
    """What came out for one judge."""

    coverage: float
    width: float
    bias: float
    judge_bias: float
    """mean error of the judge's own value"""


def simulate(error: float, accuracy: float, simulations: int, *, seed: int = 0) -> Simulated:
    """Repeat one judge."""
    chance = random.Random(f"{seed}/{error}/{accuracy}")
    covered, widths, off, raw = 0, 0.0, 0.0, 0.0
    for _ in range(simulations):
        right = [chance.random() < accuracy for _ in range(ITEMS)]
        judged = [one != (chance.random() < error) for one in right]
        doubt = [chance.random() < (0.5 if a != b else 0.1) for a, b in zip(right, judged, strict=True)]
        found = corrected_share(_labelled(right, judged, doubt, chance))
        assert found is not None
        truth = sum(right) / ITEMS
        covered += found.interval.low <= truth <= found.interval.high
        widths += found.interval.high - found.interval.low
        off += found.value - truth
        raw += sum(judged) / ITEMS - truth
    return Simulated(covered / simulations, widths / simulations, off / simulations, raw / simulations)


def _labelled(
    right: Sequence[bool], judged: Sequence[bool], doubt: Sequence[bool], chance: random.Random
) -> list[Stratum]:
    groups: dict[tuple[bool, bool], list[bool]] = {}
    for one, verdict, doubtful in zip(right, judged, doubt, strict=True):
        groups.setdefault((verdict, doubtful), []).append(one)
    weights = [DOUBT_WEIGHT if doubtful else 1.0 for _, doubtful in groups]
    counts = allocation([len(group) for group in groups.values()], weights, LABELS)
    return [
        Stratum(len(group), count, sum(chance.sample(group, count)), float(verdict))
        for ((verdict, _), group), count in zip(groups.items(), counts, strict=True)
    ]


def main() -> None:
    """Print one line per judge."""
    simulations = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print("judge error  accuracy  coverage  mean width  mean error  judge's own error")
    for error in ERRORS:
        for accuracy in ACCURACY:
            one = simulate(error, accuracy, simulations)
            shown = f"{one.coverage:8.1%}  {one.width:10.3f}  {one.bias:+10.4f}  {one.judge_bias:+.4f}"
            print(f"{error:11.0%}  {accuracy:8.0%}  {shown}")


if __name__ == "__main__":
    main()
