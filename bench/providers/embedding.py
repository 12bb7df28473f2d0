"""Embed texts and questions for services that do not compute embeddings.

``context.embedder`` is the embedding model that the config names under ``client_embeddings``; it is already open::

    vectors = ProviderEmbedder.from_config(config, context.embedder)
    await vectors.documents(["Ana lives in Lisbon."])
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.errors import ConfigError
from bench.model import Embedder

if TYPE_CHECKING:
    from bench.config.provider.config import ProviderConfig

Vector = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ProviderEmbedder:
    """An embedder for the stored texts and the questions of one provider."""

    embedder: Embedder

    @classmethod
    def from_config(cls, config: ProviderConfig, embedder: Embedder | None) -> ProviderEmbedder:
        """Create the object from an embedder that is already open.

        Raises:
            ConfigError: ``embedder`` is None.
        """
        if embedder is None:
            raise ConfigError(
                f"{config.name} needs an embedding model",
                where=config.place("client_embeddings"),
                hint='name an embedding model with --embedding-model or in "client_embeddings"',
            )
        return cls(embedder)

    async def documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed texts that will be stored; return their vectors in the same order."""
        return await self.embedder.embed(texts, kind="document")

    async def query(self, text: str) -> Vector:
        """Embed a question; return its vector."""
        return (await self.embedder.embed([text], kind="query"))[0]


def normalized(vector: Sequence[float]) -> Vector:
    """Return the vector scaled to length 1; a zero vector stays zero."""
    length = math.sqrt(math.fsum(part * part for part in vector))
    return tuple(part / length for part in vector) if length else tuple(vector)
