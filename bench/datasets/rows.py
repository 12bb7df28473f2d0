"""Stream the rows of a dataset file, and read one row again by its place.

Only one row is held at a time; ``arrays`` cuts a JSON array, ``tables`` reads csv::

    file = RowFile.open(Path("data.jsonl"), "jsonl")
    for row in file:
        row.index, row.offset, row.length, row.values
    file.read(offset, length)
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

from bench.config.source import show
from bench.datasets.arrays import cut
from bench.datasets.filerow import FileRow, broken, loads, parsed
from bench.datasets.place import RowPlace
from bench.datasets.tables import columns, record, records
from bench.errors import DataError

Format = Literal["json", "jsonl", "csv"]

_BOM = b"\xef\xbb\xbf"
_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz",
           b"PAR1": "parquet"}  # fmt: skip
"""how files begin that hold rows in a form which is not read"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFile:
    """A dataset file of one format."""

    path: Path
    format: Format
    columns: tuple[str, ...] = ()
    """the header of a csv file"""
    label: str = field(default="")

    @classmethod
    def open(cls, path: Path, format: Format) -> RowFile:  # noqa: A002 - the word of the config
        """Look at the file's head; DataError when it cannot be read."""
        label = show(path)
        try:
            _refuse_packed(path, label)
            names = columns(path, label) if format == "csv" else ()
        except OSError as error:
            raise DataError(f"cannot read the file: {error.strerror}", where=label, hint="check the path") from error
        return cls(path=path, format=format, columns=names, label=label)

    def __iter__(self) -> Iterator[FileRow]:
        """Every row in file order. A torn line is a row with an error; a torn array or table ends with one."""
        with self.path.open("rb") as file:
            match self.format:
                case "jsonl":
                    yield from self._lines(file)
                case "csv":
                    yield from records(file, self.label, self.columns)
                case "json":
                    yield from self._elements(file)

    def read(self, offset: int, length: int) -> Mapping[str, object]:
        """Read one row again; DataError when the file is no longer the one that was checked."""
        try:
            with self.path.open("rb") as file:
                file.seek(offset)
                raw = file.read(length)
            values = record(raw, self.columns) if self.format == "csv" else loads(raw)
        except (OSError, ValueError, csv.Error, StopIteration) as error:
            raise self._changed() from error
        if not isinstance(values, Mapping):
            raise self._changed()
        return values

    def _changed(self) -> DataError:
        return DataError("the file has changed since it was checked", where=self.label, hint="start again")

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
                hint = "set data.format to json, or write a row a line"
                yield broken(place, start, place.error("", "begins a JSON array", hint=hint))
                return
            yield parsed(place, start, line)
            index += 1

    def _elements(self, file: BinaryIO) -> Iterator[FileRow]:
        """The elements of an array, or the one object that the file is."""
        skipped = len(_BOM) if file.read(len(_BOM)) == _BOM else 0
        file.seek(skipped)
        while (first := file.read(1)).isspace():
            continue
        file.seek(skipped)
        if first == b"[":
            yield from cut(file, skipped, self.label)
        elif first:
            yield parsed(RowPlace(file=self.label, index=0), skipped, file.read())


def _refuse_packed(path: Path, label: str) -> None:
    with path.open("rb") as file:
        head = file.read(8)
    kind = next((name for magic, name in _PACKED.items() if head.startswith(magic)), None)
    if kind is not None:
        hint = "unpack it" if kind != "parquet" else "convert it to jsonl"
        raise DataError(f"the file is {kind}, not json, jsonl or csv", where=label, hint=hint)
