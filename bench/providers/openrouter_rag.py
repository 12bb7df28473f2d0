"""Plain retrieval over embeddings of OpenRouter: chunk, embed, cosine.

The yardstick of the algorithms beside it, which add a model's words to the same chunks::

    type: local
    adapter: bench.providers.openrouter_rag:OpenrouterRag
    client_embeddings: {model: openrouter/openai/text-embedding-3-small}
"""

from __future__ import annotations

from bench.providers.rag.provider import Rag


class OpenrouterRag(Rag):
    """Chunks as they are; ``strategy: rrf`` or ``weighted`` puts BM25 beside the vectors."""

    strategy = "vector"
