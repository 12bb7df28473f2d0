"""One byte string for one JSON value: strict admission, then RFC 8785 (JCS).

What is signed, hashed or compared goes through here, so two readers can never see two documents::

    >>> parse(b'{"b": 1.0, "a": "\\u00e9"}')
    {'b': 1, 'a': 'é'}
    >>> dumps({"b": 1.0, "a": "é"})
    b'{"a":"\\xc3\\xa9","b":1}'
    >>> parse(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    bench.errors.CanonicalError: a: the key occurs twice in one object

Both raise :class:`CanonicalError` with ``.code`` (stable) and ``.path`` (``scores.judged.n``, ``a[1].b``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from itertools import accumulate, chain
from math import isfinite
from pathlib import Path

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
    "sha256_hex",
    "without",
]

JSON = str | int | float | bool | None | list["JSON"] | dict[str, "JSON"]
"""A parsed JSON value; numbers are int or float, never NaN or infinite."""

MAX_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 64
MAX_INTEGER = 2**53 - 1

_STRINGS_AND_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_MESSAGES = {
    "duplicate_key": "the key occurs twice in one object",
    "integer_out_of_range": "an integer beyond 2^53-1 is read differently by different programs",
    "number_out_of_range": "a number beyond 2^53-1 is read differently by different programs",
    "number_not_finite": "NaN and infinities are not JSON",
    "lone_surrogate": "half of a surrogate pair is no Unicode text",
    "too_deep": f"more than {MAX_DEPTH} levels of nesting",
    "key_not_string": "an object key is not a string",
}


# ------------------------------------------------------------------------ reading


class _Refused:
    """Stands in the parsed tree where a value was refused, so that its path can be told."""

    def __init__(self, code: str, key: str | None = None) -> None:
        self.code = code
        self.key = key


def parse(data: bytes) -> JSON:
    """Read one JSON document strictly; raise CanonicalError for anything two readers could see differently."""
    text = _decode(data)
    _refuse_depth(text)
    refused: list[_Refused] = []
    value = _load(text, refused)
    if refused or ("\\u" in text and _ESCAPED_SURROGATE.search(text)):
        _refuse_in(value, "", 1)
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


def _refuse_depth(text: str) -> None:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    steps = (_step(match.group()) for match in _STRINGS_AND_BRACKETS.finditer(text))
    if any(depth > MAX_DEPTH for depth in accumulate(steps)):
        raise CanonicalError("too_deep", _MESSAGES["too_deep"])


def _step(token: str) -> int:
    if token in ("[", "{"):
        return 1
    return -1 if token in ("]", "}") else 0


def _load(text: str, refused: list[_Refused]) -> JSON:
    def refuse(code: str, key: str | None = None) -> _Refused:
        refused.append(_Refused(code, key))
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
    keys = [key for key, _ in pairs]
    return next(key for index, key in enumerate(keys) if key in keys[:index])


# ------------------------------------------------------------------------ writing


class _NeedsCare(Exception):
    """The value is outside the subset that the C encoder writes exactly as RFC 8785 asks."""


_AS_IT_IS = frozenset({str, bool, type(None)})
_LISTS = frozenset({list, tuple})
_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def dumps(value: object) -> bytes:
    """Write the RFC 8785 bytes of ``value`` (dict, list, tuple, str, int, float, bool, None)."""
    try:
        return _ENCODER.encode(_plain(value, 1)).encode("utf-8")
    except (_NeedsCare, UnicodeEncodeError):
        return _dumps_with_care(value)


def dumps_with_part(value: Mapping[str, object], names: Collection[str]) -> tuple[bytes, bytes]:
    """Write an object, and the object reduced to some of its members, while walking it once."""
    try:
        whole = _plain_object(value, 1)
        part = {name: whole[name] for name in names if name in whole}
        return _ENCODER.encode(whole).encode("utf-8"), _ENCODER.encode(part).encode("utf-8")
    except (_NeedsCare, UnicodeEncodeError):
        part = {name: value[name] for name in names if name in value}
        return _dumps_with_care(value), _dumps_with_care(part)


def _dumps_with_care(value: object) -> bytes:
    _refuse_in(value, "", 1)
    return rfc8785.dumps(value)  # type: ignore[arg-type]


def _plain(value: object, depth: int) -> object:
    """Copy ``value`` so that json writes it as JCS, or give up; ten times faster than the general road."""
    kind = type(value)
    if kind in _AS_IT_IS:
        return value
    if kind is int:
        if -MAX_INTEGER <= value <= MAX_INTEGER:  # type: ignore[operator]
            return value
        raise _NeedsCare
    if kind is float:
        return _plain_float(value)  # type: ignore[arg-type]
    if depth > MAX_DEPTH:
        raise _NeedsCare
    if kind is dict:
        return _plain_object(value, depth)  # type: ignore[arg-type]
    if kind is list or kind is tuple:
        return _plain_list(value, depth)  # type: ignore[arg-type]
    raise _NeedsCare


def _plain_list(value: Sequence[object], depth: int) -> object:
    kinds = set(map(type, value))
    if kinds <= _AS_IT_IS:
        return value
    if kinds <= _LISTS and depth < MAX_DEPTH and _AS_IT_IS.issuperset(map(type, chain.from_iterable(value))):  # type: ignore[arg-type]
        return value  # lists of ids, the bulk of a row, in one sweep
    return [item if type(item) in _AS_IT_IS else _plain(item, depth + 1) for item in value]


def _plain_object(value: Mapping[str, object], depth: int) -> dict[str, object]:
    try:
        if not all(map(str.isascii, value)):  # beyond ASCII the order by UTF-16 units is another one
            raise _NeedsCare
    except TypeError:
        raise _NeedsCare from None
    return {key: item if type(item) in _AS_IT_IS else _plain(item, depth + 1) for key, item in value.items()}


def _plain_float(value: float) -> float | int:
    if not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise _NeedsCare
    if value.is_integer():
        return int(value)
    if -1e-4 < value < 1e-4:  # Python turns to exponents here, ECMAScript only below 1e-6
        raise _NeedsCare
    return value


# ----------------------------------------------------------------------- refusing


def _refuse_in(value: object, path: str, depth: int) -> None:
    """Raise CanonicalError for the first thing in ``value`` that cannot be admitted, with its path."""
    if isinstance(value, _Refused):
        raise _error(value.code, path if value.key is None else _member(path, value.key))
    if isinstance(value, dict | list | tuple) and depth > MAX_DEPTH:
        raise _error("too_deep", path)
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise _error("key_not_string", _member(path, repr(key)))
            _refuse_text(key, path)
            _refuse_in(item, _member(path, key), depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _refuse_in(item, f"{path}[{index}]", depth + 1)
    else:
        _refuse_scalar(value, path)


def _refuse_scalar(value: object, path: str) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        _refuse_text(value, path)
    elif isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise _error("integer_out_of_range", path)
    elif isinstance(value, float):
        _refuse_float(value, path)
    else:
        raise CanonicalError("unsupported_type", f"a {type(value).__name__} has no JSON form", path=path)


def _refuse_float(value: float, path: str) -> None:
    if not isfinite(value):
        raise _error("number_not_finite", path)
    if abs(value) > MAX_INTEGER:
        raise _error("number_out_of_range", path)


def _refuse_text(value: str, path: str) -> None:
    if _SURROGATE.search(value):
        raise _error("lone_surrogate", path)


def _error(code: str, path: str) -> CanonicalError:
    return CanonicalError(code, _MESSAGES[code], path=path)


def _member(path: str, key: str) -> str:
    shown = key.encode("utf-8", "backslashreplace").decode("utf-8")
    return f"{path}.{shown}" if path else shown


# ----------------------------------------------------------------------- digests


def sha256_hex(data: bytes) -> str:
    """Hash bytes to 64 lower-case hex digits."""
    return sha256(data).hexdigest()


def digest(value: object) -> str:
    """Hash the canonical bytes of a value to 64 lower-case hex digits."""
    return sha256_hex(dumps(value))


def without(document: Mapping[str, JSON], *keys: str) -> dict[str, JSON]:
    """Copy an object without some of its top-level members."""
    return {key: value for key, value in document.items() if key not in keys}
