"""Take typed values out of a row; every wrong one is a DataError with the row, the field and the value.

Absent and null are the same here. Numbers become the text they have in the file::

    text_at(row, compile_path("question", bare=True), place)      # DataError when it is missing or no text
    answers_of(2022) == ("2022",)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from bench.config.findings import did_you_mean
from bench.config.jsonpath import Path, compile_path
from bench.datasets.filerow import FloatText
from bench.datasets.place import RowPlace
from bench.errors import ConfigError, DataError


class Written(Protocol):
    """A path, or several, known by the text of the first."""

    @property
    def text(self) -> str: ...


def name_of(path: Written) -> str:
    """A path as places show it: ``$.a[0].b`` -> ``a[0].b``."""
    return path.text.removeprefix("$").removeprefix(".") or "$"


def missing(path: Path, row: object, place: RowPlace, *, prefix: str = "", hint: str | None = None) -> DataError:
    """The error for an absent or null field, with the nearest key that is there."""
    name = f"{prefix}{name_of(path)}"
    if path.all(row):
        return place.error(name, "is null", hint=hint)
    if hinted := path_hint(path.text, row):
        return place.error(name, "is missing", hint=hinted)
    keys = [str(key) for key in row] if isinstance(row, Mapping) else []
    near = did_you_mean(str(path.steps[-1]), keys) if path.steps else ""
    return place.error(name, f"is missing{near}", hint=hint)


def path_hint(text: str, row: object) -> str:
    """What to write for a name with dots that would lead somewhere as a path; empty for any other."""
    if text.startswith(("$", "@")) or not any(mark in text for mark in ".["):
        return ""
    try:
        found = compile_path(f"$.{text}").all(row)
    except ConfigError:
        return ""
    return f'"{text}" is the name of one field; a path begins with "$.": write "$.{text}"' if found else ""


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


_TRUE = frozenset(("true", "yes", "y", "t", "1", "on", "1.0"))
_FALSE = frozenset(("false", "no", "n", "f", "0", "off", "0.0", "", "none", "null"))


def flag_of(value: object, field: str, place: RowPlace) -> bool:
    """A truth value, or a text or number that is one; DataError for any other."""
    text = (scalar_text(value) or "").strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE and not isinstance(value, list | Mapping):
        return False
    raise place.error(field, "is neither true nor false", value, hint="name the value that is meant: equals: VALUE")


def matches(value: object, wanted: bool | int | str, field: str, place: RowPlace) -> bool:
    """True when a value is the wanted one: a flag by its meaning, any other by its text."""
    if isinstance(wanted, bool):
        return flag_of(value, field, place) is wanted
    return (scalar_text(value) or "").strip() == str(wanted).strip()


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
    parts: list[tuple[object, object]]
    if isinstance(value, Mapping):
        parts = list(value.items())
    elif isinstance(value, list):
        parts = list(enumerate(value))
    else:
        return texts_of(value, field, place)
    for key, part in parts:
        if part is None:
            raise place.error(f"{field}[{key}]", "is null", hint="give every choice, or their letters would shift")
    return texts_of([part for _, part in parts], field, place)
