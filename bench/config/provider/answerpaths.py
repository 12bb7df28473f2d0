"""Every path of a provider file that reads an answer, compiled before anything runs: each fault at its line.

Works on the raw tree, so that a wrong path is reported beside a misspelt key::

    chroma.yaml:33:21: "$.documents[" is no path: expected an index
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bench.config.jsonpath import compile_path
from bench.config.source import Source
from bench.errors import ConfigError

RESPONSE_PATHS = {
    "results", "contentField", "content_field", "scoreField", "score_field", "chunksField", "chunks_field", "idField",
    "id_field", "when", "field", "path", "value", "empty", "cursor", "items", "key", "ids", "count_at_least",
    "countAtLeast", "id", "message",
}  # fmt: skip
"""keys of answers whose value is a path"""


def answer_path_problems(source: Source) -> Iterator[ConfigError]:
    """Compile every path that reads an answer."""
    for path, text in _answer_paths(source.tree):
        if not text.startswith("$") and path[-1] in {"value", "message", "path", "key"}:
            continue
        try:
            compile_path(text, where=source.place(path))
        except ConfigError as error:
            yield error


def _answer_paths(tree: Mapping[str, object]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    endpoints = tree.get("endpoints")
    blocks: list[tuple[tuple[str | int, ...], object]] = [(("wait",), tree.get("wait"))]
    if isinstance(endpoints, Mapping):
        for name, call in endpoints.items():
            if isinstance(call, Mapping):
                inside = ("response", "partial", "page", "value", "empty", "wait")
                blocks += [(("endpoints", name, key), call.get(key)) for key in inside]
    for path, block in blocks:
        yield from _strings(path, block)


def _strings(path: tuple[str | int, ...], node: object) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(node, str):
        named = [part for part in path if isinstance(part, str)]
        if named[-1] in RESPONSE_PATHS or named[-2:-1] in (["zip"], ["keep"]):
            yield path, node
    elif isinstance(node, Mapping):
        for key, value in node.items():
            if key != "request":
                yield from _strings((*path, str(key)), value)
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _strings((*path, index), value)
