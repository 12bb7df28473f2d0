"""Compile the paths by which a config reads the fields of an item.

Example::

    paths = RowPaths(config)
    paths.question, paths.nested, paths.metadata
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.config.benchmark.config import BenchmarkConfig
from bench.config.benchmark.sections import Questions
from bench.config.benchmark.values import Value, ValueText, compile_value
from bench.datasets.rows.row_values import value_of

_LABELS = {"questionType": "type", "question_type": "type", "questionDate": "date", "question_date": "date"}
"""names in ``schema.metadata`` that set the type or date of the question instead of metadata"""


@dataclass(frozen=True, slots=True)
class PathList:
    """One or more paths. The values of all paths are used, in the order of the paths."""

    paths: tuple[Value, ...]

    @property
    def text(self) -> str:
        return self.paths[0].text

    @property
    def first(self) -> Value:
        return self.paths[0]

    def get(self, row: object) -> object | None:
        """Return the value of a single path, or a list with the values of several paths.

        Return None if no path finds a value.
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
    """The paths to the fields of an item, inside the object that contains the item."""

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
    """The path to one list of nested questions, and the paths to the fields of each question."""

    def __init__(self, config: BenchmarkConfig, questions: Questions) -> None:
        super().__init__(config, questions)
        self.list = compile_value(questions.field)
        self.id = value_of(questions.id_field)
        self.question = compile_value(questions.question_field)


class RowPaths(ItemPaths):
    """The path to the items of a row, and the paths to the fields of each item."""

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
        """Return the values of a row's history fields. The metadata of an item can be inside these values.

        A field with ``[*]`` in its path is left out.
        """
        return [context.get(row) for context in self.contexts if context.single]


def _path_list(paths: str | Sequence[ValueText] | None) -> PathList | None:
    if paths is None:
        return None
    listed: Sequence[ValueText] = (paths,) if isinstance(paths, str) else paths
    return PathList(tuple(compile_value(text) for text in listed))
