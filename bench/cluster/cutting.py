"""Cut a plan into shards: ranges of positions that together cover it, each with as many selected items as the others.

Example::

    [str(shard) for shard in cut(plan, 4)]          # ["1of4", "2of4", "3of4", "4of4"]

Cutting a plan again gives the same shards. A cut through a corpus has two machines ingest it, so a cut moves to the
nearest place between two corpora, if there is one within a quarter of a shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from bench.cluster.order import Shard
from bench.errors import UsageError
from bench.plan import Plan

LEEWAY = 4
"""a cut moves by at most a shard's size divided by this"""


def cut(plan: Plan, count: int) -> list[Shard]:
    """Cut the plan's own range into ``count`` shards.

    Raises:
        UsageError: a selection that every shard would make anew, or fewer items than shards.
    """
    request = plan.request
    if request.limit is not None or request.sample is not None:
        raise UsageError(
            f"--{'limit' if request.limit is not None else 'sample'} chooses inside a range, so every shard would",
            hint="with --cluster choose by --start and --end, --items, --items-of or --question-type",
        )
    positions, breaks = _selected(plan)
    if not 1 <= count <= len(positions):
        raise UsageError(f"--shards {count}: the run has {len(positions)} items, a shard needs at least one")
    first, last = plan.ranges[0] if plan.ranges else (1, plan.total)
    inner = [positions[at] for at in _cuts(len(positions), count, breaks)]
    edges = [first, *inner, last + 1]
    ranges = [(start, after - 1) for start, after in pairwise(edges)]
    return [Shard(number=at, count=count, start=a, end=b) for at, (a, b) in enumerate(ranges, start=1)]


def _selected(plan: Plan) -> tuple[list[int], list[int]]:
    """The selected positions of all benchmarks in order, and the indexes among them at which a corpus begins."""
    corpora: dict[int, list[str]] = {}
    for benchmark in {lane.benchmark.name: lane.benchmark for lane in plan.running}.values():
        for ref in benchmark.dataset.items(benchmark.selection):
            corpora.setdefault(ref.position, []).append(ref.corpus)
    positions = sorted(corpora)
    breaks = [
        at
        for at, (before, here) in enumerate(pairwise(positions), start=1)
        if not set(corpora[before]) & set(corpora[here])
    ]
    return positions, breaks


def _cuts(length: int, count: int, breaks: Sequence[int]) -> list[int]:
    """The indexes at which a new shard begins."""
    leeway = length // count // LEEWAY
    found = []
    for number in range(1, count):
        ideal = number * length // count
        near = [at for at in breaks if abs(at - ideal) <= leeway]
        found.append(min(near, key=lambda at: (abs(at - ideal), at), default=ideal))
    return found
