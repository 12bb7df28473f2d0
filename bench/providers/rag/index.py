"""What the algorithms store, and the face of the places that keep it.

Example::

    await index.put("ns", [Piece(id="m1#0", memory="m1", text="Ana lives in Lisbon.", vector=(0.6, 0.8))])
    likeness = await index.alike("ns", (1.0, 0.0))
    likeness.chunks["m1#0"]                                     # 0.6
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bench.providers.embedding import Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One chunk with what a model wrote about it."""

    id: str
    """``MEMORY#n``"""
    memory: str
    text: str
    """the chunk as it stood in the memory"""
    context: str = ""
    """what places it in its document; stands before the text wherever the text is indexed"""
    questions: tuple[str, ...] = ()
    when: str | None = None
    session: str | None = None
    flags: tuple[str, ...] = ()
    vector: Vector = ()
    question_vectors: tuple[Vector, ...] = ()

    @property
    def indexed(self) -> str:
        """The text that is embedded and whose words are counted."""
        return f"{self.context}\n\n{self.text}" if self.context else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """Cosines to a question."""

    chunks: Mapping[str, float] = field(default_factory=dict)
    questions: Mapping[str, float] = field(default_factory=dict)
    """the best question of each chunk that has any"""


class Index(Protocol):
    """Keeps the pieces of namespaces. An id that is put again is replaced."""

    async def put(self, namespace: str, pieces: Sequence[Piece]) -> None: ...

    async def pieces(self, namespace: str) -> Mapping[str, Piece]:
        """Every piece without its vectors, in the order of writing."""
        ...

    async def alike(self, namespace: str, vector: Vector) -> Likeness:
        """Exact cosines of everything in the namespace."""
        ...

    async def forget(self, namespace: str, memories: Sequence[str]) -> None:
        """Remove the pieces of some memories."""
        ...

    async def clear(self, namespace: str) -> int:
        """Remove a namespace; give how many pieces it held."""
        ...

    async def close(self) -> None: ...
