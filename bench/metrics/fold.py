"""Combine the stored metric values of many items into Measurements, which have a value, an interval and counts.

The order of the items has no effect, because sums are exact. ``values`` computes the metric values of one item at the
end of its evaluate phase.

Example::

    found = fold(metrics, rows, by=("question_type",))
    found["accuracy"].n, found["accuracy"].breakdown["question_type"]["temporal"].value
    values(metrics, row)       # {"hit_at_5": 1.0, "accuracy": None}

For a million items, each metric needs memory for about a million doubles.
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
from bench.metrics.pricing import ALL_ROLES, ITEM_ROLES, ROLES_OF, TOTAL_COSTS, WHOLE_JOB, cost_of
from bench.metrics.protocol import MAX_VALUE, Measure
from bench.model import Measurement, Row, State
from bench.stats import Tally
from bench.visible_text import counted

NOT_APPLICABLE = "not_applicable"
AT_LEAST = "at least: "
"""beginning of the note on a total that is a lower bound, because some of its values are unknown"""
DIMENSIONS = ("question_type", "group")
"""the labels by which every report breaks its metrics down"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldOptions:
    """The options of `fold`. With ``clustered=False`` an interval treats all items as independent."""

    by: tuple[str, ...] = DIMENSIONS
    clustered: bool = True
    seed: int = 0
    judged: bool = False


@dataclass(frozen=True, slots=True)
class MetricColumn:
    """A metric, and the position ``place`` of its value in each row."""

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
    seed: int = 0,
) -> dict[str, Measurement]:
    """Return metric name -> Measurement over all rows of one job.

    The ``values`` of each row are in the order of ``item_metrics(metrics)``. A ``FoldTable`` is faster for many rows,
    but can hold only one epoch. ``by`` adds breakdowns by these labels. A breakdown is left out if no row has its
    label. With ``epochs`` > 1, the repeats of an item are first combined into one row.
    """
    items = item_metrics(metrics)
    facts = job or JobFacts()
    options = FoldOptions(by=tuple(by), clustered=clustered, seed=seed, judged=facts.judged)
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
    """Return the metrics whose values are stored in a row, in the order of the values.

    A metric without a value per item (such as corpus BLEU) is replaced by the counts that it sums.
    """
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
    """Return the Measurement of a metric that is a formula of sums, such as corpus BLEU; there is no interval."""
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
    """Return the Measurement of one metric over the rows in ``cells``.

    Set ``whole`` if the cells contain the whole job. A total cost then includes the cost of the ingest, and of calls
    that are not in the cost of any item, such as those of failed items.
    """
    sample, reasons = _sample(column, cells, options)
    unknown = sum(reasons.values())
    name = column.metric.definition.partition("/")[0]
    if whole and name in WHOLE_JOB:
        costs = [(cost_of(("ingest",))(corpus.row()), corpus.known_usd) for corpus in job.corpora]
        sample = replace(sample, corpus_values=[known if cost is None else cost for cost, known in costs])
        unknown += sum(cost is None for cost, _ in costs)
    if whole and name in TOTAL_COSTS:
        others = [job.uncounted[role] for role in ROLES_OF.get(name, ITEM_ROLES) if role in job.uncounted]
        lacking = [job.lacking[name]] if name in job.lacking else []
        sample = replace(sample, corpus_values=[*sample.corpus_values, *(cost for cost, _ in others), *lacking])
        unknown += sum(calls for _, calls in others)
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
        seed=options.seed,
    )
    return sample, reasons


def _tally(place: int, cells: Sequence[FoldCell], *, clustered: bool) -> Tally:
    """Return the values of the metric at position ``place`` in all rows of ``cells``."""
    by_cluster = [values for cell in cells for values in cell.by_cluster[place].items()]
    mixed = [cell.mixed_values(place, clustered=clustered) for cell in cells]
    return Tally(by_cluster, mixed, clustered=clustered)


def _groups(column: MetricColumn, cells: Sequence[FoldCell], options: FoldOptions) -> dict[str, Sample]:
    """Return label -> sample of the rows with this label; empty unless the metric is a macro mean."""
    dimension = column.metric.arithmetic.fold.dimension
    if dimension is None:
        return {}
    arithmetic = replace(column.metric.arithmetic, fold=MEAN)
    inner = replace(column, metric=replace(column.metric, arithmetic=arithmetic))
    return {label: _sample(inner, group, options)[0] for label, group in by_label(cells, dimension).items()}


def _reasons(metric: Measure, cell: FoldCell, missing: int) -> Counter[str]:
    """Count why the ``missing`` rows of a cell have no value of the metric.

    The rows of a cell can have stored reasons, which explain missing values of retrieval metrics. If a row has no such
    reason, its reason follows from the state of the cell and from the metric.
    """
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
    """Return the Measurement of a metric that has one value per corpus; its ``n`` is the number of corpora.

    If the cost of a corpus is known only in part, the known part is included.
    """
    values = [metric.score(corpus.row()) for corpus in job.corpora if not corpus.failed]
    known = [v for v in values if v is not None]
    failed = [metric.score(corpus.row()) for corpus in job.corpora if corpus.failed]
    sample = Sample(
        values=Tally.of(known),
        n_failed=len(failed),
        failed_values=Tally.of([v for v in failed if v is not None]),
        corpus_values=[corpus.known_usd for corpus in job.corpora] if metric.unit == "USD" else (),
        wall_us=job.ingest_wall_us,
        concurrency=job.ingest_concurrency,
        seed=options.seed,
    )
    missing = len(values) - len(known)
    reasons = Counter({"unknown" if metric.counts_unknown else NOT_APPLICABLE: missing} if missing else {})
    unknown = missing + (failed.count(None) if metric.unit == "USD" else 0)
    return _measurement(metric, sample, reasons, unknown, job)


def _measurement(metric: Measure, sample: Sample, reasons: Counter[str], unknown: int, job: JobFacts) -> Measurement:
    folded = metric.arithmetic.fold.fold(sample)
    known = sample.values or sample.failed_values.exact_total or any(sample.corpus_values)
    if unknown and metric.counts_unknown and not known:
        folded = FoldResult(value=None)  # nothing that has a price is known: never 0
    method, estimated = _method(metric, job)
    n_unknown = unknown if metric.counts_unknown else 0
    notes = [folded.note]
    if n_unknown and folded.value is not None:
        bound = AT_LEAST if isinstance(metric.arithmetic.fold, Total | PerCorrect) else ""
        notes.append(f"{bound}{counted(n_unknown, '(value is|values are)')} unknown")
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
    """Return the method by which the values of a metric were counted or computed, and True if they are estimates.

    The method is the name of the token counter, of the price table, or of the library that computes the metric. It is
    None for all other metrics.
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
    """Return metric name -> value of this row; the value is None if the metric does not apply to the row.

    Raises:
        EvaluatorFailed: the value is NaN, infinite or larger than 1e100. The item then has an error.
    """
    return {metric.name: value(metric, row) for metric in item_metrics(metrics)}


def value(metric: Measure, row: Row) -> float | None:
    """Return the value of one metric for one row; None if the metric does not apply to the row.

    Raises:
        EvaluatorFailed: the value is NaN, infinite or larger than 1e100.
    """
    found = metric.score(row)
    if found is not None and not abs(found) <= MAX_VALUE:
        raise EvaluatorFailed(
            f"metric {metric.name} returned {found} for item {row.item_id}; expected a number from -1e100 to 1e100"
        )
    return found
