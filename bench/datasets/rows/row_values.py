"""Read typed values from a row. A value of a wrong type raises a DataError that shows row, field and value.

Example::

    text_at(row, compile_value("question"), place)      # DataError when it is missing or not text
    texts_of(2022, "answer", place)      # ("2022",)

A null value counts as absent. A number that is read as text keeps its form from the file.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Protocol

from bench.config.benchmark.values import Value, ValueText, alternatives, compile_value, first_missing_part
from bench.config.file import did_you_mean
from bench.config.jsonpath import compile_path
from bench.datasets.rows.row import FloatText, RowPlace
from bench.errors import ConfigError, DataError


class WrittenPath(Protocol):
    """One path or several paths. ``text`` is the text of the first path."""

    @property
    def text(self) -> str: ...


def path_name(path: WrittenPath) -> str:
    """Return the name of a path in error messages: ``$.a[0].b`` becomes ``a[0].b``."""
    return path.text.removeprefix("$").removeprefix(".").replace("\n", "\\n") or "$"


def missing_error(
    path: Value, row: object, place: RowPlace, *, prefix: str = "", hint: str | None = None, key: str = ""
) -> DataError:
    """Create the error for a field that is absent or null. The message suggests the most similar key of the row.

    ``prefix`` is the place of ``row`` in the data. ``key`` is the config key that reads the field.
    """
    if several := alternatives(path):
        text = f"has none of the fields {', '.join(several)}" + (f"; {key} needs one of them" if key else "")
        return place.error(prefix.removesuffix("."), text, hint=hint)
    needed_by = ""
    while (part := first_missing_part(path, row)) is not None:
        needed_by = needed_by or f"; {key or 'the value'} {json.dumps(path.text, ensure_ascii=False)} needs it"
        path = part
    name = f"{prefix}{path_name(path)}"
    if path.all(row):
        return place.error(name, f"is null{needed_by}", hint=hint)
    if hinted := path_hint(path.text, row):
        return place.error(name, f"is missing{needed_by}", hint=hinted)
    keys = [str(key) for key in row] if isinstance(row, Mapping) else []
    near = did_you_mean(str(path.steps[-1]), keys) if path.steps else ""
    return place.error(name, f"is missing{needed_by}{near}", hint=hint)


def in_braces(text: str) -> str:
    """Return a path in quotes if YAML needs the quotes inside ``{}``, otherwise unchanged."""
    return text if re.fullmatch(r"\$?[\w.]+", text, re.ASCII) else json.dumps(text, ensure_ascii=False)


def path_hint(text: str, row: object) -> str:
    """Return a hint if a field name was probably meant as a path, otherwise an empty text."""
    if text.startswith(("$", "@")) or not any(mark in text for mark in ".["):
        return ""
    try:
        found = compile_path(f"$.{text}").all(row)
    except ConfigError:
        return ""
    return f'"{text}" is used as the name of one field; for a path, write "$.{text}"' if found else ""


def value_at(row: object, path: Value, place: RowPlace, *, prefix: str = "") -> object:
    """Return the value at a path. If the value is absent or null, a DataError is raised."""
    value = path.get(row)
    if value is None:
        raise missing_error(path, row, place, prefix=prefix)
    return value


def text_at(row: object, path: Value, place: RowPlace, *, prefix: str = "") -> str:
    """Return the text at a path. Any other value raises a DataError."""
    value = value_at(row, path, place, prefix=prefix)
    if not isinstance(value, str):
        raise place.error(f"{prefix}{path_name(path)}", "must be text, not", value)
    return value


def id_at(row: object, path: Value, place: RowPlace, *, prefix: str = "") -> str:
    """Return the text or number at a path, as text. Any other value or an empty text raises a DataError."""
    value = value_at(row, path, place, prefix=prefix)
    text = scalar_text(value)
    if text is None or isinstance(value, bool) or text == "":
        raise place.error(f"{prefix}{path_name(path)}", "must be an id, not", value)
    return text


def list_at(row: object, path: Value, place: RowPlace, *, prefix: str = "") -> list[object]:
    """Return the list at a path. If the path contains ``[*]``, return a list of all values at the path.

    A value that is not a list raises a DataError.
    """
    value = path.all(row) if not path.single else value_at(row, path, place, prefix=prefix)
    if not isinstance(value, list):
        raise place.error(f"{prefix}{path_name(path)}", "must be a list, not", value)
    return value


def scalar_text(value: object) -> str | None:
    """Return a text, number or boolean as text. A number keeps its form from the file.

    Return None for any other value.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, FloatText):
        return value.text
    return str(value) if isinstance(value, int | float) else None


def number_at(value: object, field: str, place: RowPlace) -> float:
    """Return a number, or a text that contains a number, as a finite float. Any other value raises a DataError."""
    try:
        number = float(scalar_text(value) or "") if not isinstance(value, bool) else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise place.error(field, "must be a number, not", value)
    return number


def is_graded(value: object) -> bool:
    """Return True for a non-empty map from ids to numbers. Relevance grades usually have this form."""
    return isinstance(value, Mapping) and bool(value) and all(type(one) in (int, FloatText) for one in value.values())


_TRUE = frozenset(("true", "yes", "y", "t", "1", "on", "1.0"))
_FALSE = frozenset(("false", "no", "n", "f", "0", "off", "0.0", "", "none", "null"))


def flag_of(value: object, field: str, place: RowPlace) -> bool:
    """Return True for a value such as ``yes`` or 1, and False for a value such as ``no`` or 0.

    Any other value raises a DataError.
    """
    text = (scalar_text(value) or "").strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE and not isinstance(value, list | Mapping):
        return False
    raise place.error(
        field,
        "is neither true nor false",
        value,
        hint="in the config, write equals: VALUE with the value that means true",
    )


def matches(value: object, wanted: bool | int | str, field: str, place: RowPlace) -> bool:
    """Return True when a value equals ``wanted``. Booleans are compared by meaning: the text ``yes`` equals True.

    All other values are compared as texts.
    """
    if isinstance(wanted, bool):
        return flag_of(value, field, place) is wanted
    return (scalar_text(value) or "").strip() == str(wanted).strip()


def texts_of(value: object, field: str, place: RowPlace) -> tuple[str, ...]:
    """Return a single value, or each value of a list, as text.

    Null values are left out. A map or a nested list raises a DataError.
    """
    if value is None:
        return ()
    values: Sequence[object] = value if isinstance(value, list) else [value]
    texts = [scalar_text(part) for part in values if part is not None]
    if any(text is None for text in texts):
        raise place.error(field, "must be text or a list of texts, not", value)
    return tuple(text for text in texts if text is not None)


def flatten_lists(value: object) -> list[object]:
    """Flatten nested lists into one list without null values. A map with only lists or maps is flattened too."""
    if isinstance(value, Mapping) and value and all(isinstance(part, list | Mapping) for part in value.values()):
        return [one for part in value.values() for one in flatten_lists(part)]
    if isinstance(value, list):
        return [one for part in value for one in flatten_lists(part)]
    return [] if value is None else [value]


def content_id(value: object) -> str:
    """Return a short id of a JSON value. Equal values have equal ids."""
    text = json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:16]


def choices_of(value: object, field: str, place: RowPlace) -> tuple[str, ...]:
    """Return the texts of the choices, from a list or from a map with a letter for each text."""
    parts: list[tuple[object, object]]
    if isinstance(value, Mapping):
        parts = list(value.items())
    elif isinstance(value, list):
        parts = list(enumerate(value))
    else:
        return texts_of(value, field, place)
    for key, part in parts:
        if part is None:
            raise place.error(
                f"{field}[{key}]",
                "is null",
                hint="write a text for each choice; its position decides its letter",
            )
    return texts_of([_joined(part, field, place) for _, part in parts], field, place)


def _joined(choice: object, field: str, place: RowPlace) -> object:
    """Return a choice unchanged. If the choice is a list, join its values to one text with commas."""
    return ", ".join(texts_of(choice, field, place)) if isinstance(choice, list) else choice


def value_of(given: ValueText | None) -> Value | None:
    """Compile a path or template of the config. Return None if ``given`` is None."""
    return None if given is None else compile_value(given)
