"""The calls of a provider file: what is sent; how an answer is read is in :mod:`bench.config.provider_calls`.

Here too:

* How answers are read: ids of what was stored, failures inside a good answer, and hits with their way back.

Foreign content (``headers``, ``query``, ``body``, ``multipart``, ``capture`` names) is kept as it is; the trees
are compiled by :mod:`bench.config.provider_body` and checked by :mod:`bench.config.provider_checks`.

Each class is one block; each path in it is compiled by :mod:`bench.config.provider_templates` when the file is read.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from bench.config.file import ConfigModel
from bench.config.provider_sections import Milliseconds


class IdMap(ConfigModel):
    """Ids that the service gave, mapped to memory ids and kept with the run."""

    name: str
    """under which it is captured; id_from states captured: NAME"""
    key: str
    """a path, or ``uuid``: the ids that we made of namespace and memory id"""
    value: str
    """a path, or ``sent``: the memories of the batch in order"""


class AddResponse(ConfigModel):
    """What an add states about what it stored."""

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
    """path in an element -> values, any of which states that it failed"""
    message: str | None = None
    """path in an element: why"""


class HitFlatten(ConfigModel):
    """Each parent yields its children, with fields of the parent kept."""

    path: str
    """path in a parent: the list of its children"""
    keep: dict[str, str] = Field(default_factory=dict)
    """name in the child -> path in the parent"""


class ScoreSection(ConfigModel):
    """What a score means."""

    field: str | None = None
    """path in a hit; missing or null is not a score"""
    kind: Literal["similarity", "distance", "rank"] = "similarity"
    """which end is better; rank: the number is a place, so hits have no scores"""
    transform: Literal["none", "1-x", "1/(1+x)", "-x"] = "none"
    """applied to the number x"""
    order: Literal["as_returned", "asc", "desc"] = "as_returned"
    """as_returned: the service's order is; else sorted by score, ties as returned"""


class IdForm(ConfigModel):
    """One way from a hit back to the memory it represents."""

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
            raise ValueError(f"field can be combined only with tag_prefix, pattern or captured, not with {given.pop()}")
        return self


class SearchResponse(ConfigModel):
    """How hits are read from the answer of a search."""

    results: str | None = None
    """path of the list of hits"""
    zip: dict[str, str] | None = None
    """field -> path of one of several parallel lists, which become hits; in place of results"""
    flatten: HitFlatten | None = None
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
    score: ScoreSection = ScoreSection()
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


class PageSection(ConfigModel):
    """Asking on until k hits are there."""

    cursor: str
    """path of the next page's cursor; empty ends it"""
    param: str
    """URL parameter that sends it"""
    max_pages: Annotated[int, Field(ge=1, le=1000)] = 5
    """requests a search makes at most"""


class MultipartSection(ConfigModel):
    """One file of a multipart body."""

    filename: str
    """a template"""
    content: str
    """a template"""
    type: str = "application/octet-stream"
    """media type"""


class Idempotency(ConfigModel):
    """The header that makes a repeated add harmless."""

    header: str = "Idempotency-Key"
    """carries $.batchKey, the same on each retry"""


class RequestSection(ConfigModel):
    """One request."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] | None = None
    """none for a tool of an MCP server"""
    path: str | None = None
    """template after baseUrl; each variable is one encoded segment"""
    tool: str | None = None
    """``type: mcp`` instead of method and path"""
    query: dict[str, object] = Field(default_factory=dict)
    """URL parameters; a list repeats one, $omit_if_null leaves one out"""
    headers: dict[str, object] = Field(default_factory=dict)
    """beside those of connection"""
    body: object = None
    """tree of JSON with paths such as $.k, ${texts} and the operators $each, $column, $omit_if_null, $literal, $json;
    {$lines: LIST} as the whole body is NDJSON"""
    multipart: dict[str, str | MultipartSection] | None = None
    """form field -> text, or a file; in place of body"""
    for_each: str | None = None
    """path of a list: the call is sent for each element, named ${each}"""
    capture: dict[str, str | list[str]] = Field(default_factory=dict)
    """name -> path in the answer, kept with the run for later calls; [path] appends to a list"""
    treat_as_ok: tuple[int, ...] = ()
    """statuses that are not errors, such as 404 of a delete"""
    idempotency: Idempotency | None = None
    """lets the service tell a repeated add, so that it may be retried"""
    idempotent: bool | None = None
    """may be sent again after a lost answer; unset: GET, PUT, DELETE and searches may"""
    timeout: Milliseconds | None = None
    """milliseconds an attempt may take; unset: that of connection"""

    @property
    def has_body(self) -> bool:
        """True when the file gives a body, be it null."""
        return "body" in self.model_fields_set

    @field_validator("path")
    @classmethod
    def _rooted(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("/", "${")):
            raise ValueError('must start with "/" or "${"')
        return value

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.has_body and self.method == "GET":
            raise ValueError("body with GET; use query")
        if self.has_body and self.multipart is not None:
            raise ValueError("body and multipart: give one of them")
        if self.tool is not None and (self.method is not None or self.path is not None):
            raise ValueError("a call with tool has no method and no path")
        return self

    @model_validator(mode="after")
    def _addressed(self) -> Self:
        if self.tool is None and not getattr(self, "steps", ()) and (self.method is None or self.path is None):
            raise ValueError("needs method and path")
        return self


class NamedCall(RequestSection):
    """A call of ``teardown``."""

    name: str = Field(min_length=1)
    """how errors and the journal call it"""


class Existing(RequestSection):
    """Looks for what a set-up call would make, so that an interrupted set-up is taken up and not made twice."""

    results: str | None = None
    """path to a list of candidates; None = the answer itself is the one"""
    match: dict[str, object] = Field(default_factory=dict)
    """path in a candidate -> the value that it must have"""

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        if (self.results is None) != (not self.match):
            raise ValueError("results needs match, and match needs results: they find our element in the list")
        return self


class SetupCall(NamedCall):
    """A call of ``setup``; with ``existing`` it is sent only when nothing is found."""

    existing: Existing | None = None
    """a look for what an interrupted set-up may have made"""


class AddCall(RequestSection):
    """``add``: one batch; ``steps`` for services that need several requests."""

    steps: tuple[RequestSection, ...] = ()
    """calls in order, in place of method and path"""
    response: AddResponse = AddResponse()
    """what is read from the answer"""
    partial: Partial | None = None
    """how single failures show in a good answer"""

    @model_validator(mode="after")
    def _steps_alone(self) -> Self:
        if self.steps and (self.method is not None or self.path is not None):
            raise ValueError("a call with steps has no method and no path")
        return self


class SearchCall(RequestSection):
    """``search``."""

    response: SearchResponse
    """how hits are read from the answer"""
    page: PageSection | None = None
    """how more hits are fetched, up to k"""


class WaitBlock(ConfigModel):
    """When what was added can be found."""

    request: RequestSection | None = None
    """the status call; without one a stored memory is searched until it is found"""
    scope: Literal["id", "namespace"] | None = None
    """one status call a job id or one a namespace; unset: id where add gives ids"""
    until: dict[str, list[object]] = Field(default_factory=dict)
    """path -> values: ready when each path has one of its values"""
    fail_on: dict[str, list[object]] = Field(default_factory=dict)
    """path -> values: failed when any path has one of its values; looked at first"""
    count_at_least: str | None = None
    """path of a number or list: ready when it reaches the memories sent"""
    interval_ms: Milliseconds = 500
    """first pause between two looks; grows by half each time"""
    max_interval_ms: Milliseconds = 5000
    """longest pause"""
    timeout_s: Annotated[float, Field(gt=0, le=7 * 86_400)] = 600
    """seconds; then the corpus is not_ready"""
    settle_ms: Annotated[int, Field(ge=0, le=86_400_000)] = 0
    """waited once more when it is ready"""
    id_map: IdMap | None = None
    """ids that only the status call shows"""

    @model_validator(mode="before")
    @classmethod
    def _sentinel(cls, value: object) -> object:
        return {} if value == "sentinel" else value

    @field_validator("until", "fail_on", mode="before")
    @classmethod
    def _lists(cls, value: object) -> object:
        if isinstance(value, dict):
            return {path: wanted if isinstance(wanted, list) else [wanted] for path, wanted in value.items()}
        return value

    @model_validator(mode="after")
    def _request_says_when(self) -> Self:
        if self.request is not None and not self.until and self.count_at_least is None:
            raise ValueError("wait with a request needs until or count_at_least")
        return self


class ClearCall(RequestSection):
    """``clear``; services that delete in the background have a ``wait`` inside."""

    response: AddResponse = AddResponse()
    """job ids of a deletion that continues in the background"""
    wait: WaitBlock | None = None
    """when such a deletion is done"""
    existing: Existing | None = None
    """a look for what an add made whose answer was lost; ``capture`` reads what is found"""


class VerifyCall(RequestSection):
    """``verify_clear``: asked until the namespace is empty."""

    empty: str | None = None
    """path that must be 0, null, missing or []"""
    ok_status: tuple[int, ...] = ()
    """statuses that say it is gone, such as 404"""
    timeout_s: Annotated[float, Field(gt=0, le=86_400)] = 30
    """seconds to ask; then not_cleared is noted and the run continues"""

    @model_validator(mode="after")
    def _one_test(self) -> Self:
        if (self.empty is None) == (not self.ok_status):
            raise ValueError("needs either empty or ok_status")
        return self


class ValueCall(RequestSection):
    """``count`` or ``version``: one value of the answer."""

    value: str = "$"
    """path of it; for count a number or a list"""


class HealthCall(RequestSection):
    """``health``: 503 means not ready yet."""

    value: str | None = None
    """path that must be there"""
    ready_timeout_s: Annotated[float, Field(gt=0, le=86_400)] = 60
    """seconds it may say 503"""


class ListCall(RequestSection):
    """``list``: hits of a namespace or of one session."""

    response: SearchResponse
    """how memories are read from the answer"""


class Endpoints(ConfigModel):
    """The calls by what they are for."""

    add: AddCall
    """stores one batch"""
    search: SearchCall
    """finds up to k hits"""
    delete: RequestSection | None = None
    """removes memories: $.ids, or one call an id with $.id"""
    update: RequestSection | None = None
    """replaces memories"""
    finish: AddCall | None = None
    """once a namespace after its last add: flush, start of processing"""
    clear: ClearCall | None = None
    """empties a namespace; without it capabilities.clear must be false"""
    verify_clear: VerifyCall | None = None
    """looks whether it is empty"""
    count: ValueCall | None = None
    """memories of a namespace; without it a search probes for emptiness"""
    health: HealthCall | None = None
    """asked before the first call until the service is up"""
    version: ValueCall | None = None
    """the service's version, for the receipt"""
    list: ListCall | None = None
    """memories of a namespace, or of $.sessionId"""
