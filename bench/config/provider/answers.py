"""How answers are read: ids of what was stored, failures inside a good answer, and hits with their way back.

Each class is one block; each path in it is compiled by :mod:`bench.config.provider.answerpaths` when the file is read.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bench.config.source import ConfigModel


class IdMap(ConfigModel):
    """Ids that the service gave, mapped to memory ids and kept with the run."""

    name: str
    """under which it is captured; id_from says captured: NAME"""
    key: str
    """a path, or ``uuid``: the ids that we made of namespace and memory id"""
    value: str
    """a path, or ``sent``: the memories of the batch in order"""


class AddResponse(ConfigModel):
    """What an add says about what it stored."""

    ids: str | None = None
    """path of the job ids that wait asks about, one or a list"""
    id_map: IdMap | None = None
    """ids that the service gave to what was sent"""
    text: bool = False
    """type mcp: the answer is plain text, not JSON"""


class Partial(ConfigModel):
    """Failures of single memories inside a 2xx, matched by id."""

    items: str
    """path of the list with an element a memory"""
    id: str
    """path in an element: the memory's id"""
    failed_when: dict[str, list[object]]
    """path in an element -> values, any of which says that it failed"""
    message: str | None = None
    """path in an element: why"""


class Flatten(ConfigModel):
    """Each parent yields its children, with fields of the parent kept."""

    path: str
    """path in a parent: the list of its children"""
    keep: dict[str, str] = Field(default_factory=dict)
    """name in the child -> path in the parent"""


class Score(ConfigModel):
    """What a score means."""

    field: str | None = None
    """path in a hit; missing or null is no score"""
    kind: Literal["similarity", "distance", "rank"] = "similarity"
    """which end is better; rank: the number is a place, so hits have no scores"""
    transform: Literal["none", "1-x", "1/(1+x)", "-x"] = "none"
    """applied to the number x"""
    order: Literal["as_returned", "asc", "desc"] = "as_returned"
    """as_returned: the service's order stands; else sorted by score, ties as returned"""


class IdForm(ConfigModel):
    """One way from a hit back to the memory it stands for."""

    field: str | None = None
    """path in a hit: memory ids, or what tag_prefix, pattern or captured start from"""
    metadata: str | None = None
    """key of the hit's metadata that holds the id"""
    tag_prefix: str | None = None
    """tags under field that begin so, ${runTag} and the like filled in; the rest is the id"""
    pattern: str | None = None
    """regular expression for texts under field: its one group is the id, ${runTag} and the like are filled in"""
    captured: str | None = None
    """name of an id_map or capture that leads from the ids under field to ours"""
    content_hash: bool = False
    """by equal text, where nothing else leads back"""

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        given = {name for name in ("metadata", "tag_prefix", "pattern", "captured") if getattr(self, name) is not None}
        if self.content_hash:
            given.add("content_hash")
        if len(given) > 1 or (not given and self.field is None):
            raise ValueError(
                "needs one of field, metadata, tag_prefix + field, pattern + field, captured + field, content_hash"
            )
        if given & {"tag_prefix", "pattern", "captured"} and self.field is None:
            raise ValueError(f"{given.pop()} needs field, the path to the ids")
        if given & {"metadata", "content_hash"} and self.field is not None:
            raise ValueError(f"field goes alone, or with tag_prefix, pattern or captured, not with {given.pop()}")
        return self


class SearchResponse(ConfigModel):
    """How hits are read from the answer of a search."""

    results: str | None = None
    """path of the list of hits"""
    zip: dict[str, str] | None = None
    """field -> path of one of several parallel lists, which become hits; in place of results"""
    flatten: Flatten | None = None
    """each element of results holds a list of hits"""
    missing_is_empty: bool = False
    """no list means no hits, in place of an error"""
    text: bool = False
    """``type: mcp``: plain text, a hit a line or block"""
    content_field: str | list[str] | None = None
    """path in a hit of its text; of several the first that has any"""
    content_join: str = "\n"
    """between several texts of one hit"""
    score_field: str | None = None
    """short for score.field"""
    score: Score = Score()
    """where the score is and what it means"""
    chunks_field: str | None = None
    """path in a hit of the chunks it was found by; shown, and counted as its text"""
    id_field: str | None = None
    """short for id_from with one field"""
    id_from: Literal["none"] | list[IdForm] | None = None
    """ways back to memory ids, tried in order; none: there is no way. Unset: metadata bench_id, then $.id"""
    when: str | None = None
    """path in a hit of its date"""

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
    """path of the next page's cursor; empty ends it"""
    param: str
    """URL parameter that sends it"""
    max_pages: Annotated[int, Field(ge=1, le=1000)] = 5
    """requests a search makes at most"""
