"""Vectors for texts and questions, for services that do not embed.

The embedder is in the context; the caller opens it with the settings in ``client_embeddings`` of the config::

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
    """The embeddings of one provider."""

    embedder: Embedder

    @classmethod
    def from_config(cls, config: ProviderConfig, embedder: Embedder | None) -> ProviderEmbedder:
        """Return the embeddings for a config.

        Raises:
            ConfigError: no embedder was opened for the config.
        """
        if embedder is None:
            raise ConfigError(
                f"{config.name} needs an embedding model",
                where=config.place("client_embeddings"),
                hint="name one with --embedding-model or in client_embeddings",
            )
        return cls(embedder)

    async def documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of stored texts, in order."""
        return await self.embedder.embed(texts, kind="document")

    async def query(self, text: str) -> Vector:
        """Return the vector of a question."""
        return (await self.embedder.embed([text], kind="query"))[0]


def normalized(vector: Sequence[float]) -> Vector:
    """Return the vector scaled to length 1; a zero vector stays zero."""
    length = math.sqrt(math.fsum(part * part for part in vector))
    return tuple(part / length for part in vector) if length else tuple(vector)
