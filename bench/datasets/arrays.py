"""Cut a JSON array into the bytes of its rows, one row in memory at a time.

ijson is fed up to each ``}`` and tells when a row has just ended; the row's bytes are then parsed alone, strictly, so
that a row reads the same now and when it is read again by its place::

    with path.open("rb") as file:
        for row in cut(file, 0, "data.json"):
            row.place.index, row.offset, row.length, row.values
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from decimal import DecimalException
from typing import BinaryIO, Protocol

from bench.datasets.filerow import FileRow, broken, no_object, not_utf8, parsed, too_deep, torn
from bench.datasets.place import RowPlace

DEEPEST = 1000
"""ijson keeps the path of each open bracket, which is quadratic in the depth"""
_CHUNK = 1 << 16
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\Z)', re.DOTALL)


class ItemsParser(Protocol):
    """The coroutine of ijson."""

    def send(self, piece: bytes, /) -> object: ...


def cut(file: BinaryIO, offset: int, label: str) -> Iterator[FileRow]:
    """Give the rows from ``offset`` on; an array that is torn ends with a row that has an error."""
    import ijson

    found = ijson.sendable_list()
    parser = ijson.items_coro(found, "item")
    at = start = offset
    begun, index, opened = False, 0, 0
    try:
        for piece in _pieces(file):
            if not begun and (brace := piece.find(b"{")) >= 0:
                begun, start = True, at + brace
            opened += _opened(piece)
            if opened > DEEPEST or piece.count(b"[") > DEEPEST:
                opened = _depth(os.pread(file.fileno(), at + len(piece) - start, start))
                if opened > DEEPEST:
                    here = _place(label, index)
                    yield broken(here, at, too_deep(here))
                    return
            _feed(parser, piece)
            at += len(piece)
            for value in found:
                here = _place(label, index)
                if isinstance(value, dict):
                    yield parsed(here, start, os.pread(file.fileno(), at - start, start))
                else:
                    yield broken(here, start, no_object(here, value))
                index += 1
            if found:
                begun, start, opened = False, at, 0
                del found[:]
        parser.close()
    except (ijson.JSONError, DecimalException) as error:
        here = _place(label, index)
        number = isinstance(error, DecimalException)
        reason = "a number is out of range" if number else str(error).removeprefix("parse error: ")
        yield broken(here, at, not_utf8(str(here)) if "in UTF8 string" in reason else torn(here, reason))


def _place(label: str, index: int) -> RowPlace:
    return RowPlace(file=label, index=index)


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """The file in pieces that end after a ``}`` wherever there is one."""
    while chunk := file.read(_CHUNK):
        at = 0
        while (end := chunk.find(b"}", at)) >= 0:
            yield chunk[at : end + 1]
            at = end + 1
        if at < len(chunk):
            yield chunk[at:]


def _opened(piece: bytes) -> int:
    """How many brackets stay open, those in strings included: a first look that costs little."""
    return piece.count(b"{") + piece.count(b"[") - piece.count(b"}") - piece.count(b"]")


def _depth(raw: bytes) -> int:
    """How deep the brackets outside of strings go."""
    depth = deepest = 0
    for bracket in re.findall(rb"[\[{\]}]", _STRING.sub(b"", raw)):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _feed(parser: ItemsParser, piece: bytes) -> None:
    """An integer that Python refuses to read crashes yajl; here it passes, and its row is refused when it is parsed."""
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        parser.send(piece)
    finally:
        sys.set_int_max_str_digits(limit)
