"""How a phase's time was spent, as percentiles and as a histogram of its latency: network and provider, as metrics say.

``total`` is the whole attempt, with the waiting of our own queue and limiter.

Example::

    spread([{"total": 1200, "network": 300, "provider": 900}], count=1)["p50"]["latency"]      # 1200
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from bench.metrics.latency import attempt_us
from bench.stats import percentile

PARTS = ("latency", "total", "queue", "limiter", "network", "provider")
EDGES = tuple(round(10 ** (step / 6)) for step in range(6, 55))
"""microseconds, six bins of equal width a decade from 10 µs to 1000 s"""


def spread(sample: Sequence[Mapping[str, int]], count: int) -> dict[str, object]:
    """Percentiles of the latency and of each part, and a histogram of the latency; all in microseconds."""
    whole = [{"latency": attempt_us(times) or 0, **times} for times in sample]
    columns = {part: sorted(times.get(part, 0) for times in whole) for part in PARTS}
    return {
        "n": count,
        "n_sampled": len(sample),
        "p50": {part: percentile(column, 50) for part, column in columns.items()},
        "p95": {part: percentile(column, 95) for part, column in columns.items()},
        "histogram": histogram(columns["latency"]),
    }


def histogram(column: Sequence[int]) -> list[tuple[int, int, int]]:
    """(from, to, how many) over the bins that hold something and those between them."""
    counts = [0] * (len(EDGES) + 1)
    for value in column:
        counts[bisect_right(EDGES, value)] += 1
    used = [at for at, count in enumerate(counts) if count]
    edges = (0, *EDGES, EDGES[-1] * 10)
    return [(edges[at], edges[at + 1], counts[at]) for at in range(used[0], used[-1] + 1)] if used else []
