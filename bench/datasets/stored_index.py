"""Store the index of checked data, so that unchanged data is not parsed again.

The index of large data is stored on disk for later commands. The index of small data is stored in memory and used only
by this process.

Example::

    store = StoredIndex.of(config, files, workspace)
    if (found := store.read(source)) is None:       # none stored, or anything changed
        found = scan(config, source)
        store.write(found, source)

An index is used until the data, the config or the code of bench changes. The folder ``datasets/.index/`` may be deleted
at any time.
"""

from __future__ import annotations

import json
import os
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, TypeAlias

from bench.config.benchmark.config import BenchmarkConfig
from bench.config.file import display_path
from bench.datasets.inspection import DatasetCounts, DatasetIndex
from bench.datasets.rows.data_file import DataFile
from bench.datasets.rows.index import IdTable
from bench.datasets.rows.reading import LARGE_DATA
from bench.datasets.rows.row_source import RowSource

KEPT = 4
"""maximum number of indexes in memory"""
_in_memory: dict[str, tuple[DatasetIndex, int]] = {}
_TABLES = ("ids", "rows", "corpora", "views")
_ARRAYS = ("type_of", "view_of", "base_of_view")
_PLAIN = ("types", "cuts", "content_sha256", "notes", "remarks", "texts", "repeated", "blank", "coverage_checks")

_Part: TypeAlias = "array[int] | bytearray"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredIndex:
    """The place of a benchmark's stored index. The index is used only if it has the right ``key``."""

    path: Path
    key: str
    """digest of the data files, the config files and bench's code; empty if nothing can be stored"""
    small: bool = False
    """true if the data is small, so that its index is stored in memory instead of on disk"""

    @classmethod
    def of(cls, config: BenchmarkConfig, files: Sequence[DataFile], workspace: Path) -> StoredIndex:
        """Return the place and the key of the index for these files and this config."""
        path = workspace / "datasets" / ".index" / f"{config.name}.index"
        if config.origin is None:
            return cls(path=path, key="")
        small = sum(file.path.stat().st_size for file in files) < LARGE_DATA
        written = [
            [str(source.path.resolve()), source.path.read_text(encoding="utf-8")] for source in config.origin.sources
        ]
        shown = [source.label for source in config.origin.sources] + [display_path(file.path) for file in files]
        place = shown if small else _code_digest()
        parts = [place, written, config.model_dump(mode="json"), [[file.name, file.sha256] for file in files]]
        return cls(path=path, key=sha256(json.dumps(parts).encode()).hexdigest(), small=small)

    def read(self, source: RowSource) -> DatasetIndex | None:
        """Return the stored index, or None if no index is stored.

        Return None too if the key of the index or the digest of a joined file has changed.
        """
        if not self.key:
            return None
        if self.small:
            if self.key not in _in_memory:
                return None
            found, source.left_out = _in_memory[self.key] = _in_memory.pop(self.key)
            return found
        try:
            with self.path.open("rb") as file:
                head = json.loads(file.readline())
                if head["key"] != self.key or any(
                    source.digest_of(name) != sha for name, sha in head["joined"].items()
                ):
                    return None
                found = _read(head, file)
        except (OSError, ValueError, KeyError, TypeError, EOFError):
            return None
        source.joined.update(head["joined"])
        source.left_out = head["left_out"]
        return found

    def write(self, found: DatasetIndex, source: RowSource) -> None:
        """Store an index. A failure is ignored, and the next command parses the data again."""
        if not self.key:
            return
        if self.small:
            if not source.joined:
                _in_memory[self.key] = found, source.left_out
                for oldest in list(_in_memory)[:-KEPT]:
                    del _in_memory[oldest]
            return
        parts = list(_parts(found))
        head = {
            "key": self.key,
            "joined": source.joined,
            "left_out": source.left_out,
            "counts": {one.name: getattr(found.counts, one.name) for one in fields(found.counts)},
            "items": found.rows.items,
            "plain": {name: getattr(found, name) for name in _PLAIN},
            "parts": [[name, _type_code(part), len(part)] for name, part in parts],
        }
        written = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with written.open("wb") as file:
                file.write(json.dumps(head).encode() + b"\n")
                for _, part in parts:
                    file.write(memoryview(part))
            written.replace(self.path)
        except OSError:
            written.unlink(missing_ok=True)


@cache
def _code_digest() -> str:
    """Return a hex digest of bench's own code that reads configs and data."""
    digest, root = sha256(), Path(__file__).parent.parent
    for path in sorted([*(root / "datasets").rglob("*.py"), *(root / "config").rglob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _type_code(part: _Part) -> str:
    return part.typecode if isinstance(part, array) else ""


def _parts(found: DatasetIndex) -> Iterator[tuple[str, _Part]]:
    """Yield the name and the content of every buffer in the index, in a fixed order."""
    for name in _ARRAYS:
        yield name, getattr(found, name)
    for name in _TABLES:
        if (table := getattr(found, name)) is not None:
            yield from (
                (f"{name}.{slot}", value) for slot, value in vars(table).items() if not isinstance(value, int | None)
            )


def _read(head: dict[str, object], file: BinaryIO) -> DatasetIndex:
    counts = dict(head["counts"])  # type: ignore[call-overload]
    counts |= {name: Counter(counts[name]) for name in ("question_types", "flags", "scored")}
    found = DatasetIndex(counts=DatasetCounts(**counts))
    for name, value in head["plain"].items():  # type: ignore[attr-defined]
        setattr(
            found, name, tuple(value) if isinstance(value, list) and name in ("notes", "remarks", "texts") else value
        )
    for name, code, length in head["parts"]:  # type: ignore[attr-defined]
        place, _, slot = name.partition(".")
        part = _part(file, code, length)
        if not slot:
            setattr(found, place, part)
            continue
        if getattr(found, place) is None:
            setattr(found, place, IdTable())
        vars(getattr(found, place))[slot] = part
    found.rows.items = head["items"]  # type: ignore[assignment]
    return found


def _part(file: BinaryIO, code: str, length: int) -> _Part:
    if code:
        part = array(code)
        part.fromfile(file, length)
        return part
    raw = bytearray(file.read(length))
    if len(raw) != length:
        raise EOFError
    return raw
