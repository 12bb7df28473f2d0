"""What can be known about a provider file before anything is called, beyond the shape of each block.

Here too:

* The text that names a class: ``builtin:NAME``, ``package.module:Class`` or ``./file.py:Class``.
* Blocks of a provider file that no one reads beside the others: what is written and does nothing is an error.

Example::

    unread_problems(source, config)
    # [ConfigError('acme.yaml:4:1: auth is not read: a command gets its keys from mcp.env')]

Two kinds: blocks that contradict each other (:func:`problems_of` with the loaded config), and templates that name a
variable no one fills (read from the raw tree, so that they are found beside any other error of the file).

Checked without importing anything: a file must exist and define the class, a module is looked up when it is used.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import TYPE_CHECKING

from bench.config.file import Source, did_you_mean, name_of
from bench.config.jsontext import TreePath
from bench.config.provider_sections import (
    ADD,
    CLEAR,
    DELETE,
    ELEMENT,
    EVERYWHERE,
    LIST,
    OPERATIONS,
    SEARCH,
    SETUP,
    WAIT,
)
from bench.config.provider_templates import answer_path_problems, template_problems
from bench.config.value_rules import texts
from bench.errors import ConfigError
from bench.settings import VARIABLE, without_password

if TYPE_CHECKING:
    from bench.config.provider import ProviderConfig
    from bench.config.provider_calls import RequestSection, WaitBlock


BUILT_INS = ("bm25", "vector", "full-context", "random", "no-memory", "oracle")
FOREIGN_SUFFIXES = (".ts", ".js", ".mjs")


def adapter_problem(adapter: str, source: Source) -> ConfigError | None:
    """The one thing that is wrong with an ``adapter`` line, or None."""
    where = source.place(("adapter",))
    name, _, class_name = adapter.partition(":")
    if name.endswith(FOREIGN_SUFFIXES):
        return ConfigError(
            f'adapter "{adapter}" is not Python',
            where=where,
            hint="write it in Python (./file.py:Class), or put it behind HTTP or MCP",
        )
    if name == "builtin":
        if class_name in BUILT_INS:
            return None
        guess = did_you_mean(class_name, BUILT_INS)
        return ConfigError(
            f'no built-in provider "{class_name}"{guess}', where=where, hint=f"known: {', '.join(BUILT_INS)}"
        )
    if not re.fullmatch(r"[A-Za-z_]\w*", class_name):
        return ConfigError(
            f'adapter "{adapter}" names no class',
            where=where,
            hint="write ./file.py:Class, package.module:Class or builtin:NAME",
        )
    return _file_problem(name, class_name, source, where) if name.endswith(".py") else None


def _file_problem(name: str, class_name: str, source: Source, where: str) -> ConfigError | None:
    path = source.path.parent / name
    if not path.is_file():
        return ConfigError(f"no such adapter file: {name}", where=where, hint="the path starts beside the config")
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        return ConfigError(f"adapter file {name} is not Python: {error}", where=where, hint="correct the file")
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    if class_name in classes:
        return None
    guess = did_you_mean(class_name, classes)
    return ConfigError(
        f"{name} defines no class {class_name}{guess}",
        where=where,
        hint=f"classes there: {', '.join(sorted(classes)) or 'none'}",
    )


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
        yield ("connection", "base_url"), "the server is at mcp.url or mcp.command"
    if config.type == "docker" and config.docker is not None and config.connection.base_url is not None:
        yield ("connection", "base_url"), "the service answers at docker.baseUrl"
    if config.type == "mcp" and config.mcp is not None and config.mcp.url is None:
        yield from _beside_a_command(config)


def _beside_a_command(config: ProviderConfig) -> Iterator[tuple[TreePath, str]]:
    if any(auth.type != "none" for auth in config.auth):
        yield ("auth",), "a command gets its keys from mcp.env"
    if config.connection.headers:
        yield ("connection", "headers"), "a command has no headers"


RESERVED = EVERYWHERE | ELEMENT | ADD | SEARCH | WAIT | CLEAR | DELETE | LIST | SETUP | {"each"}


def problems_of(source: Source, config: ProviderConfig | None) -> list[ConfigError]:
    """Every finding; ``config`` is None when the shape of the file is already wrong."""
    found = [*template_problems(source), *answer_path_problems(source)]
    if config is not None:
        for check in CHECKS:
            found += check(source, config)
        adapter = adapter_problem(config.adapter, source) if config.adapter else None
        found += [adapter] if adapter else []
    return found


def warnings_of(source: Source, config: ProviderConfig) -> list[str]:
    """What is odd and allowed, each with its place."""
    return [f"{source.place(path)}: {text}" for path, text in _warnings(config)]


def _warnings(config: ProviderConfig) -> Iterator[tuple[tuple[str | int, ...], str]]:
    endpoints, capabilities = config.endpoints, config.capabilities
    if endpoints is None:
        return
    if not _mentions(endpoints.search, {"k", "limit"}) and capabilities.max_tokens is None:
        yield ("endpoints", "search"), "the search never uses $.k and capabilities.max_tokens is not declared"
    add = endpoints.add
    if config.ingest.on_unknown == "repeat" and not _repeatable(add) and not any(map(_repeatable, add.steps)):
        yield ("ingest", "on_unknown"), "repeat, but add has neither idempotency nor idempotent and is not an upsert"
    if capabilities.supports_chunks and endpoints.search.response.chunks_field is None:
        yield ("capabilities", "supports_chunks"), "declared, but endpoints.search.response.chunksField is not given"
    if capabilities.supports_batch != (config.ingest.batch.max_items > 1) and "supports_batch" in (
        capabilities.model_fields_set
    ):
        yield ("capabilities", "supports_batch"), f"ingest.batch.max_items is {config.ingest.batch.max_items}"


def _repeatable(call: RequestSection) -> bool:
    return (
        call.idempotency is not None or call.idempotent is True or call.method == "PUT" or "upsert" in (call.path or "")
    )


def _mentions(call: RequestSection, names: Set[str]) -> bool:
    text = repr((call.path, call.query, call.headers, call.body))
    return any(re.search(rf"\$\.{name}\b|\$\{{{name}\}}", text) for name in names)


def _name(source: Source, config: ProviderConfig) -> Iterator[ConfigError]:
    if config.name != source.path.stem:
        yield ConfigError(
            f'name "{config.name}" differs from the file name "{source.path.stem}"',
            where=source.place(("name",)),
            hint="give both the same name",
        )


def _block(source: Source, config: ProviderConfig) -> Iterator[ConfigError]:
    needed: dict[str, list[tuple[str, object]]] = {
        "hosted": [("connection.baseUrl", config.connection.base_url), ("endpoints", config.endpoints)],
        "local": [("adapter", config.adapter)],
        "docker": [("docker", config.docker), ("endpoints", config.endpoints)],
        "mcp": [("mcp", config.mcp), ("endpoints", config.endpoints)],
    }
    for block, value in needed[config.type]:
        if value is None:
            yield ConfigError(
                f"type {config.type} needs {block}", where=source.place(("type",)), hint=f"add {block}, or another type"
            )


def _compose(source: Source, config: ProviderConfig) -> Iterator[ConfigError]:
    if config.docker is not None and not (source.path.parent / config.docker.compose).is_file():
        yield ConfigError(
            f"no such compose file: {config.docker.compose}",
            where=source.place(("docker", "compose")),
            hint="the path starts beside the config",
        )


def _vars(source: Source, config: ProviderConfig) -> Iterator[ConfigError]:
    captured = {name for _, call in calls_of(config) for name in call.capture}
    for name in config.vars:
        if name in RESERVED or name in captured:
            yield ConfigError(
                f'vars.{name} shadows the request variable "{name}"',
                where=source.place(("vars", name)),
                hint="choose another name",
            )


def _durability(source: Source, config: ProviderConfig) -> Iterator[ConfigError]:
    declared = config.local.get("durability", "service")
    if declared not in ("process", "file", "service"):
        yield ConfigError(
            f'local.durability must be process, file or service, not "{declared}"',
            where=source.place(("local", "durability")),
            hint="process: lost with the process; file: below the run's folder; service: kept elsewhere",
        )


def _single(source: Source, config: ProviderConfig) -> Iterator[ConfigError]:
    """One namespace for all is emptied before the next corpus."""
    endpoints = config.endpoints
    cannot = not config.capabilities.clear or (endpoints is not None and endpoints.clear is None)
    if config.scoping.single and cannot:
        text = "scoping.strategy single needs a way to clear: the next corpus comes after the one before is gone"
        yield ConfigError(text, where=source.place(("scoping", "strategy")), hint="add endpoints.clear")


def _passwords(source: Source, config: ProviderConfig) -> Iterator[ConfigError]:
    """A connection string that holds a password would show it to every reader of the file."""
    for path, text in texts(config.local, ("local",)):
        written = VARIABLE.sub(lambda match: match[2] or "", text)
        if without_password(written) != written:
            hint = "put it into an environment variable, and write ${NAME} here"
            yield ConfigError(f"{name_of(path)} holds a password", where=source.place(path), hint=hint)


def _calls(source: Source, config: ProviderConfig) -> Iterator[ConfigError]:
    """Calls of an HTTP provider have a method, calls of an MCP server a tool."""
    for path, call in calls_of(config):
        if (call.tool is not None) != (config.type == "mcp") and not getattr(call, "steps", ()):
            word = "tool" if config.type == "mcp" else "method and path"
            yield ConfigError(
                f"type {config.type} needs {word} in {'.'.join(map(str, path))}",
                where=source.place(path),
                hint=f"give {word}",
            )


def _batch(source: Source, config: ProviderConfig) -> Iterator[ConfigError]:
    if config.endpoints is None or config.ingest.batch.max_items == 1:
        return
    add = config.endpoints.add
    for call in (add, *add.steps):
        if _mentions(call, ELEMENT - {"sessionId"}):  # which may be the namespace
            yield ConfigError(
                "max_items above 1, but add names the field of one memory at the root; use $.items",
                where=source.place(("ingest", "batch", "max_items")),
                hint="write {$each: $.items, $do: ...} or {$column: content}, or max_items: 1",
            )
            return


def _ndjson(source: Source, config: ProviderConfig) -> Iterator[ConfigError]:
    for path, call in calls_of(config):
        kinds = [str(value) for name, value in call.headers.items() if name.lower() == "content-type"]
        in_lines = isinstance(call.body, Mapping) and set(call.body) == {"$lines"}
        if any("ndjson" in kind for kind in kinds) and call.has_body and not in_lines:
            yield ConfigError(
                "Content-Type is NDJSON, but the body is one JSON value",
                where=source.place((*path, "body")),
                hint="write body: {$lines: {$each: $.items, $do: ...}}; a list in $do gives a line for each element",
            )


def _wait(source: Source, config: ProviderConfig) -> Iterator[ConfigError]:
    if config.endpoints is None:
        return
    clear = config.endpoints.clear
    blocks = [(("wait",), config.wait, config.endpoints.add)]
    if clear is not None:
        blocks.append((("endpoints", "clear", "wait"), clear.wait, clear))  # type: ignore[arg-type]
    for path, wait, giver in blocks:
        calls = (giver, *getattr(giver, "steps", ()), *([config.endpoints.finish] if config.endpoints.finish else []))
        if wait is not None and wait.scope == "id" and not any(_gives_ids(call) for call in calls):
            yield ConfigError(
                "scope id needs response.ids, the path to the job ids",
                where=source.place((*path, "scope")),
                hint="add response: {ids: ...} to the call, or scope: namespace",
            )


def _gives_ids(call: object) -> bool:
    response = getattr(call, "response", None)
    return getattr(response, "ids", None) is not None


def _operations(source: Source, config: ProviderConfig) -> Iterator[ConfigError]:
    endpoints = config.endpoints
    if endpoints is None:
        return
    there = {
        "delete_memory": endpoints.delete,
        "update_memory": endpoints.update,
        "list_memories": endpoints.list,
    }
    for name in OPERATIONS:
        if name in config.capabilities.declared() and there.get(name) is None:
            call = name.partition("_")[0]
            yield ConfigError(
                f"{name} is declared without endpoints.{call}",
                where=source.place(("capabilities", name)),
                hint=f"add endpoints.{call}",
            )
    if config.capabilities.clear and endpoints.clear is None:
        yield ConfigError(
            "no endpoints.clear",
            where=source.place(("endpoints",)),
            hint="add it, or say capabilities: {clear: false}",
        )


def _forms(source: Source, config: ProviderConfig) -> Iterator[ConfigError]:
    """``captured`` names a map that some call fills."""
    endpoints = config.endpoints
    forms = endpoints.search.response.id_from if endpoints else None
    if endpoints is None or not isinstance(forms, list):
        return
    maps = [endpoints.add.response.id_map, endpoints.finish.response.id_map if endpoints.finish else None]
    maps.append(config.wait.id_map if config.wait else None)
    known = {id_map.name for id_map in maps if id_map is not None}
    known |= {name for _, call in calls_of(config) for name in call.capture}
    for index, form in enumerate(forms):
        if form.captured is not None and form.captured not in known:
            yield ConfigError(
                f'unknown map "{form.captured}"; known: {", ".join(sorted(known)) or "none"}',
                where=source.place(("endpoints", "search", "response", "id_from", index, "captured")),
                hint="fill it with id_map or capture",
            )


Check = Callable[[Source, "ProviderConfig"], Iterable[ConfigError]]
CHECKS: tuple[Check, ...] = (
    _name, _block, _compose, _vars, _durability, _single, _passwords, _calls, _batch, _ndjson, _wait, _operations,
    _forms, unread_problems,
)  # fmt: skip


def calls_of(config: ProviderConfig) -> Iterator[tuple[tuple[str | int, ...], RequestSection]]:
    """Every call of a config with its path in the file."""
    for index, call in enumerate(config.setup):
        yield ("setup", index), call
        if call.existing is not None:
            yield ("setup", index, "existing"), call.existing
    yield from ((("teardown", index), call) for index, call in enumerate(config.teardown))
    if config.wait is not None:
        yield from _request(("wait",), config.wait)
    if config.endpoints is None:
        return
    for name in type(config.endpoints).model_fields:
        call = getattr(config.endpoints, name)
        if call is None:
            continue
        if (existing := getattr(call, "existing", None)) is not None:
            yield ("endpoints", name, "existing"), existing
        steps = getattr(call, "steps", ())
        if steps:
            yield from ((("endpoints", name, "steps", index), step) for index, step in enumerate(steps))
        else:
            yield ("endpoints", name), call
        if getattr(call, "wait", None) is not None:
            yield from _request(("endpoints", name, "wait"), call.wait)


def _request(path: tuple[str | int, ...], wait: WaitBlock) -> Iterator[tuple[tuple[str | int, ...], RequestSection]]:
    if wait.request is not None:
        yield (*path, "request"), wait.request
