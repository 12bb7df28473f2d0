"""Names and descriptions of the built-in providers, for code that must not import the provider modules."""

from __future__ import annotations

BUILT_IN = {
    "bm25": "Full-text search of SQLite FTS5 with stemming; no key, no network",
    "full-context": "All memories in order; the answer's context budget limits them",
    "no-memory": "Remembers nothing: the floor of every answer",
    "oracle": "The evidence and nothing else: the ceiling of every retrieval",
    "random": "k memories drawn by seed and question",
    "vector": "Exact cosine over embeddings of any OpenAI-compatible endpoint",
}
"""name of a built-in provider -> its description"""
ALIASES = {"bm25": ("local-baseline", "LocalBaseline")}
"""name of a built-in provider -> its other names"""
CONTROLS = frozenset({"oracle", "no-memory", "random", "full-context"})
"""names of the controls: providers with reference results, which are never ranked"""


def is_built_in(provider: str) -> bool:
    """Return True if the provider is built in, such as ``bm25`` or ``bm25@variant``."""
    return provider.partition("@")[0] in BUILT_IN


def is_control(provider: str) -> bool:
    """Return True if the provider is a control, such as ``oracle`` or ``oracle@variant``."""
    return provider.partition("@")[0] in CONTROLS
