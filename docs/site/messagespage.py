"""The page of all error messages, each with its hint."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import bench
from docs.site.markdown import page, table

LEAD = """\
All error messages, by package, with their hints. `{name}` is replaced by a value. Some messages begin with a verb, such
as `is malformed`. In the output, the place (`FILE:LINE`) and the name of a field come before such a message. If a
message ends with *not*, the wrong value comes after it. For the common errors, see
[Troubleshooting](../troubleshooting.md)."""

SOURCE = Path(bench.__file__).parent


def text() -> str:
    """Return the page."""
    parts = [part for path in sorted(SOURCE.iterdir()) for part in _package(path)]
    return page("Error messages", LEAD, *parts)


def _package(path: Path) -> Iterator[str]:
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path] if path.suffix == ".py" else []
    rows = sorted({row for file in files for row in _messages(file)})
    if rows:
        yield f"## {path.stem}"
        yield table(["message", "hint"], [list(row) for row in rows])


def _messages(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the message and the hint of each error in a source file."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    raised = {id(node.exc) for node in ast.walk(tree) if isinstance(node, ast.Raise)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            hint = next((keyword.value for keyword in node.keywords if keyword.arg == "hint"), None)
            if id(node) in raised or hint is not None:
                message = next((found for found in map(_text, node.args) if found), "")
                if " " in message:
                    yield _cell(message), _cell(_text(hint) if hint is not None else "")


def _text(node: ast.expr) -> str:
    """Return a text as it is in the source, with the names of its values in braces; empty if the text is computed."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or _name(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return f"{_text(node.left) or _name(node.left)}{_text(node.right) or _name(node.right)}"
    return ""


def _name(node: ast.expr) -> str:
    """Return the last name in an expression in braces, except called functions: ``{path}`` of ``str(self.path)``."""
    called = {id(part.func) for part in ast.walk(node) if isinstance(part, ast.Call)}
    names = [
        part.attr if isinstance(part, ast.Attribute) else part.id
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute | ast.Name) and id(part) not in called
    ]
    return f"{{{names[0]}}}" if names else "{...}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
