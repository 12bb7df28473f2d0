"""The list of mutations keeps up with the program."""

from __future__ import annotations

from pathlib import Path

from tests.mutations import mutations


def test_each_mutation_changes_a_line_that_is_there_once(root: Path) -> None:
    for mutation in mutations():
        text = (root / mutation.path).read_text(encoding="utf-8")
        assert mutation.applied_to(text) != text
        assert [name for name in mutation.tests if not (root / name).is_file()] == [], mutation.path
