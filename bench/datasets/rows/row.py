"""One row of a dataset file: its place, its bytes, and its values or its error.

Also in this module:

* The place of a row in a dataset file, for errors.
* Typed access to the values of a row: a value of another type is a DataError with the row, the field and the value.
* The compiled paths of a config to the parts of an item.

Example::

    row = parse_row(RowPlace(file="data.jsonl", index=0, line=1), 0, b'{"id": "q1", "answer": 1.50}')
    row.values["answer"].text       # "1.50"
    parse_row(place, 0, b'{"id"').error        # DataError: data.jsonl:1: row is malformed: ...
    RowPlace(file="data.jsonl", index=2, line=3).error("question", "is missing")
    # DataError: data.jsonl:3: question is missing
    text_at(row, compile_path("question", bare=True), place)      # DataError when it is missing or not text
    texts_of(2022, "answer", place)      # ("2022",)
    paths = RowPaths(config)
    paths.question, paths.nested, paths.metadata

JSON is parsed strictly: it must be UTF-8 without ``NaN``. A number with a fraction keeps its text from the file.

Errors show the place of a row with its line (``data.jsonl:3``, ``data.csv:4``), in a JSON file with its index
(``data.json: [0].haystack_dates[1]``).

A null value counts as absent. A number that is read as text has the form that it has in the file.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import NoReturn, Protocol

from bench.config.benchmark.config import BenchmarkConfig
from bench.config.benchmark.sections import Questions
from bench.config.benchmark.values import Value, ValueText, alternatives, compile_value, first_missing_part
from bench.config.file import did_you_mean, quoted
from bench.config.jsonpath import Key, compile_path
from bench.errors import ConfigError, DataError

_ABSENT = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPlace:
    """The place of one row in its file."""

    file: str
    index: int
    """number of the row in the data, from 0"""
    line: int | None = None
    """1-based line; None for a format without lines, such as JSON"""
    row_id: str | None = None
    number: int | None = None
    """number of the row in its own file, from 0, if it differs from ``index``"""

    def with_row_id(self, row_id: str) -> RowPlace:
        """Return a copy of the place with the id of the row."""
        return replace(self, row_id=row_id)

    @property
    def row(self) -> int:
        """Return the row's number in its file, from 0."""
        return self.index if self.number is None else self.number

    def __str__(self) -> str:
        return f"{self.file}: [{self.row}]" if self.line is None else f"{self.file}:{self.line}"

    def error(self, field: str, message: str, value: object = _ABSENT, *, hint: str | None = None) -> DataError:
        """Return an error with the place, the field, the problem, and the value, cut to 100 characters.

        An empty ``field`` means the whole row.
        """
        joint = "" if not field or field.startswith("[") else "."
        where = f"{self}{joint}{field}" if self.line is None else str(self)
        shown = "" if value is _ABSENT else f": {quoted(value)}"
        row = f" (row {self.row_id})" if self.row_id else ""
        return DataError(f"{field or 'row'} {message}{shown}{row}", where=where, hint=hint)


class FloatText(float):
    """A number with a fraction or exponent that keeps its text from the file."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> FloatText:
        number = super().__new__(cls, text)
        number.text = text
        return number


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """One row and its bytes in the file. For a row that could not be read, ``values`` is None and ``error`` is set."""

    place: RowPlace
    offset: int
    length: int
    values: Mapping[str, object] | None
    error: DataError | None = None
    part: int = 0
    """number of the row in its document, from 0"""
    keys: tuple[Key, ...] = ()
    """the keys that lead to the row in its document"""
    file: int = 0
    """index of the file among the files of the benchmark"""
    file_values: Mapping[str, object] | None = None
    """the row as its file has it, when ``values`` may also have fields that ``data.with`` adds"""


def parse_row(place: RowPlace, offset: int, raw: bytes, *, whole: bool = False) -> FileRow:
    """Parse one row, which must be a JSON object, or a ``whole`` document, which may be any JSON value.

    A row that cannot be parsed is returned with its error.
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
    """Parse UTF-8 JSON without checking for repeated keys. Numbers with a fraction keep their text."""
    return _DECODER.decode(raw.decode())


def strict_json(text: str) -> object:
    """Parse JSON, or raise ValueError, also for repeated keys and NaN."""
    return _STRICT.decode(text)


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


def broken_row(place: RowPlace, offset: int, problem: DataError) -> FileRow:
    """Return a row that could not be read, with its error."""
    return FileRow(place=place, offset=offset, length=0, values=None, error=problem)


def malformed_error(place: RowPlace, reason: str) -> DataError:
    """Return the error for a row that is malformed in its format."""
    first = reason.splitlines()[0].split(": line ")[0].split(";")[0] if reason else "it ends too early"
    lines = place.line is None and first == "Extra data"
    hint = "set data.format to jsonl if the file has one row per line" if lines else "correct or remove the row"
    return place.error("", f"is malformed: {first}", hint=hint)


def not_object_error(place: RowPlace, value: object) -> DataError:
    """Return the error for a row that is JSON, but not an object."""
    return place.error("", "is not an object", value, hint="make each row an object of fields")


def too_deep_error(place: RowPlace) -> DataError:
    """Return the error for a row that is nested too deeply."""
    return place.error("", "is nested too deeply", hint="flatten the row")


def not_utf8_error(where: str) -> DataError:
    """Return the error for bytes that are not UTF-8."""
    return DataError("the text is not UTF-8", where=where, hint="save the file as UTF-8")


class WrittenPath(Protocol):
    """A path, or several paths, identified by the text of the first."""

    @property
    def text(self) -> str: ...


def path_name(path: WrittenPath) -> str:
    """Return a path as errors show it: ``$.a[0].b`` -> ``a[0].b``."""
    return path.text.removeprefix("$").removeprefix(".").replace("\n", "\\n") or "$"


def missing_error(
    path: Value, row: object, place: RowPlace, *, prefix: str = "", hint: str | None = None, key: str = ""
) -> DataError:
    """Return the error for an absent or null field, with the most similar key of the row.

    ``prefix`` is the place of ``row`` in the data; ``key`` is the config key that needs the field.
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
    """Return a path quoted for YAML inside ``{}``, if it needs quotes."""
    return text if re.fullmatch(r"\$?[\w.]+", text, re.ASCII) else json.dumps(text, ensure_ascii=False)


def path_hint(text: str, row: object) -> str:
    """Return a hint for a field name that matches a value if it is read as a path, or an empty text."""
    if text.startswith(("$", "@")) or not any(mark in text for mark in ".["):
        return ""
    try:
        found = compile_path(f"$.{text}").all(row)
    except ConfigError:
        return ""
    return f'"{text}" is used as the name of one field; for a path, write "$.{text}"' if found else ""


def value_at(row: object, path: Value, place: RowPlace, *, prefix: str = "") -> object:
    """Return the value at a path, which must not be absent or null."""
    value = path.get(row)
    if value is None:
        raise missing_error(path, row, place, prefix=prefix)
    return value


def text_at(row: object, path: Value, place: RowPlace, *, prefix: str = "") -> str:
    """Return the value at a path, which must be text."""
    value = value_at(row, path, place, prefix=prefix)
    if not isinstance(value, str):
        raise place.error(f"{prefix}{path_name(path)}", "must be text, not", value)
    return value


def id_at(row: object, path: Value, place: RowPlace, *, prefix: str = "") -> str:
    """Return the value at a path, which must be a text or number, as text."""
    value = value_at(row, path, place, prefix=prefix)
    text = scalar_text(value)
    if text is None or isinstance(value, bool) or text == "":
        raise place.error(f"{prefix}{path_name(path)}", "must be an id, not", value)
    return text


def list_at(row: object, path: Value, place: RowPlace, *, prefix: str = "") -> list[object]:
    """Return the list at a path, or all matches of a path with ``[*]``."""
    value = path.all(row) if not path.single else value_at(row, path, place, prefix=prefix)
    if not isinstance(value, list):
        raise place.error(f"{prefix}{path_name(path)}", "must be a list, not", value)
    return value


def scalar_text(value: object) -> str | None:
    """Return a text, number or boolean as text, as in the file, or None for any other value."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, FloatText):
        return value.text
    return str(value) if isinstance(value, int | float) else None


def number_at(value: object, field: str, place: RowPlace) -> float:
    """Return a value that must be a finite number, or its text."""
    try:
        number = float(scalar_text(value) or "") if not isinstance(value, bool) else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise place.error(field, "must be a number, not", value)
    return number


def is_graded(value: object) -> bool:
    """Return True for a non-empty map of ids to numbers, the usual form of relevance grades."""
    return isinstance(value, Mapping) and bool(value) and all(type(one) in (int, FloatText) for one in value.values())


_TRUE = frozenset(("true", "yes", "y", "t", "1", "on", "1.0"))
_FALSE = frozenset(("false", "no", "n", "f", "0", "off", "0.0", "", "none", "null"))


def flag_of(value: object, field: str, place: RowPlace) -> bool:
    """Return the boolean that a value such as ``yes`` or 0 means."""
    text = (scalar_text(value) or "").strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE and not isinstance(value, list | Mapping):
        return False
    raise place.error(field, "is neither true nor false", value, hint="add equals: VALUE, the value that means true")


def matches(value: object, wanted: bool | int | str, field: str, place: RowPlace) -> bool:
    """Return True when a value equals the wanted one: a boolean by its meaning, any other by its text."""
    if isinstance(wanted, bool):
        return flag_of(value, field, place) is wanted
    return (scalar_text(value) or "").strip() == str(wanted).strip()


def texts_of(value: object, field: str, place: RowPlace) -> tuple[str, ...]:
    """Return a scalar or a list of scalars as texts. None gives an empty tuple."""
    if value is None:
        return ()
    values: Sequence[object] = value if isinstance(value, list) else [value]
    texts = [scalar_text(part) for part in values if part is not None]
    if any(text is None for text in texts):
        raise place.error(field, "must be text or a list of texts, not", value)
    return tuple(text for text in texts if text is not None)


def flatten_lists(value: object) -> list[object]:
    """Flatten nested lists, and maps of lists or maps, into one list without null."""
    if isinstance(value, Mapping) and value and all(isinstance(part, list | Mapping) for part in value.values()):
        return [one for part in value.values() for one in flatten_lists(part)]
    if isinstance(value, list):
        return [one for part in value for one in flatten_lists(part)]
    return [] if value is None else [value]


def content_id(value: object) -> str:
    """Return a short id of a JSON value, equal for equal values."""
    text = json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:16]


def choices_of(value: object, field: str, place: RowPlace) -> tuple[str, ...]:
    """Return the choices from a list of texts, or from a map of letter to text in file order."""
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
                f"{field}[{key}]", "is null", hint="write a text for every choice, so that the letters stay right"
            )
    return texts_of([_joined(part, field, place) for _, part in parts], field, place)


def _joined(choice: object, field: str, place: RowPlace) -> object:
    """Return a choice that is a list as its parts, joined with commas."""
    return ", ".join(texts_of(choice, field, place)) if isinstance(choice, list) else choice


_LABELS = {"questionType": "type", "question_type": "type", "questionDate": "date", "question_date": "date"}
"""names in ``schema.metadata`` that set a field of the item itself"""


@dataclass(frozen=True, slots=True)
class PathList:
    """One or more paths whose values are all used, in order."""

    paths: tuple[Value, ...]

    @property
    def text(self) -> str:
        return self.paths[0].text

    @property
    def first(self) -> Value:
        return self.paths[0]

    def get(self, row: object) -> object | None:
        """Return the value of a single path, or the list of all values, or None.

        The result is None when there is no value.
        """
        if len(self.paths) == 1:
            path = self.paths[0]
            return path.get(row) if path.single else path.all(row) or None
        found: list[object] = []
        for path in self.paths:
            for value in path.all(row):
                found += value if isinstance(value, list) else [] if value is None else [value]
        return found or None


class ItemPaths:
    """The compiled paths to the parts of an item, inside the object that holds the item."""

    def __init__(self, config: BenchmarkConfig, questions: Questions | None = None) -> None:
        fields, choices, refs = config.fields, config.fields.choice_paths, config.evidence.turn_ids_field
        if questions is not None:
            choices, refs = questions.choices_field or choices, questions.evidence_field or refs
        self.answer = _path_list(fields.answer if questions is None else questions.answer_field)
        self.category = value_of(questions.category_field if questions else None)
        self.date = value_of(questions.date_field if questions else None)
        self.choices = _path_list(choices)
        self.choice_answer = value_of(fields.choice_answer)
        self.rubric = _path_list(fields.rubric_paths)
        self.sessions = _path_list(config.evidence.session_ids_field)
        self.refs = _path_list(refs)
        self.texts = _path_list(config.evidence.texts_field)


class NestedPaths(ItemPaths):
    """The compiled paths of one list of nested questions, and of the parts of an item in it."""

    def __init__(self, config: BenchmarkConfig, questions: Questions) -> None:
        super().__init__(config, questions)
        self.list = compile_value(questions.field)
        self.id = value_of(questions.id_field)
        self.question = compile_value(questions.question_field)


class RowPaths(ItemPaths):
    """The compiled paths of a config to the items of a row and to their parts."""

    def __init__(self, config: BenchmarkConfig) -> None:
        super().__init__(config)
        fields, steps = config.fields, config.deletion
        labels = {_LABELS[key]: path for key, path in fields.metadata.items() if key in _LABELS}
        self.contexts = [compile_value(context.field) for context in fields.contexts]
        self.nested = [NestedPaths(config, questions) for questions in fields.question_lists]
        self.children = value_of(config.flatten.field) if config.flatten else None
        self.question = value_of(fields.question)
        self.type = value_of(labels.get("type"))
        self.date = value_of(labels.get("date"))
        self.abstention = value_of(config.abstention.field)
        self.visibility = value_of(config.visibility.field if config.visibility else None)
        self.metadata = {key: compile_value(path) for key, path in fields.metadata.items() if key not in _LABELS}
        self.deletion: tuple[Value, Value, Value | None] | None = None
        if steps is not None:
            target, query = compile_value(steps.target), compile_value(steps.verify_query)
            self.deletion = target, query, value_of(steps.deleted_content)

    def histories(self, row: object) -> list[object]:
        """Return the value of each history field that is one value, for metadata."""
        return [context.get(row) for context in self.contexts if context.single]


def _path_list(paths: str | Sequence[ValueText] | None) -> PathList | None:
    if paths is None:
        return None
    listed: Sequence[ValueText] = (paths,) if isinstance(paths, str) else paths
    return PathList(tuple(compile_value(text) for text in listed))


def value_of(given: ValueText | None) -> Value | None:
    """Compile a value of the config, or return None."""
    return None if given is None else compile_value(given)
