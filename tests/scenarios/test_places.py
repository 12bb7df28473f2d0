"""Every scenario has a test with its id, or a row in README.md whose test exists."""

from __future__ import annotations

import re
from pathlib import Path

NAMED = re.compile(r"def test_((?:[A-Za-z]\d+_)+)|scenario\(\"([A-Z]\d+)\"")
PLACE = re.compile(r"^\| ([A-Z]\d+) \| `([^`:]+)(?:::(\w+))?`", re.MULTILINE)


def test_every_scenario_has_a_test_or_a_row_in_the_readme(shared: Path, root: Path) -> None:
    text = (shared / "cases" / "scenarios.md").read_text(encoding="utf-8")
    wanted = set(re.findall(r"^- \*\*([A-Z]\d+)", text, re.MULTILINE))
    held = {id_ for id_, _, _ in PLACE.findall((root / "tests/scenarios/README.md").read_text(encoding="utf-8"))}
    for path in (root / "tests").rglob("test_*.py"):
        found = NAMED.findall(path.read_text(encoding="utf-8"))
        held |= {id_.upper() for names, marker in found for id_ in (*names.split("_"), marker) if id_}
    assert len(wanted) > 80
    assert sorted(wanted - held) == []


def test_every_test_in_the_readme_exists(root: Path) -> None:
    for _, file, name in PLACE.findall((root / "tests/scenarios/README.md").read_text(encoding="utf-8")):
        assert not name or f"def {name}(" in (root / file).read_text(encoding="utf-8")
