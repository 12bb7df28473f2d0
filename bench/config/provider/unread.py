"""Blocks of a provider file that nobody reads beside the others: what is written and does nothing is an error.

Example::

    unread_problems(source, config)
    # [ConfigError('acme.yaml:4:1: auth is not read: a command gets its keys from mcp.env')]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bench.config.jsontext import TreePath
from bench.config.source import Source
from bench.errors import ConfigError

if TYPE_CHECKING:
    from bench.config.provider import ProviderConfig

OF_CALLS = ("endpoints", "setup", "teardown", "wait", "mcp")
"""what the interpreter of endpoints reads; an adapter makes its calls itself"""
EMBEDDING = frozenset({"embedding", "embedder"})
"""``local`` keys of older files that say with what a service embeds"""


def unread_problems(source: Source, config: ProviderConfig) -> Iterator[ConfigError]:
    """Every block that has no reader in this file."""
    unread = _beside_an_adapter(config) if config.adapter else _without_adapter(config)
    for path, why in unread:
        where = source.locate(path)
        text = f"{'.'.join(map(str, where))} is not read: {why}"
        yield ConfigError(text, where=source.place(path), hint="take it out")


def _beside_an_adapter(config: ProviderConfig) -> Iterator[tuple[TreePath, str]]:
    for block in OF_CALLS:
        if block in config.model_fields_set and getattr(config, block):
            yield (block,), "an adapter makes its calls itself"


def _without_adapter(config: ProviderConfig) -> Iterator[tuple[TreePath, str]]:
    for key in config.local:
        if key not in EMBEDDING:
            yield ("local", key), "these are options of an adapter, and the file names none"
    if config.type != "mcp":
        if config.mcp is not None:
            yield ("mcp",), f"the type is {config.type}"
    elif config.connection.base_url is not None:
        yield ("connection", "base_url"), "the server is where mcp.url or mcp.command says"
    if config.type == "docker" and config.docker is not None and config.connection.base_url is not None:
        yield ("connection", "base_url"), "the service answers at docker.baseUrl"
    if config.type == "mcp" and config.mcp is not None and config.mcp.url is None:
        yield from _beside_a_command(config)


def _beside_a_command(config: ProviderConfig) -> Iterator[tuple[TreePath, str]]:
    if any(auth.type != "none" for auth in config.auth):
        yield ("auth",), "a command gets its keys from mcp.env"
    if config.connection.headers:
        yield ("connection", "headers"), "a command has no headers"
