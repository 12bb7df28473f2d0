"""Take typed values out of a row; every wrong one is a DataError with the row, the field and the value.

Absent and null are the same here. Numbers become the text they have in the file::

    text_at(row, compile_path("question", bare=True), place)      # DataError when it is missing or no text
    answers_of(2022) == ("2022",)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.config.findings import did_you_mean
from bench.config.jsonpath import Path
from bench.datasets.filerow import FloatText
from bench.datasets.place import RowPlace
from bench.errors import DataError


def name_of(path: Path) -> str:
    """A path as places show it: ``$.a[0].b`` -> ``a[0].b``."""
    return path.text.removeprefix("$").removeprefix(".") or "$"


def missing(path: Path, row: object, place: RowPlace, *, prefix: str = "", hint: str | None = None) -> DataError:
    """The error for an absent or null field, with the nearest key that is there."""
    name = f"{prefix}{name_of(path)}"
    if path.all(row):
        return place.error(name, "is null", hint=hint)
    keys = [str(key) for key in row] if isinstance(row, Mapping) else []
    near = did_you_mean(str(path.steps[-1]), keys) if path.steps else ""
    return place.error(name, f"is missing{near}", hint=hint)


def value_at(row: object, path: Path, place: RowPlace, *, prefix: str = "") -> object:
    """The value, which must be there and not null."""
    value = path.get(row)
    if value is None:
        raise missing(path, row, place, prefix=prefix)
    return value


def text_at(row: object, path: Path, place: RowPlace, *, prefix: str = "") -> str:
    """The value as a text, which it must be."""
    value = value_at(row, path, place, prefix=prefix)
    if not isinstance(value, str):
        raise place.error(f"{prefix}{name_of(path)}", "must be text, not", value)
    return value


def id_at(row: object, path: Path, place: RowPlace, *, prefix: str = "") -> str:
    """An id: text, or a number as its text."""
    value = value_at(row, path, place, prefix=prefix)
    text = scalar_text(value)
    if text is None or isinstance(value, bool) or text == "":
        raise place.error(f"{prefix}{name_of(path)}", "must be an id, not", value)
    return text


def list_at(row: object, path: Path, place: RowPlace, *, prefix: str = "") -> list[object]:
    """The value as a list, which it must be. A path with ``[*]`` gives its matches."""
    value = path.all(row) if not path.single else value_at(row, path, place, prefix=prefix)
    if not isinstance(value, list):
        raise place.error(f"{prefix}{name_of(path)}", "must be a list, not", value)
    return value


def scalar_text(value: object) -> str | None:
    """A text, number or truth value as its text; None for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, FloatText):
        return value.text
    return str(value) if isinstance(value, int | float) else None


def texts_of(value: object, field: str, place: RowPlace) -> tuple[str, ...]:
    """A scalar or a list of scalars as texts; absent and null give none."""
    if value is None:
        return ()
    values: Sequence[object] = value if isinstance(value, list) else [value]
    texts = [scalar_text(part) for part in values if part is not None]
    if any(text is None for text in texts):
        raise place.error(field, "must be text or a list of texts, not", value)
    return tuple(text for text in texts if text is not None)


def choices_of(value: object, field: str, place: RowPlace) -> tuple[str, ...]:
    """Choices: a list of texts, or a map of letter to text in the order of the file."""
    return texts_of(list(value.values()) if isinstance(value, Mapping) else value, field, place)
