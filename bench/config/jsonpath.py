"""Read values by JSONPath (RFC 9535). Only names, indexes, ``[*]`` and unions of names are supported.

::

    path = compile_path("$.results[*].id")
    path.all({"results": [{"id": 1}, {"id": 2}]})    # [1, 2]
    compile_path("$.a[0]").get({"a": [5]})           # 5; None when the path does not match exactly one value
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
"""the step ``[*]``, which matches every element of a list and every value of an object"""

Step = str | int | _Every | tuple[str, ...]
Key = str | int
"""the key or index of an element that ``[*]`` or a union of names matched"""
NOTHING: Final = object()
"""result of a path that matches nothing; None is the result for the value null"""

_PLAIN = pattern(r"(?:\.[A-Za-z_\u0080-\U0010ffff][\w\u0080-\U0010ffff-]*|\[-?(?:0|[1-9]\d*)\]|\[\*\]|\.\*)*")
_STEP = pattern(r"\.\*|\.([^.\[*]+)|\[(-?\d+)\]|\[\*\]")


@dataclass(frozen=True, slots=True)
class Path:
    """A compiled path. ``text`` is the path as the config writes it."""

    text: str
    steps: tuple[Step, ...]
    single: bool = field(init=False)
    """true: the path matches at most one value"""
    name: str | None = field(init=False, repr=False, compare=False)
    """the name if the path is a single field name, else None"""

    def __post_init__(self) -> None:
        first = self.steps[0] if len(self.steps) == 1 else None
        object.__setattr__(self, "single", all(isinstance(step, str | int) for step in self.steps))
        object.__setattr__(self, "name", first if isinstance(first, str) else None)

    @property
    def root(self) -> str | None:
        """Return the first step of the path if it is a name, else None.

        For ``$.k`` in a request body, this is ``k``, the name of a request variable.
        """
        first = self.steps[0] if self.steps else None
        return first if isinstance(first, str) else None

    def get(self, value: object) -> object | None:
        """Return the only value that the path matches in ``value``.

        Return None if the path matches nothing, null, or several values.
        """
        if self.name is not None and type(value) is dict:
            return value.get(self.name)
        if not self.single:
            several = self.all(value)
            return several[0] if len(several) == 1 else None
        found = self._walk(value)
        return None if found is NOTHING else found

    def first(self, value: object) -> object | None:
        """Return the first value that the path matches in ``value``.

        Return None if the path matches nothing, or if the first value is null.
        """
        if self.name is not None and type(value) is dict:
            return value.get(self.name)
        if not self.single:
            return next(iter(self.all(value)), None)
        found = self._walk(value)
        return None if found is NOTHING else found

    def all(self, value: object) -> list[object]:
        """Return all values that the path matches in ``value``, in order. The list is empty if nothing matches."""
        if self.single:
            one = self._walk(value)
            return [] if one is NOTHING else [one]
        found = [value]
        for step in self.steps:
            found = [child for node in found for child in _children(node, step)]
        return found

    def is_absent(self, value: object) -> bool:
        """Return True if the path matches nothing in ``value``.

        An empty list or object at a ``[*]`` counts as a match.
        """
        nodes = [value]
        for step in self.steps:
            if step is EVERY and any(node in ([], {}) for node in nodes):
                return False
            nodes = [child for node in nodes for child in _children(node, step)]
        return not nodes

    def keyed(self, value: object) -> list[tuple[tuple[Key, ...], object]]:
        """Return (keys, value) for each value that the path matches.

        ``keys`` has one key or index for each ``[*]`` and each union of names in the path.
        """
        found: list[tuple[tuple[Key, ...], object]] = [((), value)]
        for step in self.steps:
            if isinstance(step, str | int):
                found = [(keys, child) for keys, node in found for child in _children(node, step)]
            else:
                found = [((*keys, key), child) for keys, node in found for key, child in _keyed_children(node, step)]
        return found

    def _walk(self, value: object) -> object:
        """Return the value that the path matches, or NOTHING. The path must be ``single``."""
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
    """Return (key or index, child) for each child that ``[*]`` or a union of names matches."""
    if isinstance(step, tuple):
        return [(name, node[name]) for name in step if name in node] if isinstance(node, Mapping) else []
    return enumerate(node) if isinstance(node, list) else node.items() if isinstance(node, Mapping) else []


def compile_path(text: str, *, where: str | None = None, bare: bool = False) -> Path:
    """Compile a path that begins with ``$`` or ``@``.

    With ``bare``, any other text is taken as one field name, even if it contains dots.

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
    """Parse an unusual path with the library python-jsonpath.

    Usual paths do not need the library, whose import takes 0.2 s.
    """
    if not re.match(r".\s*[.\[]", text):  # the library reads "$a" as "$.a"
        root = text[0]
        raise ConfigError(
            f'"{text}" is not a valid JSONPath: expected "." or "[" after "{root}"',
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
