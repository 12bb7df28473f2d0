"""Read numbers, dates, maps and lists from responses, headers and files, without exceptions.

A number or date that cannot be read becomes None. A value that is not a map or list becomes an empty map or list.
`python_tree` parses Python source and is safe in several threads.

Example::

    number("0.5") == 0.5;  number("high") is None;  number(10**400) is None
    ast.literal_eval(python_tree("[1, None]", mode="eval")) == [1, None]
    whole_number(50.0) == 50;  whole_number("9" * 5000) is None
    instant("2023-05-08T13:56:00Z"), instant(1683554160000)     # datetimes with a zone
"""

from __future__ import annotations

import ast
import math
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

Json = dict[str, object]
"""a JSON object with any keys"""
LONGEST = 400
"""maximum number of characters of a number or date. A longer text would be slow to parse, so it is not read"""
LARGEST_WHOLE = 2**63 - 1
MILLISECONDS_FROM = 10**11
"""Unix times of at least this value are in milliseconds"""


def number(value: object) -> float | None:
    """Convert a number or a text to a finite float; return None for any other value."""
    if type(value) is float:
        return value if math.isfinite(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float | str) or _is_too_long(value):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def whole_number(value: object) -> int | None:
    """Convert a number or a text such as 50.0 or "50" to a non-negative integer.

    Return None for any other value, and for numbers of 2**63 or more.
    """
    if isinstance(value, str) and value.strip().isdecimal() and not _is_too_long(value):
        value = int(value)
    if isinstance(value, str | float):
        found = number(value)
        if found is None or not found.is_integer():
            return None
        value = int(found)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= LARGEST_WHOLE else None


def instant(value: object) -> datetime | None:
    """Convert a date to a datetime with a time zone; return None if it cannot be read.

    The date is ISO text, the format of mail and HTTP headers, or Unix time in seconds or milliseconds. A date without a
    zone is UTC.
    """
    seconds = number(value)
    if seconds is not None:
        return _from_unix(seconds)
    if not isinstance(value, str) or _is_too_long(value):
        return None
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            found = parse(value.strip())
            found = found if found.tzinfo else found.replace(tzinfo=UTC)
            found.astimezone(UTC)
        except (ValueError, TypeError, ArithmeticError, LookupError, OSError):
            continue
        return found
    return None


def _from_unix(seconds: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds / 1000 if abs(seconds) >= MILLISECONDS_FROM else seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _is_too_long(value: object) -> bool:
    return isinstance(value, str) and len(value) > LONGEST


_PARSING = threading.Lock()


def python_tree(source: str | bytes, *, mode: Literal["exec", "eval"] = "exec") -> ast.AST:
    """Parse Python source; only one thread at a time parses.

    CPython counts the nesting depth of all threads together, so concurrent parsing could raise SystemError.

    Raises:
        SyntaxError: the source is not Python.
        ValueError: the source has null bytes.
    """
    with _PARSING:
        return ast.parse(source, mode=mode)


def text_or_none(value: object) -> str | None:
    """Return ``value`` if it is a text that is not empty; otherwise return None."""
    return value if isinstance(value, str) and value else None


def object_or_empty(value: object) -> Mapping[str, object]:
    """Return ``value`` if it is a JSON object; otherwise return an empty object."""
    return value if isinstance(value, Mapping) else {}


def list_texts(value: object) -> tuple[str, ...]:
    """Return the elements of a list as texts. Return an empty tuple if ``value`` is not a list."""
    return tuple(map(str, value)) if isinstance(value, list | tuple) else ()


def utc_text(when: datetime, timespec: str = "auto") -> str:
    """Return an instant in UTC with the suffix ``Z``, such as ``2023-05-08T13:56:00Z``."""
    return when.astimezone(UTC).isoformat(timespec=timespec).removesuffix("+00:00") + "Z"
