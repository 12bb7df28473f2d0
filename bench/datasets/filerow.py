"""One row of a dataset file: its place, its bytes, and its values or what is wrong with them.

JSON is read strictly: UTF-8 only, no ``NaN``, and a fraction remembers how the file writes it::

    row = parsed(RowPlace(file="data.jsonl", index=0, line=1), 0, b'{"id": "q1", "answer": 1.50}')
    row.values["answer"].text       # "1.50"
    parsed(place, 0, b'{"id"').error        # DataError: data.jsonl:1: row is torn: ...
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from bench.datasets.place import RowPlace
from bench.errors import DataError


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


def parsed(place: RowPlace, offset: int, raw: bytes) -> FileRow:
    """Parse one whole row."""
    try:
        values = _STRICT.decode(raw.decode())
    except UnicodeDecodeError as error:
        problem = not_utf8(str(place))
        problem.__cause__ = error
    except RecursionError:
        problem = too_deep(place)
    except ValueError as error:
        problem = torn(place, str(error))
    else:
        if isinstance(values, dict):
            return FileRow(place=place, offset=offset, length=len(raw), values=values)
        problem = no_object(place, values)
    return FileRow(place=place, offset=offset, length=len(raw), values=None, error=problem)


def loads(raw: bytes) -> object:
    """Parse strict UTF-8 JSON; fractions keep their text."""
    return _DECODER.decode(raw.decode())


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen = Counter(key for key, _ in pairs)
        raise ValueError(f'the key "{next(key for key in seen if seen[key] > 1)}" occurs twice in one object')
    return found


_STRICT = json.JSONDecoder(parse_float=FloatText, parse_constant=_no_constant, object_pairs_hook=_distinct)
_DECODER = json.JSONDecoder(parse_float=FloatText, parse_constant=_no_constant)


def broken(place: RowPlace, offset: int, problem: DataError) -> FileRow:
    """A row that could not be read at all."""
    return FileRow(place=place, offset=offset, length=0, values=None, error=problem)


def torn(place: RowPlace, reason: str) -> DataError:
    """The row breaks the grammar of its format."""
    first = reason.splitlines()[0].split(": line ")[0].split(";")[0] if reason else "it ends too early"
    lines = place.line is None and first == "Extra data"
    hint = "set data.format to jsonl if the file has a row a line" if lines else "mend or remove the row"
    return place.error("", f"is torn: {first}", hint=hint)


def no_object(place: RowPlace, value: object) -> DataError:
    """The row is JSON, but no map of fields."""
    return place.error("", "is no object", value, hint="make each row an object of fields")


def too_deep(place: RowPlace) -> DataError:
    """The row is nested deeper than anything that reads it can follow."""
    return place.error("", "is nested too deep", hint="flatten the row")


def not_utf8(where: str) -> DataError:
    """The bytes are of another encoding."""
    return DataError("bytes that are not UTF-8", where=where, hint="save the file as UTF-8")
