"""Compare two or more jobs over the items that these jobs share, if their settings are comparable.

``compare_sides`` compares every pair of jobs, and ``compare_pair`` compares one pair. A comparison has one row per
metric. A headline metric also has one row per label, such as a question type. Items that only one job has are left out
and counted.

Example::

    found = compare_sides([[a, b]], metrics=("ndcg_at_10",))
    found.comparisons[0].rows[0].verdict         # "A higher"
    one = compare_pair(a, b, ["accuracy"], check_comparability(a, b, metrics=["accuracy"]), wanted=())
    one.items.paired, one.items.flips["a"]

The p values are corrected within each of three groups of rows:

* ``headline``, corrected by Holm: the metrics that answer the question of the comparison.
* ``exploratory``, corrected by maxT: all other rows with one difference per item or cluster, including rows of labels.
* ``percentiles``, corrected by Holm: percentiles and macro means, which have no difference per item.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from bench import stats
from bench.errors import UsageError
from bench.metrics.fold import DIMENSIONS
from bench.metrics.fold_input import NO_LABEL
from bench.metrics.protocol import Measure
from bench.model import FAILED_STATES, JUDGED, State
from bench.report.comparison.comparability import Comparability, check_comparability
from bench.report.comparison.comparison_rows import (
    EXPLORATORY,
    HEADLINE,
    PERCENTILES,
    ComparisonRow,
    Comparisons,
    PairComparison,
    PairedItems,
)
from bench.report.comparison.paired_tests import (
    PairedValues,
    compare_metric,
    difference_sums,
    has_item_differences,
    headline_metrics,
    incomparable_metrics,
    is_time,
    metrics_to_compare,
)
from bench.report.comparison.sides import PENDING, Side

VERDICT_METRICS = ("accuracy", "correctness", "abstention_accuracy", "faithfulness")
"""prefixes of the names of answer metrics that are computed from verdicts"""


def compare_pair(
    a: Side, b: Side, names: Sequence[str], check: Comparability, *, wanted: Sequence[str]
) -> PairComparison:
    """Compare two sides on the metrics ``names``; ``wanted`` are the metrics that the user asked for."""
    first = headline_metrics(names, a, b, wanted=wanted)
    at_a, at_b = _shared_positions(a, b)
    clusters = [a.corpora[at] for at in at_a] if a.record.cluster_by is not None else None
    rows = [row for name in names for row in _rows(a, b, at_a, at_b, clusters, name, headline=name in first)]
    return PairComparison(
        a=a,
        b=b,
        comparability=check,
        items=_paired_items(a, b, at_a, at_b, first[0] if first else None),
        cluster_by=a.record.cluster_by,
        n_clusters=len(set(clusters)) if clusters is not None and first else None,
        judge_noise=_judge_noise(a, b),
        rows=tuple(rows),
        notes=tuple(_omission_notes(a, b, names)) if not wanted else (),
    )


def _omission_notes(a: Side, b: Side, names: Sequence[str]) -> Iterator[str]:
    """Yield notes on metrics that both sides have but that are not compared: one note for each reason."""
    missing = [name for name in a.measures if name in b.measures and name not in names]
    other = incomparable_metrics(a, b, missing)
    if other:
        levels = f"A counts evidence by {a.record.level}, B by {b.record.level}"
        yield f"not compared, because {levels}: {', '.join(other)}"
    if single := [name for name in missing if name not in other]:
        yield f"not compared, because there is no value per item: {', '.join(single)}"


def _shared_positions(a: Side, b: Side) -> tuple[Sequence[int], Sequence[int]]:
    """Return two lists of equal length: the positions of the shared items in side a and in side b."""
    if a.items == b.items:
        return range(len(a.items)), range(len(b.items))
    shared = sorted(item for item in a.items if item in b.positions)
    return [a.positions[item] for item in shared], [b.positions[item] for item in shared]


def _values_at(column: Sequence[float], places: Sequence[int]) -> Sequence[float]:
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
) -> Iterator[ComparisonRow]:
    pairs = PairedValues.of(
        _values_at(a.column(name), at_a),
        _values_at(b.column(name), at_b),
        clusters,
        labels_in=lambda dimension: [labels[at] for at in at_a] if (labels := a.labels_in(dimension)) else [],
        seed=a.seed,
    )
    measure = a.measures[name]
    whole = ComparisonRow(
        metric=name,
        definition=next((one.definition for one in a.record.metrics if one.name == name), measure.definition),
        dimension=None,
        label=None,
        lower_is_better=measure.lower_is_better,
        unit=measure.unit,
        is_ratio=is_time(measure),
        family=HEADLINE if headline else _secondary_family(measure),
        found=compare_metric(measure, pairs),
        noise=_judge_noise(a, b) if _is_judged(a, name, measure.category) else None,
    )
    yield _with_sums(whole, measure, pairs)
    if headline:
        yield from _label_rows(whole, a, pairs)


def _secondary_family(measure: Measure) -> str:
    """Return the correction group of the rows of ``measure`` that are not headline rows: exploratory or percentiles."""
    return EXPLORATORY if has_item_differences(measure) else PERCENTILES


def _with_sums(row: ComparisonRow, measure: Measure, pairs: PairedValues) -> ComparisonRow:
    """Add the sums of differences to an exploratory row, for the maxT correction. Return other rows unchanged."""
    return replace(row, sums=difference_sums(measure, pairs)) if row.family == EXPLORATORY and row.is_tested else row


def _label_rows(whole: ComparisonRow, a: Side, pairs: PairedValues) -> Iterator[ComparisonRow]:
    """Yield one row for each label of the items, such as each question type.

    The row of a label compares the metric over the paired items that have the label. If all items have the same
    question type, there are no rows for question types.
    """
    measure = a.measures[whole.metric]
    for dimension in DIMENSIONS:
        labels = pairs.labels_in(dimension)
        names = sorted(set(labels) - {NO_LABEL})
        for label in names if len(set(labels)) > 1 else ():
            part = pairs.where([one == label for one in labels])
            row = replace(
                whole,
                dimension=dimension,
                label=label,
                family=_secondary_family(measure),
                found=compare_metric(measure, part),
            )
            yield _with_sums(row, measure, part)


def _paired_items(a: Side, b: Side, at_a: Sequence[int], at_b: Sequence[int], headline: str | None) -> PairedItems:
    left, right = (_values_at(side.column(headline or ""), at) for side, at in ((a, at_a), (b, at_b)))
    lower = headline is not None and a.measures[headline].lower_is_better
    paired = 0
    better: dict[str, list[str]] = {"a": [], "b": []}
    for at, x, y in zip(at_a, left, right, strict=True):
        if x == x and y == y:
            paired += 1
            if x != y:
                better["a" if (x > y) != lower else "b"].append(a.items[at])
    return PairedItems(
        a=a.n_planned,
        b=b.n_planned,
        paired=paired,
        excluded={"a": _excluded(a, b, headline), "b": _excluded(b, a, headline)},
        flips={side: tuple(items) for side, items in better.items()},
    )


def _excluded(side: Side, other: Side, headline: str | None) -> dict[str, int]:
    """Return reason -> number of unpaired items.

    An item is unpaired if it has no value on ``side``, or if only ``other`` has the item.
    """
    reasons: Counter[str] = Counter()
    own = (*FAILED_STATES, PENDING, State.UNSCORED, State.UNSUPPORTED)
    for state, value in zip(side.states, side.column(headline or ""), strict=True):
        if value != value:
            reasons[state if state in own else "not_applicable"] += 1
    if (missing := side.n_planned - len(side.items)) > 0:
        reasons[PENDING] += missing
    elif absent := len(other.positions.keys() - side.positions.keys()):
        reasons["not_in_this_run"] += absent
    return dict(sorted(reasons.items()))


def _judge_noise(a: Side, b: Side) -> float | None:
    known = [side.judge_noise for side in (a, b) if side.judge_noise is not None]
    return max(known, default=None)


def _is_judged(side: Side, name: str, category: str) -> bool:
    if side.record.models.judge is None or category != "answer":
        return False
    if "llm_judge" in name or name == "faithfulness":
        return True
    is_first_judged = bool(side.record.evaluators) and side.record.evaluators[0] in JUDGED
    return is_first_judged and "." not in name and name.startswith(VERDICT_METRICS)


def compare_sides(groups: Sequence[Sequence[Side]], *, metrics: Sequence[str] = (), force: bool = False) -> Comparisons:
    """Compare every pair of sides within each group.

    A group contains the jobs of one benchmark. If ``metrics`` is not empty, only these metrics are compared. With
    ``force``, jobs whose settings differ are also compared, and the result is marked.

    Raises:
        UsageError: the settings of a pair differ and ``force`` is not given; the message lists the differences.
        UsageError: one side does not have a metric of ``metrics``, or the metric has no value per item.
    """
    pairs = [pair for group in groups for pair in combinations(group, 2)]
    if not pairs:
        raise UsageError("a comparison needs two sides", hint="name two sides as RUN_ID:PROVIDER")
    chosen = [metrics_to_compare(a, b, metrics) for a, b in pairs]
    checks = [check_comparability(a, b, metrics=names) for (a, b), names in zip(pairs, chosen, strict=True)]
    if not force:
        _require_comparable(pairs, checks)
    firsts = [group[0] for group in groups]
    found = [
        replace(compare_pair(a, b, names, check, wanted=metrics), is_against_first=any(a is one for one in firsts))
        for (a, b), names, check in zip(pairs, chosen, checks, strict=True)
    ]
    forced = any(not check.ok for check in checks)
    return Comparisons(comparisons=tuple(_with_corrected_p(found)), forced=forced, seed=pairs[0][0].seed)


def _require_comparable(pairs: Sequence[tuple[Side, Side]], checks: Sequence[Comparability]) -> None:
    refused = []
    for (a, b), check in zip(pairs, checks, strict=True):
        if not check.ok:
            texts = [one.text for one in check.differences]
            differences = f": {texts[0]}" if len(texts) == 1 else "".join(f"\n  {text}" for text in texts)
            refused.append(f"A = {a.name}, B = {b.name}{differences}")
    if refused:
        raise UsageError(
            "not like for like: " + "\n".join(refused),
            hint="compare the jobs anyway with --force; the output is then marked",
        )


def _with_corrected_p(found: Sequence[PairComparison]) -> Iterator[PairComparison]:
    """Set the adjusted p value of every row.

    A row is corrected together with all rows of its group in all pairs. The groups are headline, exploratory and
    percentiles.
    """
    adjusted: dict[int, tuple[float, float]] = {}
    for family in (HEADLINE, PERCENTILES):
        adjusted |= _by_holm([row for one in found for row in one.rows_of(family) if row.is_tested])
    pairs = [rows for one in found if (rows := [row for row in one.rows_of(EXPLORATORY) if row.is_tested])]
    for rows in pairs:
        adjusted |= _by_max_t(rows, len(pairs), seed=found[0].a.seed)
    for one in found:
        yield replace(one, rows=tuple(_with_adjusted(row, adjusted.get(id(row))) for row in one.rows))


def _with_adjusted(row: ComparisonRow, adjusted: tuple[float, float] | None) -> ComparisonRow:
    return row if adjusted is None else replace(row, p_adjusted=adjusted[0], least_p=adjusted[1])


def _by_holm(rows: Sequence[ComparisonRow]) -> dict[int, tuple[float, float]]:
    """Map ``id(row)`` to (Holm-adjusted p value of the row, smallest adjusted p value that is possible)."""
    corrected = stats.holm([row.found.p for row in rows])
    least = stats.holm([row.found.smallest_p or 0.0 for row in rows])
    return {id(row): (p or 0.0, floor or 0.0) for row, p, floor in zip(rows, corrected, least, strict=True)}


def _by_max_t(rows: Sequence[ComparisonRow], pairs: int, *, seed: int) -> dict[int, tuple[float, float]]:
    """Map ``id(row)`` to (maxT-adjusted p value of the row, smallest adjusted p value that is possible).

    Both p values are corrected within one pair of sides, and then multiplied by the number of pairs. The adjusted
    p value of a row is never below the row's own p value.
    """
    corrected = stats.max_t([row.sums for row in rows], seed=seed)
    least = [stats.least_max_t(row.found.n_clusters or row.found.n, len(row.sums)) for row in rows]
    return {
        id(row): (max(row.found.p or 0.0, min(1.0, p * pairs)), min(1.0, floor * pairs))
        for row, p, floor in zip(rows, corrected, least, strict=True)
    }
