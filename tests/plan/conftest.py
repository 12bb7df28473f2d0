"""A small world for plans that are never executed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.small_world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Three conversations of three sessions, four questions each, and a key for models that are never called."""
    world = World.make(tmp_path, "http://127.0.0.1:9", corpora=3, items=4)
    world.variables["OPENAI_API_KEY"] = "test-key-of-nobody"
    return world
