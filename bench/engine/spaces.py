"""The place of one corpus attempt at a provider: its namespace, and opaque names for everything else.

Example::

    space_of(lane, journal=uuid, run_id="r1", corpus="conv-26", history=History()).namespace
    # "bench-demo-r1-3780d278..."

What has been ingested is looked for under the name that its rows in the journal have. Rows without a name were written
by a version whose namespaces had no random part.
"""

from __future__ import annotations

from bench.engine.history import History
from bench.engine.opaque import opaque
from bench.model import Space
from bench.plan import Lane
from bench.providers.scoping import namespace


def space_of(lane: Lane, *, journal: str, run_id: str, corpus: str, history: History) -> Space:
    """Name the place of a corpus's last attempt; equal arguments give equal names in every process."""
    hidden = opaque("c", lane.benchmark.name, corpus)
    name = history.namespace or namespace(
        lane.provider.config,
        journal="" if history.began else journal,
        run_id=run_id,
        benchmark=lane.benchmark.name,
        lane=lane.key,
        corpus=hidden,
        attempt=history.attempt,
    )
    return Space(
        namespace=name,
        run_id=run_id,
        benchmark=lane.benchmark.name,
        corpus=hidden,
        attempt=history.attempt,
        captures=history.captures,
    )
