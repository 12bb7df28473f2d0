"""Reading JSON strictly: one document, one meaning, whatever program reads it.

Example::

    parse(b'{"a": 1, "a": 2}')      # CanonicalError: a: the key occurs twice in one object
"""

from __future__ import annotations

import json
import re
from itertools import accumulate
from math import isfinite
from pathlib import Path

from bench.canonical.refusing import JSON, MAX_DEPTH, MAX_INTEGER, MESSAGES, Stand, refuse_in
from bench.errors import CanonicalError

MAX_BYTES = 64 * 1024 * 1024
MAX_VALUES = 1_000_000
"""commas and brackets of a document: millions of empty lists take a hundred times their bytes"""

_STRINGS_AND_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse(data: bytes) -> JSON:
    """Read one JSON document strictly; raise CanonicalError for anything two readers could see differently."""
    text = _decode(data)
    refuse_depth(text)
    refused: list[Stand] = []
    value = _load(text, refused)
    if refused or ("\\u" in text and _ESCAPED_SURROGATE.search(text)):
        refuse_in(value)
    return value


def parse_file(path: Path) -> JSON:
    """Read one JSON file strictly, and never more of it than may be admitted; raise OSError, CanonicalError."""
    with path.open("rb") as file:
        return parse(file.read(MAX_BYTES + 1))


def _decode(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise CanonicalError("too_large", f"more than the {MAX_BYTES} bytes that are read")
    if data.startswith(b"\xef\xbb\xbf"):
        raise CanonicalError("bom", "the document begins with a byte order mark")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CanonicalError("not_utf8", f"byte {error.start} is not UTF-8") from error


def refuse_depth(text: str) -> None:
    opened = text.count("[") + text.count("{")
    if opened + text.count(",") > MAX_VALUES:
        raise CanonicalError("too_large", f"more than the {MAX_VALUES} values that are read")
    if opened <= MAX_DEPTH:
        return
    steps = (_step(match.group()) for match in _STRINGS_AND_BRACKETS.finditer(text))
    if any(depth > MAX_DEPTH for depth in accumulate(steps)):
        raise CanonicalError("too_deep", MESSAGES["too_deep"])


def _step(token: str) -> int:
    if token in ("[", "{"):
        return 1
    return -1 if token in ("]", "}") else 0


def _load(text: str, refused: list[Stand]) -> JSON:
    def refuse(code: str, key: str | None = None) -> Stand:
        refused.append(Stand(code, key))
        return refused[-1]

    def read_object(pairs: list[tuple[str, object]]) -> object:
        members = dict(pairs)
        return members if len(members) == len(pairs) else refuse("duplicate_key", _repeated(pairs))

    def read_float(digits: str) -> object:
        number = float(digits)
        if -MAX_INTEGER <= number <= MAX_INTEGER:
            return int(number) if number.is_integer() else number  # 1.0 is 1: one value, one type
        return refuse("number_out_of_range" if isfinite(number) else "number_not_finite")

    def read_int(digits: str) -> object:
        if len(digits) <= 15:
            return int(digits)
        number = int(digits) if len(digits) <= 17 else MAX_INTEGER + 1
        return number if abs(number) <= MAX_INTEGER else refuse("integer_out_of_range")

    try:
        value: JSON = json.loads(
            text,
            object_pairs_hook=read_object,
            parse_float=read_float,
            parse_int=read_int,
            parse_constant=lambda _: refuse("number_not_finite"),
        )
    except json.JSONDecodeError as error:
        raise CanonicalError("syntax", f"{error.msg} at line {error.lineno} column {error.colno}") from error
    return value


def _repeated(pairs: list[tuple[str, object]]) -> str:
    seen: set[str] = set()
    return next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
