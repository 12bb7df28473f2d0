"""Aggregate stored values into Measurements: exact, independent of order, a few bytes per row.

Also in this module:

* The values of one row: computed once at the end of its evaluate phase, and stored.

Example::

    found = fold(metrics, rows, by=("question_type",))
    found["accuracy"].n, found["accuracy"].breakdown["question_type"]["temporal"].value
    values(metrics, row)       # {"hit_at_5": 1.0, "accuracy": None}

Numbers are aggregated from cells, so a million rows need about a million doubles per metric.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bench.errors import EvaluatorFailed
from bench.metrics.aggregation import MEAN, FoldResult, PerCorrect, Sample, Total
from bench.metrics.fold_input import (
    FoldCell,
    FoldRow,
    FoldTable,
    JobFacts,
    Reducer,
    by_label,
    fold_table,
    has_dimension,
    reduce_repeats,
)
from bench.metrics.pricing import ALL_ROLES, ROLES_OF, WHOLE_JOB, cost_of
from bench.metrics.protocol import MAX_VALUE, Measure
from bench.model import Measurement, Row, State
from bench.stats import Tally
from bench.visible import counted

NOT_APPLICABLE = "not_applicable"
DIMENSIONS = ("question_type", "group")
"""breakdowns in every report"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldOptions:
    """The options of a fold; with ``clustered=False`` the intervals ignore corpora."""

    by: tuple[str, ...] = DIMENSIONS
    clustered: bool = True
    level: float = 0.95
    seed: int = 0
    judged: bool = False


@dataclass(frozen=True, slots=True)
class MetricColumn:
    """One metric and its index among the item metrics."""

    metric: Measure
    place: int


def fold(
    metrics: Sequence[Measure],
    rows: Iterable[FoldRow] | FoldTable,
    *,
    job: JobFacts | None = None,
    by: Sequence[str] = DIMENSIONS,
    clustered: bool = True,
    epochs: int = 1,
    epochs_reducer: Reducer = "mean",
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, Measurement]:
    """Return one Measurement per metric over the rows of one job, by metric name.

    A row's ``values`` are in the order of ``item_metrics(metrics)``. A ``FoldTable`` is faster for many rows, and has
    one epoch only. ``by`` names breakdowns in addition to the metrics' own; a breakdown that no row has is left out.
    With ``epochs`` > 1 an item's repeats are reduced first.
    """
    items = item_metrics(metrics)
    facts = job or JobFacts()
    options = FoldOptions(by=tuple(by), clustered=clustered, level=level, seed=seed, judged=facts.judged)
    spread: dict[str, float] = {}
    if epochs > 1 and not isinstance(rows, FoldTable):
        added = {m.name for m in items if isinstance(m.arithmetic.fold, Total | PerCorrect)}
        rows, spread = reduce_repeats(rows, [m.name for m in items], epochs_reducer, added, epochs=epochs)
    table = rows if isinstance(rows, FoldTable) else fold_table(rows, len(items), clustered=clustered)
    cells = table.cells()
    places = {column.name: place for place, column in enumerate(items)}
    found = {}
    for metric in metrics:
        if metric.scope == "corpus":
            found[metric.name] = _corpora_measurement(metric, facts, options)
        else:
            columns = [MetricColumn(column, places[column.name]) for column in metric.columns]
            measured = _items_measurement(metric, columns, cells, facts, options)
            deviation = spread.get(metric.name)
            shown = None if deviation is None else deviation / metric.arithmetic.fold.scale
            found[metric.name] = replace(measured, spread=shown)
    return found


def item_metrics(metrics: Sequence[Measure]) -> list[Measure]:
    """Return the columns of a row: metrics with a value per item, and the parts of the other metrics."""
    return [column for metric in metrics for column in metric.columns]


def _items_measurement(
    metric: Measure, columns: Sequence[MetricColumn], cells: Sequence[FoldCell], job: JobFacts, options: FoldOptions
) -> Measurement:
    def measured(some: Sequence[FoldCell], *, whole: bool) -> Measurement:
        if metric.scope == "parts":
            return _parts_measurement(metric, columns, some, options)
        return _metric_measurement(columns[0], some, job, options, whole=whole)

    dimensions = dict.fromkeys((*metric.breakdown, *(d for d in options.by if has_dimension(cells, d))))
    groups = {dimension: by_label(cells, dimension) for dimension in dimensions}
    breakdown = {
        dimension: {label: measured(labels[label], whole=False) for label in sorted(labels)}
        for dimension, labels in groups.items()
    }
    return replace(measured(cells, whole=True), breakdown=breakdown)


def _parts_measurement(
    metric: Measure, columns: Sequence[MetricColumn], cells: Sequence[FoldCell], options: FoldOptions
) -> Measurement:
    """Return the Measurement from the sums of all parts; it has no interval and no value with failures as 0."""
    samples = [_sample(column, cells, options) for column in columns]
    first, reasons = samples[0]
    function = metric.arithmetic.of_sums
    sums = [sample.values.total for sample, _ in samples]
    return Measurement(
        metric=metric.name,
        definition=metric.definition,
        value=function(sums) if function is not None and first.values else None,
        value_failures_as_zero=None,
        n=first.values.n,
        n_excluded=sum(reasons.values()),
        n_failed=first.n_failed,
        unit=metric.unit,
        method=_method(metric, JobFacts())[0],
        excluded_reasons=dict(sorted(reasons.items())),
    )


def _metric_measurement(
    column: MetricColumn, cells: Sequence[FoldCell], job: JobFacts, options: FoldOptions, *, whole: bool = False
) -> Measurement:
    """Return the Measurement of one metric over some cells; ``whole``: the cells are all cells of the job."""
    sample, reasons = _sample(column, cells, options)
    unknown = sum(reasons.values())
    if whole and column.metric.definition.partition("/")[0] in WHOLE_JOB:
        costs = [cost_of(("ingest",))(corpus.row()) for corpus in job.corpora]
        sample = replace(sample, corpus_values=[c for c in costs if c is not None])
        unknown += sum(c is None for c in costs)
    return _measurement(column.metric, sample, reasons, unknown, job)


def _sample(column: MetricColumn, cells: Sequence[FoldCell], options: FoldOptions) -> tuple[Sample, Counter[str]]:
    place, ended = column.place, [cell for cell in cells if not cell.failed]
    reasons: Counter[str] = Counter()
    lost = 0
    for cell in ended:
        missing = cell.count - cell.n(place)
        if options.judged and cell.state == State.UNSCORED and column.metric.needs_verdict:
            lost += missing
        else:
            reasons.update(_reasons(column.metric, cell, missing))
    failed = [cell for cell in cells if cell.failed]
    sample = Sample(
        values=_tally(place, ended, clustered=options.clustered),
        n_failed=sum(cell.count for cell in failed) + lost,
        n_correct=sum(cell.count for cell in ended if cell.state == State.CORRECT),
        failed_values=_tally(place, failed, clustered=False),
        groups=_groups(column, cells, options),
        level=options.level,
        seed=options.seed,
    )
    return sample, reasons


def _tally(place: int, cells: Sequence[FoldCell], *, clustered: bool) -> Tally:
    """Return the values of the metric at an index, over some cells."""
    by_cluster = [values for cell in cells for values in cell.by_cluster[place].items()]
    mixed = [cell.mixed_values(place, clustered=clustered) for cell in cells]
    return Tally(by_cluster, mixed, clustered=clustered)


def _groups(column: MetricColumn, cells: Sequence[FoldCell], options: FoldOptions) -> dict[str, Sample]:
    """Return each label's own sample, for a macro mean."""
    dimension = column.metric.arithmetic.fold.dimension
    if dimension is None:
        return {}
    arithmetic = replace(column.metric.arithmetic, fold=MEAN)
    inner = replace(column, metric=replace(column.metric, arithmetic=arithmetic))
    return {label: _sample(inner, group, options)[0] for label, group in by_label(cells, dimension).items()}


def _reasons(metric: Measure, cell: FoldCell, missing: int) -> Counter[str]:
    """Count the reasons why finished rows have no value of this metric: the row's own reason, else the state's."""
    found: Counter[str] = Counter()
    if not missing:
        return found
    if metric.explained_by_rows and cell.state != State.UNSUPPORTED:
        for reason, count in sorted(cell.reasons.items()):
            found[reason] = min(count, missing - found.total())
    found[_reason(metric, cell)] += missing - found.total()
    return +found


def _reason(metric: Measure, cell: FoldCell) -> str:
    if cell.state in (State.UNSUPPORTED, State.UNSCORED):
        return str(cell.state)
    if metric.counts_unknown:
        return "unknown"
    if cell.state == State.MEASURED and metric.category == "answer":
        return str(cell.state)
    return metric.arithmetic.absent_reason or NOT_APPLICABLE


def _corpora_measurement(metric: Measure, job: JobFacts, options: FoldOptions) -> Measurement:
    """Return the Measurement of a metric with values per corpus; n counts corpora."""
    values = [metric.score(corpus.row()) for corpus in job.corpora if not corpus.failed]
    known = [v for v in values if v is not None]
    failed = [metric.score(corpus.row()) for corpus in job.corpora if corpus.failed]
    sample = Sample(
        values=Tally.of(known),
        n_failed=len(failed),
        failed_values=Tally.of([v for v in failed if v is not None]),
        wall_us=job.ingest_wall_us,
        concurrency=job.ingest_concurrency,
        level=options.level,
        seed=options.seed,
    )
    missing = len(values) - len(known)
    reasons = Counter({"unknown" if metric.counts_unknown else NOT_APPLICABLE: missing} if missing else {})
    return _measurement(metric, sample, reasons, missing, job)


def _measurement(metric: Measure, sample: Sample, reasons: Counter[str], unknown: int, job: JobFacts) -> Measurement:
    folded = metric.arithmetic.fold.fold(sample)
    known = sample.values or sample.failed_values.exact_total or any(sample.corpus_values)
    if unknown and metric.counts_unknown and not known:
        folded = FoldResult(value=None)  # nothing that has a price is known: never 0
    method, estimated = _method(metric, job)
    n_unknown = unknown if metric.counts_unknown else 0
    notes = [folded.note]
    if n_unknown and folded.value is not None:
        notes.append(f"at least: {counted(n_unknown, '(value is|values are)')} unknown")
    if folded.value is None and not sample.values and reasons:
        notes.append(", ".join(sorted(reasons)))
    return Measurement(
        metric=metric.name,
        definition=metric.definition,
        value=folded.value,
        value_failures_as_zero=folded.value_failures_as_zero,
        n=sample.values.n,
        n_excluded=sum(reasons.values()),
        n_failed=sample.n_failed,
        interval=folded.interval,
        unit=metric.unit,
        n_unknown=n_unknown,
        method=method,
        estimated=estimated,
        excluded_reasons=dict(sorted(reasons.items())),
        note="; ".join(note for note in notes if note),
    )


def _method(metric: Measure, job: JobFacts) -> tuple[str | None, bool]:
    """Return the method of a number, and True if the number is estimated.

    The method is the token counter, the price table, or the library that computes the metric; None for other metrics.
    """
    if metric.arithmetic.method is not None:
        return metric.arithmetic.method(), False
    name = metric.definition.partition("/")[0]
    if metric.unit == "USD":
        priced = {method for role in ROLES_OF.get(name, ALL_ROLES) for method in job.price_methods.get(role, ())}
        return " and ".join(sorted(priced)) or None, False
    if metric.unit == "tokens":
        return job.token_methods.get(name.removeprefix("tokens_"), (None, False))
    return None, False


def values(metrics: Sequence[Measure], row: Row) -> dict[str, float | None]:
    """Return the row's value of each item metric, by name; None = does not apply.

    Raises:
        EvaluatorFailed: a metric gives NaN, infinity or a number beyond 1e100. This is an error of the item.
    """
    return {metric.name: value(metric, row) for metric in item_metrics(metrics)}


def value(metric: Measure, row: Row) -> float | None:
    """Return the row's value of one metric; None = does not apply. Errors as for ``values``."""
    found = metric.score(row)
    if found is not None and not abs(found) <= MAX_VALUE:
        raise EvaluatorFailed(f"metric {metric.name} returned {found} for item {row.item_id}; expected a finite number")
    return found
