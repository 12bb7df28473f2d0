"""The calls of a provider file: the request to send, and how to read the response.

Also in this module:

* The parts of a response: ids of stored memories, failures of single memories, and hits with their memory ids.

Each class is one block of the file. The paths in it are compiled by :mod:`bench.config.provider_templates`.

What is sent to the service (``headers``, ``query``, ``body``, ``multipart``) and the names in ``capture`` are kept as
written. The trees of ``body`` are compiled by :mod:`bench.config.provider_body` and checked by
:mod:`bench.config.provider_checks`.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from bench.config.file import ConfigModel
from bench.config.provider_sections import Milliseconds


class IdMap(ConfigModel):
    """A map from ids of the service to memory ids, stored with the run."""

    name: str
    """name of the map, for captured: NAME in id_from"""
    key: str
    """path of the service's id, or ``uuid``: ids that bench made from namespace and memory id"""
    value: str
    """path of the memory id, or ``sent``: the memories of the batch in order"""


class AddResponse(ConfigModel):
    """The paths to read from the response of an add call."""

    ids: str | None = None
    """path of one job id or a list, which wait polls"""
    id_map: IdMap | None = None
    """map from the service's ids to the memories sent"""
    text: bool = False
    """type mcp: the response is plain text, not JSON"""


class Partial(ConfigModel):
    """Failures of single memories in a 2xx response, matched by id."""

    items: str
    """path of the list with one element per memory"""
    id: str
    """path of the memory's id in an element"""
    failed_when: dict[str, list[object]]
    """path in an element -> values that mean failure"""
    message: str | None = None
    """path of the reason in an element"""


class HitFlatten(ConfigModel):
    """Replace each parent by its children, with selected fields of the parent."""

    path: str
    """path of the children in a parent"""
    keep: dict[str, str] = Field(default_factory=dict)
    """name in the child -> path in the parent"""


class ScoreSection(ConfigModel):
    """The path, meaning and order of scores."""

    field: str | None = None
    """path of the score in a hit; a missing or null value is not a score"""
    kind: Literal["similarity", "distance", "rank"] = "similarity"
    """similarity: higher is better; distance: lower is better; rank: a position, so hits have no scores"""
    transform: Literal["none", "1-x", "1/(1+x)", "-x"] = "none"
    """formula that is applied to the number x"""
    order: Literal["as_returned", "asc", "desc"] = "as_returned"
    """as_returned: keep the service's order; else sort by score, ties as returned"""


class IdForm(ConfigModel):
    """One way to find the memory of a hit."""

    field: str | None = None
    """path in a hit of memory ids, or of the texts that tag_prefix, pattern or captured use"""
    metadata: str | None = None
    """key of the hit's metadata that holds the memory id"""
    tag_prefix: str | None = None
    """prefix of tags under field, with ${runTag} and similar variables; the rest of a tag is the id"""
    pattern: str | None = None
    """regular expression for texts under field, with ${runTag} and similar variables; its only group is the id"""
    captured: str | None = None
    """name of an id_map or capture that maps the ids under field to memory ids"""
    content_hash: bool = False
    """find the memory by equal text, when no other way works"""

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
    """The paths to read hits from the response of a search."""

    results: str | None = None
    """path of the list of hits"""
    zip: dict[str, str] | None = None
    """field -> path of one of several parallel lists, which are combined into hits; instead of results"""
    flatten: HitFlatten | None = None
    """each element of results contains a list of hits"""
    missing_is_empty: bool = False
    """a missing list means no hits, instead of an error"""
    text: bool = False
    """``type: mcp``: plain text, one hit per line or block"""
    content_field: str | list[str] | None = None
    """path of the text in a hit; for several paths, the first one with a text"""
    content_join: str = "\n"
    """separator between several texts of one hit"""
    score_field: str | None = None
    """short form of score.field"""
    score: ScoreSection = ScoreSection()
    """path and meaning of the score"""
    chunks_field: str | None = None
    """path in a hit of the chunks that matched; shown, and part of the hit's text"""
    id_field: str | None = None
    """short form of id_from with one field"""
    id_from: Literal["none"] | list[IdForm] | None = None
    """ways to find the memory ids, tried in order; none: hits have no ids. Unset: metadata bench_id, then $.id"""
    when: str | None = None
    """path of the date in a hit"""

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
        """Return the content paths in order of preference."""
        if isinstance(self.content_field, str):
            return (self.content_field,)
        return tuple(self.content_field or ())


class PageSection(ConfigModel):
    """Paging: further requests until k hits are read."""

    cursor: str
    """path of the next page's cursor; an empty value ends paging"""
    param: str
    """URL parameter for the cursor"""
    max_pages: Annotated[int, Field(ge=1, le=1000)] = 5
    """maximum requests"""


class MultipartSection(ConfigModel):
    """One file of a multipart body."""

    filename: str
    """name of the file, a template"""
    content: str
    """content of the file, a template"""
    type: str = "application/octet-stream"
    """media type"""


class Idempotency(ConfigModel):
    """The header that makes a repeated add call safe."""

    header: str = "Idempotency-Key"
    """header that carries $.batchKey, the same on each retry"""


class RequestSection(ConfigModel):
    """One request."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] | None = None
    """HTTP method; none for a tool of an MCP server"""
    path: str | None = None
    """template of the path after baseUrl; each variable is one encoded segment"""
    tool: str | None = None
    """``type: mcp``: tool name, instead of method and path"""
    query: dict[str, object] = Field(default_factory=dict)
    """URL parameters; a list repeats a parameter, $omit_if_null leaves one out"""
    headers: dict[str, object] = Field(default_factory=dict)
    """headers in addition to those of connection"""
    body: object = None
    """JSON tree with paths such as $.k, ${texts} and the operators $each, $column, $omit_if_null, $literal, $json;
    {$lines: LIST} as the whole body is NDJSON"""
    multipart: dict[str, str | MultipartSection] | None = None
    """form field -> text, or a file; instead of body"""
    for_each: str | None = None
    """path of a list: the call is sent once per element, available as ${each}"""
    capture: dict[str, str | list[str]] = Field(default_factory=dict)
    """name -> path in the response, stored with the run for later calls; [path] appends to a list"""
    treat_as_ok: tuple[int, ...] = ()
    """statuses that are not errors, such as 404 for a delete"""
    idempotency: Idempotency | None = None
    """lets the service recognize a repeated add, so that it can be retried"""
    idempotent: bool | None = None
    """the call may be repeated after a lost response; unset: GET, PUT, DELETE and searches may"""
    timeout: Milliseconds | None = None
    """milliseconds per attempt; unset: the timeout of connection"""

    @property
    def has_body(self) -> bool:
        """Return True when the file sets a body, even if it is null."""
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
            raise ValueError("a GET call cannot have a body: use query")
        if self.has_body and self.multipart is not None:
            raise ValueError("body and multipart: give one of them")
        if self.tool is not None and (self.method is not None or self.path is not None):
            raise ValueError("a call with tool must not have method or path")
        return self

    @model_validator(mode="after")
    def _addressed(self) -> Self:
        if self.tool is None and not getattr(self, "steps", ()) and (self.method is None or self.path is None):
            raise ValueError("needs method and path")
        return self


class NamedCall(RequestSection):
    """A call of ``teardown``."""

    name: str = Field(min_length=1)
    """name of the call in errors and the journal"""


class Existing(RequestSection):
    """A lookup of the object that a setup call creates, so that an interrupted setup does not create it twice."""

    results: str | None = None
    """path of the list of candidates; by default the response is the only candidate"""
    match: dict[str, object] = Field(default_factory=dict)
    """path in a candidate -> required value"""
    page: PageSection | None = None
    """paging: further requests until a candidate matches"""

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        if (self.results is None) != (not self.match):
            raise ValueError("an existing object is found by results and match: set both")
        return self


class SetupCall(NamedCall):
    """A call of ``setup``; with ``existing`` it is sent only when the lookup finds nothing."""

    existing: Existing | None = None
    """lookup of an object that an interrupted setup may have created"""


class AddCall(RequestSection):
    """``add``: stores one batch; ``steps`` for services that need several requests."""

    steps: tuple[RequestSection, ...] = ()
    """calls in order, instead of method and path"""
    response: AddResponse = AddResponse()
    """paths to read from the response"""
    partial: Partial | None = None
    """failures of single memories in a successful response"""

    @model_validator(mode="after")
    def _steps_alone(self) -> Self:
        if self.steps and (self.method is not None or self.path is not None):
            raise ValueError("a call with steps must not have method or path")
        return self


class SearchCall(RequestSection):
    """``search``: finds hits for a query."""

    response: SearchResponse
    """paths to read hits from the response"""
    page: PageSection | None = None
    """paging: further requests, up to k hits"""


class WaitBlock(ConfigModel):
    """The wait until added memories can be found."""

    request: RequestSection | None = None
    """status request; without one, a stored memory is searched until it is found"""
    scope: Literal["id", "namespace"] | None = None
    """one status call per job id or per namespace; unset: id if add returns ids"""
    until: dict[str, list[object]] = Field(default_factory=dict)
    """path -> values: ready when every path has one of its values"""
    fail_on: dict[str, list[object]] = Field(default_factory=dict)
    """path -> values: failed when any path has one of its values; checked first"""
    count_at_least: str | None = None
    """path of a number or list: ready when it reaches the number of memories sent"""
    interval_ms: Milliseconds = 500
    """first pause between two checks; each pause is 1.5 times the one before"""
    max_interval_ms: Milliseconds = 5000
    """longest pause"""
    timeout_s: Annotated[float, Field(gt=0, le=7 * 86_400)] = 600
    """seconds until the corpus counts as not_ready"""
    settle_ms: Annotated[int, Field(ge=0, le=86_400_000)] = 0
    """milliseconds to wait after the corpus is ready"""
    id_map: IdMap | None = None
    """map from ids that only the status response contains"""

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
            raise ValueError("wait with request needs one of these keys: until, count_at_least")
        return self


class ClearCall(RequestSection):
    """``clear``: empties a namespace; ``wait`` is for services that delete in the background."""

    response: AddResponse = AddResponse()
    """job ids of a background deletion"""
    wait: WaitBlock | None = None
    """wait for a background deletion"""
    existing: Existing | None = None
    """lookup of the memory of an add with a lost response; ``capture`` reads the result"""


class VerifyCall(RequestSection):
    """``verify_clear``: repeated until the namespace is empty."""

    empty: str | None = None
    """path of a value that must be 0, null, missing or []"""
    ok_status: tuple[int, ...] = ()
    """statuses that mean the namespace is gone, such as 404"""
    timeout_s: Annotated[float, Field(gt=0, le=86_400)] = 30
    """seconds to repeat the check; then not_cleared is noted and the run continues"""

    @model_validator(mode="after")
    def _one_test(self) -> Self:
        if (self.empty is None) == (not self.ok_status):
            raise ValueError("needs either empty or ok_status")
        return self


class ValueCall(RequestSection):
    """``count`` or ``version``: one value of the response."""

    value: str = "$"
    """path of the value; for count a number or a list"""


class HealthCall(RequestSection):
    """``health``: a readiness check, where 503 means not ready yet."""

    value: str | None = None
    """path of a value that must be present"""
    ready_timeout_s: Annotated[float, Field(gt=0, le=86_400)] = 60
    """maximum seconds of 503 responses"""


class ListCall(RequestSection):
    """``list``: reads the memories of a namespace or of one session."""

    response: SearchResponse
    """paths to read memories from the response"""


class Endpoints(ConfigModel):
    """The calls by purpose."""

    add: AddCall
    """stores one batch"""
    search: SearchCall
    """finds up to k hits"""
    delete: RequestSection | None = None
    """deletes memories: $.ids, or one call per id with $.id"""
    update: RequestSection | None = None
    """replaces memories"""
    finish: AddCall | None = None
    """once per namespace after its last add: flush, or start of processing"""
    clear: ClearCall | None = None
    """empties a namespace; if unset, capabilities.clear must be false"""
    verify_clear: VerifyCall | None = None
    """checks that a namespace is empty"""
    count: ValueCall | None = None
    """counts the memories of a namespace; if unset, a search checks for emptiness"""
    health: HealthCall | None = None
    """repeated before the first call until the service is ready"""
    version: ValueCall | None = None
    """reads the service's version, for the receipt"""
    list: ListCall | None = None
    """reads the memories of a namespace, or of $.sessionId"""
