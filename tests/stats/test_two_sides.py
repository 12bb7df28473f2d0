"""Macro means and percentiles of two sides."""

from __future__ import annotations

import random

import pytest

from bench import stats


def test_every_label_weighs_the_same_in_a_macro_difference() -> None:
    found = stats.compare_macro([([1, 1, 0, 1], [0, 0, 0, 1], None), ([0, 1], [0, 0], None)])
    assert found.delta == pytest.approx((0.5 + 0.5) / 2)
    assert found.test == "macro_t" and found.interval is not None and found.p is not None
    assert (found.n, found.wins, found.losses, found.ties) == (6, 3, 0, 3)


def test_a_macro_of_one_label_is_the_plain_comparison() -> None:
    left, right = [1.0, 0.5, 0.0, 1.0, 0.2], [0.0, 0.5, 0.1, 0.3, 0.1]
    plain, macro = stats.compare_columns(left, right), stats.compare_macro([(left, right, None)])
    assert (macro.delta, macro.se, macro.p) == (
        pytest.approx(plain.delta),
        pytest.approx(plain.se),
        pytest.approx(plain.p),
    )


@pytest.mark.parametrize("labels", [[], [([], [], None)], [([1], [0], None), ([1, 0], [0, 0], None)]])
def test_a_macro_that_cannot_be_tested_says_why(labels: list[stats.macro.Pairs]) -> None:
    found = stats.compare_macro(labels)
    assert found.p is None and found.interval is None and found.note


def times(n: int, factor: float, seed: int) -> tuple[list[float], list[float]]:
    rng = random.Random(seed)
    base = [rng.lognormvariate(3, 1) for _ in range(n)]
    return [x * factor * rng.lognormvariate(0, 0.2) for x in base], base


@pytest.mark.parametrize("clustered", [False, True])
def test_a_percentile_ratio_finds_a_factor_and_no_factor(clustered: bool) -> None:
    groups = [f"c{n % 12}" for n in range(600)] if clustered else None
    found = stats.percentile_ratio(*times(600, 1.5, seed=3), 50, groups)
    assert found.delta == pytest.approx(0.5, abs=0.15)
    assert found.interval is not None and found.interval.low > 0 and found.p is not None and found.p < 0.05
    same = stats.percentile_ratio(*times(600, 1.0, seed=4), 50, groups)
    assert same.interval is not None and same.interval.low < 0 < same.interval.high


def test_turning_a_percentile_ratio_round_turns_its_sign() -> None:
    left, right = times(300, 1.3, seed=5)
    there, back = stats.percentile_ratio(left, right, 95), stats.percentile_ratio(right, left, 95)
    assert there.delta is not None and back.delta is not None
    assert (1 + there.delta) * (1 + back.delta) == pytest.approx(1)
    assert there.p == pytest.approx(back.p)


@pytest.mark.parametrize("values", [[], [5.0], [5.0, 5.0, 5.0]])
def test_a_percentile_without_spread_is_not_tested(values: list[float]) -> None:
    found = stats.percentile_ratio(values, values, 95)
    assert found.p is None and found.interval is None and found.note
