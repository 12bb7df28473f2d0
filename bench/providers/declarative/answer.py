"""Reading a provider's answer by path. A path that finds nothing is a MappingError, never "no results".

Example::

    answer = Answer(response)
    answer.one(Field.at("search.response.results", "$.results"))
    # MappingError: search.response.results "$.results": nothing there; body: {"hits":[{"id":"x1"...
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Self

from bench.config.jsonpath import Path, compile_path
from bench.errors import MappingError
from bench.events import redact
from bench.values import dataclass

if TYPE_CHECKING:
    from bench.http import Response

SHOWN_OF_BODY = 300
WHOLE = object()
"""stands for the whole body where a part of it may be read"""


@dataclass(frozen=True, slots=True)
class Field:
    """One path of the config with the key it stands under."""

    key: str
    path: Path

    @classmethod
    def at(cls, key: str, text: str) -> Self:
        """Compile ``text``, which stands under ``key``."""
        return cls(key, compile_path(text))

    def __str__(self) -> str:
        return f'{self.key} "{self.path.text}"'


@dataclass(frozen=True)
class Answer:
    """One good answer of the service."""

    response: Response

    @property
    def status(self) -> int:
        """The HTTP status; one of ``treat_as_ok`` or ``ok_status`` when it is no 2xx."""
        return self.response.status

    @property
    def ok(self) -> bool:
        """True for a 2xx."""
        return 200 <= self.response.status < 300

    @cached_property
    def tree(self) -> object:
        """The body as JSON; MappingError when it is none."""
        return self.response.json()

    def error(self, field: Field | str, problem: str) -> MappingError:
        """The error for a field that does not fit this body."""
        shown = redact(self.response.text[: SHOWN_OF_BODY * 4])[:SHOWN_OF_BODY]
        return MappingError(f"{field}: {problem}; body: {shown}")

    def one(self, field: Field, node: object = WHOLE) -> object:
        """The one value below ``node`` (the whole body by default); null counts."""
        found = field.path.all(self.tree if node is WHOLE else node)
        if len(found) != 1:
            raise self.error(field, "nothing there" if not found else f"{len(found)} values there, one wanted")
        return found[0]

    def values(self, field: Field, node: object = WHOLE) -> list[object]:
        """All values below ``node``; a single list gives its elements."""
        found = field.path.all(self.tree if node is WHOLE else node)
        if not found and field.path.single:
            raise self.error(field, "nothing there")
        if field.path.single and isinstance(found[0], list):
            return list(found[0])
        return found

    def rows(self, field: Field, *, missing_is_empty: bool = False) -> list[object]:
        """The list a field leads to."""
        found = field.path.all(self.tree)
        if not field.path.single:
            return found
        if not found or (found[0] is None and missing_is_empty):
            if missing_is_empty:
                return []
            raise self.error(field, "nothing there")
        if not isinstance(found[0], list):
            raise self.error(field, f"is no list but {kind_of(found[0])}")
        return found[0]


def kind_of(value: object) -> str:
    """A JSON value's type in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    words = {str: "text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return words.get(type(value), type(value).__name__)


def as_ids(value: object) -> list[str]:
    """Ids out of a value: text, number, or a list of them."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [found for inner in value for found in as_ids(inner)]
    if value is None or isinstance(value, bool | dict):
        return []
    return [str(value)]


def compact(value: object) -> str:
    """A JSON value as text; text stays as it is."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
