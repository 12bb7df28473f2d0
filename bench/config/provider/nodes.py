"""What a body tree is made of: constants, paths, texts, maps, lists and the operators, each able to fill itself.

Values are never scanned again once they are in, so a memory may hold ``${x}`` or ``$.x`` as text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from bench.config.jsonpath import Path

Place = tuple[str | int, ...]
"""where in the file a node stands, relative to its call"""


class Missing(LookupError):
    """A path that finds nothing, or a value that cannot be text, while a tree is filled."""

    def __init__(self, path: str, problem: str = "nothing there") -> None:
        super().__init__(f'"{path}": {problem}')
        self.path = path


class _Absent:
    """The value of a key that vanishes."""


ABSENT = _Absent()


@dataclass(frozen=True, slots=True)
class Scope:
    """What a tree may see: the request variables, the current element, constants and the environment."""

    values: Mapping[str, object]
    element: object = ABSENT


class Node(Protocol):
    """One compiled piece of a tree."""

    def fill(self, scope: Scope) -> object:
        """The value for this scope, or ``ABSENT``."""
        ...

    def uses(self) -> Iterator[tuple[str, Place]]:
        """Names of the request variables it needs, with their places."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that is sent as it is."""

    value: object

    def fill(self, scope: Scope) -> object:
        return self.value

    def uses(self) -> Iterator[tuple[str, Place]]:
        return iter(())


@dataclass(frozen=True, slots=True)
class Reference:
    """A path with its type: below the variables (``$``) or below the current element (``@``)."""

    text: str
    path: Path
    of_element: bool
    variable: str | None
    place: Place

    def fill(self, scope: Scope) -> object:
        root = scope.element if self.of_element else scope.values
        found = self.path.all(root)
        if not found:
            raise Missing(self.text)
        return found[0] if self.path.single else found

    def uses(self) -> Iterator[tuple[str, Place]]:
        if self.variable is not None:
            yield self.variable, self.place


@dataclass(frozen=True, slots=True)
class Text:
    """A string with ``${name}`` in it; ``parts`` alternates literal text and names."""

    parts: tuple[str, ...]
    place: Place = ()

    def fill(self, scope: Scope) -> str:
        return self.join(scope.values, str)

    def join(self, values: Mapping[str, object], encode: Callable[[str], str]) -> str:
        """The text with each variable passed through ``encode`` (percent-encoding in paths)."""
        return "".join(
            part if index % 2 == 0 else encode(as_text(part, values)) for index, part in enumerate(self.parts)
        )

    def uses(self) -> Iterator[tuple[str, Place]]:
        for name in self.parts[1::2]:
            yield name, self.place


@dataclass(frozen=True, slots=True)
class Mapped:
    """A JSON object; a key whose value is absent vanishes."""

    entries: tuple[tuple[str, Node], ...]

    def fill(self, scope: Scope) -> dict[str, object]:
        filled = ((key, node.fill(scope)) for key, node in self.entries)
        return {key: value for key, value in filled if value is not ABSENT}

    def uses(self) -> Iterator[tuple[str, Place]]:
        for _, node in self.entries:
            yield from node.uses()


@dataclass(frozen=True, slots=True)
class Listed:
    """A JSON list; an absent element vanishes."""

    elements: tuple[Node, ...]

    def fill(self, scope: Scope) -> list[object]:
        filled = (node.fill(scope) for node in self.elements)
        return [value for value in filled if value is not ABSENT]

    def uses(self) -> Iterator[tuple[str, Place]]:
        for node in self.elements:
            yield from node.uses()


@dataclass(frozen=True, slots=True)
class Each:
    """One tree for each element of a list."""

    source: Reference
    do: Node

    def fill(self, scope: Scope) -> list[object]:
        elements = self.source.fill(scope)
        if not isinstance(elements, list | tuple):
            raise Missing(self.source.text, "is no list")
        filled = (self.do.fill(Scope(scope.values, element)) for element in elements)
        return [value for value in filled if value is not ABSENT]

    def uses(self) -> Iterator[tuple[str, Place]]:
        yield from self.source.uses()
        yield from self.do.uses()


@dataclass(frozen=True, slots=True)
class OmitIfNull:
    """Vanishes when the value is null or missing."""

    inner: Node

    def fill(self, scope: Scope) -> object:
        try:
            value = self.inner.fill(scope)
        except Missing:
            return ABSENT
        return ABSENT if value is None else value

    def uses(self) -> Iterator[tuple[str, Place]]:
        return self.inner.uses()


@dataclass(frozen=True, slots=True)
class AsJson:
    """The inner tree as one JSON string."""

    inner: Node

    def fill(self, scope: Scope) -> object:
        value = self.inner.fill(scope)
        return ABSENT if value is ABSENT else json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    def uses(self) -> Iterator[tuple[str, Place]]:
        return self.inner.uses()


class JsonLines(str):
    """JSON values, one per line, each line with its end: sent as it is and not as a JSON string."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class AsLines:
    """The elements of a list as lines of JSON; a list among them gives a line for each of its own elements."""

    inner: Node
    place: Place = ()

    def fill(self, scope: Scope) -> object:
        value = self.inner.fill(scope)
        if not isinstance(value, list):
            raise Missing("$lines", "is no list")
        rows = (row for element in value for row in (element if isinstance(element, list) else [element]))
        return JsonLines("".join(_line(row) for row in rows))

    def uses(self) -> Iterator[tuple[str, Place]]:
        return self.inner.uses()


def _line(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return (text if text.isprintable() else json.dumps(value, separators=(",", ":"))) + "\n"


def as_text(name: str, values: Mapping[str, object]) -> str:
    """A variable inside a text: strings as they are, booleans and numbers as JSON writes them."""
    if name not in values:
        raise Missing(name)
    value = values[name]
    if isinstance(value, str):
        return value
    if value is None:
        raise Missing(name, "is null and cannot be text")
    return json.dumps(value, ensure_ascii=False)
