"""Open the memory systems that bench tests. Built-in systems, YAML files and Python classes share one interface.

Example::

    from bench.providers import ProviderContext, open_provider

    async with open_provider(config, context) as provider:
        found = await provider.search(space, query)

``protocol`` defines the interface, and ``factory`` opens a provider from its config. ``builtin`` and ``declarative``
contain the implementations.
"""

from __future__ import annotations

from bench.model import Found, Hit, Ingested, Memory, Query, Readiness, Space
from bench.providers.factory import open_provider
from bench.providers.protocol import (
    Assumes,
    AtLeast,
    Batching,
    Capabilities,
    Counts,
    Deletes,
    Durability,
    Finishes,
    Lists,
    OnUnknown,
    Prepares,
    Provider,
    ProviderContext,
    Restores,
    Updates,
    Versioned,
    Waiting,
    is_reusable,
    merge_captures,
    merge_ingested,
)
from bench.providers.snapshot import copy_store, store_digest

__all__ = [
    "Assumes",
    "AtLeast",
    "Batching",
    "Capabilities",
    "Counts",
    "Deletes",
    "Durability",
    "Finishes",
    "Found",
    "Hit",
    "Ingested",
    "Lists",
    "Memory",
    "OnUnknown",
    "Prepares",
    "Provider",
    "ProviderContext",
    "Query",
    "Readiness",
    "Restores",
    "Space",
    "Updates",
    "Versioned",
    "Waiting",
    "copy_store",
    "is_reusable",
    "merge_captures",
    "merge_ingested",
    "open_provider",
    "store_digest",
]
