"""Rows of a csv file (RFC 4180): a header line, then a record a row, all of them text.

A text cell may be empty; where a value may be absent, an empty cell is how csv says so::

    columns(Path("data.csv"), "data.csv")                   # ("id", "question", "asked")
    for row in records(file, "data.csv", names): row.values["asked"] is EMPTY
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from bench.datasets.filerow import FileRow, broken, not_utf8, torn
from bench.datasets.place import RowPlace
from bench.errors import DataError

_BOM = "\ufeff"
_LONGEST_FIELD = 1 << 30


class _EmptyCell(str):
    """A text like any other empty one, but known by identity."""

    __slots__ = ()


EMPTY = _EmptyCell()


def without_empty_cells(row: Mapping[str, object]) -> Mapping[str, object]:
    """The row with its empty cells absent; rows of JSON have none, an empty text there is a text."""
    return {name: value for name, value in row.items() if value is not EMPTY}


def columns(path: Path, label: str) -> tuple[str, ...]:
    """The names of the header; none for an empty file. DataError for a header that cannot name fields."""
    with path.open("rb") as file:
        try:
            header = next(_reader(_Tape(file, label)), None)
        except csv.Error as error:
            reason = str(error).split(" - ")[0]
            hint = "end each line with a line feed, and close what is quoted"
            raise DataError(f"the header cannot be read: {reason}", where=f"{label}:1", hint=hint) from error
    if header is not None and (problem := _problem(header)):
        raise DataError(problem[0], where=f"{label}:1", hint=problem[1])
    return tuple(header or ())


def _problem(header: list[str]) -> tuple[str, str] | None:
    repeated = sorted({name for name in header if header.count(name) > 1})
    if repeated:
        return f'the header names "{repeated[0]}" twice', "rename a column"
    if any("\0" in name for name in header):
        return "the header holds characters of no name (NUL)", "save the file as UTF-8"
    if not any(header):
        return "the header line is empty", "begin the file with the names of its fields"
    if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
        return f'the header names one field only, "{header[0]}"', "separate the fields with commas"
    whole = ",".join(header)
    if max(whole.count(";"), whole.count("\t")) > len(header) - 1:
        return f'the header holds more semicolons or tabs than commas: "{whole}"', "separate the fields with commas"
    return None


def records(file: BinaryIO, label: str, names: tuple[str, ...]) -> Iterator[FileRow]:
    """Every record below the header, with the line it begins at; one that cannot be read ends the file."""
    tape = _Tape(file, label)
    reader = _reader(tape)
    next(reader, None)
    index = 0
    while True:
        start, place = tape.offset, RowPlace(file=label, index=index, line=tape.line + 1)
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield broken(place, start, torn(place, str(error)))
            return
        except DataError as error:
            yield broken(place, start, error)
            return
        if cells is None:
            return
        if cells:
            yield _record(place, start, tape.offset - start, names, cells)
            index += 1


def _record(place: RowPlace, offset: int, length: int, names: tuple[str, ...], cells: list[str]) -> FileRow:
    if len(cells) != len(names):
        text = f"has {len(cells)} fields, the header names {len(names)}"
        return broken(place, offset, place.error("", text, hint="quote a field that holds a comma or a line end"))
    return FileRow(place=place, offset=offset, length=length, values=_named(names, cells))


def record(raw: bytes, names: tuple[str, ...]) -> Mapping[str, object]:
    """The values of one record again. ValueError or StopIteration when these bytes are none."""
    return _named(names, next(_reader(io.StringIO(raw.decode(), newline=""))))


def _named(names: tuple[str, ...], cells: list[str]) -> Mapping[str, object]:
    return {name: cell or EMPTY for name, cell in zip(names, cells, strict=True)}


def _reader(lines: Iterator[str]) -> Iterator[list[str]]:
    csv.field_size_limit(_LONGEST_FIELD)
    return csv.reader(lines, strict=True)


class _Tape:
    """Decoded lines of a csv file that know how far they are."""

    def __init__(self, file: BinaryIO, label: str) -> None:
        self.file = file
        self.label = label
        self.offset = 0
        self.line = 0

    def __iter__(self) -> _Tape:
        return self

    def __next__(self) -> str:
        raw = self.file.readline()
        if not raw:
            raise StopIteration
        first = self.offset == 0
        self.offset += len(raw)
        self.line += 1
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            raise not_utf8(f"{self.label}:{self.line}") from error
        return text.removeprefix(_BOM) if first else text
