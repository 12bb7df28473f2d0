"""Stream the rows of a dataset file, and read one row again by its place.

Only one row is held at a time. A JSON array is cut by ijson: the parser is fed up to each ``}`` and tells when a row
has just ended, so that each row's bytes are known and can be read again alone::

    file = RowFile.open(Path("data.jsonl"), "jsonl")
    for row in file:
        row.index, row.offset, row.length, row.values
    file.read(offset, length)
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal, NoReturn

from bench.config.source import show
from bench.datasets.place import RowPlace
from bench.errors import DataError

Format = Literal["json", "jsonl", "csv"]

_BOM = b"\xef\xbb\xbf"
_CHUNK = 1 << 16
_LONGEST_FIELD = 1 << 30


class FloatText(float):
    """A number with a fraction or exponent that remembers its text in the file."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> FloatText:
        number = super().__new__(cls, text)
        number.text = text
        return number


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """One row with the bytes it takes in the file; ``values`` is None when the row was torn (see ``error``)."""

    place: RowPlace
    offset: int
    length: int
    values: Mapping[str, object] | None
    error: DataError | None = None


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
            columns = _columns(path, label) if format == "csv" else ()
        except OSError as error:
            raise DataError(f"cannot read the file: {error.strerror}", where=label, hint="check the path") from error
        return cls(path=path, format=format, columns=columns, label=label)

    def __iter__(self) -> Iterator[FileRow]:
        """Every row in file order. A torn line is a row with an error; a torn JSON array ends with one."""
        with self.path.open("rb") as file:
            match self.format:
                case "jsonl":
                    yield from self._lines(file)
                case "csv":
                    yield from self._records(file)
                case "json":
                    yield from self._elements(file)

    def read(self, offset: int, length: int) -> Mapping[str, object]:
        """Read one row again."""
        with self.path.open("rb") as file:
            file.seek(offset)
            raw = file.read(length)
        if self.format == "csv":
            record = next(csv.reader(io.StringIO(raw.decode(), newline=""), strict=True))
            return dict(zip(self.columns, record, strict=True))
        values = loads(raw)
        assert isinstance(values, dict)
        return values

    def place(self, index: int, offset: int) -> RowPlace:
        """The place of a row that was seen before; counts the lines before it."""
        if self.format == "json":
            return RowPlace(file=self.label, index=index)
        with self.path.open("rb") as file:
            before, left = 0, offset
            while left > 0 and (chunk := file.read(min(left, _CHUNK))):
                before += chunk.count(b"\n")
                left -= len(chunk)
        return RowPlace(file=self.label, index=index, line=before + 1)

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
            yield _parsed(place, start, line)
            index += 1

    def _records(self, file: BinaryIO) -> Iterator[FileRow]:
        csv.field_size_limit(_LONGEST_FIELD)
        tape = _Tape(file, self.label)
        reader = csv.reader(tape, strict=True)
        next(reader)
        index = 0
        while True:
            start, line = tape.offset, tape.line + 1
            place = RowPlace(file=self.label, index=index, line=line)
            try:
                record = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield FileRow(place=place, offset=start, length=0, values=None, error=_torn(place, str(error)))
                return
            if record:
                yield self._record(place, start, tape.offset - start, record)
                index += 1

    def _record(self, place: RowPlace, offset: int, length: int, record: list[str]) -> FileRow:
        if len(record) != len(self.columns):
            text = f"has {len(record)} fields, the header names {len(self.columns)}"
            return FileRow(place=place, offset=offset, length=length, values=None, error=place.error("", text))
        values = dict(zip(self.columns, record, strict=True))
        return FileRow(place=place, offset=offset, length=length, values=values)

    def _elements(self, file: BinaryIO) -> Iterator[FileRow]:
        head = file.read(_CHUNK)
        skipped = len(_BOM) if head.startswith(_BOM) else 0
        first = head[skipped:].lstrip()[:1]
        file.seek(skipped)
        place = RowPlace(file=self.label, index=0)
        if first == b"[":
            yield from _cut(file, skipped, place)
        elif first:
            yield _parsed(place, skipped, file.read())


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
            raise _not_utf8(f"{self.label}:{self.line}") from error
        return text.removeprefix("\ufeff") if first else text


def _columns(path: Path, label: str) -> tuple[str, ...]:
    with path.open("rb") as file:
        try:
            header = next(csv.reader(_Tape(file, label), strict=True), [])
        except csv.Error as error:
            raise DataError(f"the header cannot be read: {error}", where=f"{label}:1") from error
    repeated = sorted({name for name in header if header.count(name) > 1})
    if repeated:
        raise DataError(f'the header names "{repeated[0]}" twice', where=f"{label}:1", hint="rename a column")
    return tuple(header)


def _cut(file: BinaryIO, offset: int, place: RowPlace) -> Iterator[FileRow]:
    """Rows of a JSON array with their bytes: ijson says after which ``}`` a row has ended."""
    import ijson

    found = ijson.sendable_list()
    parser = ijson.items_coro(found, "item")
    at, start, index, escaped = offset, -1, 0, False
    try:
        for piece in _pieces(file):
            if start < 0 and (brace := piece.find(b"{")) >= 0:
                start = at + brace
            escaped = escaped or b"\\ud" in piece or b"\\uD" in piece
            parser.send(piece)
            at += len(piece)
            for values in found:
                here = RowPlace(file=place.file, index=index)
                # yajl writes "?" for half of a surrogate pair: such rows are read again, strictly
                whole = loads(os.pread(file.fileno(), at - start, start)) if escaped and start >= 0 else values
                yield _element(here, start, at - start, whole)
                index, start, escaped = index + 1, -1, False
            del found[:]
        parser.close()
    except ijson.JSONError as error:
        here = RowPlace(file=place.file, index=index)
        problem = _not_utf8(str(here)) if "in UTF8 string" in str(error) else _torn(here, str(error))
        yield FileRow(place=here, offset=at, length=0, values=None, error=problem)


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """The file in pieces that end after a ``}`` wherever there is one."""
    while chunk := file.read(_CHUNK):
        at = 0
        while (end := chunk.find(b"}", at)) >= 0:
            yield chunk[at : end + 1]
            at = end + 1
        if at < len(chunk):
            yield chunk[at:]


def _element(place: RowPlace, offset: int, length: int, values: object) -> FileRow:
    if isinstance(values, dict) and offset >= 0:
        return FileRow(place=place, offset=offset, length=length, values=values)
    return FileRow(place=place, offset=0, length=0, values=None, error=place.error("", "is no object", values))


def _parsed(place: RowPlace, offset: int, raw: bytes) -> FileRow:
    """Parse one whole row."""
    problem: DataError
    try:
        values = loads(raw)
    except UnicodeDecodeError as error:
        problem = _not_utf8(str(place))
        problem.__cause__ = error
    except (ValueError, RecursionError) as error:
        problem = _torn(place, str(error))
    else:
        if isinstance(values, dict):
            return FileRow(place=place, offset=offset, length=len(raw), values=values)
        problem = place.error("", "is no object", values)
    return FileRow(place=place, offset=offset, length=len(raw), values=None, error=problem)


def loads(raw: bytes) -> object:
    """Parse strict UTF-8 JSON; fractions keep their text."""
    return _DECODER.decode(raw.decode())


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_float=FloatText, parse_constant=_no_constant)


def _torn(place: RowPlace, reason: str) -> DataError:
    first = reason.splitlines()[0].split(": line ")[0] if reason else "it ends too early"
    return place.error("", f"is torn: {first}", hint="mend or remove the row")


def _not_utf8(where: str) -> DataError:
    return DataError("bytes that are not UTF-8", where=where, hint="save the file as UTF-8")
