"""The built-in providers by name, for lists that must not import them."""

from __future__ import annotations

BUILT_IN = {
    "bm25": "Full-text search of SQLite FTS5 with stemming; no key, no network",
    "full-context": "Every memory in its order; the answer's context budget cuts it",
    "no-memory": "Remembers nothing: the floor of every answer",
    "oracle": "The evidence and nothing else: the ceiling of every retrieval",
    "random": "k memories drawn by seed and question",
    "vector": "Exact cosine over embeddings of any OpenAI-compatible endpoint",
}
"""name -> description"""
BOUNDS = frozenset({"oracle", "no-memory", "random", "full-context"})
"""reference providers for the best and worst possible results: shown next to results, but not ranked"""


def is_bound(provider: str) -> bool:
    """Return True when a provider (``NAME`` or ``NAME@version``) is a bound, which is not ranked."""
    return provider.partition("@")[0] in BOUNDS
