"""A context as the engine makes it, for tests that open a provider."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from bench.config.provider.config import ProviderConfig
from bench.http import Http
from bench.models import open_embedder
from bench.providers import Provider, ProviderContext, open_provider
from bench.settings import Environment


@asynccontextmanager
async def context_for(
    config: ProviderConfig, run_dir: Path, variables: Mapping[str, str]
) -> AsyncIterator[ProviderContext]:
    """Yield a context with HTTP client, environment, and an embedder if the config has one."""
    environment = Environment(dict(variables))
    async with Http(concurrency=10) as http:
        embedder = None
        settings = config.client_embeddings
        if settings is not None:
            embedder = open_embedder(settings.model, http=http, environment=environment, options=settings)
        yield ProviderContext(http=http, environment=environment, run_dir=run_dir, seed=7, embedder=embedder)


@asynccontextmanager
async def opened(
    config: ProviderConfig, run_dir: Path, variables: Mapping[str, str] | None = None
) -> AsyncIterator[Provider]:
    """Yield an open provider."""
    async with context_for(config, run_dir, variables or {}) as context, open_provider(config, context) as provider:
        yield provider
