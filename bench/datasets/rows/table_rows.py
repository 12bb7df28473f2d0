"""Read csv files (RFC 4180) and tsv files (without quoting). Each record below the header is a row of texts.

Example::

    columns(Path("data.csv"), "data.csv")                   # ("id", "question", "asked")
    for row in table_rows(file, "data.csv", names):
        row.values["asked"] is EMPTY                        # True if this cell is empty

`EMPTY` is an empty text of its own type. `without_empty_cells` removes the empty cells of a row.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from bench.config.benchmark.values import scope_of, scoped
from bench.datasets.rows.row import FileRow, RowPlace, broken_row, malformed_error, not_utf8_error
from bench.errors import DataError
from bench.visible_text import counted

_BOM_CHARACTER = "\ufeff"
_LONGEST_FIELD = 1 << 30


class _EmptyCell(str):
    """The type of `EMPTY`, the value of an empty cell. Compare with ``is EMPTY``, not with ``==``."""

    __slots__ = ()


EMPTY = _EmptyCell()


def without_empty_cells(row: Mapping[str, object]) -> Mapping[str, object]:
    """Return the row without empty table cells. Empty texts in JSON rows are kept."""
    return scoped({name: value for name, value in row.items() if value is not EMPTY}, scope_of(row))


def columns(path: Path, label: str, *, tabs: bool = False) -> tuple[str, ...]:
    """Return the column names in the header of a csv file, or of a tsv file if ``tabs`` is true.

    Raises:
        DataError: the header cannot be read, or does not name the fields.
    """
    with path.open("rb") as file:
        try:
            header = next(_reader(_TableLines(file, label), tabs=tabs), None)
        except csv.Error as error:
            reason = str(error).split(" - ")[0]
            hint = "end each line with a line feed, and close every quote"
            raise DataError(f"the header cannot be read: {reason}", where=f"{label}:1", hint=hint) from error
    if header is not None and (problem := _header_problem(header, tabs=tabs)):
        raise DataError(problem[0], where=f"{label}:1", hint=problem[1])
    return tuple(header or ())


def _header_problem(header: list[str], *, tabs: bool) -> tuple[str, str] | None:
    repeated = sorted({name for name in header if header.count(name) > 1})
    if repeated:
        return f'the header names "{repeated[0]}" twice', "rename a column"
    if any("\0" in name for name in header):
        return "the header contains NUL characters", "save the file as UTF-8"
    if not any(header):
        return "the header line is empty", "write the names of the fields in the first line"
    if tabs:
        return None
    if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
        return f'the header has one field only, "{header[0]}"', "separate the fields with commas"
    whole = ",".join(header)
    if max(whole.count(";"), whole.count("\t")) > len(header) - 1:
        return f'the header contains more semicolons or tabs than commas: "{whole}"', "separate the fields with commas"
    return None


def table_rows(
    file: BinaryIO, label: str, names: tuple[str, ...], *, tabs: bool = False, header: bool = True
) -> Iterator[FileRow]:
    """Yield every record below the header. The line in a record's place is the first line of the record.

    If a record is malformed or not UTF-8, this record has an error and is the last one.
    """
    tape = _TableLines(file, label)
    reader = _reader(tape, tabs=tabs)
    if header:
        next(reader, None)
    index = 0
    while True:
        start, place = tape.offset, RowPlace(file=label, index=index, line=tape.line + 1)
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield broken_row(place, start, malformed_error(place, str(error)))
            return
        except DataError as error:
            yield broken_row(place, start, error)
            return
        if cells is None:
            return
        if cells:
            yield _record(place, start, tape.offset - start, names, cells)
            index += 1


def _record(place: RowPlace, offset: int, length: int, names: tuple[str, ...], cells: list[str]) -> FileRow:
    if len(cells) != len(names):
        text = f"has {counted(len(cells), 'field(|s)')}, but the header has {len(names)}"
        return broken_row(
            place, offset, place.error("", text, hint="put a field in quotes if it contains a comma or a line end")
        )
    return FileRow(place=place, offset=offset, length=length, values=_table_row(names, cells))


def parse_record(raw: bytes, names: tuple[str, ...], *, tabs: bool = False) -> Mapping[str, object]:
    """Parse the bytes of one record again. If the record has changed, a ValueError or StopIteration is raised."""
    return _table_row(names, next(_reader(io.StringIO(raw.decode(), newline=""), tabs=tabs)))


def _table_row(names: tuple[str, ...], cells: list[str]) -> Mapping[str, object]:
    return {name: cell or EMPTY for name, cell in zip(names, cells, strict=True)}


def _reader(lines: Iterator[str], *, tabs: bool = False) -> Iterator[list[str]]:
    csv.field_size_limit(_LONGEST_FIELD)
    if tabs:
        return csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    return csv.reader(lines, strict=True)


class _TableLines:
    """The lines of a table file as text.

    ``offset`` is the number of bytes read so far. ``line`` is the number of lines read so far.
    """

    def __init__(self, file: BinaryIO, label: str) -> None:
        self.file = file
        self.label = label
        self.offset = 0
        self.line = 0

    def __iter__(self) -> _TableLines:
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
            raise not_utf8_error(f"{self.label}:{self.line}") from error
        return text.removeprefix(_BOM_CHARACTER) if first else text
