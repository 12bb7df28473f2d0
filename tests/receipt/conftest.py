"""A desk to sign at, and the makers of receipts."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

import tests.receipt.receipt_making as receipt_making
from bench.receipt.keyfiles import SigningKey
from tests.receipt.receipt_making import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A folder and a fixed key."""
    return Desk(tmp_path, SigningKey.from_raw(bytes(range(32))))


@pytest.fixture
def make() -> ModuleType:
    """The makers, for tests that build their own documents."""
    return receipt_making
