"""Plan digests, and the differing leaves of two identities."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bench.plan.identity import changes, digest

LEAVES = st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=5)
TREES = st.recursive(
    LEAVES, lambda below: st.dictionaries(st.text(max_size=4), below, max_size=3) | st.lists(below, max_size=3)
)
ROOTS = st.dictionaries(st.text(max_size=4), TREES, max_size=4)


@given(ROOTS, ROOTS)
def test_digests_differ_exactly_if_changes_lists_a_difference(one: dict[str, object], other: dict[str, object]) -> None:
    assert (digest(one) == digest(other)) == (not changes(one, other))


@given(ROOTS)
def test_changes_of_a_tree_with_itself_are_empty(tree: dict[str, object]) -> None:
    assert changes(tree, tree) == []


def test_a_change_has_path_old_and_new_value() -> None:
    old = {"settings": {"k": 10}, "models": ["a", "b"]}
    new = {"settings": {"k": 20, "seed": 1}, "models": ["a", "c"]}
    assert changes(old, new) == [
        ("models[1]", "b", "c"),
        ("settings.k", "10", "20"),
        ("settings.seed", "(absent)", "1"),
    ]


def test_long_values_of_a_change_are_truncated() -> None:
    ((_, old, _),) = changes({"text": "x" * 500}, {"text": "y"})
    assert len(old) == 120
