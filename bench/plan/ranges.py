"""Ranges of positions in a benchmark's full order: 1-based, both ends included; no range at all = everything.

Example::

    ranges_of(request, 100)                         # ((26, 50),) for --shard 2/4
    union_of([((1, 30),), ((20, 50),)], 100)        # ((1, 50),)
    gaps_of(((1, 50),), 100)                        # ((51, 100),)
"""

from __future__ import annotations

from collections.abc import Iterable

from bench.config.run import RunRequest
from bench.errors import UsageError

Range = tuple[int, int]
Ranges = tuple[Range, ...]


def ranges_of(request: RunRequest, total: int) -> Ranges:
    """The one range that a request names; empty for all positions.

    Raises:
        UsageError: a shard that does not exist, or a range beyond the last item.
    """
    if request.shard is not None:
        index, count = (int(part) for part in request.shard.split("/"))
        if not 1 <= index <= count:
            raise UsageError(f"--shard {request.shard}: i goes from 1 to n")
        start, end = (index - 1) * total // count + 1, index * total // count
        if end < start:
            raise UsageError(
                f"--shard {request.shard} holds none of the {total} items", hint=f"cut at most {total} shards"
            )
    else:
        start, end = request.start or 1, min(request.end or total, total)
        if start > total:
            raise UsageError(f"--start {start}: there are {total} items", hint="positions go from 1 to the last item")
    return () if (start, end) == (1, total) else ((start, end),)


def union_of(parts: Iterable[Ranges], total: int) -> Ranges:
    """Join ranges, sorted and without overlap."""
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
    """The positions of 1..total that no range covers."""
    if not ranges:
        return ()
    gaps, following = [], 1
    for start, end in sorted(ranges):
        if start > following:
            gaps.append((following, start - 1))
        following = max(following, end + 1)
    return (*gaps, (following, total)) if following <= total else tuple(gaps)


def covered(ranges: Ranges, total: int) -> int:
    """How many of the positions 1..total the ranges cover; a benchmark may be shorter than another's range."""
    return total - sum(min(end, total) - start + 1 for start, end in gaps_of(ranges, total) if start <= total)
