"""Read values from a row of data, by a path, a template, or a list of alternatives.

::

    value = compile_value("${title}: ${$.body[0].text|default:none}")
    value.get({"title": "Tides", "body": []})          # "Tides: none"
    compile_value(["answer", "ideal"]).get(row)        # the first value that is not null
    compile_value("$keys[-1]").get(turn)               # the key or index that the last [*] matched

A value of the data can have a `RowScope`: its file, its row number, and the key that each ``[*]`` matched. A config
reads these as ``$file``, ``$row`` and ``$keys[n]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from bench.config.jsonpath import Key, Path, Step, compile_path
from bench.config.template import Filter, Join, split_template, text_of
from bench.errors import ConfigError

_KEYS = re.compile(r"\$keys\[(-?\d+)\]")
_SPECIAL = re.compile(r"\$keys\b|\$file\b|\$row\b")
_CONSTANT = re.compile(r"'([^']*)'|\"([^\"]*)\"")

ValueText = str | Sequence["str | Sequence[str]"]
"""a path or template as a config writes it, or a list of alternatives"""


class KeyMissing(LookupError):
    """Raised for ``$keys[n]`` if the path of the value has too few ``[*]``."""


class Value(Protocol):
    """A compiled path, template or list of alternatives. Its methods read values from data."""

    @property
    def text(self) -> str:
        """Return the text of this path or template in the config."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """Return the steps of the path; empty for a template or a list of alternatives."""

    @property
    def single(self) -> bool:
        """Return True if this path or template reads at most one value."""

    def get(self, value: object) -> object | None:
        """Return the first value that is not null; None if there is no such value."""

    def all(self, value: object) -> list[object]:
        """Return every value that this path finds in ``value``."""

    def keyed(self, value: object) -> list[tuple[tuple[Key, ...], object]]:
        """Return (keys, value) for each value that this path finds. ``keys`` has one key or index per ``[*]``."""


@dataclass(frozen=True, slots=True)
class RowScope:
    """The location of a value in the data.

    ``file`` is the file name in the config, without suffixes. ``row`` counts from 0. ``keys`` has one key or index for
    each ``[*]`` of the path to the value.
    """

    file: str
    row: int
    keys: tuple[Key, ...] = ()
    joined_ids: Mapping[str, str] = field(default_factory=dict)
    """name of a field that ``data.with`` added to the row -> an id of the added content"""

    def deeper(self, keys: tuple[Key, ...]) -> RowScope:
        """Return the scope of an inner value. ``keys`` lead from this value to the inner value."""
        return RowScope(self.file, self.row, self.keys + keys)


class _ScopedDict(dict[str, object]):
    __slots__ = ("scope",)
    scope: RowScope


class _ScopedList(list[object]):
    __slots__ = ("scope",)
    scope: RowScope


class _ScopedText(str):
    scope: RowScope


Kind = TypeVar("Kind")


def scoped(value: Kind, scope: RowScope | None) -> Kind:
    """Return a copy of the value with the scope attached. A number, a boolean or null is returned without a scope."""
    made: Any = value
    if scope is not None and isinstance(value, dict):
        made = _ScopedDict(value)
    elif scope is not None and isinstance(value, list):
        made = _ScopedList(value)
    elif scope is not None and isinstance(value, str):
        made = _ScopedText(value)
    else:
        return value
    made.scope = scope
    return made  # type: ignore[no-any-return]


def scope_of(value: object) -> RowScope | None:
    """Return the scope of a value; None if it has no scope."""
    return getattr(value, "scope", None)


def elements(path: Value, value: object) -> list[tuple[str, object]]:
    """Return (place, element) for each element that ``path`` finds in ``value``.

    A place is a text such as ``sessions[2]``. If the path contains ``[*]``, its elements are all matches that are not
    null. The elements of any other path are the entries of the list at the path; there are none if it is not a list.
    If ``value`` has a scope, each element gets the scope of its place.
    """
    scope = scope_of(value)
    if path.single:
        found = path.get(value)
        pairs = [((at,), one) for at, one in enumerate(found)] if isinstance(found, list) else []
    else:
        pairs = [(keys, one) for keys, one in path.keyed(value) if one is not None]  # type: ignore[misc]
    return [(_path_text(path, keys), one if scope is None else scoped(one, scope.deeper(keys))) for keys, one in pairs]


def _path_text(path: Value, keys: tuple[Key, ...]) -> str:
    """Return a path with a key filled in for each ``[*]``, such as ``sessions[2].questions[0]``."""
    rest = list(keys)
    steps = [step if isinstance(step, str | int) else rest.pop(0) for step in path.steps] + rest
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".")


@dataclass(frozen=True, slots=True)
class _MultiPath:
    """A path that can match several values."""

    path: Path
    single: bool = False

    @property
    def text(self) -> str:
        return self.path.text

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.path.steps

    def get(self, value: object) -> object | None:
        return next((found for found in self.path.all(value) if found is not None), None)

    def all(self, value: object) -> list[object]:
        return self.path.all(value)

    def keyed(self, value: object) -> list[tuple[tuple[Key, ...], object]]:
        return self.path.keyed(value)


@dataclass(frozen=True, slots=True)
class _ListPath(_MultiPath):
    """A path with ``[*]`` whose value is the list of all matches. The filter ``join`` needs this list.

    A match that is itself a list is replaced by its entries.
    """

    def get(self, value: object) -> object | None:
        found = [one for one in self.path.all(value) if one is not None]
        return [part for one in found for part in (one if isinstance(one, list) else [one])] or None


@dataclass(frozen=True)
class _ScopeValue:
    """The value ``$keys[n]``, ``$file`` or ``$row``."""

    text: str
    name: str
    index: int = 0
    steps: tuple[Step, ...] = ()
    single: bool = True

    def get(self, value: object) -> object | None:
        scope = scope_of(value)
        if scope is None:
            return None
        if self.name != "keys":
            return scope.file if self.name == "file" else scope.row
        if not -len(scope.keys) <= self.index < len(scope.keys):
            wanted = -self.index if self.index < 0 else self.index + 1
            raise KeyMissing(f"{self.text}: expected at least {wanted} [*] in the path, found {len(scope.keys)}")
        return scope.keys[self.index]

    def all(self, value: object) -> list[object]:
        return [found] if (found := self.get(value)) is not None else []

    def keyed(self, value: object) -> list[tuple[tuple[Key, ...], object]]:
        return [((), found) for found in self.all(value)]


@dataclass(frozen=True)
class _Constant(_ScopeValue):
    """A constant text."""

    def get(self, value: object) -> object | None:
        return self.name


@dataclass(frozen=True)
class _TemplateValue(_ScopeValue):
    """A template. Its value is None if one of its placeholders has no value."""

    parts: tuple[str | tuple[Value, tuple[Filter, ...]], ...] = ()

    def get(self, value: object) -> object | None:
        made = []
        for part in self.parts:
            if isinstance(part, str):
                made.append(part)
                continue
            found = part[0].get(value)
            for step in part[1]:
                found = step(found)
            if found is None:
                return None
            made.append(found if isinstance(found, str) else text_of(getattr(found, "text", found)))
        return "".join(made)


@dataclass(frozen=True)
class _Alternatives(_ScopeValue):
    """A list of alternatives. The first alternative with a value is used."""

    values: tuple[Value, ...] = ()

    def get(self, value: object) -> object | None:
        return next((found for one in self.values if (found := one.get(value)) is not None), None)


def first_missing_part(path: Value, value: object) -> Value | None:
    """Return the first placeholder of a template that has neither a value nor a default.

    Return None if there is no such placeholder, or if ``path`` is not a template.
    """
    for part in path.parts if isinstance(path, _TemplateValue) else ():
        if not isinstance(part, str) and not _has_default(part[1]) and part[0].get(value) is None:
            return part[0]
    return None


def alternatives(path: Value) -> tuple[str, ...]:
    """Return the texts of a list of alternatives; empty for any other value."""
    return tuple(one.text for one in path.values) if isinstance(path, _Alternatives) else ()


def compile_value(given: ValueText, *, where: str | None = None) -> Value:
    """Compile a path, a template or a list of alternatives. Raise ConfigError for any other text."""
    if not isinstance(given, str):
        values = tuple(compile_value(one, where=where) for one in given)
        return values[0] if len(values) == 1 else _Alternatives(values[0].text, "first", values=values)
    if match := _KEYS.fullmatch(given):
        return _ScopeValue(given, "keys", int(match[1]))
    if given in ("$file", "$row"):
        return _ScopeValue(given, given[1:])
    if "${" in given:
        return _TemplateValue(given, "made", parts=tuple(_parts(given, where)))
    path = Path("$", ()) if given == "$" else compile_path(given, where=where, bare=True)
    return path if path.single else _MultiPath(path)


def _parts(given: str, where: str | None) -> Iterator[str | tuple[Value, tuple[Filter, ...]]]:
    for part in split_template(given, where):
        if isinstance(part, str):
            yield part
            continue
        name, filters = part
        if constant := _CONSTANT.fullmatch(name):
            yield _Constant(name, constant[1] if constant[1] is not None else constant[2]), filters
            continue
        if not name or "${" in name:
            raise ConfigError(f'"${{{name}}}" does not name a field', where=where, hint="write ${field} or ${$.path}")
        value = compile_value(name, where=where)
        if isinstance(value, _MultiPath) and any(isinstance(step, Join) for step in filters):
            value = _ListPath(value.path)
        yield value, filters


def paths_in(given: ValueText) -> Iterator[str]:
    """Yield each path that must find a value in the row.

    A path in a list of alternatives, or with a default, is not yielded.
    """
    if not isinstance(given, str):
        return
    for value in _leaves(compile_value(given), needed=True):
        if isinstance(value, Path | _MultiPath) and value.steps:
            yield value.text


def _leaves(value: Value, *, needed: bool = False) -> Iterator[Value]:
    """Yield the paths and constants in a template or list. With ``needed``, skip placeholders that have a default."""
    if isinstance(value, _TemplateValue):
        for part in value.parts:
            if not isinstance(part, str) and not (needed and _has_default(part[1])):
                yield from _leaves(part[0], needed=needed)
    elif isinstance(value, _Alternatives):
        for one in value.values:
            yield from _leaves(one, needed=needed)
    else:
        yield value


def _has_default(filters: tuple[Filter, ...]) -> bool:
    """Return True if one of the filters gives a missing value a default."""
    found: object = None
    for step in filters:
        found = step(found)
    return found is not None


def roots_of(given: ValueText | None) -> set[str]:
    """Return the names of the row fields that a path or template reads; ``$`` means the whole row."""
    leaves = [] if given is None else list(_leaves(compile_value(given)))
    firsts = [leaf.steps[0] if leaf.steps else "$" for leaf in leaves if not isinstance(leaf, _Constant)]
    return {name for first in firsts for name in (first if isinstance(first, tuple) else (str(first),))}


def is_general(given: ValueText | None) -> bool:
    """Return True if a value can be read from data that is not an object.

    This is so if one of its paths is ``$``, or does not begin with a field name, as in ``$[0]``.
    """
    return given is not None and any(
        isinstance(leaf, Path | _MultiPath) and not (leaf.steps and isinstance(leaf.steps[0], str))
        for leaf in _leaves(compile_value(given))
    )


def uses_scope(tree: object) -> bool:
    """Return True if a text in ``tree`` uses ``$keys``, ``$file`` or ``$row``."""
    if isinstance(tree, str):
        return _SPECIAL.search(tree) is not None
    if isinstance(tree, dict):
        return any(map(uses_scope, tree.values()))
    return isinstance(tree, list | tuple) and any(map(uses_scope, tree))
