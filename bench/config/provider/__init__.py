"""A provider file as a value: every key of the dialect, every error with its place.

Example::

    config = load_provider(Source.read(Path("configs/providers/chroma.yaml")))
    config.endpoints.search.response.contents       # ("$.text",)
    config.sha256                                    # identity, without secrets and with the environment unresolved

``sections`` and ``traffic`` hold the blocks around the calls, ``calls`` the calls, ``answers`` how answers are read,
``trees`` the body templates, ``checks`` what needs more than one block, ``terms`` the words. Nothing here touches the
network or reads a secret.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field, PrivateAttr, field_validator, model_validator

from bench.config.jsontext import Places
from bench.config.provider.calls import Endpoints, NamedCall, SetupCall, WaitBlock
from bench.config.provider.identity import digest
from bench.config.provider.sections import (
    Auth,
    CapabilitiesConfig,
    ClientEmbeddings,
    Connection,
    Docker,
    Ingest,
    Mcp,
    Scoping,
    Verified,
)
from bench.config.provider.traffic import CallPrices, Errors, Limits, RateLimit
from bench.config.source import ConfigModel, Source, load
from bench.errors import ConfigError

__all__ = ["ProviderConfig", "load_provider"]


class ProviderConfig(ConfigModel):
    """One memory system: what it is, where it is, what is sent and how answers are read."""

    api_version: Literal["bench/v1"] = "bench/v1"
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    display_name: str | None = None
    description: str = ""
    docs: str | None = None
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    type: Literal["hosted", "local", "docker", "mcp"]
    verified: Verified | None = None
    determinism: Literal["deterministic", "drifts", "search_mutates", "unknown"] = "unknown"
    connection: Connection = Connection()
    auth: tuple[Auth, ...] = ()
    scoping: Scoping = Scoping()
    vars: dict[str, str] = Field(default_factory=dict)
    setup: tuple[SetupCall, ...] = ()
    teardown: tuple[NamedCall, ...] = ()
    endpoints: Endpoints | None = None
    ingest: Ingest = Ingest()
    wait: WaitBlock | None = None
    client_embeddings: ClientEmbeddings | None = None
    errors: Errors = Errors()
    limits: Limits = Limits()
    rate_limit: RateLimit = RateLimit()
    capabilities: CapabilitiesConfig = CapabilitiesConfig()
    prices: CallPrices = CallPrices()
    docker: Docker | None = None
    mcp: Mcp | None = None
    adapter: str | None = None
    local: dict[str, object] = Field(default_factory=dict)
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
        """Where relative paths of the file start."""
        return self.path.parent if self.path else Path()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What validate shows without failing."""
        return self._warnings

    def place(self, *path: str | int) -> str | None:
        """``file:line:column`` of a key, for errors that only show when the provider is opened."""
        return self._source.place(path) if self._source else None

    @property
    def places(self) -> Places | None:
        """Where each key of the file stands."""
        return self._source.places if self._source else None

    @property
    def shown_name(self) -> str:
        """The name for people."""
        return self.display_name or self.name

    @property
    def base_url(self) -> str | None:
        """The service's address with the environment unresolved."""
        return self.docker.base_url if self.docker and self.type == "docker" else self.connection.base_url

    @cached_property
    def sha256(self) -> str:
        """Digest of everything that can change what the provider is asked or how its answers are read."""
        return digest(self)


def load_provider(source: Source | Path) -> ProviderConfig:
    """Read a provider file and check all that can be known without calling anything.

    Raises:
        ConfigError: every problem of the file at once, each with file:line:column.
    """
    from bench.config.provider.checks import problems_of, warnings_of

    read = source if isinstance(source, Source) else Source.read(source)
    problems: list[ConfigError] = []
    config: ProviderConfig | None = None
    try:
        config = load(read, ProviderConfig)
    except ConfigError as error:
        problems += error.problems or (error,)
    problems += problems_of(read, config)
    if problems or config is None:
        raise ConfigError.of(problems)
    config._source = read
    config._warnings = tuple(warnings_of(read, config))
    return config
