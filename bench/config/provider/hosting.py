"""What is started for a provider: a service of a compose file, or an MCP server."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from bench.config.provider.sections import HttpUrl, VariableName
from bench.config.source import ConfigModel


class Docker(ConfigModel):
    """A service of a compose file that is started when nothing answers."""

    compose: str
    """compose file, from this file's folder"""
    service: str
    """name of the service in it"""
    healthcheck: str
    """path or URL; a 2xx says it is up"""
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
