"""A share of a judge corrected by labels: expected values, and the coverage of its interval."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.stats import Stratum, allocation, corrected_share
from perf.corrected import ACCURACY, ERRORS, JUDGES, simulate

PAGE = Path(__file__).parents[2] / "docs/disputes.md"


def test_corrected_share_has_its_expected_value() -> None:
    """100 judged right (20 labelled, 18 right), 50 judged wrong (10 labelled, 1 right)."""
    found = corrected_share([Stratum(100, 20, 18, 1.0), Stratum(50, 10, 1, 0.0)])
    assert found is not None
    judge, rectifier = 100 / 150, (100 / 150) * (-2 / 20) + (50 / 150) * (1 / 10)
    assert found.value == pytest.approx(judge + rectifier)
    assert found.labelled == 30 and found.interval.low < found.value < found.interval.high


def test_corrected_share_has_no_width_only_if_all_items_are_labelled() -> None:
    some = corrected_share([Stratum(100, 10, 10, 1.0)])
    every = corrected_share([Stratum(100, 100, 90, 1.0)])
    assert some is not None and some.interval.low < 1 == some.interval.high
    assert every is not None and every.interval.low == every.interval.high == 0.9


def test_a_stratum_without_labels_counts_as_judged_with_full_uncertainty() -> None:
    found = corrected_share([Stratum(90, 45, 45, 1.0), Stratum(10, 0, 0, 0.0)])
    assert found is not None and found.value == pytest.approx(0.9) and found.interval.high == 1.0
    assert corrected_share([Stratum(10, 0, 0, 1.0)]) is None
    with pytest.raises(ValueError, match="2 right answers, 1 labels"):
        corrected_share([Stratum(10, 1, 2, 1.0)])


def test_allocation_shares_labels_by_size_and_weight_up_to_the_size() -> None:
    assert sum(allocation([300, 150, 40, 10], [1, 1, 2, 2], 50)) == 50
    assert allocation([3, 1], [1, 1], 50) == [3, 1]
    assert allocation([100, 100], [1, 3], 40) == [10, 30]


@pytest.mark.parametrize("judges", JUDGES)
@pytest.mark.parametrize("error", ERRORS)
def test_the_corrected_interval_covers_the_truth_with_shared_labels(error: float, judges: int) -> None:
    found = simulate(error, ACCURACY[1], 60, judges=judges)
    assert found.coverage >= 0.93 and abs(found.bias) < 0.02
    assert found.error_coverage >= 0.93 and found.later_coverage >= 0.93


@pytest.mark.long
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("accuracy", ACCURACY)
def test_the_corrected_interval_covers_93_percent_and_the_docs_state_its_width(error: float, accuracy: float) -> None:
    found = simulate(error, accuracy, 1000)
    assert min(found.coverage, found.error_coverage, found.later_coverage) >= 0.93
    row = f"| {error:.0%} | {accuracy:.0%} | {found.coverage:.1%} | {found.width:.3f} | {found.judge_bias:+.3f} |"
    assert row.replace("%", " %") in PAGE.read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("accuracy", ACCURACY)
def test_shared_labels_cover_both_judges_and_a_later_one(error: float, accuracy: float) -> None:
    found = simulate(error, accuracy, 1000, judges=2)
    assert min(found.coverage, found.error_coverage, found.later_coverage) >= 0.93
    cells = (found.coverage, found.width, found.error_coverage, found.error_width, found.later_coverage)
    row = "| {:.0%} | {:.0%} | {:.1%} | {:.3f} | {:.1%} | {:.3f} | {:.1%} | {:.3f} |".format(
        error, accuracy, *cells, found.later_width
    )
    assert row.replace("%", " %") in PAGE.read_text(encoding="utf-8")
