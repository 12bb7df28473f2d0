"""One finished run for all tests of the pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.web.workspaces import run_demo


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with run ``r1``: demo, two providers, 20 items."""
    workspace = tmp_path_factory.mktemp("finished")
    run_demo(workspace, "r1", "--providers", "bm25", "oracle", "--limit", "20")
    return workspace
