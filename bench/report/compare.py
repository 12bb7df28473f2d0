"""Two or more jobs over the items they share: like for like, tested in two families, said in words.

The headline rows carry the question and are corrected among themselves; every other row is exploratory::

    found = compare_sides([[a, b]], metrics=("ndcg_at_10",))
    found.comparisons[0].rows[0].verdict         # "A higher"
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from bench import stats
from bench.errors import UsageError
from bench.metrics import resolve
from bench.metrics.facts import NO_LABEL
from bench.model import FAILED_STATES, State
from bench.report.likeforlike import LikeForLike, like_for_like
from bench.report.rowtests import ALPHA, LEVEL, Pairs, can_be_paired, is_time, tested
from bench.report.sides import Side
from bench.report.verdicts import verdict_of
from bench.stats import Comparison

HEADLINE, EXPLORATORY = "headline", "exploratory"
DIMENSIONS = ("question_type", "group")
TARGET = "conversations like these"
JUDGED = ("accuracy", "correctness", "abstention_accuracy", "faithfulness")
"""answer metrics that read verdicts"""
ASKING = frozenset({"llm-judge", "rubric", "faithfulness"})
"""evaluators that ask a judge"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One metric over all paired items, or over one label of them."""

    metric: str
    definition: str
    dimension: str | None
    label: str | None
    lower_is_better: bool
    unit: str | None
    is_ratio: bool
    """delta, interval and mde are ratios minus 1"""
    family: str
    found: Comparison
    noise: float | None = None
    """the judge's own error, where the metric reads its verdicts"""
    p_holm: float | None = None

    @property
    def better(self) -> str | None:
        """``a`` or ``b`` where a difference is detected."""
        if self.p_holm is None or self.p_holm >= ALPHA or not self.found.delta:
            return None
        return "a" if (self.found.delta > 0) != self.lower_is_better else "b"

    @property
    def verdict(self) -> str:
        """What may be said of it."""
        return verdict_of(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """How the items pair on the headline metric."""

    a: int
    b: int
    paired: int
    excluded: Mapping[str, Mapping[str, int]]
    """side -> reason -> items"""
    flips: Mapping[str, tuple[str, ...]]
    """side -> items on which it is the better one"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairComparison:
    """Side a against side b on one benchmark."""

    a: Side
    b: Side
    like_for_like: LikeForLike
    items: Items
    cluster_by: str | None
    n_clusters: int | None
    judge_noise: float | None
    rows: tuple[Row, ...]
    is_against_first: bool = True
    """a is the side that was named first: the baseline of a gate"""
    notes: tuple[str, ...] = ()

    @property
    def headlines(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.family == HEADLINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparisons:
    """Every pair; the families span all of them."""

    comparisons: tuple[PairComparison, ...]
    forced: bool
    seed: int

    @property
    def family_size(self) -> dict[str, int]:
        """Rows a family."""
        sizes = Counter(row.family for one in self.comparisons for row in one.rows)
        return {HEADLINE: sizes[HEADLINE], EXPLORATORY: sizes[EXPLORATORY]}


def compare_sides(groups: Sequence[Sequence[Side]], *, metrics: Sequence[str] = (), force: bool = False) -> Comparisons:
    """Compare every pair of each group (a group = the jobs of one benchmark); ``metrics`` restricts the rows.

    Raises:
        UsageError: a pair is not like for like and ``force`` is not given; names each difference with both values.
        UsageError: a metric that a pair lacks, or that no item has a value of.
    """
    pairs = [pair for group in groups for pair in combinations(group, 2)]
    if not pairs:
        raise UsageError("a comparison needs two sides", hint="name two RUN_ID:PROVIDER")
    chosen = [_metrics(a, b, metrics) for a, b in pairs]
    checks = [like_for_like(a, b, metrics=names) for (a, b), names in zip(pairs, chosen, strict=True)]
    if not force:
        _refuse(pairs, checks)
    firsts = [group[0] for group in groups]
    found = [
        replace(_compared(a, b, names, check, explicit=bool(metrics)), is_against_first=any(a is one for one in firsts))
        for (a, b), names, check in zip(pairs, chosen, checks, strict=True)
    ]
    forced = any(not check.ok for check in checks)
    return Comparisons(comparisons=tuple(_corrected(found)), forced=forced, seed=pairs[0][0].seed)


def _refuse(pairs: Sequence[tuple[Side, Side]], checks: Sequence[LikeForLike]) -> None:
    told = []
    for (a, b), check in zip(pairs, checks, strict=True):
        if not check.ok:
            who = f"A = {name_of(a)}, B = {name_of(b)}"
            told.append(f"{who}: " + "; ".join(one.text for one in check.differences))
    if told:
        raise UsageError(
            "not like for like: " + " | ".join(told), hint="--force compares all the same and marks the output"
        )


def name_of(side: Side) -> str:
    """A side in words: provider, run, and its model where it was asked for."""
    model = f" with {side.record.models.answering}" if side.named_model else ""
    return f"{side.record.provider}{model} (run {side.run_id})"


# --------------------------------------------------------------------- which metrics


def _metrics(a: Side, b: Side, wanted: Sequence[str]) -> list[str]:
    """Names of the rows' metrics: those asked for, else all that both sides have and that pair item by item."""
    shared = [name for name in a.measures if name in b.measures]
    if not wanted:
        return [name for name in shared if can_be_paired(a.measures[name])]
    return list(dict.fromkeys(metric_named(name, a, shared) for name in wanted))


def metric_named(name: str, side: Side, shared: Sequence[str]) -> str:
    """The canonical name of a metric that both sides have.

    Raises:
        UsageError: they do not both have it, or it has no value an item.
    """
    info = resolve(name)
    found = next((one for one in (info.name, f"{info.name}_at_{side.record.k}") if one in shared), None)
    if found is None:
        raise UsageError(
            f"the metric {name} is not on both sides of {side.record.benchmark}",
            hint=f"both have: {', '.join(shared) or 'none'}; bench rescore adds metrics",
        )
    if not can_be_paired(side.measures[found]):
        raise UsageError(
            f"{name} is one number of all items: there is nothing to pair", hint="compare a metric that each item has"
        )
    return found


def _headlines(names: Sequence[str], a: Side, b: Side, *, explicit: bool) -> list[str]:
    """All that were asked for; else the first metric with a value on both sides."""
    if explicit:
        return list(names)
    return [next((n for n in names if _has_value(a, n) and _has_value(b, n)), names[0])] if names else []


def _has_value(side: Side, name: str) -> bool:
    return any(value == value for value in side.column(name))


# ---------------------------------------------------------------------------- a pair


def _compared(a: Side, b: Side, names: Sequence[str], check: LikeForLike, *, explicit: bool) -> PairComparison:
    headlines = _headlines(names, a, b, explicit=explicit)
    at_a, at_b = _places(a, b)
    rows = [row for name in names for row in _rows(a, b, at_a, at_b, name, headline=name in headlines)]
    clustered = a.record.cluster_by is not None
    first = next((row for row in rows if row.family == HEADLINE), None)
    left_out = [name for name in a.measures if name in b.measures and name not in names]
    return PairComparison(
        a=a,
        b=b,
        like_for_like=check,
        items=_items(a, b, at_a, at_b, headlines[0] if headlines else None),
        cluster_by=a.record.cluster_by,
        n_clusters=len({a.corpora[at] for at in at_a}) if clustered and first is not None else None,
        judge_noise=_noise(a, b),
        rows=tuple(rows),
        notes=(f"not paired, no value an item: {', '.join(left_out)}",) if left_out and not explicit else (),
    )


def _places(a: Side, b: Side) -> tuple[Sequence[int], Sequence[int]]:
    """Where the items that both sides have stand on each of them."""
    if a.items == b.items:
        return range(len(a.items)), range(len(b.items))
    shared = [item for item in a.items if item in b.place]
    return [a.place[item] for item in shared], [b.place[item] for item in shared]


def _picked(column: Sequence[float], places: Sequence[int]) -> Sequence[float]:
    return column if isinstance(places, range) else [column[at] for at in places]


def _rows(a: Side, b: Side, at_a: Sequence[int], at_b: Sequence[int], name: str, *, headline: bool) -> Iterator[Row]:
    pairs = Pairs(
        left=_picked(a.column(name), at_a),
        right=_picked(b.column(name), at_b),
        clusters=[a.corpora[at] for at in at_a] if a.record.cluster_by is not None else None,
        labels_in=lambda dimension: [labels[at] for at in at_a] if (labels := a.labels_in(dimension)) else [],
        seed=a.seed,
    )
    measure = a.measures[name]
    whole = Row(
        metric=name,
        definition=measure.definition,
        dimension=None,
        label=None,
        lower_is_better=measure.lower_is_better,
        unit=measure.unit,
        is_ratio=is_time(measure),
        family=HEADLINE if headline else EXPLORATORY,
        found=tested(measure, pairs),
        noise=_noise(a, b) if _is_judged(a, name, measure.category) else None,
    )
    yield whole
    if headline:
        yield from _label_rows(whole, a, pairs)


def _label_rows(whole: Row, a: Side, pairs: Pairs) -> Iterator[Row]:
    """The same metric label by label, where a dimension tells items apart."""
    for dimension in DIMENSIONS:
        labels = pairs.labels_in(dimension)
        names = sorted(set(labels) - {NO_LABEL})
        for label in names if len(set(labels)) > 1 else ():
            part = pairs.where([one == label for one in labels])
            found = tested(a.measures[whole.metric], part)
            yield replace(whole, dimension=dimension, label=label, family=EXPLORATORY, found=found)


def _items(a: Side, b: Side, at_a: Sequence[int], at_b: Sequence[int], headline: str | None) -> Items:
    left, right = (_picked(side.column(headline or ""), at) for side, at in ((a, at_a), (b, at_b)))
    lower = headline is not None and a.measures[headline].lower_is_better
    paired = 0
    better: dict[str, list[str]] = {"a": [], "b": []}
    for at, x, y in zip(at_a, left, right, strict=True):
        if x == x and y == y:
            paired += 1
            if x != y:
                better["a" if (x > y) != lower else "b"].append(a.items[at])
    return Items(
        a=a.n_planned // a.record.epochs,
        b=b.n_planned // b.record.epochs,
        paired=paired,
        excluded={"a": _excluded(a, b, headline), "b": _excluded(b, a, headline)},
        flips={side: tuple(items) for side, items in better.items()},
    )


def _excluded(side: Side, other: Side, headline: str | None) -> dict[str, int]:
    """Why items of this side have no value, and which of the other side it never had."""
    reasons: Counter[str] = Counter()
    for state, value in zip(side.states, side.column(headline or ""), strict=True):
        if value != value:
            reasons[_reason(state)] += 1
    if (missing := side.n_planned // side.record.epochs - len(side.items)) > 0:
        reasons["pending"] += missing
    elif absent := sum(item not in side.place for item in other.items):
        reasons["not_in_this_run"] += absent
    return dict(sorted(reasons.items()))


def _reason(state: str) -> str:
    own = (*FAILED_STATES, State.UNSCORED, State.UNSUPPORTED)
    return state if state in own else "not_applicable"


def _noise(a: Side, b: Side) -> float | None:
    known = [side.judge_noise for side in (a, b) if side.judge_noise is not None]
    return max(known, default=None)


def _is_judged(side: Side, name: str, category: str) -> bool:
    if side.record.models.judge is None or category != "answer":
        return False
    if "llm_judge" in name or name == "faithfulness":
        return True
    asked = bool(side.record.evaluators) and side.record.evaluators[0] in ASKING
    return asked and "." not in name and name.startswith(JUDGED)


# -------------------------------------------------------------------------- families


def _corrected(found: Sequence[PairComparison]) -> Iterator[PairComparison]:
    """Holm within each family, over the rows of all pairs."""
    adjusted: dict[int, float | None] = {}
    for family in (HEADLINE, EXPLORATORY):
        rows = [row for one in found for row in one.rows if row.family == family]
        adjusted |= zip(map(id, rows), stats.holm([row.found.p for row in rows]), strict=True)
    for one in found:
        yield replace(one, rows=tuple(replace(row, p_holm=adjusted[id(row)]) for row in one.rows))


__all__ = [
    "ALPHA", "EXPLORATORY", "HEADLINE", "LEVEL", "TARGET",
    "Comparisons", "Items", "PairComparison", "Row", "compare_sides", "metric_named", "name_of",
]  # fmt: skip
