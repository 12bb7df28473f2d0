"""Where the parts of an item stand in a row: every path of a config, compiled once.

::

    paths = RowPaths(config)
    paths.question, paths.nested, paths.metadata
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.config.benchmark import BenchmarkConfig
from bench.config.jsonpath import Path, compile_path

_LABELS = {"questionType": "type", "question_type": "type", "questionDate": "date", "question_date": "date"}
"""names of schema.metadata that fill the item itself"""


@dataclass(frozen=True, slots=True)
class Several:
    """Paths whose values are all taken, in their order; of one path with ``[*]`` all of its values."""

    paths: tuple[Path, ...]

    @property
    def text(self) -> str:
        return self.paths[0].text

    @property
    def first(self) -> Path:
        return self.paths[0]

    def get(self, row: object) -> object | None:
        """The value of a single path as it is; of several the list of what is there; None where nothing is."""
        if len(self.paths) == 1:
            path = self.paths[0]
            return path.get(row) if path.single else path.all(row) or None
        found: list[object] = []
        for path in self.paths:
            for value in path.all(row):
                found += value if isinstance(value, list) else [] if value is None else [value]
        return found or None


class ItemPaths:
    """Where the parts of an item stand in the object that holds them."""

    question: Path | None = None
    answer: Several | None = None
    category: Path | None = None
    date: Path | None = None
    choices: Several | None = None
    choice_answer: Path | None = None
    rubric: Several | None = None
    sessions: Several | None = None
    refs: Several | None = None


class NestedPaths(ItemPaths):
    """The same for nested questions."""

    def __init__(self, config: BenchmarkConfig) -> None:
        questions = config.fields.questions
        assert questions is not None
        self.list = compile_path(questions.field, bare=True)
        self.id = _path(questions.id_field)
        self.question: Path = compile_path(questions.question_field, bare=True)
        self.answer = _several(questions.answer_field)
        self.category = _path(questions.category_field)
        self.date = _path(questions.date_field)
        self.choices = _several(questions.choices_field or config.fields.choices)
        self.choice_answer = _path(config.fields.choice_answer)
        self.rubric = _several(config.fields.rubric)
        self.sessions = _several(config.evidence.session_ids_field)
        self.refs = _several(questions.evidence_field or config.evidence.turn_ids_field)


class RowPaths(ItemPaths):
    """Every path of a config that leads to an item."""

    def __init__(self, config: BenchmarkConfig) -> None:
        fields = config.fields
        labels = {_LABELS[key]: path for key, path in fields.metadata.items() if key in _LABELS}
        self.context = compile_path(fields.context.field, bare=True)
        self.nested = NestedPaths(config) if fields.questions else None
        self.children = _path(config.flatten.field) if config.flatten else None
        self.question = _path(fields.question)
        self.answer = _several(fields.answer)
        self.type = _path(labels.get("type"))
        self.date = _path(labels.get("date"))
        self.choices = _several(fields.choices)
        self.choice_answer = _path(fields.choice_answer)
        self.rubric = _several(fields.rubric)
        self.sessions = _several(config.evidence.session_ids_field)
        self.refs = _several(config.evidence.turn_ids_field)
        self.abstention = _path(config.abstention.field)
        self.visibility = _path(config.visibility.field if config.visibility else None)
        plain = {key: path for key, path in fields.metadata.items() if key not in _LABELS}
        self.metadata = {key: compile_path(path, bare=True) for key, path in plain.items()}
        self.deletion = _deletion_paths(config)


def _deletion_paths(config: BenchmarkConfig) -> tuple[Path, Path, Path | None] | None:
    steps = config.deletion
    if steps is None:
        return None
    return (
        compile_path(steps.target, bare=True),
        compile_path(steps.verify_query, bare=True),
        _path(steps.deleted_content),
    )


def _several(paths: str | Sequence[str] | None) -> Several | None:
    if paths is None:
        return None
    listed = (paths,) if isinstance(paths, str) else paths
    return Several(tuple(compile_path(text, bare=True) for text in listed))


def _path(text: str | None) -> Path | None:
    return None if text is None else compile_path(text, bare=True)
