"""The shipped data as fixtures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.data.demo_text import Conversation, read


@pytest.fixture(scope="session")
def datasets(root: Path) -> Path:
    return root / "datasets"


@pytest.fixture(scope="session")
def conversations(datasets: Path) -> list[Conversation]:
    return read(datasets / "demo" / "demo.json")
