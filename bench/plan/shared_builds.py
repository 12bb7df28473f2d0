"""Find the lanes that can share one ingest, because they differ only in their search.

Example::

    lanes = with_shared_builds(lanes)
    lanes[1].shares          # "locomo/chroma@k5": the lane that ingests; empty when the lane ingests itself

For a provider with endpoints, these settings belong to the search: ``endpoints.search``, the limits of a search, and
the variables that only the search uses. For an adapter, the effect of a setting is unknown. Lanes of an adapter
therefore share an ingest only if their only difference is k.

An ingest is not shared if the benchmark deletes memories or if a search changes the memories of the service. Jobs would
then affect each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from bench import canonical
from bench.config.provider.config import ProviderConfig, identity
from bench.plan.model import Lane
from bench.plan.provider import fill_visibly, filled_texts, filled_vars
from bench.settings import Environment
from bench.untyped_values import Json, object_or_empty

BUILD = "build"
"""kind of the event that records the settings of an ingest"""
REUSED = "reused_build"
"""kind of the event that records the reuse of memories of another run, and the cost of these memories"""
PROVIDER_VERSION = "provider_version"
"""kind of the event that records the version of the provider at an ingest"""
SEARCH_LIMITS = ("max_k", "max_query_chars", "max_tokens")


def with_shared_builds(lanes: Sequence[Lane]) -> tuple[Lane, ...]:
    """Return all lanes, with ``shares`` set in each lane that can search the memories of an earlier lane.

    Lanes without any difference measure the variation of results, so each of them ingests separately.
    """
    first: dict[bytes, str] = {}
    repeats = Counter[bytes]()
    found = []
    for lane in lanes:
        owner = lane.key
        if can_share(lane):
            ingested = _ingested(lane)
            searched = {"provider": identity(lane.provider.config), "k": lane.benchmark.k}
            whole = canonical.dumps([ingested, searched])
            owner = first.setdefault(canonical.dumps([ingested, repeats[whole]]), lane.key)
            repeats[whole] += 1
        found.append(lane if owner == lane.key else replace(lane, shares=owner))
    return tuple(found)


def can_share(lane: Lane) -> bool:
    """Return True if several lanes can search the lane's memories without changing each other's results."""
    config = lane.provider.config
    return lane.skipped is None and lane.benchmark.config.deletion is None and config.determinism != "search_mutates"


def _ingested(lane: Lane) -> Json:
    provider = lane.provider
    return {
        "benchmark": lane.benchmark.name,
        "unit": lane.unit,
        "text": lane.text,
        "provider": ingest_identity(provider.config),
        "embedding": provider.embedding,
        "enriched_by": provider.enriched_by,
    }


def ingest_identity(config: ProviderConfig) -> Json:
    """Return the settings of a provider that can change the stored memories, as a JSON tree.

    For an adapter, all settings are returned, because it is unknown how the adapter uses them. For an MCP server that
    is started by a command, all settings are returned too, because each variant starts a server with its own store.
    """
    made = identity(config)
    if config.adapter is not None or config.endpoints is None or (config.mcp is not None and config.mcp.command):
        return made
    endpoints = {name: call for name, call in object_or_empty(made.get("endpoints")).items() if name != "search"}
    limits = {
        name: value for name, value in object_or_empty(made.get("capabilities")).items() if name not in SEARCH_LIMITS
    }
    variables = object_or_empty(made.get("vars"))
    kept = {**made, "endpoints": endpoints, "capabilities": limits}
    kept.pop("vars", None)
    text = canonical.dumps(kept).decode()
    used = {name: value for name, value in variables.items() if f"${{{name}}}" in text or f"$.{name}" in text}
    return {**kept, "vars": used}


def build_identity(lane: Lane, environment: Environment) -> Json:
    """Return all settings of an ingest, with the values of variables and with hidden secrets.

    Not included: the content of the memories, and the versions of the adapter and of the memory system.
    """
    from bench.plan.cost_estimate import batch_of

    config = lane.provider.config
    ingested = _ingested(lane)
    used = object_or_empty(object_or_empty(ingested["provider"]).get("vars"))
    outside = filled_texts(config, environment)
    return {
        **ingested,
        "batch": batch_of(lane),
        "base_url": None if config.base_url is None else fill_visibly(config.base_url, environment),
        "vars": {name: value for name, value in filled_vars(config.vars, environment).items() if name in used},
        "environment": {name: value for name, value in outside.items() if not name.startswith("endpoints.search")},
    }


def version_of(made: Mapping[str, object]) -> str | None:
    """Return the version of the code that ingested, or None if no version is recorded.

    Return None too if the version is a digest of the whole config (``config:...``), because the config also contains
    search settings.
    """
    version = made.get("version")
    return version if isinstance(version, str) and not version.startswith("config:") else None
