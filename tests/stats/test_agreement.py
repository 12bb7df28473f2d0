"""Agreement beyond chance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.stats import cohen_kappa, krippendorff_alpha


def test_cohen_kappa_has_its_value_for_a_known_table() -> None:
    a = ["y"] * 25 + ["n"] * 25
    b = ["y"] * 20 + ["n"] * 5 + ["y"] * 10 + ["n"] * 15
    assert cohen_kappa(a, b) == pytest.approx(0.4)


def test_krippendorff_alpha_has_its_value_for_the_example_of_Krippendorff() -> None:
    observers = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
        [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
    ]
    assert krippendorff_alpha(list(zip(*observers, strict=True))) == pytest.approx(0.743, abs=5e-4)


@given(labels=st.lists(st.booleans(), min_size=1, max_size=20))
def test_full_agreement_is_1_or_None_if_all_labels_are_equal(labels: list[bool]) -> None:
    expected = 1.0 if len(set(labels)) > 1 else None
    assert cohen_kappa(labels, labels) == expected
    assert krippendorff_alpha([[x, x] for x in labels]) == expected


def test_without_paired_ratings_agreement_is_None() -> None:
    assert cohen_kappa([], []) is None
    assert krippendorff_alpha([[1, None]]) is None
    with pytest.raises(ValueError, match="cannot be paired"):
        cohen_kappa([1], [])
