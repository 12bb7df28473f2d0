"""Plain retrieval over embeddings of OpenRouter: chunk, embed, cosine.

This is the baseline of the other algorithms, which add a model's text to the same chunks::

    type: local
    adapter: bench.providers.openrouter_rag:OpenrouterRag
    client_embeddings: {model: openrouter/openai/text-embedding-3-small}
"""

from __future__ import annotations

from bench.providers.rag.provider import Rag


class OpenrouterRag(Rag):
    """A provider that ranks unchanged chunks by vectors; ``strategy`` rrf or weighted also uses BM25."""

    strategy = "vector"
