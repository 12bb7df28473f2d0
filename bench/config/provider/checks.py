"""Checks that compare several blocks of a provider file.

A check takes the file and the parsed config. It yields one error per problem, with line and column. `CHECKS` lists all
checks.

Example::

    [error for check in CHECKS for error in check(source, config)]
    # [ConfigError('acme.yaml:4:1: type "hosted" needs "connection.baseUrl"')]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set

from bench.config.file import Source, key_text
from bench.config.provider.calls import RequestSection, WaitBlock
from bench.config.provider.config import ProviderConfig
from bench.config.provider.sections import ITEM_VARIABLES, OPERATIONS, REQUEST_VARIABLES
from bench.config.value_rules import walk_texts
from bench.errors import ConfigError
from bench.settings import VARIABLE, without_password


def uses_variable(call: RequestSection, names: Set[str]) -> bool:
    text = repr((call.path, call.query, call.headers, call.body))
    return any(re.search(rf"\$\.{name}\b|\$\{{{name}\}}", text) for name in names)


def _name(source: Source, config: ProviderConfig) -> Iterator[ConfigError]:
    if config.name != source.path.stem:
        yield ConfigError(
            f'name "{config.name}" differs from the file name "{source.path.stem}"',
            where=source.place(("name",)),
            hint="give the config and its file the same name",
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
                f'type "{config.type}" needs "{block}"',
                where=source.place(("type",)),
                hint=f"add {block}, or change the type",
            )


def _compose(source: Source, config: ProviderConfig) -> Iterator[ConfigError]:
    if config.docker is not None and not (source.path.parent / config.docker.compose).is_file():
        yield ConfigError(
            f"no such compose file: {config.docker.compose}",
            where=source.place(("docker", "compose")),
            hint="correct the path, which is relative to the config",
        )


def _vars(source: Source, config: ProviderConfig) -> Iterator[ConfigError]:
    captured = {name for _, call in calls_of(config) for name in call.capture}
    for name in config.vars:
        if name in REQUEST_VARIABLES or name in captured:
            yield ConfigError(
                f'vars.{name} has the same name as the request variable "{name}"',
                where=source.place(("vars", name)),
                hint="choose another name",
            )


def _durability(source: Source, config: ProviderConfig) -> Iterator[ConfigError]:
    declared = config.local.get("durability", "service")
    if declared not in ("process", "file", "service"):
        yield ConfigError(
            f'local.durability must be "process", "file" or "service", not "{declared}"',
            where=source.place(("local", "durability")),
            hint='write "process" if the memories exist only in the process, "file" if the memories are in the '
            'folder of the run, "service" if the memories are elsewhere',
        )


def _single(source: Source, config: ProviderConfig) -> Iterator[ConfigError]:
    """Check that a service with only one namespace can clear this namespace before the next corpus is stored."""
    endpoints = config.endpoints
    cannot = not config.capabilities.clear or (endpoints is not None and endpoints.clear is None)
    if config.scoping.single and cannot:
        text = 'scoping.strategy "single" needs endpoints.clear: each corpus is cleared before the next one'
        yield ConfigError(text, where=source.place(("scoping", "strategy")), hint="add endpoints.clear")


def _passwords(source: Source, config: ProviderConfig) -> Iterator[ConfigError]:
    """Check that no text in ``local`` or ``mcp.command``, such as a connection string, contains a password."""
    command = config.mcp.command if config.mcp is not None else None
    for path, text in (*walk_texts(config.local, ("local",)), *walk_texts(command, ("mcp", "command"))):
        written = VARIABLE.sub(lambda match: match[2] or "", text)
        if without_password(written) != written:
            hint = "put the password into an environment variable, and write ${NAME} here"
            yield ConfigError(f"{key_text(path)} contains a password", where=source.place(path), hint=hint)


def _calls(source: Source, config: ProviderConfig) -> Iterator[ConfigError]:
    """Check that each call names its target: a tool for an MCP server, a method and path for any other provider."""
    for path, call in calls_of(config):
        if (call.tool is not None) != (config.type == "mcp") and not getattr(call, "steps", ()):
            word = '"tool"' if config.type == "mcp" else '"method" and "path"'
            name = ".".join(map(str, path))
            text = f'type "{config.type}" needs {word} in {name}'
            yield ConfigError(text, where=source.place(path), hint=f"add {word} to {name}")


def _batch(source: Source, config: ProviderConfig) -> Iterator[ConfigError]:
    if config.endpoints is None or config.ingest.batch.max_items == 1:
        return
    add = config.endpoints.add
    for call in (add, *add.steps):
        if uses_variable(call, ITEM_VARIABLES - {"sessionId"}):  # which may be the namespace
            yield ConfigError(
                '"max_items" is larger than 1, but the call "add" uses a field of a single memory, not $.items',
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
                hint="write body: {$lines: {$each: $.items, $do: ...}}; a list in $do becomes one line per element",
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
            name = "add" if path == ("wait",) else "clear"
            yield ConfigError(
                'scope "id" needs response.ids, the path to the job ids',
                where=source.place((*path, "scope")),
                hint=f"add response: {{ids: PATH}} to endpoints.{name}, or write scope: namespace",
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
                f"capabilities.{name} is declared, but endpoints.{call} is missing",
                where=source.place(("capabilities", name)),
                hint=f"add endpoints.{call}",
            )
    if config.capabilities.clear and endpoints.clear is None:
        yield ConfigError(
            "endpoints.clear is missing",
            where=source.place(("endpoints",)),
            hint="add endpoints.clear, or set capabilities: {clear: false}",
        )


def _forms(source: Source, config: ProviderConfig) -> Iterator[ConfigError]:
    """Check that each name in ``captured`` is defined by an ``id_map`` or ``capture`` of a call."""
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
                f'"captured" names the unknown map "{form.captured}"; known: {", ".join(sorted(known)) or "none"}',
                where=source.place(("endpoints", "search", "response", "id_from", index, "captured")),
                hint='define the map with "id_map" or "capture"',
            )


Check = Callable[[Source, "ProviderConfig"], Iterable[ConfigError]]
CHECKS: tuple[Check, ...] = (
    _name, _block, _compose, _vars, _durability, _single, _passwords, _calls, _batch, _ndjson, _wait, _operations,
    _forms,
)  # fmt: skip


def calls_of(config: ProviderConfig) -> Iterator[tuple[tuple[str | int, ...], RequestSection]]:
    """Yield (key path, call) for every call of a config."""
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
