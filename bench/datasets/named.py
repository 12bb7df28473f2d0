"""Paths to parts of an item that a config names and that no row has: most often a slip of the pen.

A part that some row holds, be it null, is there; nothing is said of a file without items::

    named = NamedPaths(config)
    named.meet(row, items=[row], around=[])
    list(named.unmet())     # ['no item has what schema.metadata.questionType names ("knd"); did you mean "kind"?']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bench.config.benchmark import BenchmarkConfig
from bench.config.findings import did_you_mean
from bench.config.jsonpath import Path, Step, compile_path
from bench.config.jsontext import TreePath

MOST_KEYS = 1_000
"""so many keys are kept to guess from: a file may have another key in each row"""


@dataclass(slots=True, kw_only=True)
class NamedPath:
    """One path of a config, as far as a name that a row may lack, and the keys that stood in its place."""

    key: TreePath
    text: str
    parent: Path
    name: str
    wide: bool
    """looked for in the row and its history too, not in the question alone"""
    keys: set[str] = field(default_factory=set)

    def meets(self, scopes: Sequence[object]) -> bool:
        """True when one of the scopes has the name; the keys of those that have not are kept."""
        nodes = [node for scope in scopes for node in self.parent.all(scope) if isinstance(node, Mapping)]
        if any(self.name in node for node in nodes):
            return True
        if len(self.keys) < MOST_KEYS:
            self.keys.update(key for node in nodes for key in node)
        return False


class NamedPaths:
    """The paths that may be missing in single items, and which of them no item has had so far."""

    def __init__(self, config: BenchmarkConfig) -> None:
        self.config = config
        self.open = [path for key, text, wide in _named(config) if (path := _named_path(key, text, wide)) is not None]
        self._items = 0

    def meet(self, items: Sequence[object], around: Sequence[object]) -> None:
        """Look at the items of a row, and at what stands around them: the row, its history."""
        self._items += len(items)
        if items:
            everywhere = [*items, *around]
            self.open = [path for path in self.open if not path.meets(everywhere if path.wide else items)]

    def unmet(self) -> Iterator[str]:
        """A sentence for each path that led to nothing."""
        for path in self.open if self._items else ():
            where = self.config.written(*path.key)
            yield f'no item has what {where} names ("{path.text}"){did_you_mean(path.name, path.keys)}'


def _named(config: BenchmarkConfig) -> Iterator[tuple[TreePath, str, bool]]:
    """Key, path and width of each path that an item may lack."""
    fields, questions = config.fields, config.fields.questions
    for name, path in fields.metadata.items():
        yield ("schema", "metadata", name), path, True
    optional: list[tuple[TreePath, str | None, bool]] = [
        (("schema", "choice_answer"), fields.choice_answer, False),
        (("schema", "rubric"), fields.rubric, False),
        (("evidence", "session_ids_field"), config.evidence.session_ids_field, False),
        (("abstention", "field"), config.abstention.field, True),
        (("visibility", "field"), config.visibility.field if config.visibility else None, True),
    ]
    if questions is None:
        optional.append((("schema", "answer"), fields.answer, False))
    else:
        optional.append((("schema", "questions", "answer_field"), questions.answer_field, False))
        optional.append((("schema", "questions", "evidence_field"), questions.evidence_field, False))
        optional.append((("schema", "questions", "date_field"), questions.date_field, True))
    if questions is None or questions.evidence_field is None:
        optional.append((("evidence", "turn_ids_field"), config.evidence.turn_ids_field, False))
    yield from ((key, path, wide) for key, path, wide in optional if path is not None)


def _named_path(key: TreePath, text: str, wide: bool) -> NamedPath | None:
    """The path up to its last name before any ``[*]``; None where it names nothing."""
    steps: list[Step] = []
    for step in compile_path(text, bare=True).steps:
        if not isinstance(step, str | int):
            break
        steps.append(step)
    while steps and not isinstance(steps[-1], str):
        steps.pop()
    if not steps:
        return None
    return NamedPath(key=key, text=text, parent=Path(text, tuple(steps[:-1])), name=str(steps[-1]), wide=wide)
