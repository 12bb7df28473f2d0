"""From a config to a live provider: built-in, declarative, adapter file, adapter module or entry point.

Example::

    async with open_provider(load_provider(Path("configs/providers/chroma.yaml")), context) as provider:
        print(provider.name, provider.capabilities.shown())
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from bench.providers.protocol import Provider, ProviderContext

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
        declared = config.local.get("durability")
        if declared is not None:
            vars(provider)["durability"] = declared
        async with provider:
            yield provider
