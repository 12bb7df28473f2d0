"""The real stack: as root with MEMORYBENCH_STACK=1, see ``tests/compose/stack.py``."""

from __future__ import annotations

import os

import pytest

from tests.compose.docker import missing
from tests.compose.stack import main


@pytest.mark.long
def test_the_stack_is_built_started_stopped_killed_and_resumed() -> None:
    if os.environ.get("MEMORYBENCH_STACK") != "1":
        pytest.skip("THE STACK WAS NOT TESTED: set MEMORYBENCH_STACK=1 (installs nothing, takes some minutes)")
    if absent := missing():
        pytest.skip(f"THE STACK WAS NOT TESTED: missing here: {', '.join(absent)}")
    assert main() == 0
