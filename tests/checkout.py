"""Cache in the test process what does not change: the git status of this checkout, and the YAML of equal texts.

The process of a user makes one run. That of the tests makes hundreds, and none of them changes the checkout.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from bench.config import yamltext
from bench.engine import run_metadata

ROOT = Path(__file__).resolve().parents[1]
SHORT = 20_000
"""characters of a text whose nodes are kept; those of longer ones take much memory"""
git_output = run_metadata._git_output
git_output_once = cache(git_output)
read_nodes = yamltext._nodes
read_nodes_once = cache(read_nodes.__wrapped__)


def register() -> None:
    """Let runs of this process share the git status of this checkout; other checkouts are queried each time."""
    run_metadata._git_output = lambda git, root, *words: (git_output_once if root == ROOT else git_output)(
        git, root, *words
    )
    yamltext._nodes = lambda text: (read_nodes_once if len(text) < SHORT else read_nodes)(text)  # type: ignore[assignment]
