"""The text that names a class: ``builtin:NAME``, ``package.module:Class`` or ``./file.py:Class``.

Checked without importing anything: a file must exist and define the class, a module is looked up when it is used.
"""

from __future__ import annotations

import ast
import re

from bench.config.findings import did_you_mean
from bench.config.source import Source
from bench.errors import ConfigError

BUILT_INS = ("bm25", "vector", "full-context", "random", "no-memory", "oracle")
FOREIGN_SUFFIXES = (".ts", ".js", ".mjs")


def adapter_problem(adapter: str, source: Source) -> ConfigError | None:
    """The one thing that is wrong with an ``adapter`` line, or None."""
    where = source.place(("adapter",))
    name, _, class_name = adapter.partition(":")
    if name.endswith(FOREIGN_SUFFIXES):
        return ConfigError(
            f'adapter "{adapter}" is no Python',
            where=where,
            hint="write it in Python (./file.py:Class), or put it behind HTTP or MCP",
        )
    if name == "builtin":
        if class_name in BUILT_INS:
            return None
        guess = did_you_mean(class_name, BUILT_INS)
        return ConfigError(
            f'no built-in provider "{class_name}"{guess}', where=where, hint=f"known: {', '.join(BUILT_INS)}"
        )
    if not re.fullmatch(r"[A-Za-z_]\w*", class_name):
        return ConfigError(
            f'adapter "{adapter}" names no class',
            where=where,
            hint="write ./file.py:Class, package.module:Class or builtin:NAME",
        )
    return _file_problem(name, class_name, source, where) if name.endswith(".py") else None


def _file_problem(name: str, class_name: str, source: Source, where: str) -> ConfigError | None:
    path = source.path.parent / name
    if not path.is_file():
        return ConfigError(f"no such adapter file: {name}", where=where, hint="the path starts beside the config")
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        return ConfigError(f"adapter file {name} is no Python: {error}", where=where, hint="correct the file")
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    if class_name in classes:
        return None
    guess = did_you_mean(class_name, classes)
    return ConfigError(
        f"{name} defines no class {class_name}{guess}",
        where=where,
        hint=f"classes there: {', '.join(sorted(classes)) or 'none'}",
    )
