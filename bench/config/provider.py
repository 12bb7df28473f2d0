"""The provider config as one model; every error has the place of its key.

Also in this module:

* The identity of a provider file: all settings that can change requests or the reading of responses.
* The services that bench starts for a provider: of a compose file, or an MCP server.

Example::

    config = load_provider(Source.read(Path("configs/providers/chroma.yaml")))
    config.endpoints.search.response.contents       # ("$.text",)
    config.sha256                                    # identity, without secrets and with the environment unresolved

The blocks around the calls are in ``provider_sections`` and ``traffic``, the calls and their responses in
``provider_calls``, the body templates in ``provider_body``, and checks of several blocks in ``provider_checks``. This
module uses no network and reads no secret.

Names for people, verification, limits, timeouts and prices may change between a run and its resume; all other settings
may not. Variables stay unresolved, so that the digest is the same on every machine and contains no secret.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from bench.canonical import digest as canonical_digest
from bench.config.file import ConfigModel, Source
from bench.config.jsontext import Places
from bench.config.provider_calls import Endpoints, NamedCall, SetupCall, WaitBlock
from bench.config.provider_sections import (
    Auth,
    CapabilitiesConfig,
    ClientEmbeddings,
    Connection,
    HttpUrl,
    IngestSection,
    Scoping,
    VariableName,
    Verified,
)
from bench.config.traffic import CallPrices, Errors, LimitsSection, RateLimit
from bench.config.value_rules import LowerName, each_text
from bench.redaction import HIDDEN, KEY_LIKE
from bench.settings import without_password

__all__ = ["ProviderConfig"]


CALL = {"timeout": True, "steps": {"__all__": {"timeout"}}}
NOT_IDENTITY = {
    "display_name": True,
    "description": True,
    "docs": True,
    "tags": True,
    "aliases": True,
    "verified": True,
    "embeds_with": True,
    "limits": True,
    "rate_limit": True,
    "prices": True,
    "connection": {"timeout", "connect_timeout"},
    "endpoints": dict.fromkeys(Endpoints.model_fields, CALL),
    "setup": {"__all__": {"timeout"}},
    "teardown": {"__all__": {"timeout"}},
    "wait": {"request": {"timeout"}},
}


def identity(config: ProviderConfig) -> dict[str, object]:
    """Return the part of a config that can change results, as a JSON tree."""
    tree = config.model_dump(mode="json", exclude=NOT_IDENTITY, exclude_defaults=True)  # type: ignore[arg-type]
    code = adapter_digest(config)
    return {key: each_text(value, _cleaned) for key, value in {**tree, **code}.items()}


def digest(config: ProviderConfig) -> str:
    """Return the SHA-256 of the canonical form of :func:`identity`."""
    return canonical_digest(identity(config))


def adapter_digest(config: ProviderConfig) -> dict[str, object]:
    """Return the digest of an adapter file next to the config, since its code is part of the measurement."""
    file = (config.adapter or "").partition(":")[0]
    path = config.folder / file
    if not file.endswith(".py") or not path.is_file():
        return {}
    return {"adapter_sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def _cleaned(text: str) -> str:
    return KEY_LIKE.sub(HIDDEN, without_password(text))


class Docker(ConfigModel):
    """A service of a compose file that is started when its address does not answer."""

    compose: str
    """compose file, relative to this file's folder"""
    service: str
    """name of the service in the compose file"""
    healthcheck: str
    """path or URL; a 2xx response means that the service is ready"""
    base_url: HttpUrl
    """URL of the service; when it already answers, nothing is started"""
    health_timeout_s: Annotated[int, Field(ge=1, le=3600)] = 120
    """maximum seconds until the service is ready"""


class Mcp(ConfigModel):
    """An MCP server: a command over stdio, or a URL of the streamable HTTP transport."""

    command: tuple[str, ...] | None = None
    """program and arguments of a stdio server; it is stopped at the end of the run"""
    env: dict[str, VariableName] = Field(default_factory=dict)
    """variable of the server -> name of the environment variable with its value"""
    cwd: str | None = None
    """working directory of the server, relative to this file's folder"""
    url: HttpUrl | None = None
    """URL of a running server; auth applies"""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("mcp needs either command or url")
        return self


class ProviderConfig(ConfigModel):
    """One memory system: its address, the requests to send, and how to read the responses."""

    api_version: Literal["bench/v1"] = "bench/v1"
    """version of this dialect"""
    name: LowerName
    """lower case, digits, dots, dashes and underscores; runs use this name"""
    display_name: str | None = None
    """human-readable name"""
    description: str = ""
    """one sentence"""
    docs: str | None = None
    """URL of its documentation"""
    tags: tuple[str, ...] = ()
    """tags for bench list --tags"""
    aliases: tuple[str, ...] = ()
    """alternative names"""
    type: Literal["hosted", "local", "docker", "mcp"]
    """hosted: a remote API; local: on this machine or in this process; docker: started by bench; mcp: an MCP server"""
    verified: Verified | None = None
    """level, date and version of the test of this file"""
    determinism: Literal["deterministic", "drifts", "search_mutates", "unknown"] = "unknown"
    """drifts: rankings change over time; search_mutates: a search changes the stored memories"""
    connection: Connection = Connection()
    """address and timeouts"""
    auth: tuple[Auth, ...] = ()
    """authentication of requests"""
    scoping: Scoping = Scoping()
    """how namespaces are named and sent"""
    vars: dict[str, str] = Field(default_factory=dict)
    """texts that templates of this file may use"""
    setup: tuple[SetupCall, ...] = ()
    """calls in order, once per namespace, before the check that it is empty"""
    teardown: tuple[NamedCall, ...] = ()
    """calls in order, once per namespace, after it is cleared"""
    endpoints: Endpoints | None = None
    """calls for add, search, clear and other operations"""
    ingest: IngestSection = IngestSection()
    """unit and batches of memories, and how to continue when the outcome of an add is unknown"""
    wait: WaitBlock | None = None
    """check that added memories can be found"""
    client_embeddings: ClientEmbeddings | None = None
    """embeddings made by bench, for services that store vectors"""
    embeds_with: str | None = None
    """embedding model of the service, as results name it; builtin: it embeds with an unknown model"""
    errors: Errors = Errors()
    """statuses and response bodies with a special meaning"""
    limits: LimitsSection = LimitsSection()
    """rates and concurrency"""
    rate_limit: RateLimit = RateLimit()
    """retries and pauses, with the keys of older files"""
    capabilities: CapabilitiesConfig = CapabilitiesConfig()
    """features of the service; by default derived from the endpoints"""
    prices: CallPrices = CallPrices()
    """price of one call in USD"""
    docker: Docker | None = None
    """compose file and health check, for type docker"""
    mcp: Mcp | None = None
    """command or address of the MCP server"""
    adapter: str | None = None
    """Python class used instead of endpoints: ./file.py:Class or an entry point"""
    local: dict[str, object] = Field(default_factory=dict)
    """options of the adapter"""
    _source: Source | None = PrivateAttr(default=None)
    _warnings: tuple[str, ...] = PrivateAttr(default=())

    @field_validator("auth", mode="before")
    @classmethod
    def _as_list(cls, value: object) -> object:
        return [value] if isinstance(value, dict) else value

    @model_validator(mode="before")
    @classmethod
    def _own_embedding(cls, tree: object) -> object:
        """Convert ``local.embedding {provider, model, dimensions}`` of older files to ``client_embeddings``."""
        if not isinstance(tree, dict) or {"client_embeddings", "clientEmbeddings"} & tree.keys():
            return tree
        local = tree.get("local")
        own = local.get("embedding") if isinstance(local, dict) else None
        if not isinstance(own, dict) or "model" not in own:
            return tree
        prefix = f"{own['provider']}/" if own.get("provider") else ""
        size = {"dimensions": own["dimensions"]} if own.get("dimensions") else {}
        return {**tree, "client_embeddings": {"model": f"{prefix}{own['model']}", **size}}

    @property
    def path(self) -> Path | None:
        """Return the path of the file; None for a built-in provider."""
        return self._source.path if self._source else None

    @property
    def folder(self) -> Path:
        """Return the folder that relative paths of the file refer to."""
        return self.path.parent if self.path else Path()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the warnings, which ``bench validate`` shows without failing."""
        return self._warnings

    def place(self, *path: str | int) -> str | None:
        """Return ``file:line:column`` of a key, for errors that occur when the provider is opened."""
        return self._source.place(path) if self._source else None

    @property
    def places(self) -> Places | None:
        """Return the place of each key of the file."""
        return self._source.places if self._source else None

    @property
    def shown_name(self) -> str:
        """Return the human-readable name."""
        return self.display_name or self.name

    def at(self, base_url: str) -> ProviderConfig:
        """Return a copy of the config with another address."""
        if self.docker is not None and self.type == "docker":
            return self.model_copy(update={"docker": self.docker.model_copy(update={"base_url": base_url})})
        if self.mcp is not None and self.type == "mcp":
            return self.model_copy(update={"mcp": self.mcp.model_copy(update={"url": base_url})})
        return self.model_copy(update={"connection": self.connection.model_copy(update={"base_url": base_url})})

    @property
    def bills(self) -> bool:
        """Return True when the service is remote, so that its calls may cost money."""
        return self.type == "hosted" or (self.mcp is not None and self.mcp.url is not None)

    @property
    def base_url(self) -> str | None:
        """Return the service's address with unresolved variables; None without an address, as for a stdio server."""
        if self.type == "docker" and self.docker is not None:
            return self.docker.base_url
        return self.mcp.url if self.type == "mcp" and self.mcp is not None else self.connection.base_url

    @cached_property
    def sha256(self) -> str:
        """Return the digest of all settings that can change requests or the reading of responses."""
        return digest(self)
