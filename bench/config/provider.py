"""The provider config as a value: every key of the dialect, every error with its place.

Here too:

* What of a provider file is identity: everything that can change what is asked or how answers are read.
* What is started for a provider: a service of a compose file, or an MCP server.

Example::

    config = load_provider(Source.read(Path("configs/providers/chroma.yaml")))
    config.endpoints.search.response.contents       # ("$.text",)
    config.sha256                                    # identity, without secrets and with the environment unresolved

``provider_sections`` and ``traffic`` hold the blocks around the calls, ``provider_calls`` the calls and how answers are
read, ``provider_body`` the body templates, ``provider_checks`` what needs more than one block. Nothing here touches the
network or reads a secret.

Names for people, proof of verification, limits, time-outs and prices may change between a run and its resume;
the rest may not. Variables stay unresolved, so the digest is the same on every machine and holds no secret.
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
    """The result-affecting part of a config as a JSON tree."""
    tree = config.model_dump(mode="json", exclude=NOT_IDENTITY, exclude_defaults=True)  # type: ignore[arg-type]
    code = adapter_digest(config)
    return {key: each_text(value, _cleaned) for key, value in {**tree, **code}.items()}


def digest(config: ProviderConfig) -> str:
    """sha256 of the canonical form of :func:`identity`."""
    return canonical_digest(identity(config))


def adapter_digest(config: ProviderConfig) -> dict[str, object]:
    """The code of an adapter file beside the config is part of what is measured."""
    file = (config.adapter or "").partition(":")[0]
    path = config.folder / file
    if not file.endswith(".py") or not path.is_file():
        return {}
    return {"adapter_sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def _cleaned(text: str) -> str:
    return KEY_LIKE.sub(HIDDEN, without_password(text))


class Docker(ConfigModel):
    """A service of a compose file that is started when nothing answers."""

    compose: str
    """compose file, from this file's folder"""
    service: str
    """name of the service in it"""
    healthcheck: str
    """path or URL; a 2xx states it is up"""
    base_url: HttpUrl
    """where it answers; if it does already, nothing is started"""
    health_timeout_s: Annotated[int, Field(ge=1, le=3600)] = 120
    """seconds it may take to come up"""


class Mcp(ConfigModel):
    """An MCP server: a command over stdio or a URL of the streamable transport."""

    command: tuple[str, ...] | None = None
    """program and arguments of a server over stdio; ended with the run"""
    env: dict[str, VariableName] = Field(default_factory=dict)
    """variable of the server -> environment variable that holds its value"""
    cwd: str | None = None
    """its working folder, from this file's folder"""
    url: HttpUrl | None = None
    """address of a server that runs; auth applies"""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("mcp needs either command or url")
        return self


class ProviderConfig(ConfigModel):
    """One memory system: what it is, where it is, what is sent and how answers are read."""

    api_version: Literal["bench/v1"] = "bench/v1"
    """of this dialect"""
    name: LowerName
    """lower case, digits, dots, dashes and underscores; how runs name it"""
    display_name: str | None = None
    """the name for people"""
    description: str = ""
    """one sentence"""
    docs: str | None = None
    """address of its documentation"""
    tags: tuple[str, ...] = ()
    """for bench list --tags"""
    aliases: tuple[str, ...] = ()
    """other names it answers to"""
    type: Literal["hosted", "local", "docker", "mcp"]
    """hosted: an API elsewhere; local: on this machine or in this process; docker: started by us; mcp: an MCP server"""
    verified: Verified | None = None
    """how far the file was tested, against which version, when"""
    determinism: Literal["deterministic", "drifts", "search_mutates", "unknown"] = "unknown"
    """drifts: rankings change in the background; search_mutates: a search changes what is stored"""
    connection: Connection = Connection()
    """address and time-outs"""
    auth: tuple[Auth, ...] = ()
    """how a call states who asks"""
    scoping: Scoping = Scoping()
    """how a namespace is written in calls"""
    vars: dict[str, str] = Field(default_factory=dict)
    """texts that templates of this file may name"""
    setup: tuple[SetupCall, ...] = ()
    """calls in order, once a namespace, before it is probed"""
    teardown: tuple[NamedCall, ...] = ()
    """calls in order, once a namespace, after it is cleared"""
    endpoints: Endpoints | None = None
    """add, search, clear and the others"""
    ingest: IngestSection = IngestSection()
    """unit and batches of what is sent, and what to do when no one knows whether it was stored"""
    wait: WaitBlock | None = None
    """how to learn that what was added can be found"""
    client_embeddings: ClientEmbeddings | None = None
    """vectors that we make, for services that store vectors"""
    embeds_with: str | None = None
    """embedding model that the service itself uses, as results name it; builtin: it embeds, no one states with what"""
    errors: Errors = Errors()
    """statuses and body texts that mean something of their own"""
    limits: LimitsSection = LimitsSection()
    """rates, concurrency and the largest k"""
    rate_limit: RateLimit = RateLimit()
    """retries and pauses in the words of older files"""
    capabilities: CapabilitiesConfig = CapabilitiesConfig()
    """what it can do; what is left out follows from the endpoints"""
    prices: CallPrices = CallPrices()
    """USD of one call"""
    docker: Docker | None = None
    """compose file and health check, for type docker"""
    mcp: Mcp | None = None
    """command or address of the server, and its tools"""
    adapter: str | None = None
    """Python class instead of endpoints: ./file.py:Class or an entry point"""
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
        """``local.embedding {provider, model, dimensions}`` is ``client_embeddings`` in the words of older files."""
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
        """The file it was read from, None for a built-in."""
        return self._source.path if self._source else None

    @property
    def folder(self) -> Path:
        """The folder to which relative paths of the file refer."""
        return self.path.parent if self.path else Path()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings that ``bench validate`` shows without failing."""
        return self._warnings

    def place(self, *path: str | int) -> str | None:
        """``file:line:column`` of a key, for errors that only show when the provider is opened."""
        return self._source.place(path) if self._source else None

    @property
    def places(self) -> Places | None:
        """The place of each key of the file."""
        return self._source.places if self._source else None

    @property
    def shown_name(self) -> str:
        """The name for people."""
        return self.display_name or self.name

    def at(self, base_url: str) -> ProviderConfig:
        """The same service at another address."""
        if self.docker is not None and self.type == "docker":
            return self.model_copy(update={"docker": self.docker.model_copy(update={"base_url": base_url})})
        if self.mcp is not None and self.type == "mcp":
            return self.model_copy(update={"mcp": self.mcp.model_copy(update={"url": base_url})})
        return self.model_copy(update={"connection": self.connection.model_copy(update={"base_url": base_url})})

    @property
    def bills(self) -> bool:
        """Someone else runs the service and may take money for a call."""
        return self.type == "hosted" or (self.mcp is not None and self.mcp.url is not None)

    @property
    def base_url(self) -> str | None:
        """The service's address with the environment unresolved; None for what has none, as a server over stdio."""
        if self.type == "docker" and self.docker is not None:
            return self.docker.base_url
        return self.mcp.url if self.type == "mcp" and self.mcp is not None else self.connection.base_url

    @cached_property
    def sha256(self) -> str:
        """Digest of everything that can change what the provider is asked or how its answers are read."""
        return digest(self)
