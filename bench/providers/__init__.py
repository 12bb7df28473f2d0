"""Memory systems under test, all behind one Protocol: built-ins, YAML files and Python classes.

Example::

    from bench.providers import ProviderContext, open_provider

    async with open_provider(config, context) as provider:
        found = await provider.search(space, query)

Where things are: ``protocol`` the face, ``factory`` from a config to a provider, ``facts`` what a plan may know
without opening one, ``batching`` and ``namespaces`` what the engine does for every provider, ``builtin`` and
``declarative`` the implementations, ``doctor`` the checks that each of them passes.
"""

from __future__ import annotations

from bench.providers.factory import open_provider
from bench.providers.protocol import (
    Assumes,
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
    merge_captures,
    merge_ingested,
    outlives,
)
from bench.providers.snapshot import copy_store, store_digest

__all__ = [
    "Assumes",
    "Batching",
    "Capabilities",
    "Counts",
    "Deletes",
    "Durability",
    "Finishes",
    "Lists",
    "OnUnknown",
    "Prepares",
    "Provider",
    "ProviderContext",
    "Restores",
    "Updates",
    "Versioned",
    "Waiting",
    "copy_store",
    "merge_captures",
    "merge_ingested",
    "open_provider",
    "outlives",
    "store_digest",
]
