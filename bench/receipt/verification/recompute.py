"""Compute the scores of a receipt again from its items file, and report differences.

Aggregates must be exactly equal. Values of single rows may differ by 1e-12, because log2 may differ between machines.
The order of the rows has no effect.

Example::

    check = Recomputation(receipt)
    for row in rows: check.add(row)
    findings = check.findings()
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from bench.errors import ConfigError
from bench.metrics.protocol import Measure
from bench.metrics.registry import registry
from bench.model import FAILED_STATES, Row, State, Verdict
from bench.receipt.items_file import ItemRow
from bench.receipt.schema import Body
from bench.receipt.schema_results import Label, ReceiptScore
from bench.receipt.verification.cost_check import CostCheck
from bench.receipt.verification.findings import Finding, fail, ok, skip, warn
from bench.receipt.verification.interval_check import IntervalCheck
from bench.visible_text import counted

NO_LABEL = "(none)"
MACRO = "macro:"

LabelKey = tuple[str, str]
"""(dimension, label), such as ("question_type", "temporal")"""


class RecomputedTally:
    """Collects the values of one metric, for all items and for each label such as a question type."""

    def __init__(self) -> None:
        self.values = array("d")
        self.excluded = 0
        self.failed = 0
        self.labels: dict[tuple[str, str], array[float]] = {}
        self.failed_labels: Counter[tuple[str, str]] = Counter()

    def scored(self, value: float, places: list[tuple[str, str]]) -> None:
        """Add the value of one item, for all items and for each label in ``places``."""
        self.values.append(value)
        for place in places:
            self.labels.setdefault(place, array("d")).append(value)

    def lost(self, places: list[tuple[str, str]]) -> None:
        """Count one item that failed, for all items and for each label in ``places``."""
        self.failed += 1
        self.failed_labels.update(places)

    def fold(self, aggregate: str, pending: int) -> tuple[float | None, float | None]:
        """Return the score, and the score in which failed and pending items count as 0.

        ``aggregate`` is ``mean``, ``macro:NAME`` or ``other``. For ``macro:NAME``, such as ``macro:question_type``, the
        score is first averaged per question type, and then over the question types. Pending items have no label, so
        they count only in a ``mean``. For ``other``, both results are None.
        """
        if aggregate == "mean":
            return mean(self.values), mean(self.values, len(self.values) + self.failed + pending)
        if aggregate.startswith(MACRO):
            dimension = aggregate.removeprefix(MACRO)
            return self._macro(dimension, with_failed=False), self._macro(dimension, with_failed=True)
        return None, None

    def _macro(self, dimension: str, *, with_failed: bool) -> float | None:
        found = {place for place in (*self.labels, *self.failed_labels) if place[0] == dimension}
        means = []
        for place in sorted(found):
            values = self.labels.get(place, array("d"))
            one = mean(values, len(values) + (self.failed_labels[place] if with_failed else 0))
            if one is not None:
                means.append(one)
        return math.fsum(means) / len(means) if means else None

    def labels_of(self, dimension: str) -> dict[str, Label]:
        """Return label -> mean and number of values. ``dimension`` is the name of the label, such as question_type."""
        return {
            label: Label(value=mean(values), n=len(values))
            for (found, label), values in sorted(self.labels.items())
            if found == dimension
        }


def mean(values: array[float], divisor: int | None = None) -> float | None:
    """Return sum(values) / divisor; None if the divisor is 0. The default divisor is the number of values."""
    divisor = len(values) if divisor is None else divisor
    return math.fsum(values) / divisor if divisor else None


def dimensions(breakdown: Iterable[str], aggregate: str) -> tuple[str, ...]:
    """Return the sorted names of the labels by which a metric groups its items, such as ``question_type``.

    These are the names in ``breakdown``, and the name in an aggregate ``macro:NAME``.
    """
    own = (aggregate.removeprefix(MACRO),) if aggregate.startswith(MACRO) else ()
    return tuple(sorted({*breakdown, *own}))


class RowLabels:
    """The labels of one row. Results are cached, because many metrics use the same labels."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels
        self._known: dict[tuple[str, ...], list[LabelKey]] = {}

    def under(self, wanted: tuple[str, ...]) -> list[LabelKey]:
        """Return (name, label of the row) for each name in ``wanted``, such as question_type.

        A label that the row does not have is ``(none)``.
        """
        found = self._known.get(wanted)
        if found is None:
            found = [(dimension, self._labels.get(dimension, NO_LABEL)) for dimension in wanted]
            self._known[wanted] = found
        return found


_DEFINITION = re.compile(r"(?P<base>[^@/\[]+)(?:@(?P<k>[0-9]{1,9}))?(?:\[(?P<options>[^\]/]*)\])?/(?P<version>.+)")
_CUT_IN_NAME = re.compile(r".*_at_([0-9]{1,9})")

RATES = frozenset({
    "hit", "recall_any", "recall_fraction", "recall_all", "recall_capped", "precision", "retrieval_precision",
    "retrieval_recall", "retrieval_f1", "retrieval_coverage", "ndcg", "map", "mrr", "exact_match", "contains_match",
    "token_f1", "locomo_qa_score", "rouge_l", "bleu", "bleu_1", "bleu4_nltk_method1", "deletion_check",
    "citation_accuracy", "accuracy", "accuracy_macro", "accuracy_by_question_type", "accuracy_by_category",
    "accuracy_incl_adversarial", "accuracy_excl_adversarial", "correctness", "abstention_accuracy",
    "over_abstention_rate", "faithfulness", "choice_letter", "correctness_floored", "label_share", "memory_accuracy",
    "memory_f1", "memory_recall", "memory_recall_partial", "memory_target_accuracy", "order_agreement",
})  # fmt: skip
"""Base names of metrics whose values are shares. A share must be in 0..1."""


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """The fields of a metric id: ``recall_any@10/1`` has base ``recall_any``, k 10 and version ``1``."""

    base: str
    k: int | None
    options: Mapping[str, str]
    version: str

    @property
    def is_rate(self) -> bool:
        """True if the values of this metric are shares, which must be in 0..1."""
        return self.base.partition(".")[0] in RATES


def read_definition(text: str) -> MetricDefinition:
    """Parse a metric id of the form ``BASE@K[NAME=VALUE,...]/VERSION``, in which k and the options can be missing.

    If the id has another form, the whole id becomes the base.
    """
    match = _DEFINITION.fullmatch(text)
    if match is None:
        return MetricDefinition(base=text, k=None, options={}, version="")
    pairs = [option.partition("=") for option in (match["options"] or "").split(",") if option]
    return MetricDefinition(
        base=match["base"],
        k=int(match["k"]) if match["k"] else None,
        options={name: value for name, _, value in pairs},
        version=match["version"],
    )


def cut_of(name: str, definition: MetricDefinition) -> int | None:
    """Return the k of a metric; None if the metric has no k.

    The k is in the definition, or in a name such as ``mrr_at_10``.
    """
    if definition.k is not None:
        return definition.k
    match = _CUT_IN_NAME.fullmatch(name)
    return int(match.group(1)) if match else None


ROW_TOLERANCE = 1e-12
SHOWN = 10
# Metrics of answers that follow from a row's state and verdicts; others need texts that no receipt carries.
FROM_VERDICTS = frozenset(
    {"accuracy", "accuracy_macro", "accuracy_by_question_type", "accuracy_by_category", "correctness"}
)


class _MetricCheck:
    """Compares one metric of a receipt with the value that the rows give.

    ``measure`` computes the value of a row. ``measure`` is None if rows do not suffice to compute the metric.
    """

    def __init__(self, name: str, score: ReceiptScore, epochs: int) -> None:
        self.name, self.score, self.tally = name, score, RecomputedTally()
        self.interval = IntervalCheck(score, epochs=epochs)
        self.unscored_excluded = RecomputedTally()
        """values by the rule of older receipts: items without a verdict of the judge are excluded, not failed"""
        self.measure = measure_of(name, score)
        self.dimensions = dimensions(score.breakdown, score.aggregate)

    def add_judged(self, row: Row, places: RowLabels) -> None:
        """Compute the value of a row from its state and verdicts, and add this value to the totals."""
        assert self.measure is not None
        where, value = places.under(self.dimensions), self.measure.score(row)
        needs_verdict = value is None and row.state is State.UNSCORED and self.measure.needs_verdict
        for tally, lost in ((self.tally, needs_verdict), (self.unscored_excluded, False)):
            if row.state in FAILED_STATES or lost:
                tally.lost(where)
            elif value is None:
                tally.excluded += 1
            else:
                tally.scored(value, where)
        if value is not None and row.state not in FAILED_STATES:
            self.interval.add(value, row.corpus, where)

    def choose_rule(self) -> None:
        """Decide whether items without a verdict count as excluded or as failed.

        Older receipts count these items as excluded. So they count as excluded if this gives the number of excluded
        items in the receipt. Otherwise, they count as failed.
        """
        if self.unscored_excluded.excluded == self.score.n_excluded:
            self.tally = self.unscored_excluded


class Recomputation:
    """Aggregates the rows of an items file one by one, and compares the results with the receipt."""

    def __init__(self, body: Body) -> None:
        self._body = body
        epochs = body.run.epochs
        self._deterministic = [_MetricCheck(name, score, epochs) for name, score in body.scores.deterministic.items()]
        judged = [_MetricCheck(name, score, epochs) for name, score in body.scores.judged.items()]
        self._judged = [column for column in judged if column.measure is not None]
        self._unchecked = [column.name for column in (*self._deterministic, *judged) if column.measure is None]
        self._cost = CostCheck(body)
        self._states: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._wrong_rows: list[str] = []
        self._over_k: list[str] = []
        self._duplicates = 0

    def add(self, row: ItemRow) -> None:
        """Add one row to all counts and scores."""
        self._states[row.state] += 1
        if row.error_kind is not None:
            self._errors[row.error_kind] += 1
        self._cost.add(row)
        self._check_hits(row)
        plain, places = plain_row(row), RowLabels(row.labels)
        for column in self._deterministic:
            self._add_deterministic(column, row, plain, places)
        for column in self._judged:
            column.add_judged(plain, places)

    def _check_hits(self, row: ItemRow) -> None:
        if row.retrieved is None:
            return
        k = self._body.run.k
        if k is not None and len(row.retrieved) > k:
            self._over_k.append(row.item_id)
        self._duplicates += _has_duplicates(row.retrieved)

    def _add_deterministic(self, column: _MetricCheck, row: ItemRow, plain: Row, places: RowLabels) -> None:
        failed, there = row.state in FAILED_STATES, column.name in row.metrics
        if failed is there:
            word = "failed, but has a value of" if failed else "did not fail, but has no value of"
            self._wrong_rows.append(f"{row.item_id}: the item {word} {column.name}")
        if not there:
            column.tally.lost(places.under(column.dimensions))
            return
        value = row.metrics[column.name]
        if column.measure is not None:
            computed = column.measure.score(plain)
            if not _close(computed, value):
                self._wrong_rows.append(f"{row.item_id}: {column.name} is {value}, but the row gives {computed}")
        if value is None:
            column.tally.excluded += 1
        else:
            where = places.under(column.dimensions)
            column.tally.scored(value, where)
            column.interval.add(value, row.corpus_id, where)

    def findings(self) -> Iterator[Finding]:
        """Yield a failure for each total that differs from the rows, or one ``ok`` if all agree.

        Then yield findings that name the metrics, intervals and costs that were not recomputed.
        """
        faults = list(self._faults())
        yield from faults or [ok("recompute", "every total was recomputed from the rows")]
        if self._unchecked:
            yield skip("recompute", f"not recomputed, stated by the signer: {', '.join(self._unchecked)}")
        if names := [column.name for column in (*self._deterministic, *self._judged) if column.interval.is_open]:
            yield skip("recompute", f"intervals not recomputed, only checked for plausibility: {', '.join(names)}")
        yield from self._cost.unchecked()

    def _faults(self) -> Iterator[Finding]:
        for detail in _shortened(self._wrong_rows):
            yield fail("recompute", "score_mismatch", detail)
        yield from self._count_findings()
        for column in self._judged:
            column.choose_rule()
        for column in (*self._deterministic, *self._judged):
            yield from _compare(column, self._body.counts.pending)
        yield from self._cost.faults()

    def hit_findings(self) -> Iterator[Finding]:
        """Yield a failure for items with more than k hits, and a warning for items with duplicate hits."""
        for detail in _shortened(self._over_k):
            yield fail("invariants", "invariant_over_k", f"more than k hits: {detail}")
        if self._duplicates:
            detail = counted(self._duplicates, "item(|s) (has|have) the same id more than once in (its|their) hits")
            yield warn("invariants", "duplicate_retrieved", detail)

    def _count_findings(self) -> Iterator[Finding]:
        stated = {state: count for state, count in self._body.counts.by_state.of().items() if count}
        if stated != dict(self._states):
            yield fail("recompute", "count_mismatch", f"counts.byState: the rows give {dict(self._states)}")
        errors = {kind: count for kind, count in self._body.counts.error_kinds.items() if count}
        if errors != dict(self._errors):
            yield fail("recompute", "count_mismatch", f"counts.errorKinds: the rows give {dict(self._errors)}")


def measure_of(name: str, score: ReceiptScore) -> Measure | None:
    """Return the metric ``name`` if rows suffice to compute this metric, else None.

    Rows suffice for metrics of verdicts, such as accuracy. They also suffice for all retrieval metrics but one: rows do
    not contain the scores of hits, so the mean score of hits cannot be computed.
    """
    definition = read_definition(score.definition)
    options = dict(definition.options)
    try:
        if registry().parse_name(name) is None:
            return None  # a plug-in: a receipt must not choose what code is loaded
        measure = registry().measure(name, options, default_k=definition.k)
    except ConfigError:
        return None
    from_hits = measure.category == "retrieval" and definition.base != "avg_retrieval_score"
    from_verdicts = definition.base.partition(".")[0] in FROM_VERDICTS and "threshold" not in options
    return measure if measure.definition == score.definition and (from_hits or from_verdicts) else None


def plain_row(row: ItemRow) -> Row:
    """Convert a row of the items file to the ``Row`` from which metrics are computed."""
    return Row(
        benchmark="",
        corpus=row.corpus_id,
        item_id=row.item_id,
        epoch=row.epoch,
        state=State(row.state),
        labels=row.labels,
        retrieved=row.retrieved,
        relevant=row.gold,
        grades=row.grades if row.grades and row.graded else (),
        verdicts=tuple(
            Verdict(
                evaluator=verdict.evaluator,
                value=verdict.value,
                correct=verdict.correct,
                judged=verdict.class_ == "judged",
            )
            for verdict in row.verdicts
        ),
    )


def _has_duplicates(retrieved: tuple[tuple[str, ...], ...]) -> bool:
    seen: set[str] = set()
    for ids in retrieved:
        if ids and seen.issuperset(ids):
            return True
        seen.update(ids)
    return False


def _close(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= ROW_TOLERANCE


# ----------------------------------------------------------------------- comparing


def _compare(column: _MetricCheck, pending: int) -> Iterator[Finding]:
    name, score, tally = column.name, column.score, column.tally
    if column.measure is not None and column.measure.aggregation != score.aggregate:
        folds = f"but {score.definition} is aggregated by {column.measure.aggregation}"
        yield fail("recompute", "score_mismatch", f"{name}.aggregate is {score.aggregate}, {folds}")
    counted = (len(tally.values), tally.excluded, tally.failed + pending)
    if counted != (score.n, score.n_excluded, score.n_failed):
        yield fail("recompute", "count_mismatch", f"{name}: the rows give n, nExcluded, nFailed = {counted}")
    for field, stated, computed in _values(score, tally, pending):
        if stated != computed:
            yield fail("recompute", "score_mismatch", f"{name}.{field} is {stated}, but the rows give {computed}")
    if (fault := column.interval.fault()) is not None:
        yield fail("recompute", "interval_mismatch", f"{name}.interval is {fault}")
    yield from _compare_labels(name, score, tally)


def _values(
    score: ReceiptScore, tally: RecomputedTally, pending: int
) -> Iterator[tuple[str, float | None, float | None]]:
    value, zero = tally.fold(score.aggregate, pending)
    if score.aggregate != "other":
        yield "value", score.value, value
    if score.aggregate == "mean" or (score.aggregate.startswith("macro:") and not pending):
        yield "valueFailuresAsZero", score.value_failures_as_zero, zero  # pending items' labels are not in the rows


def _compare_labels(name: str, score: ReceiptScore, tally: RecomputedTally) -> Iterator[Finding]:
    for dimension, stated in score.breakdown.items():
        computed = tally.labels_of(dimension)
        stated_labels = {label: entry for label, entry in stated.items() if entry.n}
        if score.aggregate == "other":  # only the numbers of items follow from the rows
            stated_labels, computed = (
                {label: Label(value=None, n=one.n) for label, one in side.items()} for side in (stated_labels, computed)
            )
        if stated_labels != computed:
            wrong = sorted(
                label
                for label in stated_labels.keys() | computed.keys()
                if stated_labels.get(label) != computed.get(label)
            )
            yield fail("recompute", "breakdown_mismatch", f"{name}.{dimension}: {', '.join(wrong[:SHOWN])}")


def _shortened(details: list[str]) -> Iterator[str]:
    yield from details[:SHOWN]
    if len(details) > SHOWN:
        yield f"and {len(details) - SHOWN} more"
