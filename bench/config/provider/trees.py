"""Body trees: JSON with typed paths and five operators, compiled once and filled for each call.

Example::

    tree = compile_tree({"ids": {"$column": "id"}, "n": "$.k", "note": "run ${runId}"})
    tree.fill(Scope({"items": [{"id": "a"}], "k": 5, "runId": "r1"}))
    # {"ids": ["a"], "n": 5, "note": "run r1"}

A string that is a path becomes the value with its type; ``${name}`` inside a string becomes text; ``$$.x`` and
``$${`` are literals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from bench.config.findings import did_you_mean
from bench.config.jsonpath import compile_path
from bench.config.provider.nodes import (
    AsJson,
    AsLines,
    Constant,
    Each,
    Listed,
    Mapped,
    Node,
    OmitIfNull,
    Place,
    Reference,
    Text,
)
from bench.config.provider.terms import ELEMENT, MESSAGE, OPERATORS
from bench.errors import ConfigError

ENVIRONMENT = re.compile(r"[A-Z][A-Z0-9_]*(:-[^}]*)?")
_VARIABLE = re.compile(r"(\$\$\{)|\$\{([^}]*)\}")
_ROOTED = re.compile(r"\$(?:$|[.\[])")
_ELEMENT = re.compile(r"@(?:$|[.\[])")


def unfilled(text: str) -> list[str]:
    """The names in ``${...}`` of a text, escaped ones left out."""
    return [match[2] for match in _VARIABLE.finditer(text) if not match[1]]


class TreeError(ValueError):
    """A tree that cannot be compiled; ``place`` is relative to its root."""

    def __init__(self, message: str, place: Place, hint: str | None = None) -> None:
        super().__init__(message)
        self.place = place
        self.hint = hint


Fields = frozenset[str] | None
"""known fields of the current element; empty = any, None = not inside $each"""

Resolve = Callable[[str], str]
"""fills ``${UPPER}`` of a text"""


@dataclass(frozen=True, slots=True)
class Compiler:
    """Turns the tree of a file into nodes; ``resolve`` fills the environment's variables."""

    resolve: Resolve = field(default=lambda text: text)

    def tree(self, value: object, place: Place = (), element: Fields = None) -> Node:
        """Compile one value of a body.

        Raises:
            TreeError: an operator, path or variable that the dialect does not know.
        """
        if isinstance(value, str):
            return self.string(value, place, element)
        if isinstance(value, Mapping):
            return self._mapping(value, place, element)
        if isinstance(value, list | tuple):
            nodes = (self.tree(inner, (*place, index), element) for index, inner in enumerate(value))
            return Listed(tuple(nodes))
        return Constant(value)

    def string(self, text: str, place: Place = (), element: Fields = None) -> Node:
        """Compile a string: a literal, a path or a text with variables."""
        if text.startswith("$$") and _ROOTED.match(text[1:]):
            return self.text(text[1:], place)
        if _ROOTED.match(text):
            return self._reference(text, place)
        if _ELEMENT.match(text):
            if element is None:
                raise TreeError(f'"{text}" is outside of $each', place, "@ is the element of $each")
            return self._reference("$" + text[1:], place, element)
        return self.text(text, place)

    def text(self, text: str, place: Place = ()) -> Node:
        """Compile a string that is no path."""
        parts: list[str] = [""]
        end = 0
        for match in _VARIABLE.finditer(text):
            parts[-1] += text[end : match.start()]
            end = match.end()
            escaped, name = match.groups()
            if escaped:
                parts[-1] += "${"
            elif ENVIRONMENT.fullmatch(name):
                parts[-1] += self.resolve(match.group())
            else:
                parts += [name, ""]
        parts[-1] += text[end:]
        return Text(tuple(parts), place) if len(parts) > 1 else Constant(parts[0])

    def path(self, text: str) -> Node:
        """Compile the path of a call: a value of the environment is one segment, percent-encoded."""
        return Compiler(lambda variable: quote(self.resolve(variable), safe="")).text(text)

    def _mapping(self, value: Mapping[object, object], place: Place, element: Fields) -> Node:
        operators = [key for key in value if isinstance(key, str) and key.startswith("$")]
        if operators:
            return self._operator(value, operators, place, element)
        entries = ((str(key), self.tree(inner, (*place, str(key)), element)) for key, inner in value.items())
        return Mapped(tuple(entries))

    def _operator(self, value: Mapping[object, object], keys: list[str], place: Place, element: Fields) -> Node:
        names = set(map(str, value))
        if names == {"$each", "$do"}:
            source = self.string(str(value["$each"]), (*place, "$each"), element)
            if not isinstance(source, Reference):
                raise TreeError("$each needs a path to a list", (*place, "$each"))
            return Each(source, self.tree(value["$do"], (*place, "$do"), _fields_of(source)))
        if names == {"$column"}:
            items = self._reference("$.items", place)
            column = self._reference(f"$.{value['$column']}", (*place, "$column"), ELEMENT)
            return Each(items, column)
        if names == {"$omit_if_null"}:
            return OmitIfNull(self.tree(value["$omit_if_null"], (*place, "$omit_if_null"), element))
        if names == {"$literal"}:
            return Constant(value["$literal"])
        if names == {"$json"}:
            return AsJson(self.tree(value["$json"], (*place, "$json"), element))
        if names == {"$lines"}:
            return AsLines(self.tree(value["$lines"], (*place, "$lines"), element), place)
        raise self._misuse(keys, names, place)

    def _misuse(self, keys: list[str], names: set[str], place: Place) -> TreeError:
        unknown = next((key for key in keys if key not in OPERATORS), None)
        if unknown is not None:
            known = ", ".join(OPERATORS)
            return TreeError(
                f'unknown operator "{unknown}"; known: {known}',
                (*place, unknown),
                "write {$literal: ...} around keys of the API that start with $",
            )
        hint = "$each goes with $do, the other operators stand alone"
        return TreeError(f"{', '.join(sorted(names))} cannot stand together", (*place, keys[0]), hint)

    def _reference(self, text: str, place: Place, element: Fields = None) -> Reference:
        shown = text if element is None else "@" + text[1:]
        try:
            path = compile_path(text)
        except ConfigError as error:
            raise TreeError(error.message.replace(text, shown, 1), place, error.hint) from error
        first = path.root
        if element and first is not None and first not in element:
            message = f'unknown field "{first}" of the element{did_you_mean(first, element)}'
            raise TreeError(message, place, f"known: {', '.join(sorted(element))}")
        return Reference(shown, path, element is not None, first if element is None else None, place)


def _fields_of(source: Reference) -> frozenset[str]:
    """Fields that the elements of a list have; empty = not known, anything goes."""
    if source.text == "$.items":
        return ELEMENT
    return MESSAGE if source.text in {"$.messages", "@.messages"} else frozenset()


def compile_tree(value: object, resolve: Resolve = str) -> Node:
    """Compile a body, query value or header; see :class:`Compiler`."""
    return Compiler(resolve).tree(value)
