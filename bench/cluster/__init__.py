"""Run one plan on many machines: each worker runs a shard, and the journals of all shards are merged.

Example::

    from bench.cluster import execute_on_cluster

    outcome = await execute_on_cluster(plan, environment=environment, observer=display)     # plan.request.cluster

Modules in reading order: ``coordinator`` splits the run into shards, sends them out and collects the results,
``worker`` runs one shard, ``round`` runs the missing shards, ``progress`` stores returned journals, ``messages``
defines orders and results. ``processes`` runs workers on this machine. ``backend`` is the interface to a cluster and
the only module that uses dask; bench has no scheduler of its own.
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
