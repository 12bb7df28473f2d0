"""Two or more jobs over the items they share: like for like or not at all, tested in two families.

The headline rows carry the question and are corrected among themselves; every other row is exploratory::

    found = compare_sides([[a, b]], metrics=("ndcg_at_10",))
    found.comparisons[0].rows[0].verdict         # "A higher"
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from bench import stats
from bench.errors import UsageError
from bench.report.comparison import EXPLORATORY, HEADLINE, Comparisons, PairComparison
from bench.report.headlines import shown_metrics
from bench.report.likeforlike import LikeForLike, like_for_like
from bench.report.pairing import compared_pair
from bench.report.sides import Side


def compare_sides(groups: Sequence[Sequence[Side]], *, metrics: Sequence[str] = (), force: bool = False) -> Comparisons:
    """Compare every pair of each group (a group = the jobs of one benchmark); ``metrics`` restricts the rows.

    With ``force`` what is not like for like is compared all the same, and marked.

    Raises:
        UsageError: a pair is not like for like and ``force`` is not given; names each difference with both values.
        UsageError: a metric that a pair lacks, or that no item has a value of.
    """
    pairs = [pair for group in groups for pair in combinations(group, 2)]
    if not pairs:
        raise UsageError("a comparison needs two sides", hint="name two RUN_ID:PROVIDER")
    chosen = [shown_metrics(a, b, metrics) for a, b in pairs]
    checks = [like_for_like(a, b, metrics=names) for (a, b), names in zip(pairs, chosen, strict=True)]
    if not force:
        _refuse(pairs, checks)
    firsts = [group[0] for group in groups]
    found = [
        replace(compared_pair(a, b, names, check, wanted=metrics), is_against_first=any(a is one for one in firsts))
        for (a, b), names, check in zip(pairs, chosen, checks, strict=True)
    ]
    forced = any(not check.ok for check in checks)
    return Comparisons(comparisons=tuple(_corrected(found)), forced=forced, seed=pairs[0][0].seed)


def _refuse(pairs: Sequence[tuple[Side, Side]], checks: Sequence[LikeForLike]) -> None:
    told = []
    for (a, b), check in zip(pairs, checks, strict=True):
        if not check.ok:
            who = f"A = {a.name}, B = {b.name}"
            told.append(f"{who}: " + "; ".join(one.text for one in check.differences))
    if told:
        raise UsageError(
            "not like for like: " + " | ".join(told), hint="--force compares all the same and marks the output"
        )


def _corrected(found: Sequence[PairComparison]) -> Iterator[PairComparison]:
    """Holm within each family, over the rows of all pairs."""
    adjusted: dict[int, float | None] = {}
    for family in (HEADLINE, EXPLORATORY):
        rows = [row for one in found for row in one.rows if row.family == family]
        adjusted |= zip(map(id, rows), stats.holm([row.found.p for row in rows]), strict=True)
    for one in found:
        yield replace(one, rows=tuple(replace(row, p_holm=adjusted[id(row)]) for row in one.rows))
