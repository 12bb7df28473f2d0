"""The blocks of a provider file around its calls: connection, auth, scoping, ingest, capabilities.

Here too:

* The words of the dialect: operations, request variables of each call, operators of body trees.

Each class is one block; each field is one row of the reference in docs/add-a-provider.md. What one block can say
about itself is checked here, what needs a second block is checked in :mod:`bench.config.provider`.

Every name a file may use is here once; checks and interpreter read the same tables.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveInt, field_validator, model_validator

from bench.config.file import ConfigModel
from bench.errors import ConfigError
from bench.events import KEY_LIKE, redact
from bench.patterns import pattern
from bench.settings import VARIABLE

OPERATIONS = ("add_memory", "retrieve_memory", "delete_memory", "update_memory", "list_memories")

Milliseconds = Annotated[int, Field(gt=0, le=86_400_000)]
"""up to a day"""
Pause = Annotated[int, Field(ge=0, le=3_600_000)]
"""milliseconds, up to an hour"""
Retries = Annotated[int, Field(ge=0, le=100)]
InFlight = Annotated[int, Field(gt=0, le=10_000)]

EVERYWHERE = frozenset({"runTag", "userId", "namespace", "runId", "benchmarkId", "corpusId", "attempt", "runUuid"})
"""request variables of every call; with ``strategy: sessionId`` also ``sessionId``"""

ELEMENT = frozenset(
    {"id", "content", "when", "role", "speaker", "sessionId", "messages", "metadata", "embedding", "uuid", "index"}
)
"""fields of one element of ``items``; at the root too when a call carries one memory"""

MESSAGE = frozenset({"content", "role", "speaker", "when"})
"""fields of one turn inside ``messages``"""

ADD = frozenset({"items", "batchKey"})
SEARCH = frozenset({"query", "k", "limit", "queryWhen", "queryEmbedding", "threshold", "includeChunks"})
WAIT = frozenset({"jobId", "sent"})
CLEAR = frozenset({"ids", "idChunks"})
SETUP = frozenset({"dimensions"})
DELETE = frozenset({"ids", "id"})
LIST = frozenset({"sessionId"})
EACH = "each"
"""the element of ``for_each``"""

OPERATORS = ("$each", "$do", "$column", "$omit_if_null", "$literal", "$json", "$lines")

_LONG_TOKEN = pattern(r"(?=[^\s]*[0-9])(?=[^\s]*[A-Za-z])[A-Za-z0-9+/=_\-]{32,}")


def looks_like_key(text: str) -> bool:
    """Say whether ``text`` holds something that is shaped like a secret."""
    bare = re.sub(r"\$\{[^}]*\}", "", text)
    return KEY_LIKE.search(bare) is not None or _LONG_TOKEN.search(bare) is not None


def _http_url(text: str) -> str:
    """Accept http(s) URLs without credentials; a variable is judged by its default."""
    shown = VARIABLE.sub(lambda match: match.group(2) or "http://variable", text)
    if not shown.startswith(("http://", "https://")):
        raise ValueError("must start with http:// or https://")
    if "@" in urlsplit(shown).netloc:
        raise ValueError("holds credentials; use auth")
    return text


def checked_address(url: str, where: str | None = None) -> str:
    """Return a base address whose variables are filled in, or not yet in a rehearsal, without a slash at its end.

    Raises:
        ConfigError: no request can be made of it.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme.lower() in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable, parts = False, urlsplit("")
    if VARIABLE.search(url):
        return url.rstrip("/")
    if not usable or parts.query or parts.fragment or re.search(r"\s", url):
        text = f'"{redact(url)}" is not a base address: expected http(s)://HOST[:PORT][/PATH], without ? and #'
        raise ConfigError(text, where=where, hint="correct the config, or the variable that it takes the address from")
    return url.rstrip("/")


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
    """live: tested on the real thing; recorded: on captured traffic; documented: on its documentation"""
    date: date
    """day of that test, YYYY-MM-DD"""
    upstream: str = Field(default="bench", min_length=1)
    """version it was tested with; bench for algorithms of our own"""


class Connection(ConfigModel):
    """Where the service is and how long an attempt may take."""

    base_url: HttpUrl | None = None
    """http(s) address that paths are added to; required for hosted; credentials belong into auth"""
    timeout: Milliseconds = 30_000
    """milliseconds an attempt may take"""
    connect_timeout: Milliseconds = 10_000
    """milliseconds until the connection is"""
    max_response_bytes: Annotated[int, Field(ge=1, le=2**30)] = 8 * 1024 * 1024
    """a larger answer is an error; 8 MiB"""
    headers: dict[str, HeaderValue] = Field(default_factory=dict)
    """sent with every call; a key belongs into auth"""


class Auth(ConfigModel):
    """How the key travels; the key itself is only ever named."""

    type: Literal["bearer", "token", "apikey", "basic", "query", "none"]
    """bearer and token: a prefixed header; apikey: a bare one; basic: user and key; query: a URL parameter"""
    header: str | None = None
    """its name; default Authorization, for apikey X-API-Key"""
    prefix: str | None = None
    """text before the key; default "Bearer " for bearer, "Token " for token"""
    env_var: VariableName | None = None
    """name of the environment variable that holds the key; required unless none"""
    param: str | None = None
    """URL parameter that carries the key, for query"""
    user: str | None = None
    """user name, for basic"""
    optional: bool = False
    """send nothing while the variable is unset, in place of an error"""

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
    """characters that stay, as inside the brackets of a regular expression"""
    replace: str = "-"
    """what replaces any other"""
    max_length: int = Field(default=64, ge=24)
    """characters of the whole name; the readable part is cut"""
    lowercase: bool = False
    """no capitals"""

    @field_validator("allowed")
    @classmethod
    def _is_class(cls, value: str) -> str:
        try:
            re.compile(f"[{value}]")
        except re.error as error:
            raise ValueError(f"is not a character class: {error}") from error
        return value


class Scoping(ConfigModel):
    """How a namespace is named."""

    strategy: Literal["containerTags", "userId", "sessionId", "custom", "single"] = "custom"
    """how the service tells users apart; sessionId: calls have $.sessionId; single: it has one namespace for all"""
    run_id_format: str = "bench-${benchmarkId}-${runId}"
    """readable part of a namespace, of benchmarkId, runId, corpusId and attempt; a hash follows"""
    sanitize: Sanitize = Sanitize()
    """which characters it may hold, and how many"""

    @property
    def single(self) -> bool:
        """The service has one namespace: it takes one corpus at a time."""
        return self.strategy == "single"

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
    """tokens of a chunk"""
    overlap: NonNegativeInt = 0
    """tokens that the next chunk repeats"""


class Batch(ConfigModel):
    """How much one add call carries."""

    max_items: PositiveInt = 1
    """memories an add carries"""
    max_bytes: PositiveInt | None = None
    """of the memories' text in one add; None = no bound"""
    max_chars: PositiveInt | None = None
    """of the memories' text in one add; None = no bound"""


class Split(ConfigModel):
    """When a memory is sent as pieces ``ID#0``, ``ID#1``."""

    max_chars: PositiveInt
    """of a piece; cut at a paragraph, sentence or word"""
    overlap: NonNegativeInt = 0
    """characters that the next piece repeats"""

    @model_validator(mode="after")
    def _moves_on(self) -> Self:
        if self.overlap >= self.max_chars:
            raise ValueError("overlap must be smaller than max_chars")
        return self


class IngestSection(ConfigModel):
    """What one memory is and how it is sent."""

    unit: Literal["benchmark", "turn", "session", "corpus", "chunk"] = "benchmark"
    """what one memory is; benchmark: as the benchmark states"""
    chunk: Chunk | None = None
    """size of a memory, for unit chunk"""
    text: str | None = None
    """plain, speaker, dated or a template of speaker, when and content; unset: the benchmark's text"""
    timestamp: Literal["iso", "date", "unix", "unix_ms", "omit"] = "iso"
    """how $.when is written: ISO 8601, its date, seconds or milliseconds since 1970, or not at all; UTC"""
    batch: Batch = Batch()
    """how much one add carries"""
    split: Split | None = None
    """cuts memories that are too long for the service"""
    order: Literal["serial", "parallel"] = "serial"
    """of the adds of one namespace: one after the other, or several at once"""
    on_unknown: Literal["repeat", "probe", "reset"] = "reset"
    """after a crash amid an add: repeat it, probe whether it was stored, or reset the namespace"""

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
    """VENDOR/MODEL; --embedding-model wins"""
    dimensions: PositiveInt | None = None
    """length of a vector; another one is an error. None = as the model gives it"""
    batch: PositiveInt = 64
    """texts a request"""
    normalize: bool = False
    """scale vectors to length 1"""
    query_prefix: str = ""
    """put before a query"""
    document_prefix: str = ""
    """put before a memory's text"""


class CapabilitiesConfig(ConfigModel):
    """What the service can do; shown, and gates benchmarks that require it."""

    supports_chunks: bool = False
    """hits carry the chunks they were found by"""
    supports_batch: bool = False
    """an add takes several memories"""
    supports_metadata: bool = False
    """memories keep metadata"""
    supports_rerank: bool = False
    """the service reorders hits by itself"""
    ids: bool = True
    """hits lead back to memories; false: no retrieval metrics"""
    timestamps: bool = True
    """memories keep their date"""
    scores: bool = True
    """hits carry scores"""
    clear: bool = True
    """a namespace can be emptied"""
    delete_memory: bool | None = None
    """single memories can be deleted; unset: when endpoints.delete is there"""
    update_memory: bool | None = None
    """a memory can be replaced; unset: when endpoints.update is there"""
    list_memories: bool | None = None
    """memories can be listed; unset: when endpoints.list is there"""
    metadata_values: Literal["any", "flat", "strings", "none"] = "flat"
    """what metadata may hold: anything, no nesting, texts only, or nothing; the rest is dropped"""
    max_k: PositiveInt | None = None
    """the most hits a search gives; a larger k is sent as this and flagged"""
    max_query_chars: PositiveInt | None = None
    """the most characters a search takes; a longer question is cut at a word and flagged"""
    max_tokens: PositiveInt | None = None
    """a search is bounded by tokens and takes no k; hits are cut to k here"""

    def declared(self) -> frozenset[str]:
        """Optional operations that the file claims."""
        return frozenset(name for name in OPERATIONS if getattr(self, name, None))
