"""How answers are read: ids of what was stored, failures inside a good answer, and hits with their way back.

Each class is one block; each path in it is compiled by :mod:`bench.config.provider.answerpaths` when the file is read.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator

from bench.config.source import ConfigModel


class IdMap(ConfigModel):
    """Ids that the service gave, mapped to memory ids and kept with the run."""

    name: str
    key: str
    """a path, or ``uuid``: the ids that we made of namespace and memory id"""
    value: str
    """a path, or ``sent``: the memories of the batch in order"""


class AddResponse(ConfigModel):
    """What an add says about what it stored."""

    ids: str | None = None
    id_map: IdMap | None = None
    text: bool = False


class Partial(ConfigModel):
    """Failures of single memories inside a 2xx, matched by id."""

    items: str
    id: str
    failed_when: dict[str, list[object]]
    message: str | None = None


class Flatten(ConfigModel):
    """Each parent yields its children, with fields of the parent kept."""

    path: str
    keep: dict[str, str] = Field(default_factory=dict)


class Score(ConfigModel):
    """What a score means."""

    field: str | None = None
    kind: Literal["similarity", "distance", "rank"] = "similarity"
    transform: Literal["none", "1-x", "1/(1+x)", "-x"] = "none"
    order: Literal["as_returned", "asc", "desc"] = "as_returned"


class IdForm(ConfigModel):
    """One way from a hit back to the memory it stands for."""

    field: str | None = None
    metadata: str | None = None
    tag_prefix: str | None = None
    captured: str | None = None
    content_hash: bool = False

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        given = {name for name in ("metadata", "tag_prefix", "captured") if getattr(self, name) is not None}
        if self.content_hash:
            given.add("content_hash")
        if len(given) > 1 or (not given and self.field is None):
            raise ValueError("needs one of field, metadata, tag_prefix + field, captured + field, content_hash")
        if given & {"tag_prefix", "captured"} and self.field is None:
            raise ValueError(f"{given.pop()} needs field, the path to the ids")
        if given & {"metadata", "content_hash"} and self.field is not None:
            raise ValueError(f"field goes alone, or with tag_prefix or captured, not with {given.pop()}")
        return self


class SearchResponse(ConfigModel):
    """How hits are read from the answer of a search."""

    results: str | None = None
    zip: dict[str, str] | None = None
    flatten: Flatten | None = None
    missing_is_empty: bool = False
    text: bool = False
    """``type: mcp``: plain text, a hit a line or block"""
    content_field: str | list[str] | None = None
    content_join: str = "\n"
    score_field: str | None = None
    score: Score = Score()
    chunks_field: str | None = None
    id_field: str | None = None
    id_from: Literal["none"] | list[IdForm] | None = None
    when: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.text:
            return self
        if (self.results is None) == (self.zip is None):
            raise ValueError("needs either results or zip")
        if self.content_field is None:
            raise ValueError("needs contentField")
        if self.id_field is not None and self.id_from is not None:
            raise ValueError("idField and id_from: give one of them")
        if self.score_field is not None and self.score.field is not None:
            raise ValueError("scoreField and score.field: give one of them")
        return self

    @property
    def contents(self) -> tuple[str, ...]:
        """The content paths in order of preference."""
        if isinstance(self.content_field, str):
            return (self.content_field,)
        return tuple(self.content_field or ())


class Page(ConfigModel):
    """Asking on until k hits are there."""

    cursor: str
    param: str
    max_pages: PositiveInt = 5
