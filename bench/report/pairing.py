"""Two sides item by item: which items pair, one row a metric and label, who won where, who was left out and why.

Example::

    one = compared_pair(a, b, ["accuracy"], like_for_like(a, b, metrics=["accuracy"]), wanted=())
    one.items.paired, one.items.flips["a"]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from bench.metrics.facts import NO_LABEL
from bench.metrics.protocol import Measure
from bench.model import FAILED_STATES, State
from bench.report.comparison import EXPLORATORY, HEADLINE, PERCENTILES, Items, PairComparison, Row
from bench.report.headlines import apart, headlines
from bench.report.likeforlike import LikeForLike
from bench.report.rowtests import Pairs, is_paired, is_time, sums_of, tested
from bench.report.sides import PENDING, Side

DIMENSIONS = ("question_type", "group")
JUDGED = ("accuracy", "correctness", "abstention_accuracy", "faithfulness")
"""answer metrics that read verdicts"""
ASKING = frozenset({"llm-judge", "rubric", "faithfulness"})
"""evaluators that ask a judge"""


def compared_pair(
    a: Side, b: Side, names: Sequence[str], check: LikeForLike, *, wanted: Sequence[str]
) -> PairComparison:
    """Compare two sides on the metrics ``names``; ``wanted`` are those that were asked for."""
    first = headlines(names, a, b, wanted=wanted)
    at_a, at_b = _places(a, b)
    clusters = [a.corpora[at] for at in at_a] if a.record.cluster_by is not None else None
    rows = [row for name in names for row in _rows(a, b, at_a, at_b, clusters, name, headline=name in first)]
    return PairComparison(
        a=a,
        b=b,
        like_for_like=check,
        items=_items(a, b, at_a, at_b, first[0] if first else None),
        cluster_by=a.record.cluster_by,
        n_clusters=len(set(clusters)) if clusters is not None and first else None,
        judge_noise=_noise(a, b),
        rows=tuple(rows),
        notes=tuple(_left_out(a, b, names)) if not wanted else (),
    )


def _left_out(a: Side, b: Side, names: Sequence[str]) -> Iterator[str]:
    """Say which metrics of both sides have no row, and why."""
    missing = [name for name in a.measures if name in b.measures and name not in names]
    other = apart(a, b, missing)
    if other:
        levels = f"A counts evidence by {a.record.level}, B by {b.record.level}"
        yield f"left out, {levels}: {', '.join(other)}"
    if single := [name for name in missing if name not in other]:
        yield f"not paired, no value an item: {', '.join(single)}"


def _places(a: Side, b: Side) -> tuple[Sequence[int], Sequence[int]]:
    """Where the items that both sides have stand on each of them."""
    if a.items == b.items:
        return range(len(a.items)), range(len(b.items))
    shared = sorted(item for item in a.items if item in b.place)
    return [a.place[item] for item in shared], [b.place[item] for item in shared]


def _picked(column: Sequence[float], places: Sequence[int]) -> Sequence[float]:
    return column if isinstance(places, range) else [column[at] for at in places]


def _rows(
    a: Side,
    b: Side,
    at_a: Sequence[int],
    at_b: Sequence[int],
    clusters: Sequence[str] | None,
    name: str,
    *,
    headline: bool,
) -> Iterator[Row]:
    pairs = Pairs.of(
        _picked(a.column(name), at_a),
        _picked(b.column(name), at_b),
        clusters,
        labels_in=lambda dimension: [labels[at] for at in at_a] if (labels := a.labels_in(dimension)) else [],
        seed=a.seed,
    )
    measure = a.measures[name]
    whole = Row(
        metric=name,
        definition=next((one.definition for one in a.record.metrics if one.name == name), measure.definition),
        dimension=None,
        label=None,
        lower_is_better=measure.lower_is_better,
        unit=measure.unit,
        is_ratio=is_time(measure),
        family=HEADLINE if headline else _besides(measure),
        found=tested(measure, pairs),
        noise=_noise(a, b) if _is_judged(a, name, measure.category) else None,
    )
    yield _with_sums(whole, measure, pairs)
    if headline:
        yield from _label_rows(whole, a, pairs)


def _besides(measure: Measure) -> str:
    """The family of a row that was not asked for."""
    return EXPLORATORY if is_paired(measure) else PERCENTILES


def _with_sums(row: Row, measure: Measure, pairs: Pairs) -> Row:
    """What the correction of its family needs of a row."""
    return replace(row, sums=sums_of(measure, pairs)) if row.family == EXPLORATORY and row.is_tested else row


def _label_rows(whole: Row, a: Side, pairs: Pairs) -> Iterator[Row]:
    """The same metric label by label, where a dimension tells items apart."""
    measure = a.measures[whole.metric]
    for dimension in DIMENSIONS:
        labels = pairs.labels_in(dimension)
        names = sorted(set(labels) - {NO_LABEL})
        for label in names if len(set(labels)) > 1 else ():
            part = pairs.where([one == label for one in labels])
            row = replace(
                whole, dimension=dimension, label=label, family=_besides(measure), found=tested(measure, part)
            )
            yield _with_sums(row, measure, part)


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
        a=a.n_planned,
        b=b.n_planned,
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
    if (missing := side.n_planned - len(side.items)) > 0:
        reasons[PENDING] += missing
    elif absent := _lacking(side, other):
        reasons["not_in_this_run"] += absent
    return dict(sorted(reasons.items()))


def _lacking(side: Side, other: Side) -> int:
    """How many items only the other side has."""
    return 0 if side.items == other.items else len(set(other.items) - side.place.keys())


def _reason(state: str) -> str:
    own = (*FAILED_STATES, PENDING, State.UNSCORED, State.UNSUPPORTED)
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
