"""The part of RFC 9535 that configs support: names, indexes, ``[*]`` and unions of names.

::

    path = compile_path("$.results[*].id")
    path.all({"results": [{"id": 1}, {"id": 2}]})    # [1, 2]
    compile_path("$.a[0]").one({"a": [5]})           # 5; PathMissing when the path does not match exactly one value
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from bench.errors import ConfigError
from bench.patterns import pattern


class _Every(Enum):
    EVERY = "*"


EVERY: Final = _Every.EVERY
"""the step ``[*]``, which matches every element"""

Step = str | int | _Every | tuple[str, ...]
Key = str | int
"""a key or index that ``[*]`` or a union of names matched"""
NOTHING: Final = object()
"""the result of a path that matches nothing; it differs from None, because null is a value"""

_PLAIN = pattern(r"(?:\.[A-Za-z_\u0080-\U0010ffff][\w\u0080-\U0010ffff-]*|\[-?(?:0|[1-9]\d*)\]|\[\*\]|\.\*)*")
_STEP = pattern(r"\.\*|\.([^.\[*]+)|\[(-?\d+)\]|\[\*\]")


class PathMissing(LookupError):
    """An error for a path that matches no value, or several values where one is required."""


@dataclass(frozen=True, slots=True)
class Path:
    """A compiled path; ``text`` is its source, ``steps`` its compiled steps."""

    text: str
    steps: tuple[Step, ...]
    single: bool = field(init=False)
    """the path matches at most one value"""
    name: str | None = field(init=False, repr=False, compare=False)
    """the field name when the path is a single name, else None"""

    def __post_init__(self) -> None:
        first = self.steps[0] if len(self.steps) == 1 else None
        object.__setattr__(self, "single", all(isinstance(step, str | int) for step in self.steps))
        object.__setattr__(self, "name", first if isinstance(first, str) else None)

    @property
    def root(self) -> str | None:
        """Return the first name of the path, None if there is none; in a request body it names a request variable."""
        first = self.steps[0] if self.steps else None
        return first if isinstance(first, str) else None

    def one(self, value: object) -> object:
        """Return the only value, which may be null; raise PathMissing if there is no value or more than one."""
        found = self.all(value)
        if len(found) != 1:
            raise PathMissing(f"{self.text} matches {len(found)} values, expected one")
        return found[0]

    def get(self, value: object) -> object | None:
        """Return the only value, or None when it is missing or null, or when there are several values."""
        if self.name is not None and type(value) is dict:
            return value.get(self.name)
        if not self.single:
            several = self.all(value)
            return several[0] if len(several) == 1 else None
        found = self._walk(value)
        return None if found is NOTHING else found

    def first(self, value: object) -> object | None:
        """Return the first value, or None when it is missing or null."""
        if self.name is not None and type(value) is dict:
            return value.get(self.name)
        if not self.single:
            return next(iter(self.all(value)), None)
        found = self._walk(value)
        return None if found is NOTHING else found

    def all(self, value: object) -> list[object]:
        """Return every value in order; empty when the path matches nothing."""
        if self.single:
            one = self._walk(value)
            return [] if one is NOTHING else [one]
        found = [value]
        for step in self.steps:
            found = [child for node in found for child in _children(node, step)]
        return found

    def is_absent(self, value: object) -> bool:
        """Return True when the path matches nothing, and no list or object at a ``[*]`` is empty."""
        nodes = [value]
        for step in self.steps:
            if step is EVERY and any(node in ([], {}) for node in nodes):
                return False
            nodes = [child for node in nodes for child in _children(node, step)]
        return not nodes

    def keyed(self, value: object) -> list[tuple[tuple[Key, ...], object]]:
        """Return every value with the keys and indexes that the ``[*]`` and unions of the path matched for it."""
        found: list[tuple[tuple[Key, ...], object]] = [((), value)]
        for step in self.steps:
            if isinstance(step, str | int):
                found = [(keys, child) for keys, node in found for child in _children(node, step)]
            else:
                found = [((*keys, key), child) for keys, node in found for key, child in _keyed_children(node, step)]
        return found

    def _walk(self, value: object) -> object:
        """Return the value of a path with at most one value, or NOTHING; optimized for speed."""
        for step in self.steps:
            if type(value) is dict and type(step) is str:
                if step not in value:
                    return NOTHING
                value = value[step]
            elif children := _children(value, step):
                value = children[0]
            else:
                return NOTHING
        return value


def _children(node: object, step: Step) -> Sequence[object]:
    match step:
        case str():
            return [node[step]] if isinstance(node, Mapping) and step in node else []
        case int():
            inside = isinstance(node, list) and -len(node) <= step < len(node)
            return [node[step]] if inside else []  # type: ignore[index]
        case tuple():
            return [child for _, child in _keyed_children(node, step)]
        case _:
            return node if isinstance(node, list) else list(node.values()) if isinstance(node, Mapping) else []


def _keyed_children(node: object, step: Step) -> Iterable[tuple[Key, object]]:
    """Return the children that ``[*]`` or a union of names matches, each with its key or index."""
    if isinstance(step, tuple):
        return [(name, node[name]) for name in step if name in node] if isinstance(node, Mapping) else []
    return enumerate(node) if isinstance(node, list) else node.items() if isinstance(node, Mapping) else []


def compile_path(text: str, *, where: str | None = None, bare: bool = False) -> Path:
    """Compile a path that begins with ``$`` or ``@``; with ``bare``, any other text is one field name, dots included.

    Raises:
        ConfigError: the text is not a path, or uses an unsupported part of JSONPath.
    """
    if not text.startswith(("$", "@")):
        if bare and text:
            return Path(text, (text,))
        raise ConfigError(
            f'"{text}" is not a valid JSONPath', where=where, hint='paths begin with "$", for example $.content'
        )
    match = _PLAIN.fullmatch(text, 1)
    if match is None:
        return Path(text, _library_steps(text, where))
    return Path(text, tuple(_plain_step(part) for part in _STEP.finditer(text, 1)))


def _plain_step(part: re.Match[str]) -> Step:
    if part[1] is not None:
        return part[1]
    return EVERY if part[2] is None else int(part[2])


def _library_steps(text: str, where: str | None) -> tuple[Step, ...]:
    """Parse with python-jsonpath a path that `_PLAIN` does not match; the import of this library takes 0.2 s."""
    if not re.match(r".\s*[.\[]", text):  # the library reads "$a" as "$.a"
        raise ConfigError(
            f'"{text}" is not a valid JSONPath: expected "." or "[" after "{text[0]}"',
            where=where,
            hint="write a path such as $.items[0].content (RFC 9535)",
        )
    import jsonpath
    from jsonpath.selectors import IndexSelector, NameSelector, WildcardSelector

    try:
        compiled = jsonpath.compile("$" + text[1:])
    except jsonpath.JSONPathError as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            f'"{text}" is not a valid JSONPath: {reason}',
            where=where,
            hint="write a path such as $.items[0].content (RFC 9535)",
        ) from error
    steps: list[Step] = []
    for segment in getattr(compiled, "segments", ()):
        selectors = segment.selectors if type(segment).__name__ == "JSONPathChildSegment" else ()
        match list(selectors):
            case [NameSelector(name=name)]:
                steps.append(name)
            case [IndexSelector(index=index)]:
                steps.append(index)
            case [WildcardSelector()]:
                steps.append(EVERY)
            case [NameSelector(), *_] as names if all(isinstance(name, NameSelector) for name in names):
                steps.append(tuple(name.name for name in names))
            case _:
                raise _unsupported(text, where)
    if not steps:
        raise _unsupported(text, where)
    return tuple(steps)


def _unsupported(text: str, where: str | None) -> ConfigError:
    return ConfigError(
        f'"{text}" uses an unsupported part of JSONPath: only names, indexes, [*] and unions of names work',
        where=where,
        hint="remove filters, slices and ..",
    )
