"""Find the environment variables that a tree of config values asks for.

``${UPPER_CASE}`` and ``${UPPER_CASE:-default}`` name the environment, ``$${`` is a literal ``${``::

    [variable.name for variable in find_variables({"url": "${HOST:-localhost}/${PATH_ID}"})]   # HOST, PATH_ID
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from bench.config.jsontext import TreePath
from bench.settings import VARIABLE

_MENTION = re.compile(rf"(?<!\$){VARIABLE.pattern}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One mention; ``default`` is None when the variable must be set, ``path`` is its place in the tree."""

    name: str
    default: str | None
    path: TreePath


def find_variables(tree: object) -> list[Variable]:
    """Every mention in every text of the tree, in order."""
    return [
        Variable(name=match[1], default=match[2], path=path)
        for path, text in texts(tree)
        for match in _MENTION.finditer(text)
    ]


def texts(tree: object, path: TreePath = ()) -> Iterator[tuple[TreePath, str]]:
    """Every text value of a tree with its path."""
    if isinstance(tree, str):
        yield path, tree
    elif isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from texts(value, (*path, str(key)))
    elif isinstance(tree, list | tuple):
        for index, value in enumerate(tree):
            yield from texts(value, (*path, index))


def each_text(tree: object, change: Callable[[str], str]) -> object:
    """The same tree with every text value changed."""
    if isinstance(tree, str):
        return change(tree)
    if isinstance(tree, Mapping):
        return {str(key): each_text(value, change) for key, value in tree.items()}
    return [each_text(value, change) for value in tree] if isinstance(tree, list | tuple) else tree
