"""Measure coverage and width of the corrected score, with simulated judges and labels for 50 of 500 answers.

    python -m perf.corrected [SIMULATIONS]

The true score of a simulation is the share of right answers among its 500. Half of the judges' errors are marked as
doubtful, and so are a tenth of their right verdicts. All judges share the labels; one more judge is added after the
draw.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from bench.report.judges.review_sampling import stratum_of, weight_of
from bench.stats import CorrectedShare, Stratum, allocation, corrected_share

ERRORS = (0.05, 0.10, 0.20)
ACCURACY = (0.35, 0.70, 0.91)
JUDGES = (1, 2)
ITEMS, LABELS = 500, 50


class Simulated(NamedTuple):
    """The results for judges of one error rate."""

    coverage: float
    width: float
    bias: float
    judge_bias: float
    """mean error of the first judge's own value"""
    error_coverage: float
    """coverage of the interval of a judge's error; the lowest over the judges of the draw"""
    error_width: float
    later_coverage: float
    """coverage of the interval of the error of a judge that was added after the draw"""
    later_width: float


class Outcome(NamedTuple):
    """One estimate: whether its interval contains the true value, its width, and the error of the estimate."""

    covered: bool
    width: float
    off: float

    @classmethod
    def of(cls, found: CorrectedShare | None, truth: float) -> Outcome:
        """Compare an estimate with the true value."""
        assert found is not None
        low, high = found.interval.low, found.interval.high
        return cls(low - 1e-12 <= truth <= high + 1e-12, high - low, found.value - truth)


def simulate(error: float, accuracy: float, simulations: int, *, judges: int = 1, seed: int = 0) -> Simulated:
    """Simulate the draw of a sample that several judges share, many times; return means and coverages."""
    chance = random.Random(f"{seed}/{error}/{accuracy}/{judges}")
    shares: list[Outcome] = []
    errors: list[list[Outcome]] = [[] for _ in range(judges + 1)]
    raw = []
    for _ in range(simulations):
        right = [chance.random() < accuracy for _ in range(ITEMS)]
        verdicts = [[one != (chance.random() < error) for one in right] for _ in errors]
        groups = _strata(right, verdicts[:judges], chance)
        shares.append(Outcome.of(_estimate(groups, right), fmean(right)))
        for found, given in zip(errors, verdicts, strict=True):
            wrong = [a != b for a, b in zip(given, right, strict=True)]
            found.append(Outcome.of(_estimate(groups, wrong, exact=True), fmean(wrong)))
        raw.append(fmean(verdicts[0]) - fmean(right))
    least = min(errors[:judges], key=_coverage)
    return Simulated(
        coverage=_coverage(shares),
        width=fmean(one.width for one in shares),
        bias=fmean(one.off for one in shares),
        judge_bias=fmean(raw),
        error_coverage=_coverage(least),
        error_width=fmean(one.width for one in least),
        later_coverage=_coverage(errors[-1]),
        later_width=fmean(one.width for one in errors[-1]),
    )


def _coverage(found: Sequence[Outcome]) -> float:
    return fmean(one.covered for one in found)


Groups = list[tuple[list[int], int]]
"""the answers of each stratum in random order, and the number of them that have a label"""


def _strata(right: Sequence[bool], verdicts: Sequence[Sequence[bool]], chance: random.Random) -> Groups:
    groups: dict[str, list[int]] = {}
    for at, one in enumerate(right):
        given = [some[at] for some in verdicts]
        doubtful = chance.random() < (0.1 if all(verdict == one for verdict in given) else 0.5)
        groups.setdefault(stratum_of(given, doubtful=doubtful), []).append(at)
    names = sorted(groups)
    counts = allocation([len(groups[name]) for name in names], [weight_of(name) for name in names], LABELS)
    return [(chance.sample(groups[name], len(groups[name])), count) for name, count in zip(names, counts, strict=True)]


def _estimate(groups: Groups, facts: Sequence[bool], *, exact: bool = False) -> CorrectedShare | None:
    strata = [Stratum(len(some), count, sum(facts[at] for at in some[:count]), 0.5) for some, count in groups]
    return corrected_share(strata, exact=exact)


def main() -> None:
    """Print one line per error, accuracy and number of judges."""
    simulations = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    head = (
        "judges  judge error  accuracy  coverage  width    bias  judge's own  error: coverage  width  later: coverage"
    )
    print(f"{head}  width")
    for judges in JUDGES:
        for error in ERRORS:
            for accuracy in ACCURACY:
                one = simulate(error, accuracy, simulations, judges=judges)
                print(
                    f"{judges:6}  {error:11.0%}  {accuracy:8.0%}  {one.coverage:8.1%}  {one.width:5.3f}  "
                    f"{one.bias:+.4f}  {one.judge_bias:+11.3f}  {one.error_coverage:15.1%}  {one.error_width:5.3f}  "
                    f"{one.later_coverage:15.1%}  {one.later_width:5.3f}"
                )


if __name__ == "__main__":
    main()
