"""Plain vector search: split texts into chunks, embed these with OpenRouter, and compare by cosine.

The other retrieval algorithms are compared with this provider. They use the same chunks, and add the text of a model to
each chunk::

    type: local
    adapter: bench.providers.openrouter_rag:OpenrouterRag
    client_embeddings: {model: openrouter/openai/text-embedding-3-small}
"""

from __future__ import annotations

from bench.providers.rag.provider import Rag


class OpenrouterRag(Rag):
    """A provider that ranks unchanged chunks by vectors. ``strategy: rrf`` and ``strategy: weighted`` also use BM25."""

    strategy = "vector"
