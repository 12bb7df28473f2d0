"""What the contract suite runs against, and the embeddings it runs with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bench.config.provider import ProviderConfig
from bench.http import Http
from bench.models import open_embedder
from bench.models.embedding import EmbeddingOptions
from bench.providers import ProviderContext
from bench.settings import Environment
from tests.contract import servers


@asynccontextmanager
async def context_for(
    config: ProviderConfig, run_dir: Path, variables: Mapping[str, str]
) -> AsyncIterator[ProviderContext]:
    """A context as the engine makes it: shared HTTP client, environment, embedder when the config asks for one."""
    environment = Environment(dict(variables))
    async with Http(concurrency=10) as http:
        embedder = None
        settings = config.client_embeddings
        if settings is not None:
            options = EmbeddingOptions(**settings.model_dump(exclude={"model"}))
            embedder = open_embedder(settings.model, http=http, environment=environment, options=options)
        yield ProviderContext(http=http, environment=environment, run_dir=run_dir, seed=7, embedder=embedder)


@pytest.fixture(scope="session")
def chroma_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Chroma server."""
    with servers.chroma(tmp_path_factory.mktemp("chroma")) as url:
        yield url


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A real PostgreSQL with pgvector."""
    with servers.postgres() as url:
        yield url
