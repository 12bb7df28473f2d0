"""Find lanes that share one ingest: they differ only in their search.

Example::

    lanes = with_shared_builds(lanes)
    lanes[1].shares          # "locomo/chroma@k5": the lane that ingests; empty where the lane ingests itself

Of a declarative provider ``endpoints.search``, the limits of a search and the variables that only the search mentions
count as how it searches. Of code no one can tell what a setting changes: its lanes share where k alone differs.
A benchmark that deletes memories and a service whose searches change it share nothing: a job would find what another
one left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from bench import canonical
from bench.config.provider import ProviderConfig, identity
from bench.plan.model import Lane
from bench.plan.provider import filled, from_outside, told
from bench.settings import Environment

BUILD = "build"
"""kind of the event that records what a build was made with"""
REUSED = "reused_build"
"""kind of the event that records which build of another run is searched, and what it cost that run"""
SEARCH_LIMITS = ("max_k", "max_query_chars", "max_tokens")


def with_shared_builds(lanes: Sequence[Lane]) -> tuple[Lane, ...]:
    """Let every lane name the first one that ingests the same and searches otherwise.

    Lanes that are equal in everything measure how much a result varies: each of them ingests for itself.
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
    """Say whether a second search of one build finds what the first one did."""
    config = lane.provider.config
    return lane.skipped is None and lane.benchmark.config.deletion is None and config.determinism != "search_mutates"


def _ingested(lane: Lane) -> dict[str, object]:
    provider = lane.provider
    return {
        "benchmark": lane.benchmark.name,
        "unit": lane.unit,
        "text": lane.text,
        "provider": ingest_identity(provider.config),
        "embedding": provider.embedding,
        "enriched_by": provider.enriched_by,
    }


def ingest_identity(config: ProviderConfig) -> dict[str, object]:
    """Return what of a provider's config affects what is stored, as a JSON tree.

    A command over stdio is started for each variant, so its variants cannot see one store.
    """
    tree = identity(config)
    if config.adapter is not None or config.endpoints is None or (config.mcp is not None and config.mcp.command):
        return tree
    endpoints = {name: call for name, call in _map(tree, "endpoints").items() if name != "search"}
    limits = {name: value for name, value in _map(tree, "capabilities").items() if name not in SEARCH_LIMITS}
    variables = _map(tree, "vars")
    kept = {**tree, "endpoints": endpoints, "capabilities": limits}
    kept.pop("vars", None)
    told = canonical.dumps(kept).decode()
    used = {name: value for name, value in variables.items() if f"${{{name}}}" in told or f"$.{name}" in told}
    return {**kept, "vars": used}


def build_identity(lane: Lane, environment: Environment) -> dict[str, object]:
    """Return what a build is made with, but for texts and versions; variables are filled in, secrets are not shown."""
    from bench.plan.cost_estimate import batch_of

    config = lane.provider.config
    ingested = _ingested(lane)
    used = _map(cast("Mapping[str, object]", ingested["provider"]), "vars")
    outside = from_outside(config, environment)
    return {
        **ingested,
        "batch": batch_of(lane),
        "base_url": None if config.base_url is None else filled(config.base_url, environment),
        "vars": {name: value for name, value in told(config.vars, environment).items() if name in used},
        "environment": {name: value for name, value in outside.items() if not name.startswith("endpoints.search")},
    }


def version_of(made: Mapping[str, object]) -> str | None:
    """Return the version of the code that ingested; a digest of the whole config tells how it searches, too."""
    version = made.get("version")
    return version if isinstance(version, str) and not version.startswith("config:") else None


def _map(tree: Mapping[str, object], key: str) -> Mapping[str, object]:
    return cast("Mapping[str, object]", tree.get(key, {}))
