"""The jobs of merged runs: equal but for the number of items, which is that of everything selected.

Example::

    joined([(ranges_of_a, extra_of_a), (ranges_of_b, extra_of_b)], shared={})    # for RunMeta.extra["jobs"]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from bench.model import Phase
from bench.plan.ranges import Ranges
from bench.plan.record import JobRecord, dump, read


def cuts_inside_range(names: Container[str]) -> bool:
    """The selection chooses inside a range, so ranges that are joined select something else than each apart."""
    return "sample" in names or "limit" in names


def joined(
    parts: Sequence[tuple[Ranges, Mapping[str, object]]], shared: Mapping[tuple[str, Phase], int]
) -> list[dict[str, object]]:
    """The jobs of merged runs: every item that the filters select, also those that no range covers.

    Where each range had its own sample or limit, what they selected together: ``shared`` counts the items that an
    owner has in more than one range, once for each range too many.
    """
    by_job: dict[str, dict[Ranges, JobRecord]] = {}
    for ranges, extra in parts:
        for job in read(extra):
            by_job.setdefault(job.key, {}).setdefault(ranges, job)
    return dump([_joined(list(found.values()), shared) for found in by_job.values()])


def _joined(found: Sequence[JobRecord], shared: Mapping[tuple[str, Phase], int]) -> JobRecord:
    first = found[0]
    if not cuts_inside_range(first.selection):
        return replace(first, n_selected=first.n_whole, selected_types=first.whole_types)
    twice = max(shared.get((first.key, Phase.EVALUATE), 0), shared.get((first.lane, Phase.SEARCH), 0))
    types = Counter[str]()
    for job in found if not twice else ():  # of which type those are that several ranges have, nobody counted
        types.update(job.selected_types)
    return replace(first, n_selected=sum(job.n_selected for job in found) - twice, selected_types=dict(types))
