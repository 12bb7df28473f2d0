"""Read a JSON array row by row, with only one row in memory at a time.

Example::

    with path.open("rb") as file:
        for row in array_rows(file, 0, "data.json"):
            row.place.index, row.offset, row.length, row.values

The library ijson is used only to find the end of each row. The values are parsed from the bytes of this row alone.
When a single row is read again later, its bytes are the same, so its values are the same too.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from decimal import DecimalException
from typing import Any, BinaryIO

from bench.datasets.rows.row import (
    FileRow,
    RowPlace,
    broken_row,
    malformed_error,
    not_object_error,
    not_utf8_error,
    parse_row,
    too_deep_error,
)

DEEPEST = 1000
"""maximum depth of nested lists and objects; the memory that ijson needs grows with the square of the depth"""
_CHUNK = 1 << 16
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\Z)', re.DOTALL)


def array_rows(file: BinaryIO, offset: int, label: str) -> Iterator[FileRow]:
    """Yield the rows of the JSON array that begins at byte ``offset``. ``label`` names the file in error messages.

    If a row is malformed, it is yielded with an error and is the last row.
    """
    import ijson

    found = ijson.sendable_list()
    parser = ijson.items_coro(found, "item")
    at = start = offset
    begun, index, opened = False, 0, 0
    try:
        for piece in _pieces(file):
            if not begun and (brace := piece.find(b"{")) >= 0:
                begun, start = True, at + brace
            opened += _depth_change(piece)
            if opened > DEEPEST or piece.count(b"[") > DEEPEST:
                opened = _depth(os.pread(file.fileno(), at + len(piece) - start, start))
                if opened > DEEPEST:
                    here = _place(label, index)
                    yield broken_row(here, at, too_deep_error(here))
                    return
            _feed(parser, piece)
            at += len(piece)
            for value in found:
                here = _place(label, index)
                if isinstance(value, dict):
                    yield parse_row(here, start, os.pread(file.fileno(), at - start, start))
                else:
                    yield broken_row(here, start, not_object_error(here, value))
                index += 1
            if found:
                begun, start, opened = False, at, 0
                del found[:]
        parser.close()
    except (ijson.JSONError, DecimalException) as error:
        here = _place(label, index)
        number = isinstance(error, DecimalException)
        reason = "a number is out of range" if number else str(error).removeprefix("parse error: ")
        yield broken_row(
            here, at, not_utf8_error(str(here)) if "in UTF8 string" in reason else malformed_error(here, reason)
        )


def _place(label: str, index: int) -> RowPlace:
    return RowPlace(file=label, index=index)


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield the bytes of a file in pieces that end after a ``}``."""
    while chunk := file.read(_CHUNK):
        at = 0
        while (end := chunk.find(b"}", at)) >= 0:
            yield chunk[at : end + 1]
            at = end + 1
        if at < len(chunk):
            yield chunk[at:]


def _depth_change(piece: bytes) -> int:
    """Return the number of opening brackets minus the number of closing brackets.

    Brackets in strings are counted too. The result is only a fast estimate.
    """
    return piece.count(b"{") + piece.count(b"[") - piece.count(b"}") - piece.count(b"]")


def _depth(raw: bytes) -> int:
    """Return the maximum depth of nested brackets. Brackets in strings are not counted."""
    depth = deepest = 0
    for bracket in re.findall(rb"[\[{\]}]", _STRING.sub(b"", raw)):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _feed(parser: Any, piece: bytes) -> None:
    """Send bytes to the parser, with Python's limit on the digits of an integer switched off.

    With the limit, a huge integer would stop the parser. The integer is rejected later, when its row is parsed.
    """
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        parser.send(piece)
    finally:
        sys.set_int_max_str_digits(limit)
