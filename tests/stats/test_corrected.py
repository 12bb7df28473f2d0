"""A judge's share corrected by labels: worked examples, and the coverage of its interval."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.stats import Stratum, allocation, corrected_share
from perf.corrected import ACCURACY, ERRORS, JUDGES, simulate

PAGE = Path(__file__).parents[2] / "docs/disputes.md"


def test_the_estimate_is_that_of_the_formula() -> None:
    """100 judged right (20 labelled, 18 right), 50 judged wrong (10 labelled, 1 right)."""
    found = corrected_share([Stratum(100, 20, 18, 1.0), Stratum(50, 10, 1, 0.0)])
    assert found is not None
    judge, rectifier = 100 / 150, (100 / 150) * (-2 / 20) + (50 / 150) * (1 / 10)
    assert found.value == pytest.approx(judge + rectifier)
    assert found.labelled == 30 and found.interval.low < found.value < found.interval.high


def test_labels_that_all_agree_leave_a_width_and_labels_for_all_none() -> None:
    some = corrected_share([Stratum(100, 10, 10, 1.0)])
    every = corrected_share([Stratum(100, 100, 90, 1.0)])
    assert some is not None and some.interval.low < 1 == some.interval.high
    assert every is not None and every.interval.low == every.interval.high == 0.9


def test_a_stratum_without_a_label_counts_as_judged_with_every_value_possible() -> None:
    found = corrected_share([Stratum(90, 45, 45, 1.0), Stratum(10, 0, 0, 0.0)])
    assert found is not None and found.value == pytest.approx(0.9) and found.interval.high == 1.0
    assert corrected_share([Stratum(10, 0, 0, 1.0)]) is None
    with pytest.raises(ValueError, match="2 right answers, 1 labels"):
        corrected_share([Stratum(10, 1, 2, 1.0)])


def test_labels_are_shared_by_size_and_weight_and_never_above_the_size() -> None:
    assert sum(allocation([300, 150, 40, 10], [1, 1, 2, 2], 50)) == 50
    assert allocation([3, 1], [1, 1], 50) == [3, 1]
    assert allocation([100, 100], [1, 3], 40) == [10, 30]


@pytest.mark.parametrize("judges", JUDGES)
@pytest.mark.parametrize("error", ERRORS)
def test_the_intervals_cover_the_truth_whoever_shares_the_labels(error: float, judges: int) -> None:
    found = simulate(error, ACCURACY[1], 60, judges=judges)
    assert found.coverage >= 0.93 and abs(found.bias) < 0.02
    assert found.error_coverage >= 0.93 and found.later_coverage >= 0.93


@pytest.mark.long
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("accuracy", ACCURACY)
def test_the_interval_covers_the_truth_in_93_of_100_simulations_and_the_page_states_its_width(
    error: float, accuracy: float
) -> None:
    found = simulate(error, accuracy, 1000)
    assert min(found.coverage, found.error_coverage, found.later_coverage) >= 0.93
    row = f"| {error:.0%} | {accuracy:.0%} | {found.coverage:.1%} | {found.width:.3f} | {found.judge_bias:+.3f} |"
    assert row.replace("%", " %") in PAGE.read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("accuracy", ACCURACY)
def test_labels_that_two_judges_share_cover_both_and_one_that_came_later(error: float, accuracy: float) -> None:
    found = simulate(error, accuracy, 1000, judges=2)
    assert min(found.coverage, found.error_coverage, found.later_coverage) >= 0.93
    cells = (found.coverage, found.width, found.error_coverage, found.error_width, found.later_coverage)
    row = "| {:.0%} | {:.0%} | {:.1%} | {:.3f} | {:.1%} | {:.3f} | {:.1%} | {:.3f} |".format(
        error, accuracy, *cells, found.later_width
    )
    assert row.replace("%", " %") in PAGE.read_text(encoding="utf-8")
