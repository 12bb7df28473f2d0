"""Fixtures for signing: a folder with a key, functions that build receipts, and a key ring."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

import tests.receipt.receipt_making as receipt_making
from bench.receipt.signing.keyring import Keyring
from bench.receipt.signing.keys import new_key
from tests.receipt.receipt_making import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A folder and a fixed key."""
    return receipt_making.desk_in(tmp_path)


@pytest.fixture
def make() -> ModuleType:
    """The module with functions that build receipts, for tests with their own documents."""
    return receipt_making


@pytest.fixture
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keyring:
    config = tmp_path / "config"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config))
    ring = Keyring(workspace=tmp_path, environ={"XDG_CONFIG_HOME": str(config)})
    new_key(ring, "default", ("receipt", "log"))
    return ring
