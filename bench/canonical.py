"""Parse JSON strictly and write its canonical bytes (RFC 8785, JCS).

Documents that are signed, hashed or compared use these functions::

    >>> parse(b'{"b": 1.0, "a": "\\u00e9"}')
    {'b': 1, 'a': 'é'}
    >>> dumps({"b": 1.0, "a": "é"})
    b'{"a":"\\xc3\\xa9","b":1}'
    >>> parse(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    bench.errors.CanonicalError: a: the key occurs twice in one object

``parse`` and ``dumps`` raise :class:`CanonicalError` for a value that is not allowed. The error has a stable ``.code``
and, as ``.path``, the place of the value (``scores.judged.n``, ``a[1].b``).

``check_value`` raises the same error for a value that does not come from ``parse``::

    >>> check_value({"a": [float("nan")]})
    Traceback (most recent call last):
    bench.errors.CanonicalError: a[0]: NaN and infinities are not JSON

``read_line`` parses a line that is probably canonical. If the line is canonical, most strict checks are skipped,
because they cannot fail. Any other line is parsed strictly::

    >>> read_line(b'{"a":1}', ("a",))
    ({'a': 1}, b'{"a":1}', True)
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from itertools import accumulate, chain
from math import isfinite
from pathlib import Path
from typing import NoReturn

import rfc8785

from bench.errors import CanonicalError

__all__ = [
    "JSON",
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_INTEGER",
    "CanonicalError",
    "digest",
    "dumps",
    "dumps_with_part",
    "parse",
    "parse_file",
    "read_line",
    "read_object",
    "sha256_hex",
    "without_members",
]


JSON = str | int | float | bool | None | list["JSON"] | dict[str, "JSON"]
"""A parsed JSON value; numbers are int or float, never NaN or infinite."""

MAX_DEPTH = 64
MAX_INTEGER = 2**53 - 1

_SURROGATE = re.compile("[\ud800-\udfff]")
MESSAGES = {
    "duplicate_key": "the key occurs twice in one object",
    "integer_out_of_range": "an integer is not in -(2^53-1)..2^53-1, so programs may read it differently",
    "number_out_of_range": "a number is not in -(2^53-1)..2^53-1, so programs may read it differently",
    "number_not_finite": "NaN and infinities are not JSON",
    "lone_surrogate": "half of a surrogate pair is not Unicode text",
    "too_deep": f"more than {MAX_DEPTH} levels of nesting",
    "key_not_string": "an object key is not a string",
}


class RejectedValue:
    """A placeholder for a rejected value in the parsed tree, so that its path can be reported later."""

    def __init__(self, code: str, key: str | None = None) -> None:
        self.code = code
        self.key = key


Place = tuple["Place", str | int] | None
"""place of a value in a document: (place of the container, key or index); None = the whole document"""


def check_value(value: object, place: Place = None, depth: int = 1) -> None:
    """Raise CanonicalError with the path of the first value inside ``value`` that is not allowed."""
    if isinstance(value, RejectedValue):
        raise _error(value.code, place if value.key is None else (place, value.key))
    if isinstance(value, dict | list | tuple) and depth > MAX_DEPTH:
        raise _error("too_deep", place)
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise _error("key_not_string", (place, repr(key)))
            _check_text(key, place)
            check_value(item, (place, key), depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            check_value(item, (place, index), depth + 1)
    else:
        _check_scalar(value, place)


def _check_scalar(value: object, place: Place) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        _check_text(value, place)
    elif isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise _error("integer_out_of_range", place)
    elif isinstance(value, float):
        _check_float(value, place)
    else:
        raise CanonicalError(
            "unsupported_type",
            f"a value of type {type(value).__name__} cannot be written as JSON",
            path=_path(place),
            hint="convert the value to text, a number, a list or a dict",
        )


def _check_float(value: float, place: Place) -> None:
    if not isfinite(value):
        raise _error("number_not_finite", place)
    if abs(value) > MAX_INTEGER:
        raise _error("number_out_of_range", place)


def _check_text(value: str, place: Place) -> None:
    if _SURROGATE.search(value):
        raise _error("lone_surrogate", place)


def _error(code: str, place: Place) -> CanonicalError:
    return CanonicalError(code, MESSAGES[code], path=_path(place))


def _path(place: Place) -> str:
    """Return a place as a text such as ``scores.judged.n`` or ``a[1].b``."""
    steps: list[str] = []
    while place is not None:
        place, step = place
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(reversed(steps)).removeprefix(".").encode("utf-8", "backslashreplace").decode("utf-8")


class _NeedsSlowEncoder(Exception):
    """Raised for a value that the C encoder may write differently from RFC 8785."""


_UNCHANGED = frozenset({str, bool, type(None)})
_LISTS = frozenset({list, tuple})
ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def dumps(value: object) -> bytes:
    """Return the RFC 8785 bytes of ``value`` (dict, list, tuple, str, int, float, bool, None).

    Raises:
        CanonicalError: the value, or a value inside it, is not allowed.
    """
    try:
        return ENCODER.encode(_plain(value, 1)).encode("utf-8")
    except (_NeedsSlowEncoder, UnicodeEncodeError):
        return _dumps_slowly(value)


def dumps_with_part(value: Mapping[str, object], names: Collection[str]) -> tuple[bytes, bytes]:
    """Return the RFC 8785 bytes of an object twice: with all members, and with only the members ``names``."""
    try:
        whole = _plain_object(value, 1)
        part = {name: whole[name] for name in names if name in whole}
        return ENCODER.encode(whole).encode("utf-8"), ENCODER.encode(part).encode("utf-8")
    except (_NeedsSlowEncoder, UnicodeEncodeError):
        part = {name: value[name] for name in names if name in value}
        return _dumps_slowly(value), _dumps_slowly(part)


def _dumps_slowly(value: object) -> bytes:
    check_value(value)
    return rfc8785.dumps(value)  # type: ignore[arg-type]


def _plain(value: object, depth: int) -> object:
    """Return a copy of ``value`` that Python's ``json`` module writes exactly as RFC 8785 requires.

    The ``json`` module is ten times as fast as the general encoder. Raises _NeedsSlowEncoder for a value that ``json``
    would write differently.
    """
    kind = type(value)
    if kind in _UNCHANGED:
        return value
    if kind is int:
        if -MAX_INTEGER <= value <= MAX_INTEGER:  # type: ignore[operator]
            return value
        raise _NeedsSlowEncoder
    if kind is float:
        return _plain_float(value)  # type: ignore[arg-type]
    if depth > MAX_DEPTH:
        raise _NeedsSlowEncoder
    if kind is dict:
        return _plain_object(value, depth)  # type: ignore[arg-type]
    if kind is list or kind is tuple:
        return _plain_list(value, depth)  # type: ignore[arg-type]
    raise _NeedsSlowEncoder


def _plain_list(value: Sequence[object], depth: int) -> object:
    kinds = set(map(type, value))
    if kinds <= _UNCHANGED:
        return value
    if kinds <= _LISTS and depth < MAX_DEPTH and _UNCHANGED.issuperset(map(type, chain.from_iterable(value))):  # type: ignore[arg-type]
        return value  # lists of ids, the bulk of a row, in one sweep
    return [item if type(item) in _UNCHANGED else _plain(item, depth + 1) for item in value]


def _plain_object(value: Mapping[str, object], depth: int) -> dict[str, object]:
    try:
        if not all(map(str.isascii, value)):  # beyond ASCII the order by UTF-16 units is another one
            raise _NeedsSlowEncoder
    except TypeError:
        raise _NeedsSlowEncoder from None
    return {key: item if type(item) in _UNCHANGED else _plain(item, depth + 1) for key, item in value.items()}


def _plain_float(value: float) -> float | int:
    if not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise _NeedsSlowEncoder
    if value.is_integer():
        return int(value)
    if -1e-4 < value < 1e-4:  # Python turns to exponents here, ECMAScript only below 1e-6
        raise _NeedsSlowEncoder
    return value


MAX_BYTES = 64 * 1024 * 1024
MAX_VALUES = 1_000_000
"""maximum number of commas and opening brackets in a document; it limits the memory that the parsed document needs"""

_STRINGS_AND_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse(data: bytes) -> JSON:
    """Parse one JSON document strictly.

    Raises CanonicalError for anything that two JSON parsers could read differently, such as a repeated key.
    """
    text = _decode(data)
    check_depth(text)
    refused: list[RejectedValue] = []
    value = _load(text, refused)
    if refused or ("\\u" in text and _ESCAPED_SURROGATE.search(text)):
        check_value(value)
    return value


def parse_file(path: Path) -> JSON:
    """Parse one JSON file strictly.

    Raises:
        OSError: the file cannot be read.
        CanonicalError: the file has more than ``MAX_BYTES``, or `parse` rejects its content.
    """
    with path.open("rb") as file:
        return parse(file.read(MAX_BYTES + 1))


def read_object(path: Path) -> dict[str, JSON]:
    """Return the JSON object in a file; an empty object if the file is missing or is not a valid JSON object."""
    try:
        value = parse_file(path)
    except (OSError, CanonicalError):
        return {}
    return value if isinstance(value, dict) else {}


def _decode(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise CanonicalError("too_large", f"the document has more than {MAX_BYTES} bytes")
    if data.startswith(b"\xef\xbb\xbf"):
        raise CanonicalError("bom", "the document begins with a byte order mark")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CanonicalError("not_utf8", f"the text is not UTF-8 at byte {error.start}") from error


def check_depth(text: str) -> None:
    opened = text.count("[") + text.count("{")
    if opened + text.count(",") > MAX_VALUES:
        raise CanonicalError("too_large", f"the document has more than {MAX_VALUES} values")
    if opened <= MAX_DEPTH:
        return
    steps = (_step(match.group()) for match in _STRINGS_AND_BRACKETS.finditer(text))
    if any(depth > MAX_DEPTH for depth in accumulate(steps)):
        raise CanonicalError("too_deep", MESSAGES["too_deep"])


def _step(token: str) -> int:
    if token in ("[", "{"):
        return 1
    return -1 if token in ("]", "}") else 0


def _load(text: str, refused: list[RejectedValue]) -> JSON:
    def refuse(code: str, key: str | None = None) -> RejectedValue:
        refused.append(RejectedValue(code, key))
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
        raise CanonicalError(
            "syntax", f"the text is not JSON: {error.msg} at line {error.lineno} column {error.colno}"
        ) from error
    return value


def _repeated(pairs: list[tuple[str, object]]) -> str:
    seen: set[str] = set()
    return next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]


_BEYOND_UCS2 = re.compile("[\U00010000-\U0010ffff]")
EXACT_DIGITS = 15
"""maximum number of digits of an integer that a double always stores exactly"""


class _MaybeNotCanonical(Exception):
    """Raised for a line that Python may write differently from RFC 8785."""


def read_line(line: bytes, names: Collection[str]) -> tuple[JSON, bytes, bool]:
    """Parse a JSON line; return (value, bytes, is_canonical).

    The bytes are the RFC 8785 form of the value. Of an object, they contain only the members whose names are in
    ``names``.
    ``is_canonical`` is True if the line itself is in RFC 8785 form.

    Raises:
        CanonicalError: `parse` rejects the line.
    """
    try:
        return _read_fast(line, names)
    except (_MaybeNotCanonical, ValueError, RecursionError):
        return _read_strictly(line, names)


def _read_fast(line: bytes, names: Collection[str]) -> tuple[JSON, bytes, bool]:
    text = line.decode("utf-8")
    check_depth(text)
    if not text.isascii() and _BEYOND_UCS2.search(text):
        raise _MaybeNotCanonical  # keys sort by UTF-16 units, which is another order only beyond U+FFFF
    value = _DECODER.decode(text)
    if not isinstance(value, dict) or ENCODER.encode(value) != text:
        raise _MaybeNotCanonical
    part = {name: value[name] for name in names if name in value}
    return value, ENCODER.encode(part).encode("utf-8"), True


def _read_strictly(line: bytes, names: Collection[str]) -> tuple[JSON, bytes, bool]:
    value = parse(line)
    whole, part = dumps_with_part(value, names) if isinstance(value, dict) else (dumps(value), dumps(value))
    return value, part, whole == line


def _exact_float(digits: str) -> float:
    number = float(digits)
    if "e" in digits or "E" in digits or number.is_integer() or len(digits.partition(".")[0]) > EXACT_DIGITS:
        raise _MaybeNotCanonical
    return number


def _exact_int(digits: str) -> int:
    if len(digits) > EXACT_DIGITS:
        raise _MaybeNotCanonical
    return int(digits)


def _no_constant(name: str) -> NoReturn:
    raise _MaybeNotCanonical(name)


_DECODER = json.JSONDecoder(parse_float=_exact_float, parse_int=_exact_int, parse_constant=_no_constant)


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of ``data`` as 64 lower-case hex digits."""
    return sha256(data).hexdigest()


def digest(value: object) -> str:
    """Return the SHA-256 of the RFC 8785 bytes of ``value`` as 64 lower-case hex digits."""
    return sha256_hex(dumps(value))


def without_members(document: Mapping[str, JSON], *keys: str) -> dict[str, JSON]:
    """Return a copy of the object without its top-level members ``keys``."""
    return {key: value for key, value in document.items() if key not in keys}
