"""Step-down maxT: agreement with its definition, and the rate of false positives."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import product

import pytest

from bench import stats
from bench.stats import significance as maxt


def by_definition(rows: Sequence[Sequence[float]]) -> list[float]:
    """Return adjusted p values over all 2^C patterns, directly by definition."""
    scales = [math.sqrt(sum(value * value for value in row)) or 1.0 for row in rows]

    def statistics(signs: Sequence[int]) -> list[float]:
        return [
            abs(sum(s * v for s, v in zip(signs, row, strict=True))) / c for row, c in zip(rows, scales, strict=True)
        ]

    observed = statistics([1] * len(rows[0]))
    order = sorted(range(len(rows)), key=lambda at: -observed[at])
    counts = [0] * len(rows)
    patterns = [statistics(signs) for signs in product((1, -1), repeat=len(rows[0]))]
    for pattern in patterns:
        for rank, at in enumerate(order):
            counts[at] += max(pattern[below] for below in order[rank:]) >= observed[at] - 1e-12
    adjusted, running = [0.0] * len(rows), 0.0
    for at in order:
        running = adjusted[at] = max(running, counts[at] / len(patterns))
    return adjusted


def drawn(rng: random.Random, units: int, rows: int, *, shared: float = 0.0, ahead: float = 0.0) -> list[list[float]]:
    """Return rows of sums with mean ``ahead``; ``shared`` is the correlation between the rows."""
    common = [rng.gauss(0, 1) for _ in range(units)]
    own = math.sqrt(1 - shared * shared)
    return [[ahead + shared * one + own * rng.gauss(0, 1) for one in common] for _ in range(rows)]


@pytest.mark.parametrize("units", [1, 2, 5, 8])
def test_max_t_enumerates_all_sign_patterns_of_few_units(units: int) -> None:
    rng = random.Random(units)
    for shared in (0.0, 0.7):
        rows = [*drawn(rng, units, 4, shared=shared), [0.0] * units, [round(rng.random()) for _ in range(units)]]
        assert stats.max_t(rows) == pytest.approx(by_definition(rows))


def test_max_t_of_one_row_equals_the_exact_sign_flip() -> None:
    for row in drawn(random.Random(3), 10, 5):
        assert stats.max_t([row]) == [stats.sign_flip(row, [0.0] * 10).p]


def test_copies_of_a_row_do_not_change_max_t() -> None:
    (row,) = drawn(random.Random(4), 8, 1, ahead=1.0)
    assert stats.max_t([row] * 14) == stats.max_t([row]) * 14


def test_sampled_patterns_approximate_the_exact_max_t() -> None:
    rows = drawn(random.Random(5), maxt.EXACT_UP_TO + 1, 3, ahead=0.4)
    signs = [maxt._all_sums(row[0], row[1:]) for row in rows]
    observed = [abs(sum(row)) / math.sqrt(sum(v * v for v in row)) for row in rows]
    top = max(range(3), key=observed.__getitem__)
    scales = [math.sqrt(sum(v * v for v in row)) for row in rows]
    largest = [max(abs(t) / s for t, s in zip(totals, scales, strict=True)) for totals in zip(*signs, strict=True)]
    exact = sum(one >= observed[top] - 1e-12 for one in largest) / len(largest)
    assert stats.max_t(rows)[top] == pytest.approx(exact, abs=0.012)
    assert stats.max_t(rows, seed=1) == stats.max_t(rows, seed=1) != stats.max_t(rows, seed=2)


def test_max_t_of_many_items_finds_a_true_difference() -> None:
    rng = random.Random(6)
    clear, nothing = drawn(rng, 3000, 1, ahead=0.2)[0], drawn(rng, 3000, 1)[0]
    assert clear != nothing
    p_clear, p_nothing = stats.max_t([clear, nothing])
    assert p_clear < 0.001 and p_nothing > 0.05


@pytest.mark.parametrize(("units", "shared"), [(6, 0.0), (8, 0.0), (8, 0.9), (10, 0.5)])
def test_max_t_has_at_most_5_percent_false_positives_per_family(units: int, shared: float) -> None:
    rng, rounds = random.Random(units), 400
    wrong = sum(min(stats.max_t(drawn(rng, units, 8, shared=shared))) < 0.05 for _ in range(rounds))
    assert wrong / rounds <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / rounds)


def test_max_t_controls_false_positives_next_to_true_differences() -> None:
    rng, rounds, wrong = random.Random(9), 300, 0
    for _ in range(rounds):
        rows = [*drawn(rng, 8, 4, ahead=3.0), *drawn(rng, 8, 4)]
        wrong += min(stats.max_t(rows)[4:]) < 0.05
    assert wrong / rounds <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / rounds)


@pytest.mark.parametrize(("units", "least"), [(1, 1.0), (5, 2 / 2**5), (8, 2 / 2**8), (14, 2 / 2**14)])
def test_least_max_t_is_the_p_of_a_row_with_equal_signs(units: int, least: float) -> None:
    assert stats.least_max_t(units, units) == least == stats.max_t([[1.0] * units])[0]


def test_least_max_t_of_a_sample_depends_on_the_number_of_patterns() -> None:
    assert stats.least_max_t(100, 100) == 1 / (1 + maxt.PATTERNS) == stats.max_t([[1.0] * 100])[0]
    assert stats.least_max_t(4, 100) == 0.125
    assert stats.max_t([]) == []
