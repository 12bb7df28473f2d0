"""Messages, docstrings and pages are plain technical English."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests import sources

ROOT = Path(__file__).parents[2]
UNCLEAR = re.compile(
    r"\b(?:told|nobody|somebody|whoever|mend(?:s|ed|ing)?|anew|came to|goes on|(?:give|gives|gave|given) up|stands?"
    r"|as it lies there)\b"
    r"|(?<![Tt]here )\b(?:is|are|was|were) no (?!\d|longer|such|more|less|better|worse|other|one|need)[a-z`\"]"
)
QUESTION = re.compile(r"(?:What|How|Where|Whether|Which|When|Why|Who)\b")
DIALOGS = {"bench/evaluators/calibration.py", "bench/evaluators/refusals.py"}
"""texts of people, not of the project"""


def _texts() -> Iterator[tuple[str, str]]:
    for module, nodes in sources.nodes().items():
        name = module.as_posix()
        if name in DIALOGS or name.startswith("bench/packs/"):
            continue
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{name}:{node.lineno}", node.value
    for path in [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if path.name in {"journal-and-events.md", "messages.md"}:  # SQL of earlier versions; names of variables
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield f"{path.relative_to(ROOT).as_posix()}:{number}", line


def test_messages_docstrings_and_pages_contain_no_unclear_word() -> None:
    found = [f"{place}: {match[0]}" for place, text in _texts() for match in UNCLEAR.finditer(text)]
    assert found == [], "write it in plain words"


def test_no_docstring_begins_with_a_question_word() -> None:
    found = [
        f"{module.as_posix()}:{node.lineno}: {node.value.value.splitlines()[0]}"
        for module, nodes in sources.nodes().items()
        for node in nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str) and QUESTION.match(node.value.value.lstrip())
    ]
    assert found == [], "a function returns or does something; a value is a noun phrase"
