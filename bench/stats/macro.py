"""Two sides of a macro mean: the labels' paired differences weigh the same, whatever their sizes (metrics.md 8, 9).

Example::

    compare_macro([([1, 0], [0, 0], None), ([1, 1], [1, 0], None)]).delta        # 0.5
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace

from bench.stats.comparing import Comparison, compare_columns
from bench.stats.descriptive import DEGENERATE
from bench.stats.distributions import t_two_sided
from bench.stats.intervals import around
from bench.stats.significance import mde

Pairs = tuple[Sequence[float], Sequence[float], Sequence[Hashable] | None]
"""left, right, clusters of one label"""


def compare_macro(
    labels: Sequence[Pairs], *, excluded: int = 0, level: float = 0.95, alpha: float = 0.05, power: float = 0.8
) -> Comparison:
    """Compare the means of label means: SE = ``sqrt(sum(SE^2)) / labels``, t with C - 1 or n - 1.

    A label without a standard error of its own (one pair, one cluster) leaves the whole untested.
    """
    filled = [pairs for pairs in labels if len(pairs[0])]
    if not filled:
        return Comparison(n=0, excluded=excluded, note="no item is scored on both sides")
    parts = [compare_columns(left, right, groups, level=level) for left, right, groups in filled]
    base = _added(parts, excluded)
    clusters = {c for _, _, groups in filled if groups is not None for c in groups}
    clustered = bool(clusters) and len(clusters) < base.n
    count = len(clusters) if clustered else base.n
    errors = [part.se for part in parts if part.se is not None]
    if count < 2 or len(errors) < len(parts):
        return replace(
            base, n_clusters=count if clustered else None, note="not testable: a label of one item or cluster"
        )
    se = math.sqrt(math.fsum(e * e for e in errors)) / len(parts)
    base = replace(base, se=se, n_clusters=count if clustered else None)
    if se < DEGENERATE or base.delta is None:
        return replace(base, note="not testable: no difference varies")
    return replace(
        base,
        p=t_two_sided(base.delta / se, df=count - 1),
        test="macro_t",
        interval=around(base.delta, se, df=count - 1, level=level, method="macro_t"),
        mde=mde(se, count - 1 if clustered else None, alpha, power),
    )


def _added(parts: Sequence[Comparison], excluded: int) -> Comparison:
    means = [(part.a, part.b) for part in parts if part.a is not None and part.b is not None]
    a, b = (math.fsum(side) / len(means) for side in zip(*means, strict=True))
    return Comparison(
        n=sum(part.n for part in parts),
        excluded=excluded,
        a=a,
        b=b,
        delta=a - b,
        wins=sum(part.wins for part in parts),
        losses=sum(part.losses for part in parts),
        ties=sum(part.ties for part in parts),
    )
