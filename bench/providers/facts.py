"""What a plan and the lists may know about a provider without opening it. Pure functions of the config.

Example::

    facts.capabilities(config).operations       # gates benchmarks: frozenset({"add_memory", "retrieve_memory"})
    facts.environment_names(config)             # ("CHROMA_URL",) with defaults marked by needs()
    facts.embedding_model(config)               # "openai/text-embedding-3-small" or None
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.providers.protocol import Capabilities

if TYPE_CHECKING:
    from bench.config.provider import ProviderConfig


def embedding_model(config: ProviderConfig) -> str | None:
    """The embedding model the caller must open for this provider, None when it needs none."""
    return config.client_embeddings.model if config.client_embeddings else None


def capabilities(config: ProviderConfig) -> Capabilities:
    """What the provider can do, from its config and class."""
    from bench.providers.adapters import declared_capabilities

    return declared_capabilities(config)
