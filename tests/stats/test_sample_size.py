"""The number of conversations that a difference needs."""

from __future__ import annotations

from bench.stats.significance import clusters_needed, planned_mde
from tests.rows import each_row


@each_row("per_cluster", [1.0, 5.0, 20.0, 199.0])
@each_row("difference", [0.02, 0.05, 0.1, 0.3])
def test_clusters_needed_is_the_smallest_sufficient_number(difference: float, per_cluster: float) -> None:
    needed = clusters_needed(difference, per_cluster)
    assert needed is not None
    enough, less = planned_mde(needed, per_cluster), planned_mde(needed - 1, per_cluster)
    assert enough is not None and enough <= difference
    assert less is None or less > difference


def test_more_clusters_help_more_than_more_items_per_cluster() -> None:
    few, more_questions, more_conversations = planned_mde(10, 20), planned_mde(10, 40), planned_mde(20, 20)
    assert few is not None and more_questions is not None and more_conversations is not None
    assert few > more_questions > more_conversations


def test_one_cluster_or_a_tiny_difference_has_no_planned_value() -> None:
    assert planned_mde(1, 500) is None
    assert clusters_needed(1e-6, 1.0) is None
