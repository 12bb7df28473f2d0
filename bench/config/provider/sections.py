"""The blocks of a provider file around its calls: connection, auth, scoping, ingest, capabilities.

Each class is one block; each field is one row of the reference in docs/add-a-provider.md. What one block can say
about itself is checked here, what needs a second block is checked in :mod:`bench.config.provider`.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveInt, field_validator, model_validator

from bench.config.provider.terms import OPERATIONS, looks_like_key
from bench.config.source import ConfigModel

VARIABLE = re.compile(r"\$\{[A-Z][A-Z0-9_]*(?::-([^}]*))?\}")


def _http_url(text: str) -> str:
    """Accept http(s) URLs without credentials; a variable is judged by its default."""
    shown = VARIABLE.sub(lambda match: match.group(1) or "http://variable", text)
    if not shown.startswith(("http://", "https://")):
        raise ValueError("must start with http:// or https://")
    if "@" in urlsplit(shown).netloc:
        raise ValueError("holds credentials; use auth")
    return text


def _variable_name(text: str) -> str:
    if not re.fullmatch(r"[A-Z_][A-Z0-9_]{0,63}", text) or looks_like_key(text):
        raise ValueError("must be the NAME of an environment variable in upper case, never the key itself")
    return text


def _header_value(text: str) -> str:
    if looks_like_key(text):
        raise ValueError("looks like a key; use auth with the name of a variable")
    return text


HttpUrl = Annotated[str, AfterValidator(_http_url)]
VariableName = Annotated[str, AfterValidator(_variable_name)]
HeaderValue = Annotated[str, AfterValidator(_header_value)]


class Verified(ConfigModel):
    """What the claim that this file works rests on."""

    level: Literal["live", "recorded", "documented"]
    date: date
    upstream: str = Field(default="bench", min_length=1)


class Connection(ConfigModel):
    """Where the service is and how long an attempt may take."""

    base_url: HttpUrl | None = None
    timeout: PositiveInt = 30_000
    connect_timeout: PositiveInt = 10_000
    max_response_bytes: PositiveInt = 8 * 1024 * 1024
    headers: dict[str, HeaderValue] = Field(default_factory=dict)


class Auth(ConfigModel):
    """How the key travels; the key itself is only ever named."""

    type: Literal["bearer", "token", "apikey", "basic", "query", "none"]
    header: str | None = None
    prefix: str | None = None
    env_var: VariableName | None = None
    param: str | None = None
    user: str | None = None
    optional: bool = False

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.type != "none" and self.env_var is None:
            raise ValueError(f"auth of type {self.type} needs envVar, the name of the variable with the key")
        if self.type == "query" and self.param is None:
            raise ValueError("auth of type query needs param, the name of the query parameter")
        if self.type == "basic" and self.user is None:
            raise ValueError("auth of type basic needs user")
        return self


class Sanitize(ConfigModel):
    """What the readable part of a namespace may hold; the hash of 16 characters is never cut."""

    allowed: str = "A-Za-z0-9._-"
    replace: str = "-"
    max_length: int = Field(default=64, ge=24)
    lowercase: bool = False

    @field_validator("allowed")
    @classmethod
    def _is_class(cls, value: str) -> str:
        try:
            re.compile(f"[{value}]")
        except re.error as error:
            raise ValueError(f"is no character class: {error}") from error
        return value


class Scoping(ConfigModel):
    """How a namespace is named."""

    strategy: Literal["containerTags", "userId", "sessionId", "custom"] = "custom"
    run_id_format: str = "bench-${benchmarkId}-${runId}"
    sanitize: Sanitize = Sanitize()

    @field_validator("run_id_format")
    @classmethod
    def _known_names(cls, value: str) -> str:
        for name in re.findall(r"(?<!\$)\$\{([^}]*)\}", value):
            if name not in {"benchmarkId", "runId", "corpusId", "attempt"}:
                raise ValueError(f'unknown variable "{name}"; known: benchmarkId, runId, corpusId, attempt')
        return value


class Chunk(ConfigModel):
    """Size and overlap in tokens of ``unit: chunk``."""

    size: PositiveInt
    overlap: NonNegativeInt = 0


class Batch(ConfigModel):
    """How much one add call carries."""

    max_items: PositiveInt = 1
    max_bytes: PositiveInt | None = None
    max_chars: PositiveInt | None = None


class Split(ConfigModel):
    """When a memory is sent as pieces ``ID#0``, ``ID#1``."""

    max_chars: PositiveInt
    overlap: NonNegativeInt = 0

    @model_validator(mode="after")
    def _moves_on(self) -> Self:
        if self.overlap >= self.max_chars:
            raise ValueError("overlap must be smaller than max_chars")
        return self


class Ingest(ConfigModel):
    """What one memory is and how it is sent."""

    unit: Literal["benchmark", "turn", "session", "corpus", "chunk"] = "benchmark"
    chunk: Chunk | None = None
    text: str | None = None
    timestamp: Literal["iso", "date", "unix", "unix_ms", "omit"] = "iso"
    batch: Batch = Batch()
    split: Split | None = None
    order: Literal["serial", "parallel"] = "serial"
    on_unknown: Literal["repeat", "probe", "reset"] = "reset"

    @field_validator("text")
    @classmethod
    def _known_names(cls, value: str | None) -> str | None:
        if value is None or value in {"plain", "speaker", "dated"}:
            return value
        names = re.findall(r"(?<!\$)\$\{([^}|]*)[^}]*\}", value)
        if not names:
            raise ValueError("must be plain, speaker, dated, or a template of ${speaker} ${when} ${content}")
        for name in names:
            if name not in {"speaker", "when", "content"}:
                raise ValueError(f'unknown name "{name}"; known: speaker, when, content')
        return value

    @model_validator(mode="after")
    def _chunk_has_size(self) -> Self:
        if self.unit == "chunk" and self.chunk is None:
            raise ValueError("unit chunk needs chunk: {size, overlap}")
        return self


class ClientEmbeddings(ConfigModel):
    """The embeddings that we make for a service that makes none."""

    model: str
    dimensions: PositiveInt | None = None
    batch: PositiveInt = 64
    normalize: bool = False
    query_prefix: str = ""
    document_prefix: str = ""


class CapabilitiesConfig(ConfigModel):
    """What the service can do; shown, and gates benchmarks that require it."""

    supports_chunks: bool = False
    supports_batch: bool = False
    supports_metadata: bool = False
    supports_rerank: bool = False
    ids: bool = True
    timestamps: bool = True
    scores: bool = True
    clear: bool = True
    delete_memory: bool | None = None
    update_memory: bool | None = None
    list_memories: bool | None = None
    metadata_values: Literal["any", "flat", "strings", "none"] = "flat"
    max_k: PositiveInt | None = None
    max_tokens: PositiveInt | None = None

    def declared(self) -> frozenset[str]:
        """Optional operations that the file claims."""
        return frozenset(name for name in OPERATIONS if getattr(self, name, None))


class Docker(ConfigModel):
    """A service of a compose file that is started when nothing answers."""

    compose: str
    service: str
    healthcheck: str
    base_url: HttpUrl
    health_timeout_s: PositiveInt = 120


class Mcp(ConfigModel):
    """An MCP server: a command over stdio or a URL of the streamable transport."""

    command: tuple[str, ...] | None = None
    env: dict[str, VariableName] = Field(default_factory=dict)
    cwd: str | None = None
    url: HttpUrl | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("mcp needs either command or url")
        return self
