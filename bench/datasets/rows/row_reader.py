"""Stream the rows of a dataset file, and read a single row again by its position in the file.

Also in this module:

* Cut a JSON array into the bytes of its rows, one row in memory at a time.
* Read a csv file (RFC 4180) or a tsv file (without quoting): a header line, then one record per row, all text.

Example::

    file = RowFile.open(Path("data.jsonl"), "jsonl")
    for row in file:
        row.place, row.offset, row.length, row.part, row.values
    file.read(row.offset, row.length, row.part)
    with path.open("rb") as file:
        for row in array_rows(file, 0, "data.json"):
            row.place.index, row.offset, row.length, row.values
    columns(Path("data.csv"), "data.csv")                   # ("id", "question", "asked")
    for row in table_rows(file, "data.csv", names): row.values["asked"] is EMPTY

Only one row is in memory at a time; with ``rows``, one document. A ``.gz`` file is decompressed to a temporary file.

In a JSON array, the parser of ijson only finds the end of each row. The bytes of the row are then parsed on their own,
so that a row has the same values in the stream and when it is read again.

An empty cell of a table is read as an empty text; `without_empty_cells` removes it where a value may be absent.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import DecimalException
from pathlib import Path
from shutil import copyfileobj
from typing import BinaryIO, Protocol

from bench.config.benchmark.terms import Format
from bench.config.benchmark.values import Value, scope_of, scoped
from bench.config.file import display_path
from bench.config.jsonpath import Key
from bench.datasets.rows.parquet import ParquetRows
from bench.datasets.rows.row import (
    FileRow,
    RowPlace,
    broken_row,
    loads_lenient,
    malformed_error,
    not_object_error,
    not_utf8_error,
    parse_row,
    too_deep_error,
)
from bench.errors import DataError

DEEPEST = 1000
"""maximum nesting of a JSON array; the memory that ijson needs grows with the square of the depth"""
_CHUNK = 1 << 16
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\Z)', re.DOTALL)


class ItemsParser(Protocol):
    """The parsing coroutine of ijson."""

    def send(self, piece: bytes, /) -> object: ...


def array_rows(file: BinaryIO, offset: int, label: str) -> Iterator[FileRow]:
    """Yield the rows of the JSON array that begins at byte ``offset``. ``label`` names the file in errors.

    A malformed part ends the rows. The last row then has an error.
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
    """Yield the bytes of a file in pieces that end at each ``}``."""
    while chunk := file.read(_CHUNK):
        at = 0
        while (end := chunk.find(b"}", at)) >= 0:
            yield chunk[at : end + 1]
            at = end + 1
        if at < len(chunk):
            yield chunk[at:]


def _depth_change(piece: bytes) -> int:
    """Return opening minus closing brackets, those in strings included: a fast estimate of the change in depth."""
    return piece.count(b"{") + piece.count(b"[") - piece.count(b"}") - piece.count(b"]")


def _depth(raw: bytes) -> int:
    """Return the maximum depth of the brackets outside of strings."""
    depth = deepest = 0
    for bracket in re.findall(rb"[\[{\]}]", _STRING.sub(b"", raw)):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _feed(parser: ItemsParser, piece: bytes) -> None:
    """Send bytes to the parser without Python's limit on the digits of an integer.

    A huge integer would stop the parser at that limit; it is rejected later, when its row is parsed.
    """
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        parser.send(piece)
    finally:
        sys.set_int_max_str_digits(limit)


_BOM_CHARACTER = "\ufeff"
_LONGEST_FIELD = 1 << 30


class _EmptyCell(str):
    """The type of `EMPTY`, the empty text of an empty cell, which is recognized by identity."""

    __slots__ = ()


EMPTY = _EmptyCell()


def without_empty_cells(row: Mapping[str, object]) -> Mapping[str, object]:
    """Return the row without its empty table cells. An empty text of a JSON row is kept."""
    return scoped({name: value for name, value in row.items() if value is not EMPTY}, scope_of(row))


def columns(path: Path, label: str, *, tabs: bool = False) -> tuple[str, ...]:
    """Return the column names in the header of a csv file, or with ``tabs`` of a tsv file.

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
    """Yield every record below the header, with the number of its first line.

    A record that cannot be read is the last one, with an error.
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
        text = f"has {len(cells)} fields, but the header has {len(names)}"
        return broken_row(
            place, offset, place.error("", text, hint="put a field in quotes if it contains a comma or a line end")
        )
    return FileRow(place=place, offset=offset, length=length, values=_table_row(names, cells))


def parse_record(raw: bytes, names: tuple[str, ...], *, tabs: bool = False) -> Mapping[str, object]:
    """Parse the bytes of one record again, or raise ValueError or StopIteration."""
    return _table_row(names, next(_reader(io.StringIO(raw.decode(), newline=""), tabs=tabs)))


def _table_row(names: tuple[str, ...], cells: list[str]) -> Mapping[str, object]:
    return {name: cell or EMPTY for name, cell in zip(names, cells, strict=True)}


def _reader(lines: Iterator[str], *, tabs: bool = False) -> Iterator[list[str]]:
    csv.field_size_limit(_LONGEST_FIELD)
    if tabs:
        return csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    return csv.reader(lines, strict=True)


class _TableLines:
    """The decoded lines of a table file; ``offset`` and ``line`` are the bytes and lines read so far."""

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


_BOM = b"\xef\xbb\xbf"
_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz",
           b"PAR1": "parquet"}  # fmt: skip
"""magic bytes -> the name of the compressed or binary format"""


Part = tuple[tuple[Key, ...], object]
"""the keys that lead from the document to a row, and the row"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFile:
    """A dataset file of one format."""

    path: Path
    format: Format
    columns: tuple[str, ...] = ()
    """the column names of a table"""
    header: bool = True
    label: str = field(default="")
    name: str = ""
    """the file name as the config writes it, without suffixes"""
    rows: Value | None = None
    """the path to the rows in each document"""
    unpacked: _UnpackedFile | None = None
    parquet: ParquetRows | None = None
    document_rows: dict[int, list[Part]] = field(default_factory=dict, repr=False)
    """offset -> rows, for the document that was read last"""

    @classmethod
    def open(
        cls,
        path: Path,
        format: Format,  # noqa: A002 - the word of the config
        *,
        name: str = "",
        given: tuple[str, ...] = (),
        rows: Value | None = None,
    ) -> RowFile:
        """Open a file and check its first bytes. ``given`` names the columns of a table without a header.

        Raises:
            DataError: the file cannot be read, or has another format.
        """
        label, tabs, unpacked, names = display_path(path), format == "tsv", None, given
        try:
            if path.suffix == ".gz":
                unpacked = _UnpackedFile(path, label)
                path = unpacked.path
            _check_magic_bytes(path, label, format)
            if format in ("csv", "tsv") and not given:
                names = columns(path, label, tabs=tabs)
        except OSError as error:
            raise DataError(f"cannot read the file: {error.strerror}", where=label, hint="check the path") from error
        parquet = ParquetRows(path, label) if format == "parquet" else None
        return cls(
            path=path, format=format, columns=names, header=not given, label=label, name=name, rows=rows,
            unpacked=unpacked, parquet=parquet,
        )  # fmt: skip

    @property
    def rows_in_all(self) -> int | None:
        """Return the number of rows, if the file states it (parquet only)."""
        return None if self.parquet is None else (self.parquet.ends or [0])[-1]

    def __iter__(self) -> Iterator[FileRow]:
        """Yield every row in file order. A row that is not an object has an error.

        A malformed line of jsonl is a row with an error, and the next lines are read. A malformed part of an array or
        table ends the rows: the last row has the error.
        """
        for row in self.values():
            yield row if row.error or isinstance(row.values, dict) else self._not_object_row(row)

    def values(self) -> Iterator[FileRow]:
        """Yield every row, which may be any JSON value, in file order."""
        number = 0
        for row in self._documents():
            if self.rows is None or row.error is not None:
                yield row
                continue
            parts = self._parts(row.values)
            self.document_rows.clear()
            self.document_rows[row.offset] = parts
            if not parts:
                yield broken_row(row.place, row.offset, self._no_rows_error(row.values, row.place))
            for part, (keys, value) in enumerate(parts):
                here = replace(row.place, index=number)
                yield replace(row, place=here, values=value, part=part, keys=keys)  # type: ignore[arg-type]
                number += 1

    def _documents(self) -> Iterator[FileRow]:
        if self.parquet is not None:
            yield from self._numbered(self.parquet)
            return
        with self.path.open("rb") as file:
            match self.format:
                case "jsonl":
                    yield from self._lines(file)
                case "csv" | "tsv":
                    tabs = self.format == "tsv"
                    yield from table_rows(file, self.label, self.columns, tabs=tabs, header=self.header)
                case _:
                    yield from self._elements(file)

    def _numbered(self, rows: ParquetRows) -> Iterator[FileRow]:
        place = RowPlace(file=self.label, index=0)
        try:
            for number, values, size in rows:
                place = RowPlace(file=self.label, index=number)
                yield FileRow(place=place, offset=number, length=min(size, _LONGEST_FIELD), values=values)
        except DataError as error:
            yield broken_row(place, place.index, error)

    def _parts(self, document: object) -> list[Part]:
        """Return the rows of a document that are not null, each with the keys that lead to it."""
        assert self.rows is not None
        if not self.rows.single:
            return [(keys, value) for keys, value in self.rows.keyed(document) if value is not None]
        found = self.rows.get(document)
        if isinstance(found, list):
            return [((at,), value) for at, value in enumerate(found) if value is not None]
        return [] if found is None else [((), found)]

    def _no_rows_error(self, document: object, place: RowPlace) -> DataError:
        keys = ", ".join(map(str, document)) if isinstance(document, Mapping) else "none"
        assert self.rows is not None
        text = f"has no rows: data.rows {self.rows.text} matches nothing in {self.label}; its keys are {keys[:200]}"
        return place.error("", text, hint="correct data.rows")

    def _not_object_row(self, row: FileRow) -> FileRow:
        problem = not_object_error(row.place, row.values)
        if self.rows is not None:
            kind = "list" if isinstance(row.values, list) else "text" if isinstance(row.values, str) else "value"
            at = "".join(f".{key}" if isinstance(key, str) else f"[{key}]" for key in row.keys)
            text = f"is not an object: data.rows {self.rows.text} matches a {kind} at ${at}; a row must be an object"
            problem = row.place.error("", text, hint="correct data.rows")
        return replace(row, values=None, error=problem)

    def read(self, offset: int, length: int, part: int = 0) -> Part:
        """Read one row again, with its keys. ``part`` is its number in the document at the offset.

        Raises:
            DataError: the file has changed since it was checked.
        """
        try:
            if self.rows is None:
                return (), self._document(offset, length)
            if offset not in self.document_rows:
                found = self._parts(self._document(offset, length))
                self.document_rows.clear()
                self.document_rows[offset] = found
            return self.document_rows[offset][part]
        except (OSError, ValueError, csv.Error, StopIteration, IndexError) as error:
            raise self._changed_error() from error

    def _document(self, offset: int, length: int) -> object:
        if self.parquet is not None:
            return self.parquet.read(offset)
        with self.path.open("rb") as file:
            file.seek(offset)
            raw = file.read(length)
        table = self.format in ("csv", "tsv")
        values = parse_record(raw, self.columns, tabs=self.format == "tsv") if table else loads_lenient(raw)
        if self.rows is None and not isinstance(values, Mapping):
            raise self._changed_error()
        return values

    def _changed_error(self) -> DataError:
        return DataError("the file has changed since it was checked", where=self.label, hint="run the command again")

    def _lines(self, file: BinaryIO) -> Iterator[FileRow]:
        offset, index = 0, 0
        for number, raw in enumerate(file, 1):
            start, line = offset, raw
            offset += len(raw)
            if number == 1 and raw.startswith(_BOM):
                start, line = len(_BOM), raw[len(_BOM) :]
            if not line.strip():
                continue
            place = RowPlace(file=self.label, index=index, line=number)
            if index == 0 and line.lstrip().startswith(b"["):
                hint = "set data.format to json, or write one row per line"
                yield broken_row(place, start, place.error("", "is the start of a JSON array", hint=hint))
                return
            yield parse_row(place, start, line)
            index += 1

    def _elements(self, file: BinaryIO) -> Iterator[FileRow]:
        """Yield the elements of the array in the file, or its object, or with ``rows`` the whole document."""
        skipped = len(_BOM) if file.read(len(_BOM)) == _BOM else 0
        file.seek(skipped)
        while (first := file.read(1)).isspace():
            continue
        file.seek(skipped)
        if first and self.rows is not None:
            yield parse_row(RowPlace(file=self.label, index=0), skipped, file.read(), whole=True)
        elif first == b"[":
            yield from array_rows(file, skipped, self.label)
        elif first:
            yield parse_row(RowPlace(file=self.label, index=0), skipped, file.read())


class _UnpackedFile:
    """The content of a .gz file in a temporary file, which is deleted together with this object."""

    def __init__(self, path: Path, label: str) -> None:
        descriptor, name = tempfile.mkstemp(prefix="bench-")
        self.path = Path(name)
        try:
            with gzip.open(path) as packed, os.fdopen(descriptor, "wb") as made:
                copyfileobj(packed, made)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(
                f"the gzip file is incomplete: {error}", where=label, hint="download the file again"
            ) from error

    def __del__(self) -> None:
        self.path.unlink(missing_ok=True)


def _check_magic_bytes(path: Path, label: str, format: Format) -> None:  # noqa: A002
    with path.open("rb") as file:
        head = file.read(8)
    kind = next((name for magic, name in _PACKED.items() if head.startswith(magic)), None)
    if format == "parquet":
        if kind != "parquet":
            raise DataError("the file is not parquet", where=label, hint="download it again, or correct data.format")
    elif kind is not None:
        hint = {"parquet": "set data.format: parquet", "gzip": "add the suffix .gz to the name of the file"}.get(
            str(kind), "unpack the file"
        )
        raise DataError(f"the file is {kind}, not {format}", where=label, hint=hint)
