"""Cache the git status of this checkout in the test process, instead of asking git for each run.

The process of a user makes one run. That of the tests makes hundreds, and none of them changes the checkout.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from bench.engine import run_metadata

ROOT = Path(__file__).resolve().parents[1]
ask = run_metadata._ask
ask_once = cache(ask)


def register() -> None:
    """Let runs of this process share the git status of this checkout; other checkouts are queried each time."""
    run_metadata._ask = lambda git, root, *words: (ask_once if root == ROOT else ask)(git, root, *words)
