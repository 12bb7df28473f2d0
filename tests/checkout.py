"""Git is asked once in a process which commit of this checkout runs, and not for each run of the tests.

A user's process makes one run, that of the tests hundreds, and none of them changes the checkout.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from bench.engine import run_metadata

ROOT = Path(__file__).resolve().parents[1]
ask = run_metadata._ask
ask_once = cache(ask)


def register() -> None:
    """Have the runs of this process share what git says of this checkout; of another one it is asked each time."""
    run_metadata._ask = lambda git, root, *words: (ask_once if root == ROOT else ask)(git, root, *words)
