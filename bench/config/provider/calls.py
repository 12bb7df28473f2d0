"""The calls of a provider file: what is sent; how an answer is read stands in :mod:`bench.config.provider.answers`.

Foreign content (``headers``, ``query``, ``body``, ``multipart``, ``capture`` names) is kept as it stands; the trees
are compiled by :mod:`bench.config.provider.trees` and checked by :mod:`bench.config.provider.checks`.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, field_validator, model_validator

from bench.config.provider.answers import AddResponse, IdMap, Page, Partial, SearchResponse
from bench.config.source import ConfigModel


class Part(ConfigModel):
    """One file of a multipart body."""

    filename: str
    content: str
    type: str = "application/octet-stream"


class Idempotency(ConfigModel):
    """The header that makes a repeated add harmless."""

    header: str = "Idempotency-Key"


class Call(ConfigModel):
    """One request."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] | None = None
    path: str | None = None
    tool: str | None = None
    """``type: mcp`` instead of method and path"""
    query: dict[str, object] = Field(default_factory=dict)
    headers: dict[str, object] = Field(default_factory=dict)
    body: object = None
    multipart: dict[str, str | Part] | None = None
    for_each: str | None = None
    capture: dict[str, str | list[str]] = Field(default_factory=dict)
    treat_as_ok: tuple[int, ...] = ()
    idempotency: Idempotency | None = None
    idempotent: bool | None = None
    timeout: PositiveInt | None = None

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


class AddCall(Call):
    """``add``: one batch; ``steps`` for services that need several requests."""

    steps: tuple[Call, ...] = ()
    response: AddResponse = AddResponse()
    partial: Partial | None = None

    @model_validator(mode="after")
    def _steps_alone(self) -> Self:
        if self.steps and (self.method is not None or self.path is not None):
            raise ValueError("steps replace method and path")
        return self


class SearchCall(Call):
    """``search``."""

    response: SearchResponse
    page: Page | None = None


class WaitBlock(ConfigModel):
    """When what was added can be found."""

    request: Call | None = None
    scope: Literal["id", "namespace"] | None = None
    until: dict[str, list[object]] = Field(default_factory=dict)
    fail_on: dict[str, list[object]] = Field(default_factory=dict)
    count_at_least: str | None = None
    interval_ms: PositiveInt = 500
    max_interval_ms: PositiveInt = 5000
    timeout_s: PositiveFloat = 600
    settle_ms: NonNegativeInt = 0
    id_map: IdMap | None = None

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
    wait: WaitBlock | None = None


class VerifyCall(Call):
    """``verify_clear``: asked until the namespace is empty."""

    empty: str | None = None
    ok_status: tuple[int, ...] = ()
    timeout_s: PositiveFloat = 30

    @model_validator(mode="after")
    def _one_test(self) -> Self:
        if (self.empty is None) == (not self.ok_status):
            raise ValueError("needs either empty or ok_status")
        return self


class ValueCall(Call):
    """``count`` or ``version``: one value of the answer."""

    value: str = "$"


class HealthCall(Call):
    """``health``: 503 means not ready yet."""

    value: str | None = None
    ready_timeout_s: PositiveFloat = 60


class ListCall(Call):
    """``list``: hits of a namespace or of one session."""

    response: SearchResponse


class Endpoints(ConfigModel):
    """The calls by what they are for."""

    add: AddCall
    search: SearchCall
    delete: Call | None = None
    update: Call | None = None
    finish: AddCall | None = None
    clear: ClearCall | None = None
    verify_clear: VerifyCall | None = None
    count: ValueCall | None = None
    health: HealthCall | None = None
    version: ValueCall | None = None
    list: ListCall | None = None
