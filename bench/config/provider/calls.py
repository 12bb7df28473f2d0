"""The calls of a provider file: the request to send, and how to read the response.

Each class is one block of the file. Keys in ``headers``, ``query``, ``body``, ``multipart`` and ``capture`` keep their
spelling, because they belong to the service's API.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from bench.config.file import ConfigModel
from bench.config.provider.sections import Milliseconds


class IdMap(ConfigModel):
    """A map from ids of the service to memory ids. It is stored with the run."""

    name: str
    """name of the map; an entry of id_from uses the map by ``captured: NAME``"""
    key: str
    """path of the service's ids, or ``uuid`` for the ids that bench made from namespace and memory id"""
    value: str
    """path of the memory ids, or ``sent`` for the ids of the memories in the batch, in order"""


class AddResponse(ConfigModel):
    """The paths to read from the response of an add call."""

    ids: str | None = None
    """path of the ids of background tasks; the calls of ``wait`` ask for the status of these tasks"""
    id_map: IdMap | None = None
    """map from the service's ids to the ids of the memories sent"""
    text: bool = False
    """type mcp: true if the response is plain text, not JSON"""


class Partial(ConfigModel):
    """The location of failures of single memories in a 2xx response."""

    items: str
    """path of the list with one element per memory"""
    id: str
    """path of the memory's id in an element"""
    failed_when: dict[str, list[object]]
    """path in an element -> values that mean that the memory failed"""
    message: str | None = None
    """path of the reason of the failure in an element"""


class HitFlatten(ConfigModel):
    """The rule that makes one list of hits if each element of results contains a list of hits."""

    path: str
    """path of the list of hits in an element of results"""
    keep: dict[str, str] = Field(default_factory=dict)
    """name of a new field in each hit -> path of its value in the element of results"""


class ScoreSection(ConfigModel):
    """The path, meaning and order of scores."""

    field: str | None = None
    """path of the score in a hit; a hit without this value has no score"""
    kind: Literal["similarity", "distance", "rank"] = "similarity"
    """similarity: higher is better; distance: lower is better; rank: the value is a position and not a score"""
    transform: Literal["none", "1-x", "1/(1+x)", "-x"] = "none"
    """formula that is applied to the number x"""
    order: Literal["as_returned", "asc", "desc"] = "as_returned"
    """as_returned: the service's order; asc, desc: sorted by score, with equal scores in the service's order"""


class IdForm(ConfigModel):
    """One way to find the memory of a hit."""

    field: str | None = None
    """path in a hit to its memory ids. With ``tag_prefix``, ``pattern`` or ``captured``: path to the texts from
    which that key reads the ids"""
    metadata: str | None = None
    """key of the hit's metadata that holds the memory id"""
    tag_prefix: str | None = None
    """beginning of the tags at field; may contain variables such as ${runTag}. The rest of a tag is the memory id"""
    pattern: str | None = None
    """regular expression for the texts at field, a template with variables such as ${runTag}; its only group is the
    memory id"""
    captured: str | None = None
    """name of an id_map or capture that maps the ids at field to memory ids"""
    content_hash: bool = False
    """true: find the memory by equal text"""

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        given = {name for name in ("metadata", "tag_prefix", "pattern", "captured") if getattr(self, name) is not None}
        if self.content_hash:
            given.add("content_hash")
        if len(given) > 1 or (not given and self.field is None):
            raise ValueError(
                'needs exactly one of "metadata", "content_hash", "field" alone, or "field" with one of '
                '"tag_prefix", "pattern", "captured"'
            )
        if given & {"tag_prefix", "pattern", "captured"} and self.field is None:
            raise ValueError(f'"{given.pop()}" needs "field", the path to the ids')
        if given & {"metadata", "content_hash"} and self.field is not None:
            raise ValueError(
                f'"field" can be combined only with "tag_prefix", "pattern" or "captured", not with "{given.pop()}"'
            )
        return self


class SearchResponse(ConfigModel):
    """The paths to read hits from the response of a search."""

    results: str | None = None
    """path of the list of hits"""
    zip: dict[str, str] | None = None
    """field of a hit -> path of a list with one value per hit; instead of results"""
    flatten: HitFlatten | None = None
    """rule for responses in which each element of results contains a list of hits"""
    missing_is_empty: bool = False
    """true: a missing list means that there are no hits; false: a missing list is an error"""
    text: bool = False
    """type mcp: true if the response is plain text, with one hit per line or block"""
    content_field: str | list[str] | None = None
    """path of the text in a hit; of several paths, the first one with a text is used"""
    content_join: str = "\n"
    """separator between several texts of one hit"""
    score_field: str | None = None
    """short form of score.field"""
    score: ScoreSection = ScoreSection()
    """path and meaning of the score"""
    chunks_field: str | None = None
    """path to the chunks that matched, inside a hit. In an answer prompt, the chunks replace the text of the hit"""
    id_field: str | None = None
    """short form of id_from with one field"""
    id_from: Literal["none"] | list[IdForm] | None = None
    """ways to find the memory ids of a hit, in order; none: hits have no ids; unset: the metadata key bench_id, then
    $.id"""
    when: str | None = None
    """path of the date in a hit"""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.text:
            return self
        if (self.results is None) == (self.zip is None):
            raise ValueError('needs either "results" or "zip"')
        if self.content_field is None:
            raise ValueError('needs "contentField"')
        if self.id_field is not None and self.id_from is not None:
            raise ValueError('"idField" and "id_from" exclude each other: give one')
        if self.score_field is not None and self.score.field is not None:
            raise ValueError('"scoreField" and "score.field" exclude each other: give one')
        return self

    @property
    def contents(self) -> tuple[str, ...]:
        """Return the paths of the text of a hit, the preferred path first."""
        if isinstance(self.content_field, str):
            return (self.content_field,)
        return tuple(self.content_field or ())


class PageSection(ConfigModel):
    """Paging: further requests when one response does not contain all results."""

    cursor: str
    """path of the cursor of the next page in a response; an empty value ends paging"""
    param: str
    """URL parameter for the cursor"""
    max_pages: Annotated[int, Field(ge=1, le=1000)] = 5
    """maximum number of requests"""


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
    """name of the header; its value is $.batchKey, which stays the same on each retry"""


class RequestSection(ConfigModel):
    """One request."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] | None = None
    """HTTP method; unset for a tool of an MCP server"""
    path: str | None = None
    """template of the path after baseUrl; the value of a variable is percent-encoded as one segment"""
    tool: str | None = None
    """type mcp: name of the tool, instead of method and path"""
    query: dict[str, object] = Field(default_factory=dict)
    """URL parameters; a list repeats a parameter; $omit_if_null leaves out a parameter that is null"""
    headers: dict[str, object] = Field(default_factory=dict)
    """headers, in addition to those of connection"""
    body: object = None
    """JSON tree; its values can be paths such as $.k, texts with ${name}, and the operators $each, $column,
    $omit_if_null, $literal, $json; {$lines: LIST} as the whole body is NDJSON"""
    multipart: dict[str, str | MultipartSection] | None = None
    """form field -> text, or a file; instead of body"""
    for_each: str | None = None
    """path of a list: the call is sent once per element, which is available as ${each}"""
    capture: dict[str, str | list[str]] = Field(default_factory=dict)
    """name -> path of a value in the response, which is stored with the run for later calls. If the path is in
    brackets ([$.id]), each response appends its value to a list"""
    treat_as_ok: tuple[int, ...] = ()
    """statuses that are not errors of this call, such as 404 for a delete"""
    idempotency: Idempotency | None = None
    """header by which the service recognizes a repeated add; adds with this header can be retried"""
    idempotent: bool | None = None
    """true: the call may be repeated if its response was lost; unset: true for GET, PUT, DELETE and searches"""
    timeout: Milliseconds | None = None
    """maximum milliseconds of one attempt; unset: the timeout of connection"""

    @property
    def has_body(self) -> bool:
        """Return True if the file sets a body, even if the body is null."""
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
            raise ValueError('a GET call cannot have a "body": use "query"')
        if self.has_body and self.multipart is not None:
            raise ValueError('"body" and "multipart" exclude each other: give one')
        if self.tool is not None and (self.method is not None or self.path is not None):
            raise ValueError('a call with "tool" must not have "method" or "path"')
        return self

    @model_validator(mode="after")
    def _addressed(self) -> Self:
        if self.tool is None and not getattr(self, "steps", ()) and (self.method is None or self.path is None):
            raise ValueError('needs "method" and "path"')
        return self


class NamedCall(RequestSection):
    """A call of ``teardown``."""

    name: str = Field(min_length=1)
    """name of the call in errors and the journal"""


class Existing(RequestSection):
    """A lookup of the object that a call creates, so that an interrupted call does not create the object twice."""

    results: str | None = None
    """path of the list of candidates; unset: the response itself is the only candidate, and 404 means there is none"""
    match: dict[str, object] = Field(default_factory=dict)
    """path in a candidate -> required value"""
    page: PageSection | None = None
    """paging: further requests until a candidate matches"""

    @model_validator(mode="after")
    def _results_need_match(self) -> Self:
        if (self.results is None) != (not self.match):
            raise ValueError('"results" and "match" must be used together')
        return self


class SetupCall(NamedCall):
    """A call of ``setup``. With ``existing``, the call is sent only when the lookup finds nothing."""

    existing: Existing | None = None
    """lookup of an object that an interrupted setup may have created"""


class AddCall(RequestSection):
    """``add``: stores one batch of memories; ``steps`` are for services that need several requests."""

    steps: tuple[RequestSection, ...] = ()
    """requests in order, instead of method and path"""
    response: AddResponse = AddResponse()
    """paths to read from the response"""
    partial: Partial | None = None
    """failures of single memories in a successful response"""

    @model_validator(mode="after")
    def _steps_alone(self) -> Self:
        if self.steps and (self.method is not None or self.path is not None):
            raise ValueError('a call with "steps" must not have "method" or "path"')
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
    """status request; unset: stored memories are searched until they are found"""
    scope: Literal["id", "namespace"] | None = None
    """id: one status request per id of a background task; namespace: one per namespace; unset: id if add returns ids,
    otherwise namespace"""
    until: dict[str, list[object]] = Field(default_factory=dict)
    """path -> values: memories are ready when every path has one of its values"""
    fail_on: dict[str, list[object]] = Field(default_factory=dict)
    """path -> values: the ingest failed when any path has one of its values; ``fail_on`` is checked before ``until``"""
    count_at_least: str | None = None
    """path of a number or list: memories are ready when the number, or the length of the list, reaches the number of
    memories sent"""
    interval_ms: Milliseconds = 500
    """milliseconds between the first two checks; each later pause is 1.5 times as long as the previous pause"""
    max_interval_ms: Milliseconds = 5000
    """maximum milliseconds between two checks"""
    timeout_s: Annotated[float, Field(gt=0, le=7 * 86_400)] = 600
    """maximum seconds to wait; after that, the corpus counts as not_ready"""
    settle_ms: Annotated[int, Field(ge=0, le=86_400_000)] = 0
    """additional milliseconds to wait after the corpus is ready"""
    id_map: IdMap | None = None
    """map from the service's ids to memory ids, for ids that only the status response contains"""

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
    def _request_needs_condition(self) -> Self:
        if self.request is not None and not self.until and self.count_at_least is None:
            raise ValueError('the key "request" also needs one of these keys: "until", "count_at_least"')
        return self


class ClearCall(RequestSection):
    """``clear``: empties a namespace; ``wait`` is for services that delete in the background."""

    response: AddResponse = AddResponse()
    """path of the ids of background tasks that delete"""
    wait: WaitBlock | None = None
    """wait for the end of a background deletion"""
    existing: Existing | None = None
    """lookup of the object to clear, if the response with its id was lost; ``capture`` reads the id"""


class VerifyCall(RequestSection):
    """``verify_clear``: a check that is repeated until a namespace is empty."""

    empty: str | None = None
    """path of a value that is 0, null, missing or [] when the namespace is empty"""
    ok_status: tuple[int, ...] = ()
    """statuses that mean that the namespace does not exist any more, such as 404"""
    timeout_s: Annotated[float, Field(gt=0, le=86_400)] = 30
    """seconds to repeat the check; after that, the event not_cleared is recorded and the run continues"""

    @model_validator(mode="after")
    def _one_test(self) -> Self:
        if (self.empty is None) == (not self.ok_status):
            raise ValueError('needs either "empty" or "ok_status"')
        return self


class ValueCall(RequestSection):
    """``count`` or ``version``: a call that reads one value."""

    value: str = "$"
    """path of the value in the response. For count, the value is a number or a list"""


class HealthCall(RequestSection):
    """``health``: a check that the service is ready. The status 503 means that the service is not ready yet."""

    value: str | None = None
    """path of a value that the response must contain"""
    ready_timeout_s: Annotated[float, Field(gt=0, le=86_400)] = 60
    """maximum seconds to wait while the service responds with 503"""


class ListCall(RequestSection):
    """``list``: reads the memories of a namespace or of one session."""

    response: SearchResponse
    """paths to read memories from the response"""


class Endpoints(ConfigModel):
    """The calls of the service, one per operation."""

    add: AddCall
    """stores one batch of memories"""
    search: SearchCall
    """finds up to k hits for a query"""
    delete: RequestSection | None = None
    """deletes memories: all of $.ids in one call, or $.id in one call per memory"""
    update: RequestSection | None = None
    """replaces memories"""
    finish: AddCall | None = None
    """sent once per namespace after its last add, for example to flush or to start processing"""
    clear: ClearCall | None = None
    """empties a namespace; if unset, capabilities.clear must be false"""
    verify_clear: VerifyCall | None = None
    """checks that a namespace is empty"""
    count: ValueCall | None = None
    """counts the memories of a namespace; if unset, a search checks whether a namespace is empty"""
    health: HealthCall | None = None
    """checks that the service is ready, before any other call; repeated until the service is ready"""
    version: ValueCall | None = None
    """reads the service's version, for the receipt"""
    list: ListCall | None = None
    """reads the memories of a namespace, or of $.sessionId"""
