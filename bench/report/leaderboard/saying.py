"""What a table says in one sentence: who leads, by how much, and what a rank does not prove.

Example::

    saying(table)      # ("bm25 leads on accuracy with 0.3563 [0.2566, 0.4559]; vector is next, 0.1250 behind ...",)
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.journal.results_db import MetricSummary
from bench.report.leaderboard.views import Standing, Table
from bench.report.tables import number


def saying(table: Table) -> tuple[str, ...]:
    """Who leads a table whose rows are ranked, and which of its rows are not; nothing of any other."""
    ranked = [one for one in table.standings if one.value is not None and not one.first.bound]
    bounds = dict.fromkeys(one.first.job.provider for one in table.standings if one.first.bound)
    told = [f"not ranked, as bounds of what a memory can do: {', '.join(bounds)}"] if bounds else []
    return (*_lead(table, ranked), *told)


def _lead(table: Table, ranked: Sequence[Standing]) -> tuple[str, ...]:
    if not ranked:
        return ()
    if len(ranked) == 1:
        return (f"only {_who(table, ranked[0])} is here: nothing to compare with yet",)
    first, second = ranked[:2]
    ahead = abs((first.value or 0) - (second.value or 0))
    if ahead == 0:
        tied = [_who(table, one) for one in ranked if one.value == first.value]
        names = f"{', '.join(tied[:-1])} and {tied[-1]}"
        return (f"nobody leads on {_metric(first)}: {names} have {number(first.value, _unit(first))}",)
    lead = f"{_who(table, first)} leads on {_metric(first)} with {_value(first)}"
    behind = number(ahead, _unit(first))
    return (f"{lead}; {_who(table, second)} is next, {behind} behind{_proof(first, second)}",)


def _who(table: Table, one: Standing) -> str:
    """The provider, or the model where all rows are of one provider."""
    same = len({row.first.job.provider for row in table.standings}) == 1 and len(table.standings) > 1
    return one.first.models[0] if same else one.first.job.provider


def _metric(one: Standing) -> str:
    if len(one.places) > 1:
        return f"the mean of {len(one.places)} benchmarks"
    return one.first.headline.metric if one.first.headline else "nothing"


def _unit(one: Standing) -> str | None:
    return one.first.headline.unit if one.first.headline else None


def _value(one: Standing) -> str:
    headline = one.first.headline
    if len(one.places) > 1 or headline is None:
        return number(one.value)
    return spanned(headline)


def _proof(first: Standing, second: Standing) -> str:
    """The command that tells a lead from chance."""
    if len(first.places) > 1:
        return " (a mean over benchmarks is not tested: compare them one by one)"
    sides = [f"{one.first.job.run_id}:{one.first.job.provider}" for one in (first, second)]
    if sides[0] == sides[1]:
        sides = [f"{side}:{one.first.models[0]}" for side, one in zip(sides, (first, second), strict=True)]
    return f". A rank is no proof: bench compare {' '.join(sides)} tells it from chance"


def spanned(one: MetricSummary | None) -> str:
    """A value with its interval."""
    if one is None:
        return "-"
    bounds = "" if one.low is None else f" [{number(one.low, one.unit)}, {number(one.high, one.unit)}]"
    return number(one.value, one.unit) + bounds
