"""Parse strict JSON into plain values, and record the line and column of each key and element.

Repeated keys, NaN, infinities, trailing commas, unpaired surrogates and deep nesting are errors::

    tree, places = parse_json('{"k": 10}', "manifest.json")
    places[("k",)]      # (1, 2): line and column of the key
"""

from __future__ import annotations

import re
from collections.abc import Callable
from json import JSONDecodeError, JSONDecoder
from math import inf
from typing import NoReturn

from bench.errors import ConfigError

TreePath = tuple[str | int, ...]
Places = dict[TreePath, tuple[int, int]]

MAX_DEPTH = 100
_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")
_STRINGS = JSONDecoder()
_WORDS = {"true": True, "false": False, "null": None}
SURROGATE = re.compile("[\ud800-\udfff]")
SURROGATE_MESSAGE = "the text contains half of a surrogate pair, which is not Unicode text"


class _JsonParser:
    """A JSON parser that also stores the line and column of each key and element in ``places``."""

    def __init__(self, text: str, label: str) -> None:
        self.text = text
        self.label = label
        self.at = 0
        self.places: Places = {}

    def fail(self, message: str, at: int, hint: str | None = None) -> NoReturn:
        line, column = position(self.text, at)
        raise ConfigError(
            message, where=f"{self.label}:{line}:{column}", hint=hint or "the file must be valid JSON (RFC 8259)"
        )

    def skip(self) -> str:
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.text[self.at : self.at + 1]

    def document(self) -> object:
        value = self.value(())
        if self.skip():
            self.fail("text after the end of the JSON value", self.at)
        return value

    def value(self, path: TreePath) -> object:
        if len(path) > MAX_DEPTH:
            self.fail(f"the values are nested deeper than {MAX_DEPTH} levels", self.at)
        readers: dict[str, Callable[[TreePath], object]] = {"{": self.mapping, "[": self.sequence}
        char = self.skip()
        if char in readers:
            return readers[char](path)
        return self.string() if char == '"' else self.scalar()

    def scalar(self) -> object:
        for word, value in _WORDS.items():
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return value
        match = _NUMBER.match(self.text, self.at)
        if match is None:
            found = self.text[self.at : self.at + 1]
            self.fail(f"a value is missing before {found!r}" if found else "the file ends too early", self.at)
        try:
            number = float(match[0]) if match[1] or match[2] else int(match[0])
        except ValueError:  # Python reads no more than 4,300 digits
            number = inf
        if number in (inf, -inf):
            self.fail(f"{shortened(match[0])} is too large for a number", self.at, "write a smaller number")
        self.at = match.end()
        return number

    def string(self) -> str:
        start = self.at
        try:
            value, self.at = _STRINGS.raw_decode(self.text, start)
        except JSONDecodeError as error:
            self.fail(
                (error.msg[0].lower() + error.msg[1:]).removesuffix(" starting at").removesuffix(" at"), error.pos
            )
        if SURROGATE.search(value):
            self.fail(SURROGATE_MESSAGE, start, "write the character itself, or both escapes of its pair")
        return str(value)

    def mapping(self, path: TreePath) -> dict[str, object]:
        found: dict[str, object] = {}
        self.at += 1
        if self.skip() == "}":
            self.at += 1
            return found
        while True:
            key, start = self.key()
            if key in found:
                line, _ = self.places[*path, key]
                self.fail(f'repeated key "{key}" (first on line {line})', start, "keep one of the two")
            self.places[*path, key] = position(self.text, start)
            found[key] = self.value((*path, key))
            if self.closes("}"):
                return found

    def key(self) -> tuple[str, int]:
        if self.skip() != '"':
            self.fail("a key in double quotes is missing", self.at)
        start = self.at
        key = self.string()
        if self.skip() != ":":
            self.fail(f'":" is missing after "{key}"', self.at)
        self.at += 1
        return key, start

    def sequence(self, path: TreePath) -> list[object]:
        found: list[object] = []
        self.at += 1
        if self.skip() == "]":
            self.at += 1
            return found
        while True:
            self.skip()
            self.places[*path, len(found)] = position(self.text, self.at)
            found.append(self.value((*path, len(found))))
            if self.closes("]"):
                return found

    def closes(self, end: str) -> bool:
        """Skip a comma or the closing bracket ``end``. Return True for the bracket."""
        char = self.skip()
        if char not in (",", end):
            self.fail(f'"," or "{end}" is missing', self.at)
        self.at += 1
        return char == end


def shortened(text: str) -> str:
    """Return the text for an error message, cut to 100 characters."""
    return text if len(text) <= 100 else text[:97] + "..."


def position(text: str, offset: int) -> tuple[int, int]:
    """Return the line and column of the character at ``offset``, both counted from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def parse_json(text: str, label: str) -> tuple[object, Places]:
    """Parse a JSON text; return the value, and a dict from key path to (line, column).

    ``label`` is the name of the file in errors.

    Raises:
        ConfigError: the text is not strict JSON; the error has its line and column.
    """
    reader = _JsonParser(text, label)
    return reader.document(), reader.places
