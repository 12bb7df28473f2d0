"""Check the error rates and the power of ``compare``: ``python perf/significance.py [--rounds N] [--json] [--gate]``.

Two systems answer questions in ten conversations of LoCoMo's sizes (the 1,540 questions of its headline, without the
adversarial ones). The difference between the systems varies by conversation, so the sample is the ten conversations,
not the questions. Each comparison is that of ``bench compare``: ``compare_metric`` on a headline row.

* S1, type I error: equal systems are reported as different in at most 6 of 100 comparisons (the goal of the test is
  5). The same is measured for the 95th percentile of times, whose error is from a bootstrap of the conversations.
* S1, family-wise error: of ten correlated metrics of equal systems, over few or many conversations, any is reported as
  different in at most 6 of 100 comparisons (Westfall and Young's maxT, as for exploratory rows).
* S2, power: a true difference of at least the MDE that a comparison prints is found at least 8 times in 10. The
  strictest case is also printed: the true difference is exactly the MDE of the comparison. It is not gated. The
  formula of the MDE is that of the t test, which has a power of 0.80 there; the exact sign flip of ten conversations
  has 0.78.

Every share is printed with twice its Monte-Carlo error.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from figures import Figure, table

from bench import stats
from bench.metrics import Measure, open_metrics
from bench.report.comparison.paired_tests import ALPHA, PairedValues, compare_metric
from bench.stats import Comparison

LOCOMO = (152, 81, 152, 199, 178, 123, 150, 191, 156, 158)
"""number of questions that are not adversarial in each conversation of LoCoMo10"""
TYPE_ONE_LIMIT, POWER_GOAL = 0.06, 0.8
SPREADS = (0.0, 0.03, 0.06)
"""standard deviation by conversation of the difference between two systems"""
SETTLED = 3
"""number of iterations to find the difference that equals its own MDE"""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The random values of one round per question: lead of system a, probability of a right answer, luck of both."""

    ahead: tuple[float, ...]
    chance: tuple[float, ...]
    luck_a: tuple[float, ...]
    luck_b: tuple[float, ...]

    @classmethod
    def drawn(cls, rng: random.Random, spread: float) -> World:
        """Draw a round of conversations whose differences vary by ``spread``."""
        questions = range(sum(LOCOMO))
        return cls(
            ahead=tuple(one for size in LOCOMO for one in [rng.gauss(0, spread)] * size),
            chance=tuple(rng.uniform(0.3, 0.7) for _ in questions),
            luck_a=tuple(rng.random() for _ in questions),
            luck_b=tuple(rng.random() for _ in questions),
        )

    def answers(self, effect: float) -> tuple[list[float], list[float]]:
        """Return the answers (0 or 1) of both systems if a is better by ``effect``."""
        parts = zip(self.luck_a, self.chance, self.ahead, strict=True)
        left = [float(luck < chance + ahead + effect) for luck, chance, ahead in parts]
        return left, [float(luck < chance) for luck, chance in zip(self.luck_b, self.chance, strict=True)]

    def compared(self, effect: float) -> Comparison:
        """Compare the two systems as a headline row does."""
        return compare_metric(ACCURACY, paired(*self.answers(effect)))

    def at_its_own_mde(self) -> Comparison:
        """Compare the systems if the true difference is the MDE that the comparison prints."""
        found = self.compared(0.0)
        for _ in range(SETTLED):
            found = self.compared(found.mde or 0.0)
        return found


def opened(name: str) -> Measure:
    """Open a metric as a benchmark does."""
    return open_metrics([name], k=10, folder=Path())[0]


ACCURACY, SLOWEST = opened("accuracy"), opened("latency_p95")


def paired(left: Sequence[float], right: Sequence[float]) -> PairedValues:
    """Return the pairs of all questions, with one cluster per conversation."""
    clusters = [conversation for conversation, size in enumerate(LOCOMO) for _ in range(size)]
    return PairedValues.of(left, right, clusters, labels_in=lambda _: [])


def timed(rng: random.Random) -> Comparison:
    """Compare the 95th percentile, in microseconds, of two systems that are equally fast."""
    left, right = [], []
    for size in LOCOMO:
        a, b = rng.gauss(0, 0.2), rng.gauss(0, 0.2)
        for _ in range(size):
            question = rng.gauss(11, 0.5)
            left.append(math.exp(question + a + rng.gauss(0, 0.2)))
            right.append(math.exp(question + b + rng.gauss(0, 0.2)))
    return compare_metric(SLOWEST, paired(left, right))


def is_found(one: Comparison) -> bool:
    """Return True if a single headline row is significant; Holm over one row changes nothing."""
    return one.p is not None and one.p < ALPHA


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share with its Monte-Carlo error."""

    value: float
    rounds: int

    @classmethod
    def of(cls, held: Iterable[bool]) -> Share:
        """Return the share of true values."""
        found = list(held)
        return cls(value=sum(found) / len(found), rounds=len(found))

    @property
    def error(self) -> float:
        """Twice the standard error."""
        return 2 * math.sqrt(self.value * (1 - self.value) / self.rounds)

    def figure(self, name: str, what: str, goal: str, ok: bool, *, gated: bool, **detail: object) -> Figure:
        """Return the share with its goal."""
        told = f"{what} (+- {self.error:.3f})"
        more = {"rounds": self.rounds, "error": self.error, **detail}
        return Figure(id=name, what=told, value=self.value, goal=goal, ok=ok, gated=gated, detail=more)


def accuracy_figures(rounds: int, *, spread: float, seed: int) -> list[Figure]:
    """Measure S1 and S2 for a share of right answers."""
    rng = random.Random(seed)
    worlds = [World.drawn(rng, spread) for _ in range(rounds)]
    equal = [world.compared(0.0) for world in worlds]
    mde = statistics.median(one.mde or 0.0 for one in equal)
    apart = [world.compared(mde) for world in worlds]
    promised = Share.of(is_found(one) for one in apart if one.mde is not None and one.mde <= mde)
    own = Share.of(is_found(world.at_its_own_mde()) for world in worlds)
    type_one = Share.of(map(is_found, equal))
    covered = Share.of(one.interval is not None and one.interval.low <= 0 <= one.interval.high for one in equal)
    detail = {"spread": spread, "mde": mde, "coverage": covered.value}
    of = f"spread {spread:g}"
    return [
        type_one.figure("S1", f"equal systems told apart, {of}", f"<= {TYPE_ONE_LIMIT}",
                        type_one.value <= TYPE_ONE_LIMIT, gated=True, **detail),
        promised.figure("S2", f"found where MDE <= {mde:.3f} = difference", f">= {POWER_GOAL}",
                        promised.value >= POWER_GOAL, gated=True, **detail),
        own.figure("S2", "found at exactly its own MDE", f">= {POWER_GOAL}",
                   own.value >= POWER_GOAL, gated=False, **detail),
    ]  # fmt: skip


def time_figure(rounds: int, *, seed: int) -> Figure:
    """Measure S1 for a percentile of times."""
    rng = random.Random(seed)
    type_one = Share.of(is_found(timed(rng)) for _ in range(rounds))
    return type_one.figure(
        "S1", "equal times (p95) told apart", f"<= {TYPE_ONE_LIMIT}", type_one.value <= TYPE_ONE_LIMIT, gated=False
    )


FAMILIES = ((6, 0.0), (8, 0.0), (8, 0.9), (10, 0.5), (30, 0.7))
"""(number of conversations, correlation between two metrics of one conversation)"""
FAMILY_ROWS = 10


def family_figure(rounds: int, *, conversations: int, shared: float, seed: int) -> Figure:
    """Measure the family-wise error of correlated rows over conversations of LoCoMo's sizes."""
    rng = random.Random(seed)
    wrong = []
    for _ in range(rounds):
        sizes = [math.sqrt(rng.choice(LOCOMO)) for _ in range(conversations)]
        common = [rng.gauss(0, math.sqrt(shared)) for _ in sizes]
        rows = [
            [size * (one + rng.gauss(0, math.sqrt(1 - shared))) for size, one in zip(sizes, common, strict=True)]
            for _ in range(FAMILY_ROWS)
        ]
        wrong.append(min(stats.max_t(rows, seed=rng.randrange(1 << 30))) < ALPHA)
    share = Share.of(wrong)
    what = f"any of {FAMILY_ROWS} equal metrics told apart, {conversations} conversations, r {shared:g}"
    return share.figure("S1", what, f"<= {TYPE_ONE_LIMIT}", share.value <= TYPE_ONE_LIMIT, gated=True,
                        conversations=conversations, correlation=shared)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--gate", action="store_true", help="exit 1 when a gated share misses its goal")
    given = parser.parse_args()
    found = [
        one for seed, spread in enumerate(SPREADS) for one in accuracy_figures(given.rounds, spread=spread, seed=seed)
    ]
    for seed, (conversations, shared) in enumerate(FAMILIES, start=10):
        few = given.rounds if conversations <= stats.EXACT_UP_TO else max(given.rounds // 10, 1)
        found.append(family_figure(few, conversations=conversations, shared=shared, seed=seed))
    found.append(time_figure(max(given.rounds // 5, 1), seed=len(SPREADS)))
    print(json.dumps([asdict(one) for one in found], indent=1) if given.json else table(found))
    if given.gate and any(one.gated and one.ok is False for one in found):
        sys.exit(1)


if __name__ == "__main__":
    main()
