"""One row of a data file: its place, its position in bytes, and its values or its error.

Example::

    place = RowPlace(file="data.jsonl", index=0, line=1)
    row = parse_row(place, 0, b'{"id": "q1", "answer": 1.50}')
    row.values["answer"].text       # "1.50"
    parse_row(place, 0, b'{"id"').error        # DataError: data.jsonl:1: row is malformed: ...
    RowPlace(file="data.jsonl", index=2, line=3).error("question", "is missing")
    # DataError: data.jsonl:3: question is missing

JSON is parsed strictly: it must be UTF-8 without ``NaN``. A number with a fraction keeps its text from the file.

Errors show a row's line (``data.jsonl:3``, ``data.csv:4``). In a JSON file, they show its index (``data.json:
[0].haystack_dates[1]``).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

from bench.config.file import quoted
from bench.config.jsonpath import Key
from bench.errors import DataError

_ABSENT = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPlace:
    """The place of one row in its data file, for error messages."""

    file: str
    index: int
    """number of the row in the data of the benchmark, counted from 0"""
    line: int | None = None
    """line of the row, counted from 1; None for formats without lines, such as JSON"""
    row_id: str | None = None
    number: int | None = None
    """number of the row in its own file, counted from 0; None means that it equals ``index``"""

    def with_row_id(self, row_id: str) -> RowPlace:
        """Return a copy of this place that also has the id of the row."""
        return replace(self, row_id=row_id)

    @property
    def row(self) -> int:
        """Return the number of the row in its file, counted from 0."""
        return self.index if self.number is None else self.number

    def __str__(self) -> str:
        return f"{self.file}: [{self.row}]" if self.line is None else f"{self.file}:{self.line}"

    def error(self, field: str, message: str, value: object = _ABSENT, *, hint: str | None = None) -> DataError:
        """Create an error about a field. The message shows the place of the row, the field, the problem and the value.

        The value is cut to 100 characters. If ``field`` is empty, the problem concerns the whole row.
        """
        joint = "" if not field or field.startswith("[") else "."
        where = f"{self}{joint}{field}" if self.line is None else str(self)
        shown = "" if value is _ABSENT else f": {quoted(value)}"
        row = f" (row {self.row_id})" if self.row_id else ""
        text = f"{field or 'row'} {message}{shown}{row}"
        return DataError(text, where=where, hint=hint)


class FloatText(float):
    """A number with a fraction or an exponent. ``text`` is the number as written in the file."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> FloatText:
        number = super().__new__(cls, text)
        number.text = text
        return number


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """One row and its position in the file. If the row cannot be read, ``values`` is None and ``error`` is set."""

    place: RowPlace
    offset: int
    length: int
    values: Mapping[str, object] | None
    error: DataError | None = None
    part: int = 0
    """number of the row in its document, counted from 0"""
    keys: tuple[Key, ...] = ()
    """the keys that lead from the top of the document to the row"""
    file: int = 0
    """index of the row's file among the files of the benchmark"""
    file_values: Mapping[str, object] | None = None
    """the row as written in the file, without fields from ``data.with``; set only by `RowSource`"""


def parse_row(place: RowPlace, offset: int, raw: bytes, *, whole: bool = False) -> FileRow:
    """Parse one row, which must be a JSON object. If parsing fails, the returned row has an error.

    If ``whole`` is true, parse a whole document, which can be any JSON value.
    """
    try:
        values = _STRICT.decode(raw.decode())
    except UnicodeDecodeError as error:
        problem = not_utf8_error(str(place))
        problem.__cause__ = error
    except RecursionError:
        problem = too_deep_error(place)
    except ValueError as error:
        problem = malformed_error(place, str(error))
    else:
        if whole or isinstance(values, dict):
            return FileRow(place=place, offset=offset, length=len(raw), values=values)
        problem = not_object_error(place, values)
    return FileRow(place=place, offset=offset, length=len(raw), values=None, error=problem)


def loads_lenient(raw: bytes) -> object:
    """Parse UTF-8 JSON without checks for repeated keys. A number with a fraction keeps its text from the file."""
    return _DECODER.decode(raw.decode())


def strict_json(text: str) -> object:
    """Parse JSON strictly. Malformed JSON, repeated keys and NaN raise a ValueError."""
    return _STRICT.decode(text)


def _no_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen = Counter(key for key, _ in pairs)
        raise ValueError(f'the key "{next(key for key in seen if seen[key] > 1)}" occurs twice in one object')
    return found


_STRICT = json.JSONDecoder(parse_float=FloatText, parse_constant=_no_constant, object_pairs_hook=_distinct)
_DECODER = json.JSONDecoder(parse_float=FloatText, parse_constant=_no_constant)


def broken_row(place: RowPlace, offset: int, problem: DataError) -> FileRow:
    """Create a row without values, for a row that could not be read."""
    return FileRow(place=place, offset=offset, length=0, values=None, error=problem)


def malformed_error(place: RowPlace, reason: str) -> DataError:
    """Create the error for a row that cannot be parsed."""
    first = reason.splitlines()[0].split(": line ")[0].split(";")[0] if reason else "it ends too early"
    lines = place.line is None and first == "Extra data"
    hint = "set data.format to jsonl if the file has one row per line" if lines else "correct or remove the row"
    return place.error("", f"is malformed: {first}", hint=hint)


def not_object_error(place: RowPlace, value: object) -> DataError:
    """Create the error for a row whose JSON value is not an object."""
    return place.error("", "is not an object", value, hint="make each row an object of fields")


def too_deep_error(place: RowPlace) -> DataError:
    """Create the error for a row whose lists and objects are nested too deeply."""
    return place.error("", "is nested too deeply", hint="flatten the row")


def not_utf8_error(where: str) -> DataError:
    """Create the error for a text that is not UTF-8."""
    return DataError("the text is not UTF-8", where=where, hint="save the file as UTF-8")
