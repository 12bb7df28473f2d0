"""The provider config as one typed model.

Example::

    config = load_provider(Source.read(Path("configs/providers/chroma.yaml")))
    config.endpoints.search.response.contents       # ("$.text",)
    config.sha256                                    # digest of all settings that can change results

Display names, verification, limits, timeouts and prices may change between a run and its resume. All other settings are
part of the identity and must not change.

Environment variables stay unresolved in the identity, so that its digest is the same on every machine.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from bench.canonical import digest
from bench.config.file import ConfigModel, Source
from bench.config.jsontext import Places
from bench.config.provider.calls import Endpoints, NamedCall, SetupCall, WaitBlock
from bench.config.provider.sections import (
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
from bench.config.value_rules import LowerName, map_texts
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
    """Return the settings of a config that can change results, as JSON data."""
    tree = config.model_dump(mode="json", exclude=NOT_IDENTITY, exclude_defaults=True)  # type: ignore[arg-type]
    code = adapter_digest(config)
    return {key: map_texts(value, _cleaned) for key, value in {**tree, **code}.items()}


def adapter_digest(config: ProviderConfig) -> dict[str, object]:
    """Return ``{"adapter_sha256": ...}`` for an adapter in a file next to the config; empty for any other adapter.

    The digest is part of the identity, because the code of the adapter can change results.
    """
    file = (config.adapter or "").partition(":")[0]
    path = config.folder / file
    if not file.endswith(".py") or not path.is_file():
        return {}
    return {"adapter_sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def _cleaned(text: str) -> str:
    return KEY_LIKE.sub(HIDDEN, without_password(text))


class Docker(ConfigModel):
    """A service of a compose file. bench starts the service if nothing responds at its URL."""

    compose: str
    """compose file, relative to this file's folder"""
    service: str
    """name of the service in the compose file"""
    healthcheck: str
    """path or URL of the health check; a 2xx response means that the service is ready"""
    base_url: HttpUrl
    """URL of the service; if a service already answers there, bench starts nothing"""
    health_timeout_s: Annotated[int, Field(ge=1, le=3600)] = 120
    """maximum seconds to wait until the service is ready"""


class Mcp(ConfigModel):
    """An MCP server: a command over stdio, or a URL of the streamable HTTP transport."""

    command: tuple[str, ...] | None = None
    """program and arguments of a stdio server; bench stops the server at the end of the run"""
    env: dict[str, VariableName] = Field(default_factory=dict)
    """variable of the server -> name of the environment variable that holds its value"""
    cwd: str | None = None
    """working directory of the server, relative to this file's folder"""
    url: HttpUrl | None = None
    """URL of a running server; requests to it use auth"""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError('"mcp" needs either "command" or "url"')
        return self


class ProviderConfig(ConfigModel):
    """One memory system: its address, the requests to it, and how its responses are read."""

    api_version: Literal["bench/v1"] = "bench/v1"
    """version of this file format"""
    name: LowerName
    """name that runs use: lower-case letters, digits, dots, dashes and underscores"""
    display_name: str | None = None
    """human-readable name"""
    description: str = ""
    """one sentence"""
    docs: str | None = None
    """URL of the documentation of the memory system"""
    tags: tuple[str, ...] = ()
    """tags for `bench list --tags`"""
    aliases: tuple[str, ...] = ()
    """alternative names"""
    type: Literal["hosted", "local", "docker", "mcp"]
    """hosted: a remote API; local: an adapter in Python; docker: a service that bench starts; mcp: an MCP server"""
    verified: Verified | None = None
    """level, date and version of the last test of this file"""
    determinism: Literal["deterministic", "drifts", "search_mutates", "unknown"] = "unknown"
    """deterministic: equal searches give equal hits; drifts: rankings change over time; search_mutates: a search
    changes the stored memories"""
    connection: Connection = Connection()
    """address and timeouts"""
    auth: tuple[Auth, ...] = ()
    """authentication of requests"""
    scoping: Scoping = Scoping()
    """names of namespaces, and how the service separates them"""
    vars: dict[str, str] = Field(default_factory=dict)
    """texts that templates of this file may use"""
    setup: tuple[SetupCall, ...] = ()
    """calls in order, once per namespace, before the check that the namespace is empty"""
    teardown: tuple[NamedCall, ...] = ()
    """calls in order, once per namespace, after the namespace is cleared"""
    endpoints: Endpoints | None = None
    """calls for add, search, clear and other operations"""
    ingest: IngestSection = IngestSection()
    """unit and batches of memories, and how to continue when the outcome of an add is unknown"""
    wait: WaitBlock | None = None
    """how to wait until added memories can be found"""
    client_embeddings: ClientEmbeddings | None = None
    """embeddings made by bench, for services that store vectors"""
    embeds_with: str | None = None
    """name of the service's embedding model, shown in results. `builtin`: the service embeds with an unknown model"""
    errors: Errors = Errors()
    """statuses and response bodies with a special meaning"""
    limits: LimitsSection = LimitsSection()
    """rates and concurrency"""
    rate_limit: RateLimit = RateLimit()
    """retries and pauses, with the keys of an older file format"""
    capabilities: CapabilitiesConfig = CapabilitiesConfig()
    """features of the service; by default, the endpoints decide whether it can delete, update and list memories"""
    prices: CallPrices = CallPrices()
    """prices of one add call and one search call in USD"""
    docker: Docker | None = None
    """compose file and health check, for type docker"""
    mcp: Mcp | None = None
    """command or address of the MCP server"""
    adapter: str | None = None
    """Python class that is used instead of endpoints: ./file.py:Class, package.module:Class or builtin:NAME"""
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
        """Return the path of the config file; None for a built-in provider."""
        return self._source.path if self._source else None

    @property
    def folder(self) -> Path:
        """Return the folder to which relative paths in the config file refer."""
        return self.path.parent if self.path else Path()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the warnings about the file. ``bench validate`` shows them, but does not fail because of them."""
        return self._warnings

    def place(self, *path: str | int) -> str | None:
        """Return ``file:line:column`` of a key for errors; None for a built-in provider."""
        return self._source.place(path) if self._source else None

    @property
    def places(self) -> Places | None:
        """Return the line and column of each key of the file; None for a built-in provider."""
        return self._source.places if self._source else None

    @property
    def shown_name(self) -> str:
        """Return the display name, or the name if the config has no display name."""
        return self.display_name or self.name

    def at(self, base_url: str) -> ProviderConfig:
        """Return a copy of the config with another base URL of the service."""
        if self.docker is not None and self.type == "docker":
            return self.model_copy(update={"docker": self.docker.model_copy(update={"base_url": base_url})})
        if self.mcp is not None and self.type == "mcp":
            return self.model_copy(update={"mcp": self.mcp.model_copy(update={"url": base_url})})
        return self.model_copy(update={"connection": self.connection.model_copy(update={"base_url": base_url})})

    @property
    def bills(self) -> bool:
        """Return True if calls can cost money: if the service is hosted, or an MCP server at a URL."""
        return self.type == "hosted" or (self.mcp is not None and self.mcp.url is not None)

    @property
    def base_url(self) -> str | None:
        """Return the base URL of the service, with unresolved variables.

        Return None for a server without a URL, such as an MCP server over stdio.
        """
        if self.type == "docker" and self.docker is not None:
            return self.docker.base_url
        return self.mcp.url if self.type == "mcp" and self.mcp is not None else self.connection.base_url

    @cached_property
    def sha256(self) -> str:
        """Return the SHA-256, as hex digits, of all settings that can change requests or the reading of responses."""
        return digest(identity(self))
