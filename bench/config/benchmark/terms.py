"""Types that check single values of a benchmark config.

`ConfigOrigin` has the files from which a config was read.

Example::

    Segment        # a name that is safe as a file and a run id: demo, locomo-turns
    FieldPath      # "$.content", or a bare field name
    origin = ConfigOrigin(sources=(child, parent))
    origin.tree()                          # child merged over parent
    origin.place(("data", "path"))         # the line in the parent, when only the parent has the key
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from bench.config.benchmark.values import compile_value
from bench.config.file import Source, fold_key
from bench.config.jsontext import TreePath
from bench.config.value_rules import SEGMENT, pattern_problem, require_portable
from bench.errors import ConfigError
from bench.version import plug_ins


def _segment(value: str) -> str:
    if not SEGMENT.fullmatch(value) or value.startswith("-"):
        raise ValueError(
            f'"{value}" is not a valid name: expected at most 100 letters, digits, ".", "_" and "-", '
            'without "." or "-" at the beginning'
        )
    return require_portable(value)


def _field_path(value: str) -> str:
    try:
        compile_value(value)
    except ConfigError as error:
        raise ValueError(error.message) from error
    return value


def _pattern(value: str) -> str:
    problem = pattern_problem(value, groups=None)
    if problem is not None:
        raise ValueError(f'the pattern "{value}" {problem}')
    return value


def _zone(value: str) -> str:
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f'"{value}" is not a time zone of the IANA database') from error
    return value


def _date_format(value: str) -> str:
    try:
        datetime.strptime("", value)
    except ValueError as error:
        if "directive" in str(error) or "stray" in str(error):
            raise ValueError(f'"{value}" is not a valid strptime format: {error}') from error
    return value


def _digest(value: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", value):
        raise ValueError("a SHA-256 is 64 hexadecimal digits")
    return value.lower()


def _python_class(value: str) -> str:
    if value.split(":")[0].endswith((".ts", ".js", ".mjs", ".tsx")):
        raise ValueError(f'"{value}": an evaluator is a Python class, written ./file.py:Class')
    if ":" not in value:
        raise ValueError(f'"{value}" does not contain the name of a class; write ./file.py:Class')
    return value


Segment = Annotated[str, AfterValidator(_segment)]
FieldPath = Annotated[str, AfterValidator(_field_path)]
FirstOf = Annotated[tuple[FieldPath, ...], Field(min_length=1)]
"""alternative paths; the first path with a value is used"""
FieldValue = FieldPath | FirstOf
FieldPaths = FieldPath | Annotated[tuple[FieldPath | FirstOf, ...], Field(min_length=1)]
"""one path, or a list of paths whose values are all used. In a list inside this list, only the first path with a value
is used"""
Pattern = Annotated[str, AfterValidator(_pattern)]
Zone = Annotated[str, AfterValidator(_zone)]
DateFormat = Annotated[str, AfterValidator(_date_format)]
Sha256 = Annotated[str, AfterValidator(_digest)]
PythonClass = Annotated[str, AfterValidator(_python_class)]
Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]
Milliseconds = Annotated[int, Field(ge=0)]
Temperature = Annotated[float, Field(ge=0)]

Format = Literal["json", "jsonl", "csv", "tsv", "parquet"]
Unit = Literal["session", "turn", "corpus"]
Parser = Literal["direct", "dialog_refs", "exact_text", "ranges", "position"]
Mode = Literal["session-based", "incremental", "bulk"]
Granularity = Literal["auto", "turn", "session", "memory", "text"]
Capability = Literal["add_memory", "retrieve_memory", "delete_memory", "update_memory", "list_memories"]
METHODS = (
    "exact-match", "contains", "token-f1", "locomo-f1", "semantic-similarity", "llm-judge", "rubric", "rubric-points",
    "order-agreement", "labels", "memory-audit", "phrases", "ordered-phrases", "mcq", "faithfulness",
    "code-correctness", "deletion-check", "custom", "none",
)  # fmt: skip
PLUG_INS = "bench.evaluators"
"""entry point group of installed evaluators; their names are allowed as methods"""


def _known_method(name: str) -> str:
    """Return the name of a built-in method or installed evaluator unchanged; raise ValueError for any other name."""
    if name in METHODS or name in {point.name for point in plug_ins(PLUG_INS)}:
        return name
    listed = ", ".join(f"'{method}'" for method in METHODS)
    raise PydanticCustomError("literal_error", "must be {expected}", {"expected": listed})


Method = Annotated[str, AfterValidator(_known_method), WithJsonSchema({"type": "string", "examples": list(METHODS)})]

UNIT_OF_MODE: dict[Mode, Unit] = {"session-based": "session", "incremental": "turn", "bulk": "corpus"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigOrigin:
    """The files of one config: the file itself first, then the files that it extends.

    ``aliases`` maps a key path of the config model to the key path in the files, if the two paths differ.
    """

    sources: tuple[Source, ...]
    aliases: Mapping[TreePath, TreePath] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """Return the path of the config file itself."""
        return self.sources[0].path

    @property
    def folder(self) -> Path:
        """Return the folder of the config file. Files that the config names are first looked up in this folder."""
        return self.path.parent

    def tree(self) -> dict[str, object]:
        """Return the merged content of all files. A file takes precedence over the files that it extends."""
        merged: dict[str, object] = {}
        for source in reversed(self.sources):
            merged = merge(merged, source.tree)
        return merged

    def place(self, path: TreePath) -> str:
        """Return ``file:line:column`` of a key, in the first file that has the key."""
        path = self.spelt(path)
        return self.source_of(path).place(path)

    def written(self, path: TreePath) -> str:
        """Return a key path as a text with dots, in the spelling of the file that has the key."""
        path = self.spelt(path)
        return ".".join(map(str, self.source_of(path).locate(path)))

    def sets(self, path: TreePath) -> bool:
        """Return True if one of the files has the key."""
        path = self.spelt(path)
        return len(self.source_of(path).locate(path)) == len(path)

    def folder_of(self, path: TreePath) -> Path:
        """Return the folder of the file that sets the key."""
        return self.source_of(self.spelt(path)).path.parent

    def source_of(self, path: TreePath) -> Source:
        """Return the first file that has the key at ``path``.

        If no file has the key, return the first file that has the longest beginning of the path.
        """
        return max(self.sources, key=lambda source: len(source.locate(path)))

    def spelt(self, path: TreePath) -> TreePath:
        """Convert a key path of the config model to the key path in the files."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.aliases:
                return self.aliases[path[:end]] + path[end:]
        return path


def merge(base: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    """Return ``base`` with the keys of ``over`` merged into it.

    Maps are merged. Lists and single values are replaced, and null removes a key. ``itemId`` and ``item_id`` are one
    key.
    """
    merged = dict(base)
    for key, value in over.items():
        known = key if key in merged else next((old for old in merged if fold_key(old) == fold_key(key)), key)
        old = merged.pop(known, None)
        if isinstance(value, Mapping):
            merged[key] = merge(old if isinstance(old, Mapping) else {}, value)
        elif value is not None or known not in base:
            merged[key] = value
    return merged
