"""A real PostgreSQL for the algorithms that can store their chunks there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract import servers


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A real PostgreSQL with pgvector."""
    with servers.postgres() as url:
        yield url
