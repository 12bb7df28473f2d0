"""Embed texts and questions for services that do not compute embeddings.

``context.embedder`` is the embedding model that the config names under ``client_embeddings``; it is already open::

    embedder = required_embedder(config, context.embedder)
    await embedder.embed(["Ana lives in Lisbon."], kind="document")
    await question_vector(embedder, "Where does Ana live?")
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.errors import ConfigError
from bench.model import Embedder

if TYPE_CHECKING:
    from bench.config.provider.config import ProviderConfig

Vector = tuple[float, ...]


def required_embedder(config: ProviderConfig, embedder: Embedder | None) -> Embedder:
    """Return the embedding model that a provider needs.

    Raises:
        ConfigError: ``embedder`` is None.
    """
    if embedder is None:
        raise ConfigError(
            f"{config.name} needs an embedding model",
            where=config.place("client_embeddings"),
            hint='name an embedding model with --embedding-model or in "client_embeddings"',
        )
    return embedder


async def question_vector(embedder: Embedder, question: str) -> Vector:
    """Embed one question."""
    return (await embedder.embed([question], kind="query"))[0]


def normalized(vector: Sequence[float]) -> Vector:
    """Return the vector scaled to length 1; a zero vector stays zero."""
    length = math.sqrt(math.fsum(part * part for part in vector))
    return tuple(part / length for part in vector) if length else tuple(vector)
