"""Benchmark AI memory systems: quality, confidence, latency and cost.

Example::

    import bench

    outcome = await bench.run(bench.plan(benchmarks="demo", providers="bm25"))
    bench.report(outcome.run_id).jobs[0].metrics["ndcg_at_10"].value
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from bench.version import __version__

if TYPE_CHECKING:
    from bench.api import compare, frames, resume, run

__all__ = ["__version__", "compare", "frames", "plan", "report", "resume", "run"]

_ROOMS = ("plan", "report")
"""names in ``__all__`` that are both a package and a function of the Python API"""


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    if name in _ROOMS:
        return import_module(f"bench.{name}")
    if name in ("compare", "frames", "resume", "run"):
        return getattr(import_module("bench.api"), name)
    raise AttributeError(f"module 'bench' has no attribute {name!r}")
