"""What cannot be admitted, told by a stable code and the path to it.

Example::

    refuse_in({"a": [float("nan")]})       # CanonicalError: a[0]: NaN and infinities are not JSON
"""

from __future__ import annotations

import re
from math import isfinite

from bench.errors import CanonicalError

JSON = str | int | float | bool | None | list["JSON"] | dict[str, "JSON"]
"""A parsed JSON value; numbers are int or float, never NaN or infinite."""

MAX_DEPTH = 64
MAX_INTEGER = 2**53 - 1

_SURROGATE = re.compile("[\ud800-\udfff]")
MESSAGES = {
    "duplicate_key": "the key occurs twice in one object",
    "integer_out_of_range": "an integer beyond 2^53-1 is read differently by different programs",
    "number_out_of_range": "a number beyond 2^53-1 is read differently by different programs",
    "number_not_finite": "NaN and infinities are not JSON",
    "lone_surrogate": "half of a surrogate pair is no Unicode text",
    "too_deep": f"more than {MAX_DEPTH} levels of nesting",
    "key_not_string": "an object key is not a string",
}


class Stand:
    """Stands in the parsed tree where a value was refused, so that its path can be told."""

    def __init__(self, code: str, key: str | None = None) -> None:
        self.code = code
        self.key = key


def refuse_in(value: object, path: str, depth: int) -> None:
    """Raise CanonicalError for the first thing in ``value`` that cannot be admitted, with its path."""
    if isinstance(value, Stand):
        raise _error(value.code, path if value.key is None else _member(path, value.key))
    if isinstance(value, dict | list | tuple) and depth > MAX_DEPTH:
        raise _error("too_deep", path)
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise _error("key_not_string", _member(path, repr(key)))
            _refuse_text(key, path)
            refuse_in(item, _member(path, key), depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            refuse_in(item, f"{path}[{index}]", depth + 1)
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
    return CanonicalError(code, MESSAGES[code], path=path)


def _member(path: str, key: str) -> str:
    shown = key.encode("utf-8", "backslashreplace").decode("utf-8")
    return f"{path}.{shown}" if path else shown
