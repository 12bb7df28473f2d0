"""The place of one corpus attempt at a provider: its namespace, and opaque names for everything else.

Example::

    space_of(lane, run_id="r1", corpus="conv-26", attempt=1, captures={}).namespace     # "bench-demo-r1-3780d278..."
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.engine.opaque import opaque
from bench.model import Space
from bench.plan import Lane
from bench.providers.scoping import namespace


def space_of(lane: Lane, *, run_id: str, corpus: str, attempt: int, captures: Mapping[str, object]) -> Space:
    """Name the place; equal arguments give equal names in every process."""
    hidden = opaque("c", lane.benchmark.name, corpus)
    name = namespace(
        lane.provider.config,
        run_id=run_id,
        benchmark=lane.benchmark.name,
        lane=lane.key,
        corpus=hidden,
        attempt=attempt,
    )
    return Space(
        namespace=name,
        run_id=run_id,
        benchmark=lane.benchmark.name,
        corpus=hidden,
        attempt=attempt,
        captures=captures,
    )
