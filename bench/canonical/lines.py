"""Reading lines that ought to be canonical already, a hundred thousand at a time.

A line that Python's own encoder writes again byte for byte has one spelling and no repeated key, so most of strict
admission is proved by that one comparison; what it cannot prove takes the strict road::

    read_line(b'{"a":1}', ("a",))    # ({"a": 1}, b'{"a":1}', True)
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import NoReturn

from bench.canonical.admission import parse, refuse_depth
from bench.canonical.refusing import JSON
from bench.canonical.writing import ENCODER, dumps, dumps_with_part

_BEYOND_UCS2 = re.compile("[\U00010000-\U0010ffff]")
SURE_DIGITS = 15
"""every integer of that many digits is exact in a double"""


class _Unsure(Exception):
    """A number whose spelling Python and ECMAScript may see differently."""


def read_line(line: bytes, names: Collection[str]) -> tuple[JSON, bytes, bool]:
    """Read a line; also give the canonical bytes of some of its members, and whether the line itself is canonical.

    Raises CanonicalError as ``parse`` does.
    """
    try:
        return _quickly(line, names)
    except (_Unsure, ValueError, RecursionError):
        return _strictly(line, names)


def _quickly(line: bytes, names: Collection[str]) -> tuple[JSON, bytes, bool]:
    text = line.decode("utf-8")
    refuse_depth(text)
    if not text.isascii() and _BEYOND_UCS2.search(text):
        raise _Unsure  # keys sort by UTF-16 units, which is another order only beyond U+FFFF
    value = _DECODER.decode(text)
    if not isinstance(value, dict) or ENCODER.encode(value) != text:
        raise _Unsure
    part = {name: value[name] for name in names if name in value}
    return value, ENCODER.encode(part).encode("utf-8"), True


def _strictly(line: bytes, names: Collection[str]) -> tuple[JSON, bytes, bool]:
    value = parse(line)
    whole, part = dumps_with_part(value, names) if isinstance(value, dict) else (dumps(value), dumps(value))
    return value, part, whole == line


def _sure_float(digits: str) -> float:
    number = float(digits)
    if "e" in digits or "E" in digits or number.is_integer() or len(digits.partition(".")[0]) > SURE_DIGITS:
        raise _Unsure
    return number


def _sure_int(digits: str) -> int:
    if len(digits) > SURE_DIGITS:
        raise _Unsure
    return int(digits)


def _no_constant(name: str) -> NoReturn:
    raise _Unsure(name)


_DECODER = json.JSONDecoder(parse_float=_sure_float, parse_int=_sure_int, parse_constant=_no_constant)
