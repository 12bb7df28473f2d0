"""Read the first rows of a data file, guess the path to its rows, and find out whether it contains questions.

Example::

    table = sample_file(Path("questions.json"), "questions.json")
    table.rows, table.sample            # ("$.data[*]", ({...}, ...))
    has_question({"question": "Where?"})        # True
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from bench.config.benchmark.file import SUFFIXES, suffix_of
from bench.config.benchmark.terms import Format
from bench.datasets.draft.config_guess import (
    QUESTION_LISTS,
    QUESTIONS,
    Row,
    field_path,
    first_field,
    is_gold,
    is_request,
)
from bench.datasets.draft.question_place import lists_of_questions, question_by_mark, question_turns
from bench.datasets.draft.turn_paths import holds_lists, path_to_turns
from bench.datasets.rows.field_steps import stem
from bench.datasets.rows.row_reader import RowFile
from bench.datasets.rows.row_values import scalar_text, value_of
from bench.datasets.rows.table_rows import without_empty_cells
from bench.errors import DataError

SAMPLED = 50
SAMPLED_BYTES = 4_000_000
_DEEP = 4

Step = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledFile:
    """One data file with its first rows. ``rows`` is the path to the rows, or None for rows at the top level."""

    path: Path
    name: str
    rows: str | None
    columns: tuple[str, ...]
    sample: tuple[object, ...]
    keys: tuple[str | int | None, ...]
    """the key of each sample row, if the file is a map; otherwise None for each row"""

    @property
    def fields(self) -> list[Row]:
        return [row for row in self.sample if isinstance(row, Mapping)]

    def options(self) -> Step:
        """Return the keys of a ``data.with`` step that locate the rows of this file."""
        found: Step = {"rows": self.rows} if self.rows else {}
        return found | ({"columns": list(self.columns)} if self.columns else {})

    def values(self, key: str) -> list[str | None]:
        """Return one value per sample row as text.

        ``key`` is a field name, ``$keys[0]`` for the key of the row, or ``$row`` for the number of the row. The value
        is None for a row that does not have the field.
        """
        if key == "$keys[0]":
            return [scalar_text(one) for one in self.keys]
        if key == "$row":
            return [str(number) for number in range(len(self.sample))]
        return [scalar_text(row.get(key)) if isinstance(row, Mapping) else None for row in self.sample]

    def key_names(self) -> Iterator[str]:
        """Yield the names of fields that can identify a row. The most likely names come first."""
        if any(key is not None for key in self.keys):
            yield "$keys[0]"
        names = dict.fromkeys(name for row in self.fields[:20] for name in row)
        yield from sorted(names, key=lambda name: not re.search(r"id$|key$|name$", name, re.IGNORECASE))


def sample_file(path: Path, name: str, *, most: int = SAMPLED) -> SampledFile:
    format_ = SUFFIXES[suffix_of(path.name)]
    columns = _columns(path, format_)
    head = _read(path, format_, None, columns, 2)
    rows = None
    if format_ == "json" and len(head) == 1 and isinstance(head[0][0], Mapping):
        rows = None if _is_list(path) else _rows_path(head[0][0])
    elif len(head) > 1 and all(isinstance(row, Mapping) and len(row) == 1 for row, _ in head):
        inside = all(isinstance(one, list | Mapping) for row, _ in head for one in row.values())  # type: ignore[attr-defined]
        rows = ("$.*" if format_ == "jsonl" else "$[*].*") if inside and format_ in ("json", "jsonl") else None
    read = _read(path, format_, rows, columns, most)
    return SampledFile(path=path, name=name, rows=rows, columns=columns, sample=tuple(row for row, _ in read),
                 keys=tuple(key for _, key in read))  # fmt: skip


def _read(
    path: Path, format_: Format, rows: str | None, columns: tuple[str, ...], most: int
) -> list[tuple[object, str | int | None]]:
    file = RowFile.open(path, format_, name=stem(path.name), given=columns, rows=value_of(rows))
    found: list[tuple[object, str | int | None]] = []
    read = 0
    for row in islice(file.values() if rows else iter(file), most):
        if row.error is not None and found:
            break
        if row.error is not None or row.values is None:
            raise row.error or row.place.error("", "is malformed")
        if isinstance(row.values, Mapping) and not row.values and not found:
            raise row.place.error("", "is empty, but needs at least one field")
        plain = without_empty_cells(row.values) if isinstance(row.values, Mapping) else row.values
        found.append((plain, row.keys[-1] if rows and row.keys and isinstance(row.keys[-1], str) else None))
        read += row.length
        if read > SAMPLED_BYTES and not rows:
            break
    if not found:
        raise DataError("there are no rows", where=str(path), hint="check the file and its format")
    return found


def _is_list(path: Path) -> bool:
    """Return True when the JSON document in the file is a list."""
    rows = RowFile.open(path, "json")
    with rows.path.open("rb") as file:
        return file.read(1024).removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"[")


def _columns(path: Path, format_: Format) -> tuple[str, ...]:
    """Return made-up column names for a tsv file without a header line, and no names for any other file."""
    if format_ != "tsv" or path.suffix == ".gz":
        return ()
    with path.open(encoding="utf-8", errors="replace") as file:
        cells = file.readline().rstrip("\r\n").split("\t")
    if not any(re.fullmatch(r"-?\d+(\.\d+)?", cell) for cell in cells):
        return ()
    names = {2: ("query", "doc"), 3: ("query", "doc", "score"), 4: ("query", "round", "doc", "score")}
    return names.get(len(cells), tuple(f"column_{number}" for number in range(1, len(cells) + 1)))


def has_question(row: object) -> bool:
    """Return True when an object contains a question or a list of questions."""
    if not isinstance(row, Mapping):
        return False
    name = first_field(row, QUESTIONS, str)
    if (name and not is_request(row, name)) or first_field(row, QUESTION_LISTS, (list, Mapping, str)):
        return True
    held = [part for part in row.values() if isinstance(part, Mapping)]
    if first_field(row, QUESTIONS, Mapping) is not None or any(map(_holds_question, held)):
        return True
    return question_turns(row) or any(True for _ in lists_of_questions(row, deep=2))


def _holds_question(part: Row) -> bool:
    return bool(first_field(part, QUESTIONS, str)) or (len(part) <= 4 and question_by_mark([part]) is not None)


def _rows_path(document: Row) -> str | None:
    """Return the path to the rows in a document, or None if the document is a single row."""
    sections = [
        name for name, part in document.items() if isinstance(part, list) and part and all(map(has_question, part))
    ]
    if len(sections) > 1:
        return f"$[{','.join(map(repr, sections))}][*]"
    for name in sections:
        part = document[name]
        if isinstance(part, list) and _has_own_history(part, document, name):
            return field_path(name, "[*]")
    parts = list(document.values())
    if len(parts) > 1 and all(isinstance(part, Mapping) and first_field(part, QUESTIONS, str) for part in parts):
        return "$.*"
    if has_question(document):
        return None
    level: list[tuple[str, list[object]]] = [("$", [document])]
    for _ in range(_DEEP):
        level = [step for path, values in level for step in _deeper_paths(path, values)]
        for path, values in level:
            if values and all(map(has_question, values)):
                return path
    lists = [
        name for name, part in document.items() if isinstance(part, list) and any(isinstance(p, Mapping) for p in part)
    ]
    if all(isinstance(part, list | Mapping) for part in document.values()) and len(lists) != 1:
        return "$.*"
    return f"$.{lists[0]}[*]" if len(lists) == 1 and re.fullmatch(r"\w+", lists[0]) else None


def _has_own_history(rows: Sequence[object], document: Row, name: str) -> bool:
    """Return True when every row contains a history and the rest of the document contains no history."""

    def has_history(part: Row) -> bool:
        return any(holds_lists(one) and path_to_turns(one) for key, one in part.items() if not is_gold(key))

    rest = {key: one for key, one in document.items() if key != name}
    return all(isinstance(row, Mapping) and has_history(row) for row in rows) and not has_history(rest)


def _deeper_paths(path: str, values: Sequence[object]) -> Iterator[tuple[str, list[object]]]:
    """Yield each path that is one step longer than ``path``, with the values at the new path.

    The new step is ``[*]`` for lists, ``.*`` for the values of maps, or a key that all maps have.
    """
    if all(isinstance(value, list) for value in values):
        yield f"{path}[*]", [one for value in values for one in value if one is not None]  # type: ignore[attr-defined]
        return
    maps = [value for value in values if isinstance(value, Mapping)]
    if len(maps) < len(values):
        return
    inside = [part for one in maps for part in one.values() if part is not None]
    if all(isinstance(part, list | Mapping) for part in inside):
        yield f"{path}.*", inside
    for name in sorted(set.intersection(*map(set, maps))) if maps else ():
        if re.fullmatch(r"\w+", name):
            yield f"{path}.{name}", [one[name] for one in maps if one[name] is not None]


def question_score(table: SampledFile) -> int:
    """Rate from 0 to 3 how likely a file contains the questions."""
    cells = [text for row in table.fields for text in map(scalar_text, row.values()) if text]
    if suffix_of(table.name) == ".tsv" and not any(" " in text for text in cells):
        return 0
    named = re.search(r"quer|question|(?:^|[/_])qa", table.name, re.IGNORECASE) or question_by_mark(table.fields)
    return 2 * any(map(has_question, table.sample)) + (bool(named) and bool(table.fields))


def file_shape(table: SampledFile) -> object:
    names = frozenset(name for row in table.fields[:1] for name in row)
    return suffix_of(table.name), table.rows or names, table.columns
