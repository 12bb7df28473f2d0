"""The budget of an item, in calls: the same on every machine and under any load."""

from __future__ import annotations

import hot_path


def test_no_part_of_the_program_makes_more_calls_for_an_item_than_its_budget() -> None:
    """The least of three counts: how many rows a write of the journal brings together depends on the load."""
    counts: list[dict[str, float]] = []
    while len(counts) < 3 and (not counts or hot_path.over_budget(counts[-1])):
        counts.append(hot_path.per_item(10, 30))
    found = {part: min(one[part] for one in counts) for part in counts[0]}
    assert not hot_path.over_budget(found), hot_path.table(found)


def test_a_part_over_its_budget_is_named_in_the_table() -> None:
    found = {part: float(hot_path.budget_of(part)) for part in (*hot_path.PARTS, hot_path.REST)}
    assert not hot_path.over_budget(found)
    found["progress"] += 1
    assert list(hot_path.over_budget(found)) == ["progress"]
    assert [line.split()[0] for line in hot_path.table(found).splitlines() if line.endswith("EXCEEDED")] == ["progress"]
