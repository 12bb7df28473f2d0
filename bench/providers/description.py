"""Describe a provider from its config, without opening the provider.

Example::

    required_variables(config)      # ("MEM0_API_KEY",)
    embedding_model(config)         # "openai/text-embedding-3-small", or None
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from bench.config.builtin_providers import BUILT_IN
from bench.config.value_rules import find_variables
from bench.errors import ConfigError
from bench.providers.adapters import (
    builtin_config,
    entry_point_names,
    is_plugin,
    local_of,
    plugin_config,
    provider_class,
)
from bench.providers.protocol import Capabilities

if TYPE_CHECKING:
    from bench.config.catalog import CatalogEntry
    from bench.config.provider.config import ProviderConfig
    from bench.providers.rag.settings import RagLocal

EMBEDS_ITSELF = "builtin"
"""value of ``embeds_with`` if a service embeds texts with a model that is not known"""
PUBLISHED_PROVIDERS = frozenset(
    {
        "bm25", "vector", "full-context", "oracle", "random", "no-memory", "chroma", "pgvector", "mem0-library",
        "hindsight",
    }
)  # fmt: skip
"""providers that the published results of this project use; each was tested against its real service"""


def embedding_model(config: ProviderConfig) -> str | None:
    """Return the name of the model with which bench embeds for the provider; None if bench does not embed for it."""
    return config.client_embeddings.model if config.client_embeddings else None


def service_embedding_model(config: ProviderConfig) -> str | None:
    """Return the name of the model with which the service itself embeds, as the config spells it.

    `EMBEDS_ITSELF` means that the model is unknown. None means that the service does not embed or that this is unknown.
    """
    own = config.local.get("embedder")
    return config.embeds_with or (own if isinstance(own, str) else None)


def enrichment_settings(config: ProviderConfig) -> RagLocal | None:
    """Return the settings of a provider whose chunks are enriched by a language model; None for any other provider."""
    if not is_plugin(config):
        return None
    from bench.providers.rag.provider import Rag
    from bench.providers.rag.settings import RagLocal

    found = provider_class(config)
    if not isinstance(found, type) or not issubclass(found, Rag) or not found.enriches:
        return None
    local = local_of(config, RagLocal)
    return local if local.enhancement.enabled else None


def variables(config: ProviderConfig) -> dict[str, bool]:
    """Map each environment variable in the config to True if it must be set, or False if it is optional."""
    tree = config.model_dump(mode="json", exclude={"auth"}, exclude_defaults=True)
    found: dict[str, bool] = {}
    for variable in find_variables(tree):
        found[variable.name] = found.get(variable.name, False) or variable.default is None
    for auth in config.auth:
        if auth.env_var is not None:
            found[auth.env_var] = found.get(auth.env_var, False) or not auth.optional
    for name in config.mcp.env.values() if config.mcp else ():
        found[name] = True
    return found


def secret_variables(config: ProviderConfig) -> tuple[str, ...]:
    """Return the names of the environment variables whose values are secret."""
    named = [auth.env_var for auth in config.auth if auth.env_var is not None]
    return tuple(sorted({*named, *(config.mcp.env.values() if config.mcp else ())}))


def required_variables(config: ProviderConfig) -> tuple[str, ...]:
    """Return the names of the environment variables that must be set to use the provider."""
    return tuple(sorted(name for name, required in variables(config).items() if required))


def list_entry(config: ProviderConfig) -> dict[str, object]:
    """Return the JSON object of one provider in ``bench list providers --json``."""
    verified = config.verified
    return {
        "name": config.name,
        "displayName": config.shown_name,
        "type": config.type,
        "aliases": list(config.aliases),
        "tags": list(config.tags),
        "verified": {"level": verified.level, "date": verified.date.isoformat(), "upstream": verified.upstream}
        if verified
        else None,
        "capabilities": Capabilities.declared_in(config).shown(),
        "needs": list(required_variables(config)),
        "first_class": config.name in PUBLISHED_PROVIDERS,
    }


def list_entries(entries: Iterable[CatalogEntry]) -> list[dict[str, object]]:
    """Return the list entries of all built-ins, plug-ins and config files, sorted by name.

    If a config is invalid, its entry has the problem instead of the details.
    """
    from bench.config.provider.file import load_provider

    rows = {name: list_entry(builtin_config(name)) for name in BUILT_IN}
    for name in entry_point_names():
        row = _entry_or_problem(name, lambda name=name: plugin_config(name))  # type: ignore[misc]
        doubled = (
            {"problem": "refused in a run, because an installed plug-in has the same name"} if name in rows else {}
        )
        rows[name] = rows.get(name, row) | doubled
    for entry in entries:
        rows[entry.name] = _entry_or_problem(entry.name, lambda path=entry.path: load_provider(path))  # type: ignore[misc]
    return [rows[name] for name in sorted(rows)]


def _entry_or_problem(name: str, load: Callable[[], ProviderConfig | None]) -> dict[str, object]:
    try:
        config = load()
        return list_entry(config) if config is not None else {"name": name, "problem": "no such plug-in"}
    except ConfigError as error:
        return {"name": name, "problem": str(error)}


def detailed_entry(config: ProviderConfig, *, embedding: str | None) -> dict[str, object]:
    """Return the JSON object of ``bench describe provider NAME --json``: the list entry with more details."""
    return {
        **list_entry(config),
        "description": config.description,
        "docs": config.docs,
        "determinism": config.determinism,
        "variables": variables(config),
        "embedding": embedding,
        "on_unknown": config.ingest.on_unknown,
        "sha256": config.sha256,
        "path": str(config.path) if config.path else None,
        "warnings": list(config.warnings),
    }
