"""Which file said what: the sources of a config, the file itself first, then what it extends.

::

    origin = Origin(sources=(child, parent))
    origin.tree()                          # child merged over parent
    origin.place(("data", "path"))         # the parent's line, when only it has the key
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.config.jsontext import TreePath
from bench.config.source import Source, fold


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The chain of files behind one config; ``aliases`` maps a model path to the dialect's own."""

    sources: tuple[Source, ...]
    aliases: Mapping[TreePath, TreePath] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The file that the config is known by."""
        return self.sources[0].path

    @property
    def folder(self) -> Path:
        """The folder beside which files are looked for first."""
        return self.path.parent

    def tree(self) -> dict[str, object]:
        """Every file merged, the nearest last."""
        merged: dict[str, object] = {}
        for source in reversed(self.sources):
            merged = merge(merged, source.tree)
        return merged

    def place(self, path: TreePath) -> str:
        """``file:line:column`` of a key, in the nearest file that has it."""
        path = self.spelt(path)
        return self.source_of(path).place(path)

    def written(self, path: TreePath) -> str:
        """The key with dots, as the file that has it writes it."""
        path = self.spelt(path)
        return ".".join(map(str, self.source_of(path).locate(path)))

    def says(self, path: TreePath) -> bool:
        """True when one of the files has the key itself."""
        path = self.spelt(path)
        return len(self.source_of(path).locate(path)) == len(path)

    def folder_of(self, path: TreePath) -> Path:
        """The folder of the file that gave a value."""
        return self.source_of(self.spelt(path)).path.parent

    def source_of(self, path: TreePath) -> Source:
        """The nearest file that goes farthest along the path."""
        return max(self.sources, key=lambda source: len(source.locate(path)))

    def spelt(self, path: TreePath) -> TreePath:
        """The path as the dialect of the files spells it."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.aliases:
                return self.aliases[path[:end]] + path[end:]
        return path


def merge(base: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    """Deep-merge: maps merge, lists and scalars replace, null removes; either spelling of a key counts."""
    merged = dict(base)
    for key, value in over.items():
        known = key if key in merged else next((old for old in merged if fold(old) == fold(key)), key)
        old = merged.pop(known, None)
        if isinstance(value, Mapping):
            merged[key] = merge(old if isinstance(old, Mapping) else {}, value)
        elif value is not None or known not in base:
            merged[key] = value
    return merged
