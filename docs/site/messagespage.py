"""The page of all error messages, each with its hint."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import bench
from bench import errors
from docs.site.markdown import page, table

LEAD = """\
All error messages, by package, with their hints. `{name}` is replaced by a value. `{guess}` is empty or suggests a
similar name, such as `; did you mean "bm25"?`. `{field}` is the key or field with the error, or `row` for a whole row.
The place (`FILE:LINE`) comes before the message. A hint such as `A | B` is one of the two, depending on the case. If
there is no hint here, the program makes it from the place of the error. For the common errors, see
[Troubleshooting](../troubleshooting.md)."""

WITHOUT_SUBJECT = re.compile(r"(?:contains|differs|does|has|is|looks|matches|must|names|needs)\b")
"""the beginning of a message that the program writes after the name of a field"""

SOURCE = Path(bench.__file__).parent
DEFAULTS = {
    name: cls.default_hint
    for name, cls in vars(errors).items()
    if inspect.isclass(cls) and issubclass(cls, errors.BenchError)
} | {"UsageError": "show the flags with: bench COMMAND --help"}
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
    tree = _parsed(file)
    filled = _Filled(_known_constants(file, tree))
    defaults = _imported_defaults(tree) | _own_defaults(tree) | DEFAULTS
    raised: set[ast.expr | None] = set()
    hints: dict[ast.AST, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            hints |= _local_hints(node, filled, defaults)
        elif isinstance(node, ast.Raise):
            raised.add(node.exc)
        elif isinstance(node, ast.Call):
            hint = next((keyword.value for keyword in node.keywords if keyword.arg == "hint"), None)
            if node in raised or hint is not None:
                filled.visit(node)
                hint = next((keyword.value for keyword in node.keywords if keyword.arg == "hint"), None)
                at_field = isinstance(node.func, ast.Attribute) and node.func.attr == "error" and len(node.args) > 1
                texts = [text for text in map(_text, node.args[at_field:]) if " " in text]
                if texts:
                    default = defaults.get(node.func.id, "") if isinstance(node.func, ast.Name) else ""
                    if at_field:
                        default = DEFAULTS["DataError" if "datasets" in file.parts else "MappingError"]
                    own = hints.get(node, "") or _hint(hint, default) if hint is not None else (*texts[1:], default)[0]
                    yield _cell(_whole(texts[0], file, at_field=at_field)), _cell(own)


def _whole(text: str, file: Path, *, at_field: bool) -> str:
    """Return a message as a whole sentence, with a placeholder for the field before it and for the value after it."""
    rows = "datasets" in file.parts
    if WITHOUT_SUBJECT.match(text) or (at_field and "providers" in file.parts):
        text = f"{{field}}{'' if rows else ':'} {text}"
    return f"{text} {{value}}" if text.endswith(", not") else text


def _imported_defaults(tree: ast.Module) -> dict[str, str]:
    """Return the default hint of each error class that a file imports from another module of bench."""
    return {
        name.name: hint
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bench.")
        for name in node.names
        if (hint := _defaults_of(str(node.module)).get(name.name)) is not None
    }


@cache
def _defaults_of(module: str) -> dict[str, str]:
    return _own_defaults(_parsed(_file_of(module)))


def _own_defaults(tree: ast.Module) -> dict[str, str]:
    """Return the default hint of each error class that a file defines, by the name of the class."""
    return {
        node.name: next(
            map(_text, [*_values(node, "default_hint"), *_replacements(node)]),
            DEFAULTS.get(_name(node.bases[0])[1:-1], ""),
        )
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.bases
    }


def _replacements(node: ast.ClassDef) -> list[ast.expr]:
    """Return what a class uses instead of an absent hint: the last part of ``hint or "..."``."""
    found = [each for each in ast.walk(node) if isinstance(each, ast.BoolOp) and isinstance(each.op, ast.Or)]
    return [each.values[-1] for each in found if _name(each.values[0]) == "{hint}"]


def _local_hints(function: ast.AST, filled: _Filled, defaults: Mapping[str, str]) -> dict[ast.AST, str]:
    """Return the hint of each call that passes ``hint=hint``, where the function sets this variable before the call."""
    calls = {
        node: keyword.value.id
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "hint" and isinstance(keyword.value, ast.Name)
    }
    return {
        call: text
        for call, name in calls.items()
        if (set_before := [value for value in _values(function, name) if value.lineno <= call.lineno])
        if (text := _hint(filled.visit(set_before[-1]), defaults.get(_name(call.func)[1:-1], "")))
    }


def _values(node: ast.AST, name: str) -> list[ast.expr]:
    """Return the expressions that are assigned to a name, in the order of the lines."""
    found = [
        each.value
        for each in ast.walk(node)
        if isinstance(each, ast.Assign)
        if any(isinstance(target, ast.Name) and target.id == name for target in each.targets)
    ]
    return sorted(found, key=lambda value: value.lineno)


def _hint(node: ast.expr, default: str) -> str:
    """Return the text of a hint; both texts, separated by a bar, if the hint depends on a condition."""
    if isinstance(node, ast.IfExp):
        return " | ".join(filter(None, [_hint(node.body, default), _hint(node.orelse, default)]))
    return default if isinstance(node, ast.Constant) and node.value is None else _text(node)


class _Filled(ast.NodeTransformer):
    """The replacement of constants by their values: ``{MAX_DEPTH}`` becomes 100."""

    def __init__(self, constants: Mapping[str, ast.expr]) -> None:
        self.constants = constants

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.constants.get(node.id, node) if isinstance(node.ctx, ast.Load) else node


def _known_constants(file: Path, tree: ast.Module) -> Mapping[str, ast.expr]:
    """Return the constants that a file defines or imports."""
    return _constants(file) | {
        name.asname or name.name: value
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bench.")
        for name in node.names
        if (value := _constants(_file_of(str(node.module))).get(name.name)) is not None
    }


@cache
def _constants(file: Path) -> dict[str, ast.expr]:
    """Map each upper-case name that a file sets to a text or number to the expression, a number as text."""
    return {
        target.id: ast.Constant(str(node.value.value)) if isinstance(node.value, ast.Constant) else node.value
        for node in _parsed(file).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.isupper()
        if _text(node.value) or (isinstance(node.value, ast.Constant) and isinstance(node.value.value, int | float))
    }


def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _file_of(module: str) -> Path:
    path = SOURCE.parent.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _text(node: ast.expr) -> str:
    """Return a text as it is in the source, with the names of its values in braces; empty if the text is computed."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.FormattedValue):
        return _text(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or _name(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return f"{_text(node.left) or _name(node.left)}{_text(node.right) or _name(node.right)}"
    return ""


CALLS = {"did_you_mean": "guess", "json_type": "type"}
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
    return " ".join(text.split()).replace("<", "&lt;")
