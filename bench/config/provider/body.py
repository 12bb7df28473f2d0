"""Build request bodies from templates: JSON with paths, variables and operators.

A template is compiled once to a tree of nodes. Then the method ``fill`` of the root node returns the body of each call.

Example::

    tree = Compiler().tree({"ids": {"$column": "id"}, "n": "$.k", "note": "run ${runId}"})
    tree.fill(Scope({"items": [{"id": "a"}], "k": 5, "runId": "r1"}))
    # {"ids": ["a"], "n": 5, "note": "run r1"}

A string that is a path, such as ``$.k``, becomes the value at the path, with the type of this value. ``${name}`` inside
a string becomes text. ``$$.x`` and ``$${`` are the literal texts ``$.x`` and ``${``.

Inserted values are not scanned again, so a memory may contain ``${x}`` or ``$.x`` as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote

from bench.config.file import did_you_mean
from bench.config.jsonpath import Path, compile_path
from bench.config.provider.sections import ITEM_VARIABLES, OPERATORS, TURN_VARIABLES
from bench.errors import ConfigError

Place = tuple[str | int, ...]
"""key path of a node in the file, starting at its call"""


class ValueMissing(LookupError):
    """Raised if a path in a body matches nothing, or if a value has the wrong type."""

    def __init__(self, path: str, problem: str = "nothing there") -> None:
        super().__init__(f'"{path}": {problem}')
        self.path = path


class _Absent:
    """The type of ``ABSENT``, the value of a node that is left out of the body."""


ABSENT = _Absent()


@dataclass(frozen=True, slots=True)
class Scope:
    """The values that fill a body: the request variables, and the current element inside ``$each``."""

    values: Mapping[str, object]
    element: object = ABSENT


class Node(Protocol):
    """One node of a compiled body."""

    def fill(self, scope: Scope) -> object:
        """Return the value of the node for the values in ``scope``; ``ABSENT`` if the node is left out.

        Raises:
            ValueMissing: a path matches nothing, or a value has the wrong type.
        """
        ...

    def uses(self) -> Iterator[tuple[str, Place]]:
        """Yield (name, key path) for each request variable that the node uses."""
        ...


@dataclass(frozen=True, slots=True)
class ConstantNode:
    """A constant value."""

    value: object

    def fill(self, scope: Scope) -> object:
        return self.value

    def uses(self) -> Iterator[tuple[str, Place]]:
        return iter(())


@dataclass(frozen=True, slots=True)
class PathNode:
    """A node that is a path. ``$`` is the object of request variables; ``@`` is the current element of ``$each``.

    The value keeps its type. ``variable`` is the name of the request variable; None for a path that begins with ``@``.
    """

    text: str
    path: Path
    of_element: bool
    variable: str | None
    place: Place

    def fill(self, scope: Scope) -> object:
        root = scope.element if self.of_element else scope.values
        found = self.path.all(root)
        if not found:
            raise ValueMissing(self.text)
        return found[0] if self.path.single else found

    def uses(self) -> Iterator[tuple[str, Place]]:
        if self.variable is not None:
            yield self.variable, self.place


@dataclass(frozen=True, slots=True)
class TextNode:
    """A node that is a string with ``${name}`` variables.

    ``parts`` alternates between literal texts and variable names, and begins with a text.
    """

    parts: tuple[str, ...]
    place: Place = ()

    def fill(self, scope: Scope) -> str:
        return self.join(scope.values, str)

    def join(self, values: Mapping[str, object], encode: Callable[[str], str]) -> str:
        """Return the string with its variables inserted. ``encode`` is applied to each value first."""
        return "".join(
            part if index % 2 == 0 else encode(as_text(part, values)) for index, part in enumerate(self.parts)
        )

    def uses(self) -> Iterator[tuple[str, Place]]:
        for name in self.parts[1::2]:
            yield name, self.place


@dataclass(frozen=True, slots=True)
class ObjectNode:
    """A node that is a JSON object. A key is left out if its value is ``ABSENT``."""

    entries: tuple[tuple[str, Node], ...]

    def fill(self, scope: Scope) -> dict[str, object]:
        filled = ((key, node.fill(scope)) for key, node in self.entries)
        return {key: value for key, value in filled if value is not ABSENT}

    def uses(self) -> Iterator[tuple[str, Place]]:
        for _, node in self.entries:
            yield from node.uses()


@dataclass(frozen=True, slots=True)
class ListNode:
    """A node that is a JSON list. An element is left out if its value is ``ABSENT``."""

    elements: tuple[Node, ...]

    def fill(self, scope: Scope) -> list[object]:
        filled = (node.fill(scope) for node in self.elements)
        return [value for value in filled if value is not ABSENT]

    def uses(self) -> Iterator[tuple[str, Place]]:
        for node in self.elements:
            yield from node.uses()


@dataclass(frozen=True, slots=True)
class EachNode:
    """The operator ``$each``: it fills ``do`` once for each element of the list ``source``."""

    source: PathNode
    do: Node

    def fill(self, scope: Scope) -> list[object]:
        elements = self.source.fill(scope)
        if not isinstance(elements, list | tuple):
            raise ValueMissing(self.source.text, "is not a list")
        filled = (self.do.fill(Scope(scope.values, element)) for element in elements)
        return [value for value in filled if value is not ABSENT]

    def uses(self) -> Iterator[tuple[str, Place]]:
        yield from self.source.uses()
        yield from self.do.uses()


@dataclass(frozen=True, slots=True)
class OmitIfNullNode:
    """The operator ``$omit_if_null``: the inner node is left out if its value is null or missing."""

    inner: Node

    def fill(self, scope: Scope) -> object:
        try:
            value = self.inner.fill(scope)
        except ValueMissing:
            return ABSENT
        return ABSENT if value is None else value

    def uses(self) -> Iterator[tuple[str, Place]]:
        return self.inner.uses()


@dataclass(frozen=True, slots=True)
class JsonTextNode:
    """The operator ``$json``: the value of the inner node is sent as one string of JSON."""

    inner: Node

    def fill(self, scope: Scope) -> object:
        value = self.inner.fill(scope)
        return ABSENT if value is ABSENT else json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    def uses(self) -> Iterator[tuple[str, Place]]:
        return self.inner.uses()


class JsonLines(str):
    """The text of a whole body with one JSON value per line. The text is sent as it is, not as a JSON string."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class JsonLinesNode:
    """The operator ``$lines``: each element of a list is sent as one line of JSON.

    An element that is itself a list gives one line per inner element.
    """

    inner: Node
    place: Place = ()

    def fill(self, scope: Scope) -> object:
        value = self.inner.fill(scope)
        if not isinstance(value, list):
            raise ValueMissing("$lines", "is not a list")
        rows = (row for element in value for row in (element if isinstance(element, list) else [element]))
        return JsonLines("".join(_line(row) for row in rows))

    def uses(self) -> Iterator[tuple[str, Place]]:
        return self.inner.uses()


def _line(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return (text if text.isprintable() else json.dumps(value, separators=(",", ":"))) + "\n"


def as_text(name: str, values: Mapping[str, object]) -> str:
    """Return the value of the variable ``name`` as text: a string unchanged, any other value as JSON.

    Raises:
        ValueMissing: there is no such variable, or its value is null.
    """
    if name not in values:
        raise ValueMissing(name)
    value = values[name]
    if isinstance(value, str):
        return value
    if value is None:
        raise ValueMissing(name, "is null, expected text")
    return json.dumps(value, ensure_ascii=False)


ENVIRONMENT = re.compile(r"[A-Z][A-Z0-9_]*(:-[^}]*)?")
_VARIABLE = re.compile(r"(\$\$\{)|\$\{([^}]*)\}")
_ROOTED = re.compile(r"\$(?:$|[.\[])")
_ELEMENT = re.compile(r"@(?:$|[.\[])")


def variable_names(text: str) -> list[str]:
    """Return the name of each ``${NAME}`` in a text. The escaped form ``$${`` is not a variable."""
    return [match[2] for match in _VARIABLE.finditer(text) if not match[1]]


class TreeError(ValueError):
    """Raised for a body that cannot be compiled. ``place`` is the key path of the error, from the root of the body."""

    def __init__(self, message: str, place: Place, hint: str | None = None) -> None:
        super().__init__(message)
        self.place = place
        self.hint = hint


Fields = frozenset[str] | None
"""known fields of the current element of ``$each``; empty = any field can be used, None = not inside ``$each``"""

Resolve = Callable[[str], str]
"""a function that replaces the environment variables (``${UPPER_CASE}``) in a text"""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler of bodies to trees of nodes. ``resolve`` replaces environment variables in texts."""

    resolve: Resolve = field(default=lambda text: text)

    def tree(self, value: object, place: Place = (), element: Fields = None) -> Node:
        """Compile one value of a body.

        Raises:
            TreeError: an operator or path is invalid.
        """
        if isinstance(value, str):
            return self.string(value, place, element)
        if isinstance(value, Mapping):
            return self._mapping(value, place, element)
        if isinstance(value, list | tuple):
            nodes = (self.tree(inner, (*place, index), element) for index, inner in enumerate(value))
            return ListNode(tuple(nodes))
        return ConstantNode(value)

    def string(self, text: str, place: Place = (), element: Fields = None) -> Node:
        """Compile a string, which is a path or a text with variables.

        Raises:
            TreeError: the path is invalid, or ``@`` is used outside of ``$each``.
        """
        if text.startswith("$$") and _ROOTED.match(text[1:]):
            return self.text(text[1:], place)
        if _ROOTED.match(text):
            return self._reference(text, place)
        if _ELEMENT.match(text):
            if element is None:
                raise TreeError(
                    f'"{text}" can be used only inside $each',
                    place,
                    "move this path into $do, where @ is the current element of $each",
                )
            return self._reference("$" + text[1:], place, element)
        return self.text(text, place)

    def text(self, text: str, place: Place = ()) -> Node:
        """Compile a text that can contain variables. A path in the text is not replaced."""
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
        return TextNode(tuple(parts), place) if len(parts) > 1 else ConstantNode(parts[0])

    def path(self, text: str) -> Node:
        """Compile the URL path of a call. Values of environment variables are percent-encoded as one segment."""
        return Compiler(lambda variable: quote(self.resolve(variable), safe="")).text(text)

    def _mapping(self, value: Mapping[object, object], place: Place, element: Fields) -> Node:
        operators = [key for key in value if isinstance(key, str) and key.startswith("$")]
        if operators:
            return self._operator(value, operators, place, element)
        entries = ((str(key), self.tree(inner, (*place, str(key)), element)) for key, inner in value.items())
        return ObjectNode(tuple(entries))

    def _operator(self, value: Mapping[object, object], keys: list[str], place: Place, element: Fields) -> Node:
        names = set(map(str, value))
        if names == {"$each", "$do"}:
            source = self.string(str(value["$each"]), (*place, "$each"), element)
            if not isinstance(source, PathNode):
                raise TreeError("$each needs a JSONPath to a list, such as $.items", (*place, "$each"))
            return EachNode(source, self.tree(value["$do"], (*place, "$do"), _fields_of(source)))
        if names == {"$column"}:
            items = self._reference("$.items", place)
            column = self._reference(f"$.{value['$column']}", (*place, "$column"), ITEM_VARIABLES)
            return EachNode(items, column)
        if names == {"$omit_if_null"}:
            return OmitIfNullNode(self.tree(value["$omit_if_null"], (*place, "$omit_if_null"), element))
        if names == {"$literal"}:
            return ConstantNode(value["$literal"])
        if names == {"$json"}:
            return JsonTextNode(self.tree(value["$json"], (*place, "$json"), element))
        if names == {"$lines"}:
            return JsonLinesNode(self.tree(value["$lines"], (*place, "$lines"), element), place)
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
        hint = "use $each with $do, and every other operator alone"
        return TreeError(f"{', '.join(sorted(names))} cannot be used together", (*place, keys[0]), hint)

    def _reference(self, text: str, place: Place, element: Fields = None) -> PathNode:
        shown = text if element is None else "@" + text[1:]
        try:
            path = compile_path(text)
        except ConfigError as error:
            raise TreeError(error.message.replace(text, shown, 1), place, error.hint) from error
        first = path.root
        if element and first is not None and first not in element:
            message = f'unknown field "{first}" of the element{did_you_mean(first, element)}'
            raise TreeError(message, place, hint=f"known: {', '.join(sorted(element))}")
        return PathNode(shown, path, element is not None, first if element is None else None, place)


def _fields_of(source: PathNode) -> frozenset[str]:
    """Return the field names that the elements of the list ``source`` can have.

    If the names are not known, return an empty set: ``@`` may then read any field.
    """
    if source.text == "$.items":
        return ITEM_VARIABLES
    return TURN_VARIABLES if source.text in {"$.messages", "@.messages"} else frozenset()
