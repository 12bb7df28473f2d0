"""Write notes on how much a crash during ingest can cost.

Example::

    crash_notes(lanes, request)
    # ["mem0: a crash in ingest can cost up to 10 of 10 corpora: ..."]

After a crash, it is unknown whether the memories of the last add call were stored. The crash costs nothing if a count
or a search shows this, or if the call may be repeated. Otherwise, the corpus is ingested again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from bench.config.run import RunRequest
from bench.http.adaptive_concurrency import CEILING
from bench.plan.model import Lane
from bench.providers.endpoints import is_repeatable

if TYPE_CHECKING:
    from bench.config.provider.calls import Endpoints
    from bench.config.provider.config import ProviderConfig


def crash_notes(lanes: Sequence[Lane], request: RunRequest) -> Iterator[str]:
    """Yield a note for each ingest that may have to ingest whole corpora again after a crash."""
    wide = CEILING if request.concurrency == "auto" else request.concurrency
    for lane in lanes:
        if lane.skipped is not None or lane.shares or lane.provider.built_in is not None:
            continue
        corpora = len({ref.corpus for ref in lane.benchmark.dataset.items(lane.benchmark.selection)})
        at_once = 1 if lane.provider.config.scoping.single else min(request.ingest_concurrency or wide, corpora)
        start = f"{lane.provider.label}: a crash in ingest can cost"
        if _is_lost(lane.provider.config):
            yield f"{start} all {corpora} corpora: the memories exist only in this process and are ingested again"
        elif not _is_detectable(lane.provider.config):
            yield (
                f"{start} up to {at_once} of {corpora} corpora: if neither a count nor a search shows whether the "
                "last add was stored, the corpus is ingested again"
            )


def _adapter_attribute(config: ProviderConfig, name: str, default: str) -> object:
    """Return an attribute of the adapter's class, or ``default`` if the adapter or the attribute is missing."""
    from bench.providers.adapters import provider_class

    return default if config.adapter is None else getattr(provider_class(config), name, default)


def _is_lost(config: ProviderConfig) -> bool:
    """Return True if the adapter loses its data when the process ends.

    Also return True if the adapter does not state where it stores its data.
    """
    if config.adapter is None:
        return False
    return (config.local.get("durability") or _adapter_attribute(config, "durability", "process")) == "process"


def _is_detectable(config: ProviderConfig) -> bool:
    endpoints = config.endpoints
    if _adapter_attribute(config, "on_unknown", config.ingest.on_unknown) == "repeat":
        return True
    if endpoints is None:
        return False
    steps = endpoints.add.steps or (endpoints.add,)
    return all(is_repeatable(step, "add") for step in steps) or _is_searchable_at_once(config, endpoints)


def _is_searchable_at_once(config: ProviderConfig, endpoints: Endpoints) -> bool:
    """Return True if a memory can be searched immediately after it was added, and hits have memory ids."""
    return config.wait is None and config.capabilities.ids and endpoints.search.response.id_from != "none"
