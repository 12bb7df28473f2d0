"""Limit a run to ranges of item positions of a benchmark, for ``--start``, ``--end``, ``--shard`` and ``--cluster``.

Positions count from 1, and both ends of a range are included. An empty tuple of ranges means all positions.

Example::

    ranges_of(request, 100)                         # ((26, 50),) for --shard 2/4
    cut_range((1, 45), list(range(1, 46)), [18, 27], 2)   # [(1, 18), (19, 45)] for --cluster: corpora stay whole
    union_of([((1, 30),), ((20, 50),)], 100)        # ((1, 50),)
    gaps_of(((1, 50),), 100)                        # ((51, 100),)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from bench.config.run import RunRequest
from bench.errors import UsageError
from bench.visible_text import counted

Range = tuple[int, int]
Ranges = tuple[Range, ...]
LEEWAY = 4
"""divisor of the average range; a cut may move by up to a quarter of this length to keep a corpus whole"""


def ranges_of(request: RunRequest, total: int) -> Ranges:
    """Return the range of positions that the flags of a run select. Return an empty tuple for all positions.

    Raises:
        UsageError: the shard does not exist or has no item, or the range begins after the last item.
    """
    if request.shard is not None:
        index, count = (int(part) for part in request.shard.split("/"))
        if not 1 <= index <= count:
            text = f"--shard {request.shard}: expected i/n with i from 1 to n"
            raise UsageError(text, hint="write 1/4 for the first of four shards")
        start, end = (index - 1) * total // count + 1, index * total // count
        if end < start:
            raise UsageError(
                f"--shard {request.shard} contains no item: the selection has only {counted(total, 'item(|s)')}",
                hint=f"use at most {counted(total, 'shard(|s)')}",
            )
    else:
        start, end = request.start or 1, min(request.end or total, total)
        if start > total:
            raise UsageError(
                f"--start {start} is not a position: the selection has only {counted(total, 'item(|s)')}",
                hint=f"use a position from 1 to {total}",
            )
    return () if (start, end) == (1, total) else ((start, end),)


def cut_range(
    whole: Range, positions: Sequence[int], breaks: Sequence[int], count: int, *, corpora_whole: bool = False
) -> list[Range]:
    """Cut a range into up to ``count`` ranges with about the same number of selected positions.

    If a cut divides a corpus, two machines must ingest this corpus. Each cut therefore moves to the nearest start of a
    corpus. Unless ``corpora_whole`` is true, a cut moves by at most a quarter of the average range. If no corpus starts
    within this distance, the cut divides a corpus. The result is deterministic.

    Args:
        positions: the selected positions, sorted.
        breaks: indexes of ``positions`` at which another corpus begins.
    """
    inner = dict.fromkeys(positions[at] for at in _cut_indexes(len(positions), count, breaks, corpora_whole))
    edges = [whole[0], *inner, whole[1] + 1]
    return [(start, after - 1) for start, after in pairwise(edges)]


def _cut_indexes(length: int, count: int, breaks: Sequence[int], corpora_whole: bool) -> list[int]:
    """Return the indexes at which a new range begins.

    If ``corpora_whole`` is true, only indexes in ``breaks`` are used, unless ``breaks`` is empty.
    """
    leeway = length if corpora_whole else length // count // LEEWAY
    found = []
    for number in range(1, count):
        ideal = number * length // count
        near = [at for at in breaks if abs(at - ideal) <= leeway]
        found.append(min(near, key=lambda at: (abs(at - ideal), at), default=ideal))
    return found


def union_of(parts: Iterable[Ranges], total: int) -> Ranges:
    """Return the union of ranges, sorted and without overlap. Return an empty tuple for all positions."""
    ranges: list[Range] = []
    for part in parts:
        if not part:
            return ()
        ranges += part
    joined: list[Range] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return () if joined == [(1, total)] else tuple(joined)


def gaps_of(ranges: Ranges, total: int) -> Ranges:
    """Return the ranges of positions from 1 to ``total`` that are in none of ``ranges``."""
    if not ranges:
        return ()
    gaps, following = [], 1
    for start, end in sorted(ranges):
        if start > following:
            gaps.append((following, start - 1))
        following = max(following, end + 1)
    return (*gaps, (following, total)) if following <= total else tuple(gaps)


def count_covered(ranges: Ranges, total: int) -> int:
    """Return how many of the positions 1 to ``total`` are in at least one range. A range may end after ``total``."""
    return total - sum(min(end, total) - start + 1 for start, end in gaps_of(ranges, total) if start <= total)
