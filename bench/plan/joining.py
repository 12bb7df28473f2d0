"""The jobs of merged runs: equal but for the number of items, which is that of all ranges together.

Example::

    joined([(ranges_of_a, extra_of_a), (ranges_of_b, extra_of_b)], total=1986, shared={})    # for RunMeta.extra["jobs"]
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from bench.model import Phase
from bench.plan.ranges import Ranges, covered, gaps_of, union_of
from bench.plan.record import JobRecord, dump, read


def cuts_inside_range(names: Container[str]) -> bool:
    """The selection chooses inside a range, so ranges that are joined select something else than each apart."""
    return "sample" in names or "limit" in names


def joined(
    parts: Sequence[tuple[Ranges, Mapping[str, object]]], total: int, shared: Mapping[tuple[str, Phase], int]
) -> list[dict[str, object]]:
    """The jobs of merged runs: equal but for the number of items, which is that of all distinct ranges together.

    ``shared`` counts the items that an owner has in more than one range, once for each range too many.
    """
    by_job: dict[str, dict[Ranges, JobRecord]] = {}
    for ranges, extra in parts:
        for job in read(extra):
            by_job.setdefault(job.key, {}).setdefault(ranges, job)
    union = union_of((ranges for ranges, _ in parts), total)
    return dump([_joined(list(found.values()), union, total, shared) for found in by_job.values()])


def _joined(
    found: Sequence[JobRecord], union: Ranges, total: int, shared: Mapping[tuple[str, Phase], int]
) -> JobRecord:
    first = found[0]
    if not first.selection:
        selected = covered(union, first.n_whole)
    elif not cuts_inside_range(first.selection) and not gaps_of(union, total):
        selected = first.n_whole
    else:
        twice = max(shared.get((first.key, Phase.EVALUATE), 0), shared.get((first.lane, Phase.SEARCH), 0))
        selected = sum(job.n_selected for job in found) - twice
    return replace(first, n_selected=selected)
