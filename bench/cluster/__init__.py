"""Run one plan on many machines: each worker runs a part of the items (a shard), and all results are merged into one
journal.

Example::

    from bench.cluster import execute_on_cluster

    outcome = await execute_on_cluster(plan, environment=environment, observer=display)     # plan.request.cluster

Read ``coordinator`` first, then ``worker``. ``backend`` is the only module that uses dask.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.cluster.coordinator import execute_on_cluster

__all__ = ["execute_on_cluster"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(name)
    return getattr(import_module("bench.cluster.coordinator"), name)
