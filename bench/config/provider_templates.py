"""Compile the templates of a provider file before the run; an unknown variable is reported with its line.

Also in this module:

* Compile every path that reads a response; an invalid path is reported with its line.

Example::

    chroma.yaml:21:7: unknown variable "collectionId" in endpoints.add.path; nothing captures it
    chroma.yaml:33:21: "$.documents[" is not a path: expected an index

Both work on the raw tree, so that their errors are reported together with unknown keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.config.file import Source, did_you_mean, fold, name_of
from bench.config.jsonpath import compile_path
from bench.config.jsontext import TreePath
from bench.config.provider_body import ENVIRONMENT, Compiler, Node, Scope, Text, TreeError, unfilled
from bench.config.provider_sections import ADD, CLEAR, DELETE, EACH, ELEMENT, EVERYWHERE, LIST, SEARCH, SETUP, WAIT
from bench.config.value_rules import problem_of, texts
from bench.errors import ConfigError

NAMES_OF = {
    "add": ADD | ELEMENT,
    "update": ADD | ELEMENT,
    "search": SEARCH,
    "delete": DELETE,
    "list": LIST,
    "clear": CLEAR,
    "teardown": CLEAR,
    "verifyclear": CLEAR,
}
"""request variables of each endpoint, in addition to those of every call"""


@dataclass(frozen=True, slots=True)
class _Template:
    """One template of a call: its place, how to compile it, and the names it may use."""

    place: TreePath
    compile: Callable[[], Node]
    names: frozenset[str]


def template_problems(source: Source) -> Iterator[ConfigError]:
    """Compile every path, query, header, body and form field of every call; yield ``${...}`` that nothing fills."""
    compiled: list[TreePath] = []
    for path, call, names in _calls(source.tree):
        for template in _templates(path, call, names):
            compiled.append(template.place)
            yield from _problems(source, template)
    yield from _literal_problems(source, compiled)


FROM_ENVIRONMENT = frozenset({"connection", "docker", "mcp", "vars", "local", "auth", "embedswith", "clientembeddings"})
"""blocks in which ``${UPPER_CASE}`` is an environment variable"""
READ_ELSEWHERE = frozenset({("ingest", "text"), ("scoping", "runidformat")})
"""templates whose names are checked by their own block"""
PROSE = frozenset({"displayname", "description", "docs", "tags", "verified"})


def _literal_problems(source: Source, compiled: Sequence[TreePath]) -> Iterator[ConfigError]:
    """Yield a problem for each variable that nothing fills, since it would be sent or compared literally."""
    for path, text in texts(source.tree):
        block = tuple(fold(str(part)) for part in path)
        is_template = any(path[: len(place)] == place for place in compiled)
        if is_template or block[0] in PROSE or block[:2] in READ_ELSEWHERE:
            continue
        for name in unfilled(text):
            from_environment = block[0] in FROM_ENVIRONMENT
            if from_environment and ENVIRONMENT.fullmatch(name):
                continue
            known = "only variables of the environment, in upper case" if from_environment else "none: write it out"
            yield ConfigError(
                f'unknown variable "{name}" in {name_of(path)}; the text is sent unchanged',
                where=source.place(path),
                hint=f"known variables: {known}; a literal is written $${{{name}}}",
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
        guess = did_you_mean(name, template.names) or "; nothing captures it"
        yield ConfigError(
            f'unknown variable "{name}" in {shown}{guess}',
            where=source.place((*template.place, *place)),
            hint=f"known variables: {', '.join(sorted(template.names))}",
        )


def _templates(path: TreePath, call: Mapping[str, object], names: frozenset[str]) -> Iterator[_Template]:
    """Yield the templates of one call."""
    compiler = Compiler()
    loop = _get(call, "for_each")
    if isinstance(loop, str):
        yield _Template((*path, "for_each"), lambda: compiler.string(loop), names)
        names = names | {EACH}
    address = _get(call, "path")
    if isinstance(address, str):
        yield _Template((*path, "path"), lambda: compiler.text(address), names)
    body = _get(call, "body")
    if body is not None:
        yield _Template((*path, "body"), lambda: compiler.tree(body), names)
    forms = _get(_mapping(_get(call, "response")), "id_from")
    of_answers = names - SEARCH - LIST
    for index, form in enumerate(forms if isinstance(forms, list) else ()):
        for key in ("tag_prefix", "pattern"):
            text = _get(_mapping(form), key)
            if isinstance(text, str):
                place = (*path, "response", "id_from", index, key)
                yield _Template(place, _compiling_form(compiler, text, is_pattern=key == "pattern"), of_answers)
    for key in ("query", "headers", "multipart", "match"):
        block = _get(call, key)
        for name, value in block.items() if isinstance(block, Mapping) else ():
            yield _Template((*path, key, str(name)), _compiling(compiler, value), names)


def _compiling_form(compiler: Compiler, text: str, *, is_pattern: bool) -> Callable[[], Node]:
    def compiled() -> Node:
        node = compiler.text(text)
        if is_pattern:
            shown = "".join(node.parts[::2]) if isinstance(node, Text) else str(node.fill(Scope({})))
            problem = problem_of(shown)
            if problem is not None:
                raise TreeError(f'pattern "{text}" {problem}', (), "for example ^${runTag}-(.*)\\.txt$")
        return node

    return compiled


def _compiling(compiler: Compiler, value: object) -> Callable[[], Node]:
    return lambda: compiler.tree(value)


def _calls(tree: Mapping[str, object]) -> Iterator[tuple[TreePath, Mapping[str, object], frozenset[str]]]:
    """Yield every call of the raw tree with the names it may use.

    A setup call may use captures of earlier calls only.
    """
    known = EVERYWHERE | frozenset(_mapping(_get(tree, "vars")))
    if _get(_mapping(_get(tree, "scoping")), "strategy") == "sessionId":
        known |= {"sessionId"}
    for path, call in _listed(tree, "setup"):
        yield path, call, known | SETUP
        existing = _get(call, "existing")
        if isinstance(existing, Mapping):
            yield (*path, "existing"), existing, known | SETUP
        known |= _captured(call)
    endpoints = _mapping(_get(tree, "endpoints"))
    later = [*endpoints.values(), *(step for endpoint in endpoints.values() for step in _steps(endpoint))]
    everywhere = known.union(*map(_captured, map(_mapping, later)), _captured_in_wait(tree))
    for key, endpoint in endpoints.items():
        own = NAMES_OF.get(fold(key), frozenset())
        yield from _endpoint(("endpoints", key), _mapping(endpoint), everywhere | own, known | own)
    yield from _waiting(("wait",), _get(tree, "wait"), everywhere)
    for path, call in _listed(tree, "teardown"):
        yield path, call, everywhere | CLEAR


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
    yield from _waiting((*path, "wait"), _get(call, "wait"), names)


def _waiting(
    path: TreePath, wait: object, names: frozenset[str]
) -> Iterator[tuple[TreePath, Mapping[str, object], frozenset[str]]]:
    request = _get(_mapping(wait), "request")
    if isinstance(request, Mapping):
        yield (*path, "request"), request, names | WAIT


def _listed(tree: Mapping[str, object], key: str) -> Iterator[tuple[TreePath, Mapping[str, object]]]:
    block = _get(tree, key)
    for index, call in enumerate(block if isinstance(block, list) else ()):
        if isinstance(call, Mapping):
            yield (key, index), call


def _steps(call: object) -> Iterator[Mapping[str, object]]:
    steps = _get(_mapping(call), "steps")
    return (step for step in (steps if isinstance(steps, list) else ()) if isinstance(step, Mapping))


def _captured(call: Mapping[str, object]) -> frozenset[str]:
    response = _mapping(_get(call, "response"))
    id_map = _get(_mapping(_get(response, "id_map")), "name")
    return frozenset(_mapping(_get(call, "capture"))) | ({id_map} if isinstance(id_map, str) else set())


def _captured_in_wait(tree: Mapping[str, object]) -> frozenset[str]:
    wait = _mapping(_get(tree, "wait"))
    id_map = _get(_mapping(_get(wait, "id_map")), "name")
    names = _captured(_mapping(_get(wait, "request")))
    return names | ({id_map} if isinstance(id_map, str) else set())


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _get(tree: Mapping[str, object], name: str) -> object:
    """Return the value of a key in either spelling."""
    if name in tree:
        return tree[name]
    return next((value for key, value in tree.items() if fold(str(key)) == fold(name)), None)


READS = frozenset(
    {
        "results", "contentfield", "scorefield", "chunksfield", "idfield", "when", "field", "value", "empty", "cursor",
        "items", "key", "ids", "countatleast", "id", "message",
    }
)  # fmt: skip
"""keys whose value is a path, as :func:`fold` spells them"""
WORDS: Mapping[str | int, str] = {"key": "uuid", "value": "sent"}
"""words that an id_map accepts instead of a path; a message may be any text"""
HOLD_PATHS = frozenset({"zip", "keep", "capture"})
"""blocks in which every value is a path"""
KEYED_BY_PATH = frozenset({"until", "failon", "failedwhen", "match"})
"""blocks whose keys are paths"""
SENT = frozenset({"query", "headers", "body", "multipart", "foreach"})
"""blocks of the request; their templates are checked in :mod:`bench.config.provider_templates`"""


def answer_path_problems(source: Source) -> Iterator[ConfigError]:
    """Compile every path that reads a response."""
    for path, text in _answer_paths(source.tree):
        if text == WORDS.get(path[-1]) or (path[-1] == "message" and not text.startswith("$")):
            continue
        try:
            compile_path(text, where=source.place(path))
        except ConfigError as error:
            yield error


def _answer_paths(tree: Mapping[str, object]) -> Iterator[tuple[TreePath, str]]:
    for name in ("wait", "setup", "teardown", "endpoints", "errors"):
        yield from _inside((name,), tree.get(name))


def _inside(path: TreePath, node: object) -> Iterator[tuple[TreePath, str]]:
    """Yield the paths in a block; blocks of the request are skipped."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            name = str(key)
            if path and fold(str(path[-1])) in KEYED_BY_PATH:
                yield (*path, name), name
            if fold(name) in SENT:
                continue
            yield from _inside((*path, name), value)
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _inside((*path, index), value)
    elif isinstance(node, str) and _reads(path):
        yield path, node


def _reads(path: TreePath) -> bool:
    named = [fold(part) for part in path if isinstance(part, str)]
    inside, last = ["", *named][-2:]
    return last in READS or inside in HOLD_PATHS or (last == "path" and inside in ("flatten", "errorwhen"))
