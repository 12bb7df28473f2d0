"""One run on many machines: each shard is a dask task, and all journals are merged into the run's own.

Example::

    from bench.cluster import execute_on_cluster

    outcome = await execute_on_cluster(plan, environment=environment, observer=display)     # plan.request.cluster

Read it in this order: ``coordinator`` cuts the run into shards, hands them out and takes them in, ``worker`` carries
one out where it lands, ``round`` is one pass over what is still missing, ``progress`` keeps what came back,
``messages`` is what travels. ``backend`` is all that is asked of a cluster, and only it knows dask: there is no
scheduler of our own.
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
