"""The page of all error messages, each with its hint."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import bench
from bench import errors
from docs.site.markdown import page, table

LEAD = """\
All error messages, by package, with their hints. `{name}` is replaced by a value. `{guess}` is empty or suggests a
similar name, such as `; did you mean "bm25"?`. Some messages begin with a verb, such as `is malformed`. In the output,
the place (`FILE:LINE`) and the name of a field come before such a message. If a message ends with *not*, the wrong
value comes after it. For the common errors, see [Troubleshooting](../troubleshooting.md)."""

SOURCE = Path(bench.__file__).parent
DEFAULTS = {
    name: cls.default_hint
    for name, cls in vars(errors).items()
    if inspect.isclass(cls) and issubclass(cls, errors.BenchError)
} | {"UsageError": "bench COMMAND --help shows the flags"}
"""class of an error -> its hint when none is given; the command line replaces that of UsageError"""


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
    constants = {
        target.id: _text(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    raised = {id(node.exc) for node in ast.walk(tree) if isinstance(node, ast.Raise)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            hint = next((keyword.value for keyword in node.keywords if keyword.arg == "hint"), None)
            if id(node) in raised or hint is not None:
                at_field = isinstance(node.func, ast.Attribute) and node.func.attr == "error" and len(node.args) > 1
                message = next((found for found in map(_text, node.args[at_field:]) if found), "")
                if " " in message:
                    default = DEFAULTS.get(node.func.id, "") if isinstance(node.func, ast.Name) else ""
                    named = constants.get(hint.id, "") if isinstance(hint, ast.Name) else ""
                    yield _cell(message), _cell(_text(hint) or named if hint is not None else default)


def _text(node: ast.expr) -> str:
    """Return a text as it is in the source, with the names of its values in braces; empty if the text is computed."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or _name(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return f"{_text(node.left) or _name(node.left)}{_text(node.right) or _name(node.right)}"
    return ""


CALLS = {"did_you_mean": "guess", "kind_of": "type"}
"""function -> the name of its result"""


def _name(node: ast.expr) -> str:
    """Return the last name in an expression in braces, except called functions: ``{path}`` of ``str(self.path)``."""
    calls = [part.func for part in ast.walk(node) if isinstance(part, ast.Call)]
    named = [CALLS[call.id] for call in calls if isinstance(call, ast.Name) and call.id in CALLS]
    names = named or [
        part.attr if isinstance(part, ast.Attribute) else part.id
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute | ast.Name) and not any(part is call for call in calls)
    ]
    plain = [name for name in names if name not in ("self", "__name__")]
    own = plain if isinstance(node, ast.BoolOp) else [name for name in names if name != "self"]
    methods = [call.attr.strip("_") for call in calls if isinstance(call, ast.Attribute)]
    return f"{{{(own or methods or ['...'])[0]}}}".replace("{__name__}", "{type}")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
