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


Place = tuple["Place", str | int] | None
"""Where a value stands: the place of what holds it, and its key or index there; spelled out only for a refusal."""


def refuse_in(value: object, place: Place = None, depth: int = 1) -> None:
    """Raise CanonicalError for the first thing in ``value`` that cannot be admitted, with its path."""
    if isinstance(value, Stand):
        raise _error(value.code, place if value.key is None else (place, value.key))
    if isinstance(value, dict | list | tuple) and depth > MAX_DEPTH:
        raise _error("too_deep", place)
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise _error("key_not_string", (place, repr(key)))
            _refuse_text(key, place)
            refuse_in(item, (place, key), depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            refuse_in(item, (place, index), depth + 1)
    else:
        _refuse_scalar(value, place)


def _refuse_scalar(value: object, place: Place) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        _refuse_text(value, place)
    elif isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise _error("integer_out_of_range", place)
    elif isinstance(value, float):
        _refuse_float(value, place)
    else:
        raise CanonicalError("unsupported_type", f"a {type(value).__name__} has no JSON form", path=_path(place))


def _refuse_float(value: float, place: Place) -> None:
    if not isfinite(value):
        raise _error("number_not_finite", place)
    if abs(value) > MAX_INTEGER:
        raise _error("number_out_of_range", place)


def _refuse_text(value: str, place: Place) -> None:
    if _SURROGATE.search(value):
        raise _error("lone_surrogate", place)


def _error(code: str, place: Place) -> CanonicalError:
    return CanonicalError(code, MESSAGES[code], path=_path(place))


def _path(place: Place) -> str:
    """``scores.judged.n`` or ``a[1].b``."""
    steps: list[str] = []
    while place is not None:
        place, step = place
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(reversed(steps)).removeprefix(".").encode("utf-8", "backslashreplace").decode("utf-8")
