"""The calls of a provider file: what is sent; how an answer is read stands in :mod:`bench.config.provider.answers`.

Foreign content (``headers``, ``query``, ``body``, ``multipart``, ``capture`` names) is kept as it stands; the trees
are compiled by :mod:`bench.config.provider.trees` and checked by :mod:`bench.config.provider.checks`.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from bench.config.provider.answers import AddResponse, IdMap, Page, Partial, SearchResponse
from bench.config.provider.terms import Milliseconds
from bench.config.source import ConfigModel


class Part(ConfigModel):
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


class Call(ConfigModel):
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
    multipart: dict[str, str | Part] | None = None
    """form field -> text, or a file; in place of body"""
    for_each: str | None = None
    """path of a list: the call is sent for each element, named ${each}"""
    capture: dict[str, str | list[str]] = Field(default_factory=dict)
    """name -> path in the answer, kept with the run for later calls; [path] appends to a list"""
    treat_as_ok: tuple[int, ...] = ()
    """statuses that are no errors, such as 404 of a delete"""
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
            raise ValueError("tool replaces method and path")
        return self

    @model_validator(mode="after")
    def _addressed(self) -> Self:
        if self.tool is None and not getattr(self, "steps", ()) and (self.method is None or self.path is None):
            raise ValueError("needs method and path")
        return self


class NamedCall(Call):
    """A call of ``teardown``."""

    name: str = Field(min_length=1)
    """how errors and the journal call it"""


class Existing(Call):
    """Looks for what a set-up call would make, so that an interrupted set-up is taken up and not made twice."""

    results: str | None = None
    """path to a list of candidates; None = the answer itself is the one"""
    match: dict[str, object] = Field(default_factory=dict)
    """path in a candidate -> the value that it must have"""

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        if (self.results is None) != (not self.match):
            raise ValueError("results and match go together: which of the list is ours?")
        return self


class SetupCall(NamedCall):
    """A call of ``setup``; with ``existing`` it is sent only when nothing is found."""

    existing: Existing | None = None
    """a look for what an interrupted set-up may have made"""


class AddCall(Call):
    """``add``: one batch; ``steps`` for services that need several requests."""

    steps: tuple[Call, ...] = ()
    """calls in order, in place of method and path"""
    response: AddResponse = AddResponse()
    """what is read from the answer"""
    partial: Partial | None = None
    """how single failures show in a good answer"""

    @model_validator(mode="after")
    def _steps_alone(self) -> Self:
        if self.steps and (self.method is not None or self.path is not None):
            raise ValueError("steps replace method and path")
        return self


class SearchCall(Call):
    """``search``."""

    response: SearchResponse
    """how hits are read from the answer"""
    page: Page | None = None
    """how more hits are fetched, up to k"""


class WaitBlock(ConfigModel):
    """When what was added can be found."""

    request: Call | None = None
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


class ClearCall(Call):
    """``clear``; services that delete in the background have a ``wait`` inside."""

    response: AddResponse = AddResponse()
    """job ids of a deletion that goes on in the background"""
    wait: WaitBlock | None = None
    """when such a deletion is done"""


class VerifyCall(Call):
    """``verify_clear``: asked until the namespace is empty."""

    empty: str | None = None
    """path that must be 0, null, missing or []"""
    ok_status: tuple[int, ...] = ()
    """statuses that say it is gone, such as 404"""
    timeout_s: Annotated[float, Field(gt=0, le=86_400)] = 30
    """seconds to ask; then not_cleared is noted and the run goes on"""

    @model_validator(mode="after")
    def _one_test(self) -> Self:
        if (self.empty is None) == (not self.ok_status):
            raise ValueError("needs either empty or ok_status")
        return self


class ValueCall(Call):
    """``count`` or ``version``: one value of the answer."""

    value: str = "$"
    """path of it; for count a number or a list"""


class HealthCall(Call):
    """``health``: 503 means not ready yet."""

    value: str | None = None
    """path that must be there"""
    ready_timeout_s: Annotated[float, Field(gt=0, le=86_400)] = 60
    """seconds it may say 503"""


class ListCall(Call):
    """``list``: hits of a namespace or of one session."""

    response: SearchResponse
    """how memories are read from the answer"""


class Endpoints(ConfigModel):
    """The calls by what they are for."""

    add: AddCall
    """stores one batch"""
    search: SearchCall
    """finds up to k hits"""
    delete: Call | None = None
    """removes memories: $.ids, or one call an id with $.id"""
    update: Call | None = None
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
