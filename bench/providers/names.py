"""The built-in providers by name, for lists that must not load anything."""

from __future__ import annotations

BUILT_IN = {
    "bm25": "Full-text search of SQLite FTS5 with stemming; no key, no network",
    "full-context": "Every memory in its order; the answer's context budget cuts it",
    "no-memory": "Remembers nothing: the floor of every answer",
    "oracle": "The evidence and nothing else: the ceiling of every retrieval",
    "random": "k memories drawn by seed and question",
    "vector": "Exact cosine over embeddings of any OpenAI-compatible endpoint",
}
"""name -> what it does"""
