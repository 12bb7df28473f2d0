"""Store the chunks of the retrieval algorithms. ``ChunkIndex`` is the interface of a store.

``FileIndex`` is a store with one file of JSON lines per namespace. It compares a question with every chunk.

Example::

    await index.put("ns", [Piece(id="m1#0", memory="m1", text="Ana lives in Lisbon.", vector=(0.6, 0.8))])
    likeness = await index.similarities("ns", (1.0, 0.0))
    likeness.chunks["m1#0"]                                     # 0.6

A line contains one chunk, or the ids of deleted memories. If several lines have the same chunk id, the last of these
lines counts, so a batch can be written again after a crash. An incomplete last line is ignored.
"""

from __future__ import annotations

import base64
import json
import os
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from operator import mul
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import anyio.to_thread

from bench.processor_time import thread_cpu_timed
from bench.providers.embedding import Vector, normalized
from bench.providers.snapshot import copy_store, store_digest

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One chunk of a memory, with the texts that a language model wrote about the chunk."""

    id: str
    """``MEMORY#n``: the memory's id and the number of the chunk"""
    memory: str
    text: str
    """the text of the chunk, unchanged from the memory"""
    context: str = ""
    """description of the chunk's place in the memory; it is put before the text when the chunk is indexed"""
    questions: tuple[str, ...] = ()
    when: str | None = None
    session: str | None = None
    flags: tuple[str, ...] = ()
    vector: Vector = ()
    question_vectors: tuple[Vector, ...] = ()

    @property
    def indexed(self) -> str:
        """Return the text that is embedded and searched: the description, if there is one, and the chunk."""
        return f"{self.context}\n\n{self.text}" if self.context else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Similarities:
    """The similarities between a question and the chunks of a namespace, as cosines by chunk id."""

    chunks: Mapping[str, float] = field(default_factory=dict)
    questions: Mapping[str, float] = field(default_factory=dict)
    """chunk id -> cosine between the query and the most similar of the chunk's generated questions"""


class ChunkIndex(Protocol):
    """A store of chunks by namespace. A chunk with an existing id replaces the stored chunk."""

    async def put(self, namespace: str, pieces: Sequence[Piece]) -> None: ...

    async def pieces(self, namespace: str) -> Mapping[str, Piece]:
        """Return all chunks of the namespace by id, without vectors, in the order in which they were stored."""
        ...

    async def similarities(self, namespace: str, vector: Vector) -> Similarities:
        """Return the exact cosines between ``vector`` and all chunks of the namespace."""
        ...

    async def delete(self, namespace: str, memories: Sequence[str]) -> None:
        """Delete all chunks of the memories with these ids."""
        ...

    async def clear(self, namespace: str) -> int:
        """Delete the namespace; return how many chunks it had."""
        ...

    async def close(self) -> None: ...


READ_NAMESPACES = 4
"""maximum number of namespaces that are kept in memory"""


@dataclass(slots=True)
class NamespaceIndex:
    """The chunks of one namespace in memory, with their vectors."""

    pieces: dict[str, Piece] = field(default_factory=dict)
    vectors: dict[str, array[float]] = field(default_factory=dict)
    questions: dict[str, list[array[float]]] = field(default_factory=dict)

    def add(self, piece: Piece) -> None:
        self.pieces[piece.id] = replace(piece, vector=(), question_vectors=())
        self.vectors[piece.id] = array("f", normalized(piece.vector))
        self.questions[piece.id] = [array("f", normalized(vector)) for vector in piece.question_vectors]

    def remove(self, memories: Sequence[str]) -> None:
        for key in [key for key, piece in self.pieces.items() if piece.memory in memories]:
            del self.pieces[key], self.vectors[key], self.questions[key]


class FileIndex:
    """A ChunkIndex that stores each namespace in its own file of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cached: dict[str, NamespaceIndex] = {}

    def path(self, namespace: str) -> Path:
        """Return the file of a namespace. The name is percent-encoded, so that it cannot lead to another folder."""
        return self._folder / f"{quote(namespace, safe='')}.jsonl"

    async def put(self, namespace: str, pieces: Sequence[Piece]) -> None:
        """Append the chunks to the file, and return when they are on disk."""
        cached = await self._read(namespace)
        await self._append(namespace, [_packed(piece) for piece in pieces])
        for piece in pieces:
            cached.add(piece)

    async def pieces(self, namespace: str) -> Mapping[str, Piece]:
        """Return all chunks of the namespace by id, in the order in which they were stored."""
        return (await self._read(namespace)).pieces

    async def similarities(self, namespace: str, vector: Vector) -> Similarities:
        """Return the exact cosines between ``vector`` and all chunks of the namespace."""
        cached = await self._read(namespace)
        wanted = array("f", normalized(vector))
        return Similarities(
            chunks={key: sum(map(mul, wanted, one)) for key, one in cached.vectors.items()},
            questions={
                key: max(sum(map(mul, wanted, one)) for one in vectors)
                for key, vectors in cached.questions.items()
                if vectors
            },
        )

    async def delete(self, namespace: str, memories: Sequence[str]) -> None:
        """Delete all chunks of the memories with these ids."""
        if not self.path(namespace).exists():
            return
        cached = await self._read(namespace)
        await self._append(namespace, [{"forget": list(memories)}])
        cached.remove(memories)

    async def clear(self, namespace: str) -> int:
        """Delete the file of the namespace; return how many chunks it had."""
        count = len((await self._read(namespace)).pieces)
        self._cached.pop(namespace, None)
        self.path(namespace).unlink(missing_ok=True)
        return count

    async def restore(self, namespace: str, folder: Path) -> None:
        """Replace the namespace by its copy from ``folder``, the folder of another run."""
        self._cached.pop(namespace, None)
        path = self.path(namespace)
        await copy_store(folder / self._folder.name / path.name, path)

    async def digest(self, namespace: str) -> str:
        """Return a hash of the namespace's file."""
        return await store_digest(self.path(namespace))

    async def close(self) -> None:
        """Forget the namespaces kept in memory. No file needs closing, because none stays open between calls."""
        self._cached.clear()

    async def _append(self, namespace: str, rows: Sequence[Mapping[str, object]]) -> None:
        text = "".join(json.dumps(row, ensure_ascii=True, separators=(",", ":")) + "\n" for row in rows)
        await anyio.to_thread.run_sync(_timed, _write, self.path(namespace), text)

    async def _read(self, namespace: str) -> NamespaceIndex:
        cached = self._cached.pop(namespace, None)
        if cached is None:
            cached = NamespaceIndex()
            for row in await anyio.to_thread.run_sync(_timed, _rows, self.path(namespace)):
                if "forget" in row:
                    cached.remove(row["forget"])
                else:
                    cached.add(_unpacked(row))
        self._cached[namespace] = cached
        while len(self._cached) > READ_NAMESPACES:
            del self._cached[next(iter(self._cached))]
        return cached


def _timed(work: Callable[..., T], *arguments: object) -> T:
    """Call ``work`` in a thread, and add its processor time to the open ``cpu_timer``."""
    with thread_cpu_timed(time.thread_time_ns):
        return work(*arguments)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        end = file.seek(0, os.SEEK_END)
        if end:
            file.seek(end - 1)
            if file.read(1) != b"\n":  # a crash tore the last line: leave it alone on its own line
                file.write(b"\n")
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def _rows(path: Path) -> list[dict[str, Any]]:
    """Return the lines of the file that can be read as JSON; other lines are skipped."""
    if not path.exists():
        return []
    found: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def _packed(piece: Piece) -> dict[str, object]:
    row = asdict(piece)
    row["vector"] = _pack(piece.vector)
    row["question_vectors"] = [_pack(vector) for vector in piece.question_vectors]
    return row


def _unpacked(row: dict[str, Any]) -> Piece:
    lists = {name: tuple(row[name]) for name in ("questions", "flags")}
    vectors = {"vector": _unpack(row["vector"]), "question_vectors": tuple(map(_unpack, row["question_vectors"]))}
    return Piece(**{**row, **lists, **vectors})


def _pack(vector: Vector) -> str:
    return base64.b64encode(array("f", vector).tobytes()).decode()


def _unpack(text: str) -> Vector:
    found = array("f")
    found.frombytes(base64.b64decode(text))
    return tuple(found)
