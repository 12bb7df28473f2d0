"""Two or more jobs over the items they share: like for like or not at all, tested in three families.

The headline rows carry the question and are corrected among themselves (Holm). Every other row is exploratory: those
paired by item or cluster are corrected by maxT, percentiles and macro means by Holm::

    found = compare_sides([[a, b]], metrics=("ndcg_at_10",))
    found.comparisons[0].rows[0].verdict         # "A higher"
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from bench import stats
from bench.errors import UsageError
from bench.report.comparison import EXPLORATORY, HEADLINE, PERCENTILES, Comparisons, PairComparison, Row
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
    """Adjust the p of every row within its family; the families span all pairs."""
    adjusted: dict[int, tuple[float, float]] = {}
    for family in (HEADLINE, PERCENTILES):
        adjusted |= _by_holm([row for one in found for row in one.of(family) if row.is_tested])
    pairs = [rows for one in found if (rows := [row for row in one.of(EXPLORATORY) if row.is_tested])]
    for rows in pairs:
        adjusted |= _by_max_t(rows, len(pairs), seed=found[0].a.seed)
    for one in found:
        yield replace(one, rows=tuple(_with(row, adjusted.get(id(row))) for row in one.rows))


def _with(row: Row, adjusted: tuple[float, float] | None) -> Row:
    return row if adjusted is None else replace(row, p_adjusted=adjusted[0], least_p=adjusted[1])


def _by_holm(rows: Sequence[Row]) -> dict[int, tuple[float, float]]:
    """Map each row to its adjusted p and the smallest one that it could have."""
    corrected = stats.holm([row.found.p for row in rows])
    least = stats.holm([row.found.smallest_p or 0.0 for row in rows])
    return {id(row): (p or 0.0, floor or 0.0) for row, p, floor in zip(rows, corrected, least, strict=True)}


def _by_max_t(rows: Sequence[Row], pairs: int, *, seed: int) -> dict[int, tuple[float, float]]:
    """The same within one pair of sides, times the number of pairs; never below the row's own p."""
    corrected = stats.max_t([row.sums for row in rows], seed=seed)
    return {
        id(row): (max(row.found.p or 0.0, min(1.0, p * pairs)), min(1.0, _least(row) * pairs))
        for row, p in zip(rows, corrected, strict=True)
    }


def _least(row: Row) -> float:
    return stats.least_max_t(row.found.n_clusters or row.found.n, len(row.sums))
