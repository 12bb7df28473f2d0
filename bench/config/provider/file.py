"""Read a provider file and run all checks that need no call.

Example::

    config = load_provider(Path("configs/providers/acme.yaml"))
    # ConfigError: acme.yaml:4:1: auth has no effect: a server started by mcp.command gets its keys from mcp.env

An adapter in a file is checked without an import: the file must exist and define the class. An adapter in an installed
module is not checked here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from bench.config.builtin_providers import BUILT_IN
from bench.config.file import Source, did_you_mean, in_file_order, load
from bench.config.jsontext import TreePath
from bench.config.provider.calls import RequestSection
from bench.config.provider.checks import CHECKS, uses_variable
from bench.config.provider.config import ProviderConfig
from bench.config.provider.templates import answer_path_problems, template_problems
from bench.errors import ConfigError
from bench.untyped_values import python_tree

FOREIGN_SUFFIXES = (".ts", ".js", ".mjs")


def load_provider(source: Source | Path) -> ProviderConfig:
    """Read a provider file and run all checks that need no call.

    Raises:
        ConfigError: the file has problems; the error lists all of them with file:line:column.
    """
    read = source if isinstance(source, Source) else Source.read(source)
    problems: list[ConfigError] = []
    config: ProviderConfig | None = None
    try:
        config = load(read, ProviderConfig)
    except ConfigError as error:
        problems += error.problems or (error,)
    problems += problems_of(read, config)
    if problems or config is None:
        raise ConfigError.of(in_file_order(problems))
    config._source = read
    config._warnings = tuple(warnings_of(read, config))
    return config


def problems_of(source: Source, config: ProviderConfig | None) -> list[ConfigError]:
    """Return the problems that the pydantic model does not find. ``config`` is None if the model rejects the file."""
    found = [*template_problems(source), *answer_path_problems(source)]
    if config is not None:
        for check in (*CHECKS, unused_problems):
            found += check(source, config)
        adapter = adapter_problem(config.adapter, source) if config.adapter else None
        found += [adapter] if adapter else []
    return found


def warnings_of(source: Source, config: ProviderConfig) -> list[str]:
    """Return the warnings about a valid file, each with line and column."""
    found = []
    for path, text in _warnings(config):
        key = source.locate(path)[-1:]  # as the file spells it: supportsBatch or supports_batch
        found.append(f"{source.place(path)}: {text.replace(str(path[-1]), str(key[0])) if key else text}")
    return found


def _warnings(config: ProviderConfig) -> Iterator[tuple[tuple[str | int, ...], str]]:
    endpoints, capabilities = config.endpoints, config.capabilities
    if endpoints is None:
        return
    if not uses_variable(endpoints.search, {"k", "limit"}) and capabilities.max_tokens is None:
        yield ("endpoints", "search"), "the search does not send $.k, and capabilities.max_tokens is not declared"
    add = endpoints.add
    if config.ingest.on_unknown == "repeat" and not _is_repeatable(add) and not any(map(_is_repeatable, add.steps)):
        yield (
            ("ingest", "on_unknown"),
            'on_unknown is "repeat", but the call "add" has neither "idempotency" nor "idempotent" and '
            "is not an upsert",
        )
    if capabilities.supports_chunks and endpoints.search.response.chunks_field is None:
        yield (
            ("capabilities", "supports_chunks"),
            "supports_chunks is declared, but endpoints.search.response.chunksField is missing",
        )
    if capabilities.supports_batch != (config.ingest.batch.max_items > 1) and "supports_batch" in (
        capabilities.model_fields_set
    ):
        yield (
            ("capabilities", "supports_batch"),
            f"supports_batch is {str(capabilities.supports_batch).lower()}, but ingest.batch.max_items is "
            f"{config.ingest.batch.max_items}",
        )


def _is_repeatable(call: RequestSection) -> bool:
    return (
        call.idempotency is not None or call.idempotent is True or call.method == "PUT" or "upsert" in (call.path or "")
    )


def adapter_problem(adapter: str, source: Source) -> ConfigError | None:
    """Return the error for an invalid value of ``adapter``; None if the value is valid."""
    where = source.place(("adapter",))
    name, _, class_name = adapter.partition(":")
    if name.endswith(FOREIGN_SUFFIXES):
        return ConfigError(
            f'adapter "{adapter}" is not a Python file',
            where=where,
            hint="write the adapter in Python (./file.py:Class), or serve the memory system over HTTP or MCP",
        )
    if name == "builtin":
        if class_name in BUILT_IN:
            return None
        guess = did_you_mean(class_name, BUILT_IN)
        return ConfigError(
            f'no built-in provider "{class_name}"{guess}', where=where, hint=f"known: {', '.join(BUILT_IN)}"
        )
    if not re.fullmatch(r"[A-Za-z_]\w*", class_name):
        return ConfigError(
            f'adapter "{adapter}" does not contain the name of a class',
            where=where,
            hint="write ./file.py:Class, package.module:Class or builtin:NAME",
        )
    return _file_problem(name, class_name, source, where) if name.endswith(".py") else None


def _file_problem(name: str, class_name: str, source: Source, where: str) -> ConfigError | None:
    path = source.path.parent / name
    if not path.is_file():
        return ConfigError(
            f"no such adapter file: {name}", where=where, hint="correct the path, which is relative to the config"
        )
    try:
        tree = python_tree(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        return ConfigError(f"adapter file {name} is not Python: {error}", where=where, hint="correct the file")
    classes = {node.name for node in ast.iter_child_nodes(tree) if isinstance(node, ast.ClassDef)}
    if class_name in classes:
        return None
    guess = did_you_mean(class_name, classes)
    return ConfigError(
        f"{name} has no class {class_name}{guess}",
        where=where,
        hint=f"classes there: {', '.join(sorted(classes)) or 'none'}",
    )


CALL_BLOCKS = ("endpoints", "setup", "teardown", "wait", "mcp")
"""blocks that a provider with an adapter does not read"""
EMBEDDING = frozenset({"embedding", "embedder"})
"""keys of ``local`` that name the embedding model, in older files"""


def unused_problems(source: Source, config: ProviderConfig) -> Iterator[ConfigError]:
    """Yield an error for each block of the file that this kind of provider ignores."""
    unread = _beside_an_adapter(config) if config.adapter else _without_adapter(config)
    for path, why in unread:
        where = source.locate(path)
        text = f"{'.'.join(map(str, where))} has no effect: {why}"
        yield ConfigError(text, where=source.place(path), hint="remove it")


def _beside_an_adapter(config: ProviderConfig) -> Iterator[tuple[TreePath, str]]:
    for block in CALL_BLOCKS:
        if block in config.model_fields_set and getattr(config, block):
            yield (block,), "an adapter makes its own calls"


def _without_adapter(config: ProviderConfig) -> Iterator[tuple[TreePath, str]]:
    for key in config.local:
        if key not in EMBEDDING:
            yield ("local", key), "these are options of an adapter, but the config has no adapter"
    if config.type != "mcp":
        if config.mcp is not None:
            yield ("mcp",), f'the type is "{config.type}"'
    elif config.connection.base_url is not None:
        yield ("connection", "base_url"), "the server is at mcp.url or mcp.command"
    if config.type == "docker" and config.docker is not None and config.connection.base_url is not None:
        yield ("connection", "base_url"), "the service answers at docker.baseUrl"
    if config.type == "mcp" and config.mcp is not None and config.mcp.url is None:
        yield from _beside_a_command(config)


def _beside_a_command(config: ProviderConfig) -> Iterator[tuple[TreePath, str]]:
    if any(auth.type != "none" for auth in config.auth):
        yield ("auth",), "a server started by mcp.command gets its keys from mcp.env"
    if config.connection.headers:
        yield ("connection", "headers"), "a server started by mcp.command receives no HTTP headers"
