"""Vectors for what is stored and asked, when the service under test makes none.

Wraps the embedder of the context with what the config says: prefixes, batches, normalising, dimension; equal texts
are embedded once a run::

    vectors = Vectors(config.client_embeddings, context.embedder, where=config.place("client_embeddings"))
    await vectors.documents(["Ana lives in Lisbon."])
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from bench.errors import ConfigError, MappingError
from bench.model import Embedder

if TYPE_CHECKING:
    from bench.config.provider import ProviderConfig
    from bench.config.provider.sections import ClientEmbeddings

Vector = tuple[float, ...]
REMEMBERED = 20_000
"""texts whose vectors are kept; the oldest go first"""


@dataclass(slots=True)
class Vectors:
    """The embeddings of one provider."""

    settings: ClientEmbeddings
    embedder: Embedder
    _known: dict[bytes, Vector] = field(default_factory=dict)

    @classmethod
    def of(cls, config: ProviderConfig, embedder: Embedder | None) -> Vectors:
        """The embeddings a config asks for.

        Raises:
            ConfigError: no embedder was opened for it.
        """
        if config.client_embeddings is None or embedder is None:
            raise ConfigError(
                f"{config.name} needs an embedding model",
                where=config.place("client_embeddings"),
                hint="name one with --embedding-model or in client_embeddings",
            )
        return cls(config.client_embeddings, embedder)

    async def documents(self, texts: Sequence[str]) -> list[Vector]:
        """Vectors of what is stored, in order."""
        return await self._embed([self.settings.document_prefix + text for text in texts], "document")

    async def query(self, text: str) -> Vector:
        """The vector of a question."""
        return (await self._embed([self.settings.query_prefix + text], "query"))[0]

    async def _embed(self, texts: Sequence[str], kind: Literal["document", "query"]) -> list[Vector]:
        keys = [hashlib.sha256(f"{kind}\n{text}".encode("utf-8", "surrogatepass")).digest() for text in texts]
        found = {key: self._known[key] for key in keys if key in self._known}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        pending = list(missing.items())
        for start in range(0, len(pending), self.settings.batch):
            chunk = pending[start : start + self.settings.batch]
            vectors = await self.embedder.embed([text for _, text in chunk], kind=kind)
            found |= {key: self._checked(vector) for (key, _), vector in zip(chunk, vectors, strict=True)}
        self._remember(found)
        return [found[key] for key in keys]

    def _remember(self, found: dict[bytes, Vector]) -> None:
        self._known |= found
        while len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]

    def _checked(self, vector: Sequence[float]) -> Vector:
        wanted = self.settings.dimensions
        if wanted is not None and len(vector) != wanted:
            raise MappingError(
                f"client_embeddings.dimensions is {wanted}, {self.embedder.name} gives {len(vector)}",
                hint="correct dimensions, or choose another model",
            )
        return normalised(vector) if self.settings.normalize else tuple(vector)


def normalised(vector: Sequence[float]) -> Vector:
    """The vector at length 1; a zero vector stays zero."""
    length = math.sqrt(math.fsum(part * part for part in vector))
    return tuple(part / length for part in vector) if length else tuple(vector)
