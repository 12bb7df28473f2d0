"""The real servers of the contract suite, each started once per session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract import servers


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
