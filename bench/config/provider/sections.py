"""The blocks of a provider file other than its calls: connection, auth, scoping, ingest, capabilities.

Each class is one block, and checks its own values. The module also lists the variables and operators of calls.
"""

from __future__ import annotations

import base64
import re
from contextlib import suppress
from datetime import date
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveInt, field_validator, model_validator

from bench.config.file import ConfigModel
from bench.errors import ConfigError
from bench.events import KEY_LIKE, redact, redactor
from bench.patterns import pattern
from bench.settings import VARIABLE, Environment

OPERATIONS = ("add_memory", "retrieve_memory", "delete_memory", "update_memory", "list_memories")

Milliseconds = Annotated[int, Field(gt=0, le=86_400_000)]
"""milliseconds, at most one day"""
Pause = Annotated[int, Field(ge=0, le=3_600_000)]
"""milliseconds, at most one hour"""
Retries = Annotated[int, Field(ge=0, le=100)]
InFlight = Annotated[int, Field(gt=0, le=10_000)]

COMMON_VARIABLES = frozenset(
    {"runTag", "userId", "namespace", "runId", "benchmarkId", "corpusId", "attempt", "runUuid"}
)
"""request variables of every call; ``scoping.strategy: sessionId`` adds ``sessionId``"""

ITEM_VARIABLES = frozenset(
    {"id", "content", "when", "role", "speaker", "sessionId", "messages", "metadata", "embedding", "uuid", "index"}
)
"""fields of one element of ``items``; they are also request variables of a call with a single memory"""

TURN_VARIABLES = frozenset({"content", "role", "speaker", "when"})
"""fields of one element of ``messages``, which is a turn"""

ADD_VARIABLES = frozenset({"items", "batchKey"})
SEARCH_VARIABLES = frozenset({"query", "k", "limit", "queryWhen", "queryEmbedding", "threshold", "includeChunks"})
WAIT_VARIABLES = frozenset({"jobId", "sent"})
CLEAR_VARIABLES = frozenset({"ids", "idChunks"})
SETUP_VARIABLES = frozenset({"dimensions"})
DELETE_VARIABLES = frozenset({"ids", "id"})
LIST_VARIABLES = frozenset({"sessionId"})
EACH_VARIABLE = "each"
"""request variable that holds the current element of ``for_each``"""
CALL_VARIABLES = {
    "add": ADD_VARIABLES | ITEM_VARIABLES,
    "update": ADD_VARIABLES | ITEM_VARIABLES,
    "search": SEARCH_VARIABLES,
    "delete": DELETE_VARIABLES,
    "list": LIST_VARIABLES,
    "clear": CLEAR_VARIABLES,
    "teardown": CLEAR_VARIABLES,
    "verifyclear": CLEAR_VARIABLES,
}
"""endpoint -> its request variables, in addition to the variables that every call has"""
REQUEST_VARIABLES = frozenset({EACH_VARIABLE}).union(
    COMMON_VARIABLES, WAIT_VARIABLES, SETUP_VARIABLES, *CALL_VARIABLES.values()
)
"""all request variables of all calls"""

OPERATORS = ("$each", "$do", "$column", "$omit_if_null", "$literal", "$json", "$lines")

_LONG_TOKEN = pattern(r"(?=[^\s]*[0-9])(?=[^\s]*[A-Za-z])[A-Za-z0-9+/=_\-]{32,}")


def looks_like_key(text: str) -> bool:
    """Return True if ``text`` contains something that looks like a secret key. Parts ``${...}`` are ignored."""
    bare = re.sub(r"\$\{[^}]*\}", "", text)
    return KEY_LIKE.search(bare) is not None or _LONG_TOKEN.search(bare) is not None


def _http_url(text: str) -> str:
    """Return an http(s) URL unchanged; raise ValueError if it is not a URL, or contains credentials.

    For the check, each variable is replaced by its default.
    """
    shown = VARIABLE.sub(lambda match: match.group(2) or "http://variable", text)
    if not shown.startswith(("http://", "https://")):
        raise ValueError("must start with http:// or https://")
    if "@" in urlsplit(shown).netloc:
        raise ValueError('contains credentials: use "auth"')
    return text


def check_address(url: str, where: str | None = None) -> str:
    """Return a base URL without a slash at its end. A URL with unresolved variables is not checked.

    Raises:
        ConfigError: the URL is not an http(s) base URL, or contains a user name or password.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme.lower() in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable, parts = False, urlsplit("")
    if VARIABLE.search(url):
        return url.rstrip("/")
    refuse_user(url, where)
    if not usable or parts.query or parts.fragment or re.search(r"\s", url):
        text = f'"{redact(url)}" is not a base address: expected http(s)://HOST[:PORT][/PATH], without ? and #'
        raise ConfigError(text, where=where, hint="correct the address in the config or in its environment variable")
    return url.rstrip("/")


def refuse_user(url: str, where: str | None = None) -> None:
    """Raise ConfigError if a URL contains a user name or password."""
    with suppress(ValueError):
        parts = urlsplit(url)
        if "@" in parts.netloc:
            text = f"the address of {parts.hostname} contains a user name or password"
            hint = "remove both from the address; the config sets them with auth: {type: basic, user: ..., envVar: ...}"
            raise ConfigError(text, where=where, hint=hint)


def _variable_name(text: str) -> str:
    if not re.fullmatch(r"[A-Z_][A-Z0-9_]{0,63}", text) or looks_like_key(text):
        raise ValueError("must be the NAME of an environment variable, in upper case, and not the API key itself")
    return text


def _header_value(text: str) -> str:
    if looks_like_key(text):
        raise ValueError('looks like an API key: use "auth" with the name of a variable')
    return text


HttpUrl = Annotated[str, AfterValidator(_http_url)]
VariableName = Annotated[str, AfterValidator(_variable_name)]
HeaderValue = Annotated[str, AfterValidator(_header_value)]


class Verified(ConfigModel):
    """The level, date and version of the last test of this file."""

    level: Literal["live", "recorded", "documented"]
    """live: tested with the real service; recorded: with recorded traffic; documented: with a test server that follows
    the service's documentation"""
    date: date
    """date of the test, YYYY-MM-DD"""
    upstream: str = Field(default="bench", min_length=1)
    """version of the service that was tested; `bench` for built-in algorithms"""


class Connection(ConfigModel):
    """The address of the service and the timeouts of its calls."""

    base_url: HttpUrl | None = None
    """http(s) URL to which the paths of calls are appended; required for type hosted; credentials belong in auth"""
    timeout: Milliseconds = 30_000
    """maximum milliseconds of one attempt of a call"""
    connect_timeout: Milliseconds = 10_000
    """maximum milliseconds to connect"""
    max_response_bytes: Annotated[int, Field(ge=1, le=2**30)] = 8 * 1024 * 1024
    """maximum bytes of a response; a larger response is an error"""
    headers: dict[str, HeaderValue] = Field(default_factory=dict)
    """headers of every call; a key belongs in auth"""


class Auth(ConfigModel):
    """The authentication of requests. The file has the name of an environment variable, never the key itself."""

    type: Literal["bearer", "token", "apikey", "basic", "query", "none"]
    """bearer, token: header with a prefix; apikey: header without prefix; basic: user and key; query: URL parameter"""
    header: str | None = None
    """name of the header; default Authorization, and X-API-Key for apikey"""
    prefix: str | None = None
    """text before the key; default "Bearer " for bearer, "Token " for token"""
    env_var: VariableName | None = None
    """environment variable that holds the key; required unless type is none"""
    param: str | None = None
    """type query: URL parameter that holds the key"""
    user: str | None = None
    """type basic: user name"""
    optional: bool = False
    """true: if the variable is not set, no key is sent; false: an unset variable is an error"""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.type != "none" and self.env_var is None:
            raise ValueError(f'auth of type "{self.type}" needs "envVar", the name of the variable with the API key')
        if self.type == "query" and self.param is None:
            raise ValueError('auth of type "query" needs "param", the name of the query parameter')
        if self.type == "basic" and self.user is None:
            raise ValueError('auth of type "basic" needs "user"')
        return self

    def credentials(self, environment: Environment, *, user: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
        """Return (headers, URL parameters) with the key. If the key is optional and not set, they are empty.

        ``user`` is the provider or model that needs the key, for errors.
        """
        if self.type == "none" or self.env_var is None:
            return {}, []
        if self.optional and environment.secret(self.env_var) is None:
            return {}, []
        key = environment.require_key(self.env_var, user=user)
        if self.type == "query":
            return {}, [(self.param or "key", key)]
        if self.type == "basic":
            key = base64.b64encode(f"{environment.resolve(self.user or '')}:{key}".encode()).decode()
            redactor.learn(key)
        default = {"basic": "Basic ", "bearer": "Bearer ", "token": "Token "}.get(self.type, "")
        header = self.header or ("X-API-Key" if self.type == "apikey" else "Authorization")
        return {header: f"{default if self.prefix is None else self.prefix}{key}"}, []


class Sanitize(ConfigModel):
    """The allowed characters and length of a namespace. The hash at the end of a namespace is never changed."""

    allowed: str = "A-Za-z0-9._-"
    """allowed characters, as inside the brackets of a regular expression"""
    replace: str = "-"
    """replacement for a character that is not allowed"""
    max_length: int = Field(default=64, ge=24)
    """maximum characters of the whole namespace; its readable part is cut to fit"""
    lowercase: bool = False
    """true: convert to lower case"""

    @field_validator("allowed")
    @classmethod
    def _is_class(cls, value: str) -> str:
        try:
            re.compile(f"[{value}]")
        except re.error as error:
            raise ValueError(f"is not a character class: {error}") from error
        return value


class Scoping(ConfigModel):
    """The names of namespaces, and how the service separates them."""

    strategy: Literal["containerTags", "userId", "sessionId", "custom", "single"] = "custom"
    """how the service separates namespaces. sessionId: $.sessionId is the namespace; single: there is only one
    namespace; the other values have no effect"""
    run_id_format: str = "bench-${benchmarkId}-${runId}"
    """template of the readable part of a namespace, with the names benchmarkId, runId, corpusId and attempt; a hash
    follows this part"""
    sanitize: Sanitize = Sanitize()
    """allowed characters and length"""

    @property
    def single(self) -> bool:
        """Return True if the service has only one namespace, so it can hold only one corpus at a time."""
        return self.strategy == "single"

    @field_validator("run_id_format")
    @classmethod
    def _known_names(cls, value: str) -> str:
        for name in re.findall(r"(?<!\$)\$\{([^}]*)\}", value):
            if name not in {"benchmarkId", "runId", "corpusId", "attempt"}:
                raise ValueError(f'unknown variable "{name}"; known: benchmarkId, runId, corpusId, attempt')
        return value


class Chunk(ConfigModel):
    """The size and overlap of chunks in tokens, for ``unit: chunk``."""

    size: PositiveInt
    """size of a chunk in tokens"""
    overlap: NonNegativeInt = 0
    """number of tokens that a chunk shares with the next chunk"""


class Batch(ConfigModel):
    """Limits of one add call."""

    max_items: PositiveInt = 1
    """maximum memories per add call"""
    max_bytes: PositiveInt | None = None
    """maximum bytes of the memories' text per add call; unset: unlimited"""
    max_chars: PositiveInt | None = None
    """maximum characters of the memories' text per add call; unset: unlimited"""


class Split(ConfigModel):
    """The split of a long memory into pieces with the ids ``ID#0``, ``ID#1`` and so on."""

    max_chars: PositiveInt
    """maximum characters of a piece; memories are cut at the end of a paragraph, sentence or word"""
    overlap: NonNegativeInt = 0
    """number of characters that a piece shares with the next piece"""

    @model_validator(mode="after")
    def _moves_on(self) -> Self:
        if self.overlap >= self.max_chars:
            raise ValueError('"overlap" must be smaller than "max_chars"')
        return self


class IngestSection(ConfigModel):
    """The unit of one memory, and how memories are sent."""

    unit: Literal["benchmark", "turn", "session", "corpus", "chunk"] = "benchmark"
    """unit of one memory; benchmark: the unit that the benchmark sets"""
    chunk: Chunk | None = None
    """size of a chunk, for unit chunk"""
    text: str | None = None
    """text of a turn. plain: only the content; speaker: with the speaker; dated: with speaker and date; or a template
    with ${speaker}, ${when} and ${content}; unset: as the benchmark sets it"""
    timestamp: Literal["iso", "date", "unix", "unix_ms", "omit"] = "iso"
    """format of $.when in UTC. iso: ISO 8601; date: only the date; unix, unix_ms: seconds or milliseconds since 1970;
    omit: null"""
    batch: Batch = Batch()
    """limits of one add call"""
    split: Split | None = None
    """how memories that are too long for the service are split"""
    order: Literal["serial", "parallel"] = "serial"
    """serial: the add calls of a namespace are sent one after the other; parallel: several are sent at the same time"""
    on_unknown: Literal["repeat", "probe", "reset"] = "reset"
    """what to do if it is unknown whether an add was stored. repeat: send the add again; probe: check by a count or
    search; reset: repeat if the add is idempotent, otherwise probe"""

    @field_validator("text")
    @classmethod
    def _known_names(cls, value: str | None) -> str | None:
        if value is None or value in {"plain", "speaker", "dated"}:
            return value
        names = re.findall(r"(?<!\$)\$\{([^}|]*)[^}]*\}", value)
        if not names:
            raise ValueError(
                'must be "plain", "speaker", "dated", or a template with ${speaker}, ${when} or ${content}'
            )
        for name in names:
            if name not in {"speaker", "when", "content"}:
                raise ValueError(f'unknown name "{name}"; known: speaker, when, content')
        return value

    @model_validator(mode="after")
    def _chunk_has_size(self) -> Self:
        if self.unit == "chunk" and self.chunk is None:
            raise ValueError('unit "chunk" also needs the key "chunk", for example chunk: {size: 1000}')
        return self


class ClientEmbeddings(ConfigModel):
    """Embeddings made by bench for a service that stores vectors."""

    model: str
    """full model name, VENDOR/MODEL; --embedding-model takes precedence"""
    dimensions: PositiveInt | None = None
    """length of the vectors; another length is an error. Unset: the length that the model returns"""
    batch: PositiveInt = 64
    """number of texts per embedding request"""
    normalize: bool = False
    """true: scale vectors to length 1"""
    query_prefix: str = ""
    """text that is put before each query"""
    document_prefix: str = ""
    """text that is put before the text of each memory"""


class CapabilitiesConfig(ConfigModel):
    """The features of the service. A benchmark that requires a missing operation is skipped."""

    supports_chunks: bool = False
    """hits contain the chunks that matched"""
    supports_batch: bool = False
    """an add call can contain several memories"""
    supports_metadata: bool = False
    """the service stores metadata of memories"""
    supports_rerank: bool = False
    """the service reranks hits"""
    ids: bool = True
    """hits can be mapped to memories; false: no retrieval metrics"""
    timestamps: bool = True
    """memories keep their dates"""
    scores: bool = True
    """hits have scores"""
    clear: bool = True
    """a namespace can be cleared"""
    delete_memory: bool | None = None
    """single memories can be deleted; unset: true if endpoints.delete exists"""
    update_memory: bool | None = None
    """a memory can be replaced; unset: true if endpoints.update exists"""
    list_memories: bool | None = None
    """memories can be listed; unset: true if endpoints.list exists"""
    metadata_values: Literal["any", "flat", "strings", "none"] = "flat"
    """metadata that is sent. any: all; flat: texts, numbers and booleans; strings: texts, numbers and booleans, each
    sent as text; none: only bench_id"""
    max_k: PositiveInt | None = None
    """maximum hits of a search; a larger k is reduced to this number, and the result is flagged"""
    max_query_chars: PositiveInt | None = None
    """maximum characters of a query; a longer question is cut at the end of a word, and the result is flagged"""
    max_tokens: PositiveInt | None = None
    """token limit that the API of a search takes instead of a number of hits. ``bench`` keeps the first k hits"""

    def declared(self) -> frozenset[str]:
        """Return the names of the optional operations that the file declares as supported."""
        return frozenset(name for name in OPERATIONS if getattr(self, name, None))
