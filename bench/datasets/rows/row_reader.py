"""Yield the rows of a data file one by one, and read a single row again later.

Example::

    file = RowFile.open(Path("data.jsonl"), "jsonl")
    for row in file:
        row.place, row.offset, row.length, row.part, row.values
    file.read(row.offset, row.length, row.part)

Only one row is in memory at a time, or one whole document if the config sets ``data.rows``. A ``.gz`` file is unpacked
to a temporary file.
"""

from __future__ import annotations

import csv
import gzip
import os
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import copyfileobj
from typing import BinaryIO

from bench.config.benchmark.terms import Format
from bench.config.benchmark.values import Value
from bench.config.file import display_path
from bench.config.jsonpath import Key
from bench.datasets.rows.json_array import array_rows
from bench.datasets.rows.parquet import ParquetRows
from bench.datasets.rows.row import FileRow, RowPlace, broken_row, loads_lenient, not_object_error, parse_row
from bench.datasets.rows.table_rows import _LONGEST_FIELD, columns, parse_record, table_rows
from bench.errors import DataError

_BOM = b"\xef\xbb\xbf"
_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz",
           b"PAR1": "parquet"}  # fmt: skip
"""map from the first bytes of a file to the name of a compressed or binary format"""


Part = tuple[tuple[Key, ...], object]
"""the keys that lead from the top of the document to a row, and the row itself"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFile:
    """A data file of one format, whose rows can be read in order or one by one."""

    path: Path
    format: Format
    columns: tuple[str, ...] = ()
    """the column names if the file is a table, otherwise empty"""
    header: bool = True
    label: str = field(default="")
    name: str = ""
    """the file's name as written in the config, without its suffixes"""
    rows: Value | None = None
    """the path to the rows inside each document of the file"""
    unpacked: _UnpackedFile | None = None
    parquet: ParquetRows | None = None
    document_rows: dict[int, list[Part]] = field(default_factory=dict, repr=False)
    """map from the offset of a document to its rows; contains only the document that was read last"""

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
        """Open a data file, and check that its first bytes fit the format.

        ``given`` contains the column names of a table without a header.

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
        """Return the number of rows in the file. Return None for all formats except parquet."""
        return None if self.parquet is None else (self.parquet.ends or [0])[-1]

    def __iter__(self) -> Iterator[FileRow]:
        """Yield every row in file order. A row that is malformed or is not an object has an error instead of values.

        After a malformed line of jsonl, reading continues. A malformed row of a JSON array or a table is the last row.
        """
        for row in self.values():
            yield row if row.error or isinstance(row.values, dict) else self._not_object_row(row)

    def values(self) -> Iterator[FileRow]:
        """Yield every row in file order. The value of a row can be any JSON value."""
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
        """Return the rows in a document, each with the keys that lead to it. Rows that are null are left out."""
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
        """Read one row again, and return its keys and value.

        ``part`` is the number of the row in the document at ``offset``.

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
                yield broken_row(
                    place, start, place.error("", "is the start of a JSON array; expected one object", hint=hint)
                )
                return
            yield parse_row(place, start, line)
            index += 1

    def _elements(self, file: BinaryIO) -> Iterator[FileRow]:
        """Yield the elements of the array in the file.

        A single object is one row. If ``rows`` is set, the whole document is one row.
        """
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
    """A temporary file with the unpacked content of a .gz file. The file is deleted together with this object."""

    def __init__(self, path: Path, label: str) -> None:
        descriptor, name = tempfile.mkstemp(prefix="bench-")
        self.path = Path(name)
        try:
            with gzip.open(path) as packed, os.fdopen(descriptor, "wb") as made:
                copyfileobj(packed, made)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(
                f"the gzip file is incomplete or damaged: {error}", where=label, hint="download the file again"
            ) from error

    def __del__(self) -> None:
        self.path.unlink(missing_ok=True)


def packed_format(path: Path) -> str | None:
    """Return the format of a packed or binary file by its first bytes, such as ``zip``; None for any other file."""
    with path.open("rb") as file:
        head = file.read(8)
    return next((name for magic, name in _PACKED.items() if head.startswith(magic)), None)


def _check_magic_bytes(path: Path, label: str, format: Format) -> None:  # noqa: A002
    kind = packed_format(path)
    if format == "parquet":
        if kind != "parquet":
            raise DataError(
                "the file is not parquet", where=label, hint="download the file again, or correct data.format"
            )
    elif kind is not None:
        hint = {"parquet": "set data.format: parquet", "gzip": "add the suffix .gz to the name of the file"}.get(
            kind, "unpack the file"
        )
        raise DataError(f"the file is {kind}, not {format}", where=label, hint=hint)
