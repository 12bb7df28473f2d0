"""Plain vector search: split texts into chunks, embed the chunks with OpenRouter, and rank the chunks by cosine.

This provider is the baseline for the other retrieval algorithms. Those algorithms use the same chunks, but a language
model writes a text about each chunk. A config of this provider has::

    type: local
    adapter: bench.providers.openrouter_rag:OpenrouterRag
    client_embeddings: {model: openrouter/openai/text-embedding-3-small}
"""

from __future__ import annotations

from bench.providers.rag.provider import Rag


class OpenrouterRag(Rag):
    """A provider that ranks unchanged chunks by vectors. ``strategy: rrf`` and ``strategy: weighted`` also use BM25."""

    strategy = "vector"
