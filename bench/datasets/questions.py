"""Read the items of one row. Their evidence is looked up in the corpus later.

A row contains one question, or a list in which each element is a question (``questions`` or ``flatten`` in the config).

Example::

    dates, names = DateReader("UTC"), ConfigNames(config)
    reader = QuestionReader(config, dates, HistoryReader(config, dates, names).turns, names)
    for raw in reader.read(row, place, row_id="conv-26"):
        raw.id, raw.question, raw.refs          # "conv-26_0", "When ...?", ("D1:3",)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from bench.config.benchmark.config import BenchmarkConfig
from bench.config.benchmark.file import ANSWERLESS
from bench.config.benchmark.sections import Choices, MetricEntry, RubricPoints
from bench.config.benchmark.values import Value, compile_value, elements
from bench.config.file import did_you_mean
from bench.config.value_rules import LONGEST_TEXT
from bench.datasets.dates import DATE_HINT, DateReader
from bench.datasets.rows.conditions import Conditions
from bench.datasets.rows.config_names import ConfigNames
from bench.datasets.rows.item_paths import ItemPaths, NestedPaths, PathList, RowPaths
from bench.datasets.rows.row import RowPlace
from bench.datasets.rows.row_values import (
    choices_of,
    flag_of,
    flatten_lists,
    id_at,
    in_braces,
    is_graded,
    list_at,
    matches,
    missing_error,
    number_at,
    path_hint,
    path_name,
    scalar_text,
    text_at,
    texts_of,
    value_at,
    value_of,
)
from bench.datasets.rows.table_rows import without_empty_cells
from bench.datasets.turn_reader import TurnReader
from bench.metrics.answers.choices import choice_index
from bench.model import Deletion
from bench.visible_text import is_blank

_OBJECTS = "write evidence.reference, a template that makes an id from an object"
_TEXTS = (
    "combine questions and answers with data.with: {{qa: {{zip: {{question: {0}, answer: ANSWERS}}}}}}, or write "
    'questionField: "$" if there are no answers'
)
_INDEX_OR_DATE = "write the position of a session (the first is 0), or a date of a format in dateFormats"


@dataclass(slots=True, kw_only=True)
class RawItem:
    """An item whose evidence references are not looked up in the corpus yet."""

    id: str
    question: str
    answers: tuple[str, ...]
    question_type: str | None
    question_date: datetime | None
    abstention: bool
    session_refs: tuple[str, ...]
    refs: tuple[str, ...]
    grades: Mapping[str, float]
    """evidence reference -> grade of this evidence; empty if the data has no grades"""
    texts: tuple[str, ...]
    cut: str | None
    choices: tuple[str, ...]
    choice_answer: str | None
    rubric: tuple[str, ...]
    deletion: Deletion | None
    metadata: Mapping[str, object]
    place: RowPlace


class QuestionReader:
    """A reader of the questions of each row as items. It counts the questions that are left out."""

    def __init__(self, config: BenchmarkConfig, dates: DateReader, turns: TurnReader, names: ConfigNames) -> None:
        self.config = config
        self.dates = dates
        self.schema = config.fields
        self.paths = RowPaths(config)
        self.types = frozenset(kind.name for kind in config.question_types)
        self.pattern = re.compile(config.abstention.id_pattern) if config.abstention.id_pattern else None
        self.where = Conditions(config.abstention.where, "abstention.where")
        self.counting = [Conditions(one.where, "questions.where") for one in self.schema.question_lists]
        self.points = self.schema.rubric if isinstance(self.schema.rubric, RubricPoints) else None
        self.point_where = Conditions(self.points.where if self.points else {}, "rubric.where")
        self.shuffled = isinstance(self.schema.choices, Choices) and self.schema.choices.shuffle
        self.optional = config.evaluation.method != "mcq"
        """true if an item may have no choices; such an item is an open question"""
        self.reference = value_of(config.evidence.reference)
        self.grade = value_of(config.evidence.grade)
        self.ranges = config.evidence.parser == "ranges"
        self.turns = turns if config.evidence.parser == "exact_text" else None
        self.names = names
        entries = [entry for entry in config.metrics if isinstance(entry, MetricEntry)]
        self.dimensions = frozenset(name for entry in entries for name in entry.breakdown)
        self.dropped = self.left_out = 0
        self.unnamed: set[str] = set()

    def read(self, row: Mapping[str, object], place: RowPlace, row_id: str) -> Iterator[RawItem]:
        """Yield each item of one row, in file order."""
        if self.names.rows.open:
            self.names.rows.search([row])
        if self.paths.nested:
            yield from self._nested(row, place, row_id)
        elif self.config.flatten is not None:
            yield from self._children(row, place, row_id)
        elif self._has_question(row):
            self._look_up_names(row, [row])
            yield self._flat(without_empty_cells(row), place, row_id)

    def _has_question(self, row: Mapping[str, object]) -> bool:
        """Return True when the row has a question.

        If the config lets rows share a corpus, a row can have an empty question. Such a row adds its history to the
        corpus, and is not an item.
        """
        question = self.paths.question
        return self.config.corpus is None or question is None or question.get(row) != ""

    def _look_up_names(self, row: Mapping[str, object], items: Sequence[object]) -> None:
        """Search the items, the row and its histories for config names that no row has contained yet."""
        if not items:
            return
        if self.names.items.open:
            self.names.items.search(items)
        if self.names.around.open:
            self.names.around.search([*items, row, *self.paths.histories(row)])

    def _flat(self, row: Mapping[str, object], place: RowPlace, item_id: str) -> RawItem:
        paths = self.paths
        question = _question_at(row, paths.question, place) if paths.question else ""
        kind = _label(paths.type.get(row), paths.type, place) if paths.type else None
        return self._item(row, [row, *paths.histories(row)], place, item_id, "", question, paths, kind)

    def _nested(self, row: Mapping[str, object], place: RowPlace, row_id: str) -> Iterator[RawItem]:
        histories = self.paths.histories(row)
        children = [
            (paths, counting, where, child)
            for paths, counting in zip(self.paths.nested, self.counting, strict=True)
            for where, child in self._listed(paths, row, place)
        ]
        for index, (paths, counting, where, child) in enumerate(children):
            prefix = f"{where}."
            if not isinstance(child, Mapping) and paths.question.get(child) is None:
                raise place.error(where, "must be an object, not", child, hint=_TEXTS.format(paths.list.text))
            if counting and not counting.hold([child], place):
                self.left_out += 1
                continue
            item_id = id_at(child, paths.id, place, prefix=prefix) if paths.id else f"{row_id}_{index}"
            question = _question_at(child, paths.question, place, prefix=prefix)
            kind = self._category(paths, child, row, prefix, place)
            yield self._item(child, [child, row, *histories], place, item_id, prefix, question, paths, kind)

    def _listed(self, paths: NestedPaths, row: Mapping[str, object], place: RowPlace) -> list[tuple[str, object]]:
        """Return each question in the row's list at ``paths.list``, together with its place."""
        list_at(row, paths.list, place)
        children = elements(paths.list, row)
        self._look_up_names(row, [child for _, child in children])
        return children

    def _category(
        self, paths: NestedPaths, child: object, row: Mapping[str, object], prefix: str, place: RowPlace
    ) -> str | None:
        """Return the question type of a nested question.

        If the question has no type, the type of its row is used. Return None if neither has a type. ``categories`` in
        the config maps ids of types to names.
        """
        path = paths.category
        if path is None:
            kind = self.paths.type
            return _label(_first_value(kind, [child, row]), kind, place) if kind else None
        raw = id_at(row if path.get(child) is None and path.get(row) is not None else child, path, place, prefix=prefix)
        self.names.categories.meet([raw])
        names = self.config.categories
        if raw in names:
            return names[raw]
        if self.config.categories_strict:
            known = ", ".join(sorted(names))
            raise place.error(f"{prefix}{path_name(path)}", f"must be one of the categories {known}, not", raw)
        if names:
            self.unnamed.add(raw)
        return raw

    def _children(self, row: Mapping[str, object], place: RowPlace, row_id: str) -> Iterator[RawItem]:
        flatten = self.config.flatten
        assert flatten is not None and self.paths.children is not None
        children = list_at(row, self.paths.children, place)
        self.dropped += max(0, len(children) - (flatten.max_items or len(children)))
        self.names.children.search(children)
        for index, child in enumerate(children[: flatten.max_items]):
            where = f"{path_name(self.paths.children)}[{index}]"
            if not isinstance(child, Mapping):
                raise place.error(where, "must be an object, not", child)
            promoted = {name: child[name] for name in flatten.promote_fields if name in child}
            merged = {**row, **promoted}
            self._look_up_names(row, [merged])
            yield self._flat(merged, place, f"{row_id}_{index}")

    def _item(
        self,
        row: object,
        scopes: list[object],
        place: RowPlace,
        item_id: str,
        prefix: str,
        question: str,
        paths: ItemPaths,
        kind: str | None,
    ) -> RawItem:
        self._check_type(kind, place, item_id)
        self.names.ids.meet([item_id])
        category = _label(paths.category.get(row), paths.category, place) if paths.category else None
        metadata = self._metadata(scopes, place, kind_id=category)
        given = texts_of(paths.answer.get(row), f"{prefix}{path_name(paths.answer)}", place) if paths.answer else ()
        answers = tuple(text for text in given if not is_blank(text))  # every answer holds an empty text
        grades: dict[str, float] = {}
        item = RawItem(
            id=item_id,
            question=question,
            answers=answers,
            question_type=kind,
            question_date=self._date(scopes, paths.date or self.paths.date, place),
            abstention=self._abstains(item_id, kind, scopes, place, answered=bool(answers)),
            session_refs=self._refs(paths.sessions, row, prefix, place, grades),
            refs=self._turn_refs(paths.refs, row, prefix, place, grades),
            grades=grades,
            texts=texts_of(paths.texts.get(row), prefix + "textsField", place) if paths.texts else (),
            cut=self._cut(scopes, place),
            choices=self._choices(paths.choices, row, prefix, place),
            choice_answer=scalar_text(paths.choice_answer.get(row)) if paths.choice_answer else None,
            rubric=self._rubric(paths, row, prefix, place),
            deletion=self._deletion(row, place),
            metadata=metadata,
            place=place,
        )
        if self.optional and not item.choices:
            item.choice_answer = None
        else:
            self._check_choice(item, row, prefix, paths.choice_answer)
        self._check_answer(item, row, prefix, paths)
        if self.shuffled:
            self._shuffle(item, prefix, paths.choice_answer)
        return item

    def _rubric(self, paths: ItemPaths, row: object, prefix: str, place: RowPlace) -> tuple[str, ...]:
        """Return the texts of an item's rubric points. Points that do not meet ``rubric.where`` are left out."""
        if self.points is None:
            return texts_of(paths.rubric.get(row), prefix + "rubric", place) if paths.rubric else ()
        found, text = elements(compile_value(self.points.from_), row), compile_value(self.points.text)
        if self.names.points.open:
            self.names.points.search([point for _, point in found])
        points: list[str] = []
        for where, point in found:
            if self.point_where.hold([point], place):
                value = scalar_text(text.get(point))
                if value is None:
                    raise place.error(f"{prefix}{where}", f"has no text at {self.points.text}", point)
                points.append(value)
        return tuple(points)

    def _shuffle(self, item: RawItem, prefix: str, path: Value | None) -> None:
        """Put the choices of an item into a new order, because the order in the data could reveal the right choice.

        The new order depends only on the item's id and the texts of the choices. ``item.choice_answer`` becomes the
        text of the right choice.

        Raises:
            DataError: two choices have the text of the right choice.
        """
        right = choice_index(item.choice_answer, item.choices)
        if right is not None:
            item.choice_answer = item.choices[right]
            if item.choices.count(item.choice_answer) > 1:
                name = f"{prefix}{path_name(path)}" if path else "choices"
                text = f"is ambiguous: the right choice of {item.id} occurs twice"
                raise item.place.error(name, text, item.choice_answer, hint="make the choices differ")
        item.choices = tuple(sorted(item.choices, key=lambda text: sha256(f"{item.id}\0{text}".encode()).digest()))

    def _check_type(self, kind: str | None, place: RowPlace, item_id: str) -> None:
        if kind is not None and self.types and kind not in self.types:
            text = f'of item "{item_id}" is not listed in questionTypes{did_you_mean(kind, self.types)}'
            raise place.error("question type", text, kind)

    def _check_answer(self, item: RawItem, row: object, prefix: str, paths: ItemPaths) -> None:
        """Raise a DataError when an item has no answer but needs one.

        Abstention items, deletion items and items of some evaluators need no answer.
        """
        methods = self.config.evaluation.every_method
        if item.answers or item.abstention or ANSWERLESS.issuperset(methods) or item.deletion:
            return
        name = f"{prefix}{path_name(paths.answer)}" if paths.answer else "answer"
        value = paths.answer.get(row) if paths.answer else None
        text = f'{"is missing" if value is None else "is empty"}, and "{item.id}" is not an abstention item'
        hint = path_hint(paths.answer.text, row) if paths.answer else ""
        if paths.answer and not hint and value in (None, "", []):
            where = f"{{{in_braces(paths.answer.text)}: {{present: false}}}}"
            hint = f"give an answer; if there is none, write abstention: {{where: {where}}}"
        raise item.place.error(
            name, text, hint=hint or "give an answer, or select the items without an answer in abstention"
        )

    def _check_choice(self, item: RawItem, row: object, prefix: str, path: Value | None) -> None:
        """Raise a DataError when the right choice is neither the text nor the letter of a choice.

        If the data gives no right choice, the error is raised only for the evaluator ``mcq``, and not for abstention
        items.
        """
        if path is None or choice_index(item.choice_answer, item.choices) is not None:
            return
        value = path.get(row)
        if value is not None:
            text = f"matches none of the {len(item.choices)} choices of {item.id}, as a text or a letter"
            raise item.place.error(
                f"{prefix}{path_name(path)}", text, value, hint="write the text or the letter of one of the choices"
            )
        if self.config.evaluation.method == "mcq" and not item.abstention:
            raise item.place.error(
                f"{prefix}{path_name(path)}", f"is missing in item {item.id}", hint="give the right choice"
            )

    def _flagged(self, scopes: list[object], place: RowPlace) -> bool:
        """Return True when a field in ``scopes`` marks the item as unanswerable.

        ``scopes`` are the question, its row and its history.
        """
        path, wanted = self.paths.abstention, self.config.abstention.equals
        if path is None:
            return False
        name = path_name(path)
        values = [value for scope in scopes for value in path.all(scope) if value is not None]
        if wanted is None:
            return any(flag_of(value, name, place) for value in values)
        same = [matches(value, wanted, name, place) for value in values]
        if any(same):
            self.names.flags.meet([scalar_text(wanted) or ""])
        else:
            self.names.flags.meet(text for value in values if (text := scalar_text(value)) is not None)
        return any(same)

    def _abstains(
        self, item_id: str, kind: str | None, scopes: list[object], place: RowPlace, *, answered: bool
    ) -> bool:
        rules = self.config.abstention
        by_field = self._flagged(scopes, place)
        by_id = self._matches_id_pattern(item_id, place)
        by_type = kind is not None and kind in rules.question_types
        by_where = bool(self.where) and self.where.hold(scopes, place)
        return by_id or by_field or by_type or by_where or (not answered and _is_adversarial(scopes[0]))

    def _matches_id_pattern(self, item_id: str, place: RowPlace) -> bool:
        """Return True when the regular expression ``abstention.idPattern`` matches a part of the item id."""
        if self.pattern is None:
            return False
        if len(item_id) > LONGEST_TEXT:
            text = f"has {len(item_id)} characters, but idPattern is matched against {LONGEST_TEXT} at most"
            raise place.error("item id", text, hint="shorten the ids, or mark abstention items in a field")
        return self.pattern.search(item_id) is not None

    def _metadata(self, scopes: list[object], place: RowPlace, *, kind_id: str | None) -> dict[str, object]:
        """Return the metadata of an item as a map from field to value.

        Each field is looked up in the question first, then in the row, then in the history.
        """
        found: dict[str, object] = {} if kind_id is None else {"category": kind_id}
        for key, path in self.paths.metadata.items():
            value = next((one for scope in scopes if (one := metadata_at(path, scope)) is not None), None)
            if key in self.dimensions and isinstance(value, list | Mapping):
                hint = "map one text or number per item, or remove the field from the breakdown of the metrics"
                raise place.error(path_name(path), "must be one text or number, not", value, hint=hint)
            if value is not None:
                found[key] = value
        return found

    def _date(self, scopes: list[object], path: Value | None, place: RowPlace) -> datetime | None:
        value = _first_value(path, scopes)
        if path is None or value is None:
            return None
        text = scalar_text(value)
        when = self.dates.read(text) if text else None
        if when is None:
            raise place.error(path_name(path), "is not a date that can be read", value, hint=DATE_HINT)
        return when

    def _refs(
        self, path: PathList | None, row: object, prefix: str, place: RowPlace, grades: dict[str, float]
    ) -> tuple[str, ...]:
        """Return the references to evidence sessions or turns that the row contains at ``path``.

        Grades of the evidence are added to the argument ``grades``.
        """
        given = None if path is None else path.get(row)
        if path is None or given is None:
            return ()
        where = f"{prefix}{path_name(path)}"
        if self.grade is not None or is_graded(given):
            return self._graded(path, row, given, where, place, grades)
        if self.reference is not None:
            given = [self._reference(one, where, place) for one in _objects(given)]
        elif self.ranges:
            given = _ranges_as_text(given)
        found = flatten_lists(given)
        if any(scalar_text(one) is None for one in found):
            raise place.error(where, "must be text or a list of texts, not", given, hint=_OBJECTS)
        texts = texts_of(found, where, place)
        return tuple(one for text in texts for one in expand_ranges(text)) if self.ranges else texts

    def _graded(
        self, path: PathList, row: object, given: object, where: str, place: RowPlace, grades: dict[str, float]
    ) -> tuple[str, ...]:
        """Return the references to evidence with a grade above 0.

        The highest grade of each reference is added to the argument ``grades``.
        """
        if isinstance(given, Mapping) and self.grade is None:
            pairs = [(str(name), number_at(grade, f"{where}.{name}", place)) for name, grade in given.items()]
        else:
            found = [pair for one in path.paths for pair in elements(one, row)] or [(where, given)]
            pairs = [(self._reference(one, at, place), self._grade(one, at, place)) for at, one in found]
        own: dict[str, float] = {}
        for text, grade in pairs:
            for name in expand_ranges(text) if self.ranges else [text]:
                if grade > 0:
                    own[name] = max(grade, own.get(name, grade))
        grades.update(own)
        return tuple(own)

    def _grade(self, value: object, where: str, place: RowPlace) -> float:
        assert self.grade is not None
        grade = self.grade.get(value)
        if grade is None:
            raise missing_error(self.grade, value, place, prefix=f"{where}.", key="evidence.grade")
        return number_at(grade, f"{where}.{path_name(self.grade)}", place)

    def _reference(self, value: object, where: str, place: RowPlace) -> str:
        """Fill the template ``evidence.reference`` from an evidence object, and return the reference."""
        assert self.reference is not None
        text = scalar_text(self.reference.get(value))
        if text is None:
            raise missing_error(self.reference, value, place, prefix=f"{where}.", key="evidence.reference")
        return text

    def _turn_refs(
        self, path: PathList | None, row: object, prefix: str, place: RowPlace, grades: dict[str, float]
    ) -> tuple[str, ...]:
        """Return the references to evidence turns.

        If the data quotes whole turns as evidence, a reference consists of the speaker and the text.
        """
        if self.turns is None or path is None:
            return self._refs(path, row, prefix, place, grades)
        where = f"{prefix}{path_name(path)}"
        quoted = list_at(row, path.first, place, prefix=prefix) if path.get(row) is not None else []
        return tuple(self.turns.read(turn, f"{where}[{at}]", place).quote for at, turn in enumerate(quoted))

    def _choices(self, path: PathList | None, row: object, prefix: str, place: RowPlace) -> tuple[str, ...]:
        """Return the choices of an item.

        If each choice has its own path, a DataError is raised for a path without a value.
        """
        if path is None:
            return ()
        if len(path.paths) == 1:
            if self.optional and path.get(row) is None:
                return ()
            value: object = (
                path.first.all(row) if not path.first.single else value_at(row, path.first, place, prefix=prefix)
            )
        else:
            found = [value_at(row, one, place, prefix=prefix) for one in path.paths]
            value = [part for one in found for part in (one if isinstance(one, list) else [one])]
        return choices_of(value, f"{prefix}{path_name(path)}", place)

    def _cut(self, scopes: list[object], place: RowPlace) -> str | None:
        path = self.paths.visibility
        value = _first_value(path, scopes)
        text = None if isinstance(value, bool) else scalar_text(value)
        known = text is not None and (text.isdecimal() or self.dates.read_cut(text) is not None)
        if path is not None and value is not None and not known:
            raise place.error(path_name(path), "must be an index or a date, not", value, hint=_INDEX_OR_DATE)
        return text

    def _deletion(self, row: object, place: RowPlace) -> Deletion | None:
        paths = self.paths.deletion
        if paths is None:
            return None
        target, query, content = paths
        return Deletion(
            target=id_at(row, target, place),
            verify_query=text_at(row, query, place),
            deleted_content=text_at(row, content, place) if content else "",
        )


def _first_value(path: Value | None, scopes: list[object]) -> object:
    """Return the first value at ``path`` that is not null; None if there is no such value.

    The path is read in each of ``scopes``: the question, its row and its history.
    """
    found = (path.get(scope) for scope in scopes) if path else ()
    return next((value for value in found if value is not None), None)


def metadata_at(path: Value, scope: object) -> object:
    """Return the metadata value at ``path``, or None if there is no value.

    If the path contains ``[*]``, return a list of all values.
    """
    return path.get(scope) if path.single else path.all(scope) or None


def _objects(value: object) -> list[object]:
    """Flatten nested lists of objects into one list."""
    return [one for part in value for one in _objects(part)] if isinstance(value, list) else [value]


_NUMBERS = re.compile(
    r"(?P<before>(?:.*[^\d\s,-])?\s*?)(?P<numbers>\d+(?:\s*-\s*\d+)?(?:\s*,\s*\d+(?:\s*-\s*\d+)?)*)\s*", re.DOTALL
)
_WIDEST = 10_000
"""maximum count of numbers in a range such as ``3-5``"""


def expand_ranges(reference: str) -> list[str]:
    """Split a reference that ends with numbers or ranges into one reference per number.

    ``x/1, 3-4`` becomes ``x/1``, ``x/3``, ``x/4``.
    """
    match = _NUMBERS.fullmatch(reference)
    if match is None or len(reference) > LONGEST_TEXT:
        return [reference]
    found: list[str] = []
    for part in match["numbers"].split(","):
        first, _, last = (piece.strip() for piece in part.partition("-"))
        if not last:
            found.append(match["before"] + first)
        elif 0 <= int(last) - int(first) < _WIDEST:
            found += (f"{match['before']}{number}" for number in range(int(first), int(last) + 1))
        else:
            return [reference]
    return found


def _ranges_as_text(value: object) -> object:
    """Replace each list of two numbers by a range written as text: ``[3, 5]`` becomes ``3-5``.

    Nested lists are searched too.
    """
    if not isinstance(value, list):
        return value
    texts = [scalar_text(one) or "" for one in value]
    return (
        "-".join(texts)
        if len(texts) == 2 and all(map(str.isdecimal, texts))
        else [_ranges_as_text(one) for one in value]
    )


def _question_at(row: object, path: Value, place: RowPlace, *, prefix: str = "") -> str:
    """Return the text of the question. A missing or blank question raises a DataError."""
    text = text_at(row, path, place, prefix=prefix)
    if is_blank(text):
        raise place.error(f"{prefix}{path_name(path)}", "is empty", hint="write a question, or remove the item")
    return text


def _label(value: object, path: Value, place: RowPlace) -> str | None:
    """Return a text or number as a name, such as the name of a question type.

    Return None for an empty value. A list or object raises a DataError.
    """
    if isinstance(value, list | Mapping):
        first = f"{path.text if path.text.startswith('$') else '$.' + path.text}[0]"
        hint = f'write the path of one element: "{first}"' if isinstance(value, list) and value else None
        raise place.error(path_name(path), "must be one text or number, not", value, hint=hint)
    return scalar_text(value) or None


def _is_adversarial(question: object) -> bool:
    """Return True for a question with the field ``adversarial_answer``.

    LoCoMo marks unanswerable questions with this field.
    """
    return isinstance(question, Mapping) and question.get("adversarial_answer") is not None
