"""Open a provider from its config.

The provider can be built in, described by a YAML file, or implemented by a Python class or plug-in.

Example::

    async with open_provider(load_provider(Path("configs/providers/chroma.yaml")), context) as provider:
        print(provider.name, provider.capabilities.shown())
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from bench.providers.protocol import Provider, ProviderContext

if TYPE_CHECKING:
    from bench.config.provider.config import ProviderConfig


@asynccontextmanager
async def open_provider(config: ProviderConfig, context: ProviderContext) -> AsyncIterator[Provider]:
    """Build the provider of a config, and keep the provider open inside the `with` block.

    Raises:
        ConfigError: the class, an environment variable or the embedder is missing, or an adapter cannot be built or
            opened.
    """
    from bench.providers.adapters import is_plugin, provider_class
    from bench.providers.docker import running_service
    from bench.providers.plugin_guard import AdapterErrors, add_defaults, guard_methods

    build = provider_class(config)
    async with running_service(config, context), AsyncExitStack() as stack:
        with AdapterErrors(config, "cannot be created"):
            provider = build(config, context)
            add_defaults(provider, config)
            if is_plugin(config):
                guard_methods(provider, config)
        with AdapterErrors(config, "cannot be opened"):
            await stack.enter_async_context(provider)
        yield provider
