"""Providers that need no key and no network: the baselines every result stands beside.

Each is a full implementation of the Protocol in one module; ``store`` is the SQLite file they keep memories in.
``oracle`` is built by the engine, the only holder of the evidence.
"""

from __future__ import annotations

DESCRIPTIONS: dict[str, dict[str, object]] = {
    "bm25": {
        "display_name": "BM25",
        "description": "Full-text search of SQLite FTS5 with stemming; no key, no network",
        "aliases": ["local-baseline", "LocalBaseline"],
        "capabilities": {"supports_batch": True, "supports_metadata": True},
    },
    "vector": {
        "display_name": "Vector",
        "description": "Exact cosine over embeddings of any OpenAI-compatible endpoint",
        "client_embeddings": {"model": "openai/text-embedding-3-small"},
        "capabilities": {"supports_batch": True, "supports_metadata": True},
    },
    "full-context": {
        "display_name": "Full context",
        "description": "Every memory in its order; the answer's context budget cuts it",
        "capabilities": {"supports_batch": True, "scores": False},
    },
    "oracle": {
        "display_name": "Oracle",
        "description": "The evidence and nothing else: the ceiling of every retrieval",
        "capabilities": {"supports_batch": True, "scores": False},
    },
    "random": {
        "display_name": "Random",
        "description": "k memories drawn by seed and question",
        "capabilities": {"supports_batch": True, "scores": False},
    },
    "no-memory": {
        "display_name": "No memory",
        "description": "Remembers nothing: the floor of every answer",
        "capabilities": {"supports_batch": True, "scores": False, "ids": False},
    },
}
"""the config of each built-in, as its file would hold it; ``bench.providers.adapters.builtin_config`` completes it"""

for _entry in DESCRIPTIONS.values():
    _entry["tags"] = ["built-in"]
    _entry["determinism"] = "deterministic"
    _entry["verified"] = {"level": "live", "date": "2026-11-27", "upstream": "bench"}
