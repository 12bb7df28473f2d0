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
ask = run_metadata._ask
ask_once = cache(ask)
read_nodes = yamltext._nodes
read_nodes_once = cache(read_nodes.__wrapped__)


def register() -> None:
    """Let runs of this process share the git status of this checkout; other checkouts are queried each time."""
    run_metadata._ask = lambda git, root, *words: (ask_once if root == ROOT else ask)(git, root, *words)
    yamltext._nodes = lambda text: (read_nodes_once if len(text) < SHORT else read_nodes)(text)  # type: ignore[assignment]
