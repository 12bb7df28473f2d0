"""Macro means and percentile ratios of two sides."""

from __future__ import annotations

import math
import random

import pytest

from bench import stats
from bench.stats import distributions


def test_compare_macro_counts_wins_losses_and_ties_of_all_labels() -> None:
    found = stats.compare_macro([([1, 1, 0, 1], [0, 0, 0, 1], None), ([0, 1], [0, 0], None)])
    assert found.delta == pytest.approx((0.5 + 0.5) / 2)
    assert found.test == "macro_t" and found.interval is not None and found.p is not None
    assert (found.n, found.wins, found.losses, found.ties) == (6, 3, 0, 3)


def test_compare_macro_of_one_label_equals_compare_columns() -> None:
    left, right = [1.0, 0.5, 0.0, 1.0, 0.2], [0.0, 0.5, 0.1, 0.3, 0.1]
    plain, macro = stats.compare_columns(left, right), stats.compare_macro([(left, right, None)])
    assert (macro.delta, macro.se, macro.p) == (
        pytest.approx(plain.delta),
        pytest.approx(plain.se),
        pytest.approx(plain.p),
    )


def times(n: int, factor: float, seed: int) -> tuple[list[float], list[float]]:
    rng = random.Random(seed)
    base = [rng.lognormvariate(3, 1) for _ in range(n)]
    return [x * factor * rng.lognormvariate(0, 0.2) for x in base], base


@pytest.mark.parametrize("clustered", [False, True])
def test_percentile_ratio_finds_a_factor_of_1_point_5_and_none_of_1(clustered: bool) -> None:
    groups = [f"c{n % 12}" for n in range(600)] if clustered else None
    found = stats.percentile_ratio(*times(600, 1.5, seed=3), 50, groups)
    assert found.delta == pytest.approx(0.5, abs=0.15)
    assert found.interval is not None and found.interval.low > 0 and found.p is not None and found.p < 0.05
    same = stats.percentile_ratio(*times(600, 1.0, seed=4), 50, groups)
    assert same.interval is not None and same.interval.low < 0 < same.interval.high


def test_swapping_the_sides_of_percentile_ratio_inverts_the_ratio() -> None:
    left, right = times(300, 1.3, seed=5)
    there, back = stats.percentile_ratio(left, right, 95), stats.percentile_ratio(right, left, 95)
    assert there.delta is not None and back.delta is not None
    assert (1 + there.delta) * (1 + back.delta) == pytest.approx(1)
    assert there.p == pytest.approx(back.p)


@pytest.mark.parametrize("n, known", [(40, False), (99, False), (200, True)])
def test_percentile_ratio_is_not_tested_with_few_items_beyond_the_percentile(n: int, known: bool) -> None:
    found = stats.percentile_ratio(*times(n, 1.5, seed=6), 95)
    assert (found.p is not None) == (found.interval is not None) == known
    assert found.delta is not None and bool(found.note)


def test_percentile_ratio_of_few_clusters_uses_t_with_their_degrees_of_freedom() -> None:
    found = stats.percentile_ratio(*times(400, 1.2, seed=7), 95, [at % 8 for at in range(400)])
    assert found.interval is not None and found.interval.method == "cluster_bootstrap"
    assert found.delta is not None and found.se is not None
    assert math.log1p(found.interval.high) == pytest.approx(
        math.log1p(found.delta) + distributions.t_quantile(0.975, df=7) * found.se
    )


def test_clusters_that_differ_widen_the_error_of_percentile_ratio() -> None:
    rng = random.Random(8)
    groups = [at % 40 for at in range(4000)]
    drift = [rng.gauss(0, 0.4) for _ in range(40)]
    right = [rng.lognormvariate(3, 0.5) for _ in groups]
    left = [x * math.exp(drift[group]) for x, group in zip(right, groups, strict=True)]
    apart, together = stats.percentile_ratio(left, right, 95), stats.percentile_ratio(left, right, 95, groups)
    assert apart.se is not None and together.se is not None and together.se > 2 * apart.se
