"""Check the templates and paths of a provider file: variables must be known, and response paths must be valid.

Example::

    chroma.yaml:21:7: unknown variable "collectionId" in endpoints.add.path; no capture defines it
    chroma.yaml:33:21: "$.documents[" is not a valid JSONPath: unexpected end of query

The checks read the file before it is converted to a model. So a file with unknown keys is checked too, and all errors
are reported together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from bench.config.file import Source, did_you_mean, fold_key, key_text
from bench.config.jsonpath import compile_path
from bench.config.jsontext import TreePath
from bench.config.provider.body import ENVIRONMENT, Compiler, Node, Scope, TextNode, TreeError, variable_names
from bench.config.provider.sections import (
    CALL_VARIABLES,
    CLEAR_VARIABLES,
    COMMON_VARIABLES,
    EACH_VARIABLE,
    LIST_VARIABLES,
    SEARCH_VARIABLES,
    SETUP_VARIABLES,
    WAIT_VARIABLES,
)
from bench.config.value_rules import pattern_problem, walk_texts
from bench.errors import ConfigError
from bench.untyped_values import object_or_empty


@dataclass(frozen=True, slots=True)
class _Template:
    """One template of a call, with the function that compiles it and the variable names that it can use."""

    place: TreePath
    compile: Callable[[], Node]
    names: frozenset[str]


def template_problems(source: Source) -> Iterator[ConfigError]:
    """Compile every template of every call. Yield an error for each invalid template and each unknown variable."""
    compiled: list[TreePath] = []
    for path, call, names in _calls(source.tree):
        for template in _templates(path, call, names):
            compiled.append(template.place)
            yield from _problems(source, template)
    yield from _literal_problems(source, compiled)


FROM_ENVIRONMENT = frozenset({"connection", "docker", "mcp", "vars", "local", "auth", "embedswith", "clientembeddings"})
"""blocks in which ``${UPPER_CASE}`` is an environment variable"""
READ_ELSEWHERE = frozenset({("ingest", "text"), ("scoping", "runidformat")})
"""templates that the pydantic models of their blocks check"""
PROSE = frozenset({"displayname", "description", "docs", "tags", "verified"})


def _literal_problems(source: Source, compiled: Sequence[TreePath]) -> Iterator[ConfigError]:
    """Yield an error for each ``${NAME}`` in a text that is not a template, because it would be sent literally.

    Environment variables in the blocks of `FROM_ENVIRONMENT` are allowed.
    """
    for path, text in walk_texts(source.tree):
        block = tuple(fold_key(str(part)) for part in path)
        is_template = any(path[: len(place)] == place for place in compiled)
        if is_template or block[0] in PROSE or block[:2] in READ_ELSEWHERE:
            continue
        for name in variable_names(text):
            from_environment = block[0] in FROM_ENVIRONMENT
            if from_environment and ENVIRONMENT.fullmatch(name):
                continue
            instead = "name an environment variable, in upper case" if from_environment else "write the value itself"
            yield ConfigError(
                f'unknown variable "{name}" in {key_text(path)}; "${{{name}}}" would be sent unchanged',
                where=source.place(path),
                hint=f"{instead}; to send ${{{name}}} itself, write $${{{name}}}",
            )


def _problems(source: Source, template: _Template) -> Iterator[ConfigError]:
    try:
        used = list(template.compile().uses())
    except TreeError as error:
        where = source.place((*template.place, *error.place))
        yield ConfigError(str(error), where=where, hint=error.hint or "see docs/add-a-provider.md")
        return
    for name, place in used:
        if name in template.names:
            continue
        shown = ".".join(part for part in template.place if isinstance(part, str))
        guess = did_you_mean(name, template.names) or "; no capture defines it"
        yield ConfigError(
            f'unknown variable "{name}" in {shown}{guess}',
            where=source.place((*template.place, *place)),
            hint=f"known variables: {', '.join(sorted(template.names))}",
        )


def _templates(path: TreePath, call: Mapping[str, object], names: frozenset[str]) -> Iterator[_Template]:
    """Yield the templates of one call. ``names`` are the variables that the call can use."""
    compiler = Compiler()
    loop = _get(call, "for_each")
    if isinstance(loop, str):
        yield _Template((*path, "for_each"), lambda: compiler.string(loop), names)
        names = names | {EACH_VARIABLE}
    address = _get(call, "path")
    if isinstance(address, str):
        yield _Template((*path, "path"), lambda: compiler.text(address), names)
    body = _get(call, "body")
    if body is not None:
        yield _Template((*path, "body"), lambda: compiler.tree(body), names)
    forms = _get(object_or_empty(_get(call, "response")), "id_from")
    of_answers = names - SEARCH_VARIABLES - LIST_VARIABLES
    for index, form in enumerate(forms if isinstance(forms, list) else ()):
        for key in ("tag_prefix", "pattern"):
            text = _get(object_or_empty(form), key)
            if isinstance(text, str):
                place = (*path, "response", "id_from", index, key)
                yield _Template(place, _compiling_form(compiler, text, is_pattern=key == "pattern"), of_answers)
    for key in ("query", "headers", "multipart", "match"):
        block = _get(call, key)
        for name, value in block.items() if isinstance(block, Mapping) else ():
            yield _Template((*path, key, str(name)), partial(compiler.tree, value), names)


def _compiling_form(compiler: Compiler, text: str, *, is_pattern: bool) -> Callable[[], Node]:
    def compiled() -> Node:
        node = compiler.text(text)
        if is_pattern:
            shown = "".join(node.parts[::2]) if isinstance(node, TextNode) else str(node.fill(Scope({})))
            problem = pattern_problem(shown)
            if problem is not None:
                raise TreeError(f'pattern "{text}" {problem}', (), "for example ^${runTag}-(.*)\\.txt$")
        return node

    return compiled


def _calls(tree: Mapping[str, object]) -> Iterator[tuple[TreePath, Mapping[str, object], frozenset[str]]]:
    """Yield (key path, content, usable variable names) for every call of a file.

    A setup call can use only the captures of earlier setup calls.
    """
    known = COMMON_VARIABLES | frozenset(object_or_empty(_get(tree, "vars")))
    if _get(object_or_empty(_get(tree, "scoping")), "strategy") == "sessionId":
        known |= {"sessionId"}
    for path, call in _listed(tree, "setup"):
        yield path, call, known | SETUP_VARIABLES
        existing = _get(call, "existing")
        if isinstance(existing, Mapping):
            yield (*path, "existing"), existing, known | SETUP_VARIABLES
        known |= _captured(call)
    endpoints = object_or_empty(_get(tree, "endpoints"))
    later = [*endpoints.values(), *(step for endpoint in endpoints.values() for step in _steps(endpoint))]
    everywhere = known.union(*map(_captured, map(object_or_empty, later)), _captured_in_wait(tree))
    for key, endpoint in endpoints.items():
        own = CALL_VARIABLES.get(fold_key(key), frozenset())
        yield from _endpoint(("endpoints", key), object_or_empty(endpoint), everywhere | own, known | own)
    yield from _wait_call(("wait",), _get(tree, "wait"), everywhere)
    for path, call in _listed(tree, "teardown"):
        yield path, call, everywhere | CLEAR_VARIABLES


def _endpoint(
    path: TreePath, call: Mapping[str, object], names: frozenset[str], before: frozenset[str]
) -> Iterator[tuple[TreePath, Mapping[str, object], frozenset[str]]]:
    steps = list(_steps(call))
    if not steps:
        yield path, call, names
    for index, step in enumerate(steps):
        yield (*path, "steps", index), step, before
        before |= _captured(step)
    existing = _get(call, "existing")
    if isinstance(existing, Mapping):
        yield (*path, "existing"), existing, names
    yield from _wait_call((*path, "wait"), _get(call, "wait"), names)


def _wait_call(
    path: TreePath, wait: object, names: frozenset[str]
) -> Iterator[tuple[TreePath, Mapping[str, object], frozenset[str]]]:
    request = _get(object_or_empty(wait), "request")
    if isinstance(request, Mapping):
        yield (*path, "request"), request, names | WAIT_VARIABLES


def _listed(tree: Mapping[str, object], key: str) -> Iterator[tuple[TreePath, Mapping[str, object]]]:
    block = _get(tree, key)
    for index, call in enumerate(block if isinstance(block, list) else ()):
        if isinstance(call, Mapping):
            yield (key, index), call


def _steps(call: object) -> Iterator[Mapping[str, object]]:
    steps = _get(object_or_empty(call), "steps")
    return (step for step in (steps if isinstance(steps, list) else ()) if isinstance(step, Mapping))


def _captured(call: Mapping[str, object]) -> frozenset[str]:
    response = object_or_empty(_get(call, "response"))
    id_map = _get(object_or_empty(_get(response, "id_map")), "name")
    return frozenset(object_or_empty(_get(call, "capture"))) | ({id_map} if isinstance(id_map, str) else set())


def _captured_in_wait(tree: Mapping[str, object]) -> frozenset[str]:
    wait = object_or_empty(_get(tree, "wait"))
    id_map = _get(object_or_empty(_get(wait, "id_map")), "name")
    names = _captured(object_or_empty(_get(wait, "request")))
    return names | ({id_map} if isinstance(id_map, str) else set())


def _get(tree: Mapping[str, object], name: str) -> object:
    """Return the value of a key, which can be written in camelCase or snake_case."""
    if name in tree:
        return tree[name]
    return next((value for key, value in tree.items() if fold_key(str(key)) == fold_key(name)), None)


PATH_KEYS = frozenset(
    {
        "results", "contentfield", "scorefield", "chunksfield", "idfield", "when", "field", "value", "empty", "cursor",
        "items", "key", "ids", "countatleast", "id", "message",
    }
)  # fmt: skip
"""keys whose value is a path, in the spelling of :func:`fold_key`"""
PATH_WORDS: Mapping[str | int, str] = {"key": "uuid", "value": "sent"}
"""key of an id_map -> a word that is allowed instead of a path"""
PATH_BLOCKS = frozenset({"zip", "keep", "capture"})
"""blocks in which every value is a path"""
KEYED_BY_PATH = frozenset({"until", "failon", "failedwhen", "match"})
"""blocks whose keys are paths"""
REQUEST_BLOCKS = frozenset({"query", "headers", "body", "multipart", "foreach"})
"""blocks of the request, which have templates instead of paths"""


def answer_path_problems(source: Source) -> Iterator[ConfigError]:
    """Compile every path that reads a response. Yield an error for each invalid path."""
    for path, text in _answer_paths(source.tree):
        if text == PATH_WORDS.get(path[-1]) or (path[-1] == "message" and not text.startswith("$")):
            continue
        try:
            compile_path(text, where=source.place(path))
        except ConfigError as error:
            yield error


def _answer_paths(tree: Mapping[str, object]) -> Iterator[tuple[TreePath, str]]:
    for name in ("wait", "setup", "teardown", "endpoints", "errors"):
        yield from _paths_in((name,), tree.get(name))


def _paths_in(path: TreePath, node: object) -> Iterator[tuple[TreePath, str]]:
    """Yield (key path, path) for each response path in a block. Blocks of the request are skipped."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            name = str(key)
            if path and fold_key(str(path[-1])) in KEYED_BY_PATH:
                yield (*path, name), name
            if fold_key(name) in REQUEST_BLOCKS:
                continue
            yield from _paths_in((*path, name), value)
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _paths_in((*path, index), value)
    elif isinstance(node, str) and _is_path(path):
        yield path, node


def _is_path(path: TreePath) -> bool:
    named = [fold_key(part) for part in path if isinstance(part, str)]
    inside, last = ["", *named][-2:]
    return last in PATH_KEYS or inside in PATH_BLOCKS or (last == "path" and inside in ("flatten", "errorwhen"))
