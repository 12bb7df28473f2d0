"""Every path of a provider file that reads an answer, compiled before anything runs: each fault at its line.

Works on the raw tree, so that a wrong path is reported beside a misspelt key::

    chroma.yaml:33:21: "$.documents[" is no path: expected an index
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bench.config.jsonpath import compile_path
from bench.config.jsontext import TreePath
from bench.config.source import Source, fold
from bench.errors import ConfigError

READS = frozenset(
    {
        "results", "contentfield", "scorefield", "chunksfield", "idfield", "when", "field", "value", "empty", "cursor",
        "items", "key", "ids", "countatleast", "id", "message",
    }
)  # fmt: skip
"""keys whose value is a path, as :func:`fold` spells them"""
WORDS: Mapping[str | int, str] = {"key": "uuid", "value": "sent"}
"""what an id_map may say in place of a path; a message may be any text"""
HOLD_PATHS = frozenset({"zip", "keep", "capture"})
"""blocks in which every value is a path"""
KEYED_BY_PATH = frozenset({"until", "failon", "failedwhen", "match"})
"""blocks whose keys are paths"""
SENT = frozenset({"query", "headers", "body", "multipart", "foreach"})
"""blocks of what is sent; their templates are checked in :mod:`bench.config.provider.templates`"""


def answer_path_problems(source: Source) -> Iterator[ConfigError]:
    """Compile every path that reads an answer."""
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
    """The paths below a block; what is sent is no path of an answer."""
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
