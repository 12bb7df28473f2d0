"""One run on many machines: a shard a dask task, its journal sent back, all journals merged into the run's own.

Example::

    from bench.cluster import execute_on_cluster

    outcome = await execute_on_cluster(plan, environment=environment, observer=display)     # plan.request.cluster

Read it in this order: ``cutting`` makes the shards, ``coordinator`` hands them out and takes them in, ``worker``
carries one out where it lands, ``shelf`` keeps what came back, ``saying`` is what a shard says of itself on its way.
``fleet`` is all that is asked of a cluster, and only ``dask`` knows dask: there is no scheduler of our own.
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
