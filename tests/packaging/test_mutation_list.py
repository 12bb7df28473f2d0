"""The list of mutations matches the program."""

from __future__ import annotations

from pathlib import Path

from tests.mutations import mutations


def test_each_mutation_changes_one_existing_line_and_names_existing_tests(root: Path) -> None:
    for mutation in mutations():
        text = (root / mutation.path).read_text(encoding="utf-8")
        assert mutation.applied_to(text) != text
        assert [name for name in mutation.tests if not (root / name).is_file()] == [], mutation.path
