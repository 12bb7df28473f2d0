"""The budget of function calls per item; it does not depend on machine and load."""

from __future__ import annotations

import hot_path


def test_no_part_of_the_program_exceeds_its_budget_of_calls_per_item() -> None:
    """Use the smallest of three counts, because responses that arrive together save iterations of the event loop."""
    counts: list[dict[str, float]] = []
    while len(counts) < 3 and (not counts or hot_path.over_budget(counts[-1])):
        counts.append(hot_path.per_item(10, 30))
    found = {part: min(one[part] for one in counts) for part in counts[0]}
    assert not hot_path.over_budget(found), hot_path.table(found)


def test_a_part_above_its_budget_is_marked_in_the_table() -> None:
    found = {part: float(hot_path.budget_of(part)) for part in (*hot_path.PARTS, hot_path.REST)}
    assert not hot_path.over_budget(found)
    found["progress"] += 1
    assert list(hot_path.over_budget(found)) == ["progress"]
    assert [line.split()[0] for line in hot_path.table(found).splitlines() if line.endswith("EXCEEDED")] == ["progress"]
