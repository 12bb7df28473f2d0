"""Guess where sample rows contain their questions: in the row, in a map in the row, or in a list in the row.

Example::

    place = QuestionPlace(rows)
    place.path, place.children          # ("qa", [{...}, ...]) if each row has a list of questions
    place.question_path()               # "$.self_instruct.B"
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from bench.datasets.draft.config_guess import (
    DECODE_HINT,
    GOLD,
    LITERAL,
    QUESTION_LISTS,
    QUESTIONS,
    Row,
    field_name,
    field_path,
    first_field,
    is_gold,
    is_question,
    is_request,
    map_at,
    merged_fields,
    nested_objects,
    plain_name,
    quoted_path,
)
from bench.datasets.draft.turn_paths import SPEAKER_FIELDS
from bench.datasets.rows.row_values import value_of
from bench.untyped_values import object_or_empty

_DEEP = 5
_TEXT_NAMES = ("content", "text", "question", "input_text", "query")


class QuestionPlace:
    """The objects that contain the questions.

    ``asked`` is a sample question: all fields of the objects, each with its first value. If the objects are maps in
    rows, it is the first map.
    """

    def __init__(self, rows: Sequence[Row], *, texts_ask: bool = False) -> None:
        self.rows = rows
        self.row = merged_fields(rows)
        self.texts_ask = texts_ask
        """true if a field named ``text`` can be the question, as in a file that contains only questions"""
        self.unmapped: list[str] = []
        self.written: Row = {}
        """config paths of ``question`` and ``answer``, if the questions are keys of a map or elements of pairs"""
        self.path, self.children = self._nested()
        self.child: Row | None = merged_fields(self.children) if self.children else None
        self.inside = "" if self.child is not None else self._holder()
        self.asked: Row = self.child or (object_or_empty(self.row[self.inside]) if self.inside else self.row)

    def questions(self) -> list[Row]:
        """Return one object for each question: a row, a map in a row, or an element of a list."""
        if self.child is not None:
            return self.children
        return [map_at(row, self.inside) if self.inside else row for row in self.rows]

    def at(self, name: str, *more: str) -> str:
        """Return the path of a question's field, as written in the config. ``more`` is the path inside this field."""
        if name in self.written and not more:
            return json.dumps(self.written[name])
        if self.inside or more:
            return quoted_path(field_path(*filter(None, (self.inside, name)), *more))
        return field_name(name) if "." not in name else json.dumps(f"$[{json.dumps(name)}]")

    def claimed_fields(self) -> set[str | None]:
        """Return the names of the row fields that contain only questions.

        The set can also contain None, which names no field.
        """
        found: set[str | None] = {
            self.question() if self.child is None and not self.inside else None,
            self.inside or None,
        }
        if self.child is not None:
            found |= {name for name in self.row if any(questions is self.row[name] for questions in self._lists)}
        return found

    def _nested(self) -> tuple[str, list[Row]]:
        """Return the path of the row's list of questions, and the questions of all rows.

        The path is empty if no row has such a list.
        """
        found = [one for one in lists_of_questions(self.row) if self._children(one[0])]
        self._lists = [
            self.row.get(path.partition("[")[0].partition(".")[0]) for path, *_ in found if path.count("[*]") == 1
        ]
        if found:
            path, name, value = found[0]
            beside = [other for other in found if len(other[0].split("[")) == len(path.split("["))]
            beside = [other for other in beside if any(map(is_question, self._children(other[0])))] or beside
            path, name, value = beside[0] if found[0] not in beside else found[0]
            if len(beside) > 1 and all(other[0] == f"{other[1]}[*]" for other in beside):
                names = ",".join(repr(other[1]) for other in beside)
                return json.dumps(f"$[{names}][*]"), [one for other in beside for one in self._children(other[0])]
            plain = path == f"{name}[*]" and isinstance(value, list)
            return field_name(name) if plain else quoted_path(self._whole(path)), self._children(path)
        held = first_field(self.row, QUESTION_LISTS, (list, Mapping, str))
        if held is not None and isinstance(part := self.row[held], Mapping) and first_field(part, QUESTIONS, str):
            return "", []
        if held is not None and isinstance(self.row[held], str):
            if LITERAL.match(str(self.row[held])):
                self.unmapped.append(f'"{held}" is a list or map written as text: {DECODE_HINT}')
        elif held is not None and (children := list(nested_objects(self.row[held]))):
            return field_name(held), children
        elif held is not None and (keyed := _plain_questions([row.get(held) for row in self.rows])):
            self.written, children = keyed
            return quoted_path(f"{field_path(held)}.*") if "$" in self.written.values() else field_name(held), children
        elif held is not None and self.row[held]:
            self.unmapped.append(
                f'"{held}" is not a list of objects: combine it with the list of answers, data.with: '
                f"{{qa: {{zip: {{question: {held}, answer: ANSWERS}}}}}}, and write schema.questions.field: qa"
            )
        return "", []

    @staticmethod
    def _whole(path: str) -> str:
        return f"$.{path}" if path[0] != "[" else f"${path}"

    def _children(self, path: str) -> list[Row]:
        found = value_of(self._whole(path))
        assert found is not None
        return [one for row in self.rows for one in found.all(row) if isinstance(one, Mapping)]

    def _holder(self) -> str:
        """Return the name of the field whose map contains the question.

        Return an empty text if the row itself contains the question.
        """
        if first_field(self.row, QUESTIONS, (str, Mapping)) or question_turns(self.row):
            return ""
        for name, part in self.row.items():
            if isinstance(part, Mapping) and first_field(part, QUESTIONS, str):
                return name
        for name, part in self.row.items():
            if isinstance(part, Mapping) and len(part) <= 4 and question_by_mark([part]):
                return name
        return ""

    def question(self) -> str | None:
        """Return the name of the field with the question; None if no field looks like a question."""
        named = first_field(self.asked, QUESTIONS, str) or first_field(self.asked, QUESTION_LISTS, str)
        return named or first_field(self.asked, QUESTIONS) or self._marked_field()

    def _marked_field(self) -> str | None:
        """Return the only field whose texts usually end with a question mark.

        If there is no such field, return ``text`` if `texts_ask` is true and a question has this field. Otherwise,
        return None.
        """
        marked = question_by_mark(self.questions())
        return marked or (first_field(self.asked, ("text",), str) if self.texts_ask else None)

    def question_path(self) -> str:
        """Return the path of the question, or a list of paths, as written in the config.

        Return ``question`` if no field looks like a question.
        """
        name = self.question() or "question"
        if more := self.lacking(name, QUESTIONS, str):
            return f"[{', '.join(map(self.at, (name, *more)))}]"
        part = self.asked.get(name)
        if isinstance(part, Mapping) and (inner := first_field(part, _TEXT_NAMES, str)):
            return self.at(name, inner)
        if (words := _last_turn_text(part)) is not None:
            return quoted_path(f"{field_path(*filter(None, (self.inside, name)))}[-1].{words}")
        return self.at(name)

    def lacking(self, name: str, names: Sequence[str], kind: type | tuple[type, ...] = object) -> list[str]:
        """Return the names of the fields that some questions have instead of the field ``name``.

        Such a field is the first of ``names`` that a question without the field ``name`` has.
        """
        found = (first_field(one, names, kind) for one in self.children if one.get(name) is None)
        return list(dict.fromkeys(other for other in found if other is not None and other != name))

    def marked_paths(self) -> list[str]:
        """Return the paths of at most four texts that end with a question mark."""
        return list(dict.fromkeys(path for row in self.rows[:8] for path in question_texts(row, "")))[:4]


def _plain_questions(values: Sequence[object]) -> tuple[Row, list[Row]] | None:
    """Return a map with the config paths of ``question`` and ``answer``, and one object for each question.

    The questions must be the keys of maps or the first elements of pairs. Otherwise, return None.
    """
    known = [value for value in values if value]
    maps = [value for value in known if isinstance(value, Mapping)]
    pairs = [pair for value in known if isinstance(value, list) for pair in value]
    if maps and len(maps) == len(known):
        pairs, paths = [[key, one] for value in maps for key, one in value.items()], ("$keys[-1]", "$")
    else:
        paths = ("$[0]", "$[1]")
    two = [pair for pair in pairs if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], str | int)]
    if not pairs or len(two) < len(pairs) or not all(_ends_with_mark(pair[0]) for pair in two):
        return None
    children: list[Row] = [dict(zip(("question", "answer"), pair, strict=True)) for pair in two]
    return dict(zip(("question", "answer"), paths, strict=True)), children


def question_by_mark(found: Sequence[Row]) -> str | None:
    """Return the field whose texts end with a question mark in most objects.

    Return None if there is no such field, or more than one.
    """
    names = [name for name in merged_fields(found) if not GOLD.fullmatch(name) and name not in SPEAKER_FIELDS]
    texts = {name: [one.get(name) for one in found] for name in names}
    marked = [name for name, values in texts.items() if sum(map(_ends_with_mark, values)) * 2 > len(values)]
    return marked[0] if len(marked) == 1 else None


def _ends_with_mark(value: object) -> bool:
    return isinstance(value, str) and value.rstrip().endswith(("?", "？"))


def has_question_field(part: Row) -> bool:
    """Return True when an object has a field with a usual name for questions, and no field for a speaker."""
    if first_field(part, SPEAKER_FIELDS):
        return False
    name = first_field(part, QUESTIONS, str)
    return (name is not None and not is_request(part, name)) or first_field(part, QUESTIONS, Mapping) is not None


def question_turns(row: Row) -> bool:
    """Return True when the question field of a row is a list of turns. The last turn is the question."""
    name = first_field(row, QUESTIONS)
    return name is not None and _last_turn_text(row[name]) is not None


def _last_turn_text(value: object) -> str | None:
    """Return the name of the text field in the last turn, or None if the value is not a list of turns."""
    if not isinstance(value, list) or not value or not isinstance(value[-1], Mapping):
        return None
    return first_field(value[-1], ("content", "text", "utterance", "value"), str)


def question_texts(value: object, path: str = "", deep: int = 4) -> Iterator[str]:
    """Yield the paths of short texts that end with a question mark. Turns of a conversation are skipped."""
    if isinstance(value, str) and _ends_with_mark(value) and len(value) < 500:
        yield f"${path}"
    elif isinstance(value, list) and deep:
        for one in value[:20]:
            yield from question_texts(one, f"{path}[*]", deep - 1)
    elif isinstance(value, Mapping) and deep and not first_field(value, SPEAKER_FIELDS):
        for name, one in value.items():
            yield from question_texts(one, path + field_path(name)[1:], deep - 1)


def lists_of_questions(
    value: object, path: str = "", name: str = "", deep: int = _DEEP
) -> Iterator[tuple[str, str, object]]:
    """Yield the path, the field name and the value of each list of questions.

    Fields with usual names for such lists come first. Fields with correct answers or evidence are skipped.
    """
    if deep == 0:
        return
    if isinstance(value, list):
        maps = [one for one in value if isinstance(one, Mapping)]
        if maps and (any(map(has_question_field, maps)) or (name in QUESTION_LISTS and question_by_mark(maps))):
            yield f"{path}[*]", name, value
        elif maps:
            inner = list(lists_of_questions(merged_fields(maps), f"{path}[*]", name, deep - 1))
            yield from inner
            if not inner and _marked_with_answers(maps):
                yield f"{path}[*]", name, value
    elif isinstance(value, Mapping):
        keys = sorted(value, key=lambda key: key not in QUESTION_LISTS)
        if path and keys and all(isinstance(one, list) for one in value.values()) and len(keys) > 1:
            merged = [one for part in value.values() for one in part]
            yield from lists_of_questions(merged, f"{path}.*", name, deep - 1)
            return
        for key in keys:
            if (
                isinstance(value[key], list | Mapping)
                and key not in ("question_decomposition", "messages")
                and not (
                    is_gold(key)
                    and plain_name(key) not in QUESTION_LISTS
                    and not plain_name(key).startswith("question")
                )
            ):
                step = field_path(key)[2:] if not path and field_path(key)[1] == "." else field_path(key)[1:]
                yield from lists_of_questions(value[key], f"{path}{step}", key, deep - 1)


def _marked_with_answers(maps: Sequence[Row]) -> bool:
    """Return True when each object has a question and at least one other value, but no speaker."""
    question_field = question_by_mark(maps)
    if question_field is None or any(first_field(one, SPEAKER_FIELDS) for one in maps):
        return False
    return all(sum(isinstance(value, str | int | list) for value in one.values()) > 1 for one in maps)


def looks_numbered(name: str) -> bool:
    """Return True when a field name suggests an id, date, count or link, such as ``user_id``."""
    return re.search(r"id$|date|time|num|count|token|length|link|file|url", name) is not None
