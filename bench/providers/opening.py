"""From a config to a live provider: built-in, declarative, adapter file, adapter module or entry point.

Example::

    async with open_provider(load_provider(Path("configs/providers/chroma.yaml")), context) as provider:
        print(provider.name, provider.capabilities.shown())
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from bench.providers.protocol import Batching, Provider, ProviderContext, Waiting

if TYPE_CHECKING:
    from bench.config.provider import ProviderConfig


@asynccontextmanager
async def open_provider(config: ProviderConfig, context: ProviderContext) -> AsyncIterator[Provider]:
    """Build the provider that ``config`` names and keep it open inside the block.

    Raises:
        ConfigError: the class, a variable of the environment or the embedder it needs is missing.
    """
    from bench.providers.adapters import provider_class
    from bench.providers.docker import service

    build = provider_class(config)
    async with service(config, context):
        provider = build(config, context)
        complete(provider, config)
        async with provider:
            yield provider


def complete(provider: Provider, config: ProviderConfig) -> None:
    """Give a class of somebody else the attributes that it leaves out; what its config declares wins.

    A class that does not say where it keeps its data is taken to keep it in this process: its corpora are then
    ingested again on resume, never silently found empty.
    """
    from bench.providers.adapters import declared_capabilities

    defaults: dict[str, object] = {
        "name": config.name,
        "version": "unknown",
        "durability": "process",
        "capabilities": declared_capabilities(config),
        "keeps_store": True,
        "unbounded": False,
        "on_unknown": config.ingest.on_unknown,
        "wait": Waiting(by="status"),
        "batching": Batching(max_items=config.ingest.batch.max_items),
    }
    declared = config.local.get("durability")
    if declared is not None:
        setattr(provider, "durability", declared)  # noqa: B010  a read-only property of the Protocol
    for name, value in defaults.items():
        if not hasattr(provider, name):
            setattr(provider, name, value)
