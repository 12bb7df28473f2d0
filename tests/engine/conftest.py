"""A world for each scenario: made-up facts, and a provider on a server that fails on demand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.small_world import World

Worlds = Callable[..., World]


@pytest.fixture
def world_of(tmp_path: Path, fault_server: Callable[..., str]) -> Worlds:
    """Make worlds: ``world_of("search:hang", corpora=2, items=4)``."""

    def make(*faults: str, corpora: int = 2, items: int = 4, sessions: int = 3, flags: tuple[str, ...] = ()) -> World:
        url = fault_server(*faults, *flags)
        return World.make(
            tmp_path / f"w{len(list(tmp_path.iterdir()))}", url, corpora=corpora, items=items, sessions=sessions
        )

    return make
