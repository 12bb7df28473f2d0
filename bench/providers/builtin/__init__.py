"""The built-in providers. They store memories in local files, and every other provider is compared with them.

Each module implements one provider. The provider ``oracle`` is part of the engine, because only the engine has the
evidence.
"""

from __future__ import annotations

from bench.config.builtin_providers import ALIASES, BUILT_IN


def description(name: str) -> dict[str, object]:
    """Return the config of a built-in provider, as read from YAML."""
    return {
        "name": name,
        "type": "local",
        "adapter": f"builtin:{name}",
        "description": BUILT_IN[name],
        "tags": ["built-in"],
        "determinism": "deterministic",
        "verified": {"level": "live", "date": "2026-11-27", "upstream": "bench"},
        **_SETTINGS[name],
    }


_OPERATIONS = {"delete_memory": True, "list_memories": True, "supports_batch": True}
_STORES = {**_OPERATIONS, "supports_metadata": True}
_UNRANKED = {**_OPERATIONS, "scores": False}

_SETTINGS: dict[str, dict[str, object]] = {
    "bm25": {"display_name": "BM25", "aliases": list(ALIASES["bm25"]), "capabilities": _STORES},
    "vector": {
        "display_name": "Vector",
        "client_embeddings": {"model": "openai/text-embedding-3-small"},
        "capabilities": _STORES,
    },
    "full-context": {"display_name": "Full context", "capabilities": _UNRANKED},
    "oracle": {"display_name": "Oracle", "capabilities": {"supports_batch": True, "scores": False}},
    "random": {"display_name": "Random", "capabilities": _UNRANKED},
    "no-memory": {"display_name": "No memory", "capabilities": {"scores": False}},
}
