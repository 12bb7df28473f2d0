"""Do the totals follow from the rows? Every score folded anew, every retrieval value computed anew.

    check = Recompute(receipt)
    for row in rows: check.add(row)
    findings = check.findings()

Folds must agree to the last bit; a single row's value to 1e-12, since it may come from another machine's log2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bench.errors import ConfigError
from bench.metrics.protocol import Measure
from bench.metrics.registry import registry
from bench.model import FAILED_STATES, Row, State, Verdict
from bench.receipt.definitions import read_definition
from bench.receipt.findings import Finding, fail, ok, skip, warn
from bench.receipt.items import ItemRow
from bench.receipt.schema import Body, Label, Score
from bench.receipt.tally import Places, Tally, dimensions

ROW_TOLERANCE = 1e-12
SHOWN = 10
# Metrics of answers that follow from a row's state and verdicts; others need texts that no receipt carries.
FROM_VERDICTS = frozenset(
    {"accuracy", "accuracy_macro", "accuracy_by_question_type", "accuracy_by_category", "correctness"}
)


class _Column:
    """One metric of the receipt: what it says, what the rows say, and how to compute it anew (None = cannot)."""

    def __init__(self, name: str, score: Score) -> None:
        self.name, self.score, self.tally = name, score, Tally()
        self.unscored_excluded = Tally()
        """the same by the rule of older receipts, which left out the items without a verdict of the judge"""
        self.measure = rebuilt(name, score)
        self.dimensions = dimensions(score.breakdown, score.aggregate)

    def add_judged(self, row: Row, places: Places) -> None:
        """Count the value that a row's state and verdicts give."""
        assert self.measure is not None
        where, value = places.under(self.dimensions), self.measure.score(row)
        owed = value is None and row.state is State.UNSCORED and self.measure.needs_verdict
        for tally, lost in ((self.tally, owed), (self.unscored_excluded, False)):
            if row.state in FAILED_STATES or lost:
                tally.lost(where)
            elif value is None:
                tally.excluded += 1
            else:
                tally.scored(value, where)

    def settle(self) -> None:
        """Take the rule that the receipt was made by."""
        if self.unscored_excluded.excluded == self.score.n_excluded:
            self.tally = self.unscored_excluded


class Recompute:
    """Folds rows as they pass and compares with what the receipt says."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._deterministic = [_Column(name, score) for name, score in body.scores.deterministic.items()]
        judged = [_Column(name, score) for name, score in body.scores.judged.items()]
        self._judged = [column for column in judged if column.measure is not None]
        self._taken = [column.name for column in (*self._deterministic, *judged) if column.measure is None]
        self._states: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._wrong_rows: list[str] = []
        self._over_k: list[str] = []
        self._duplicates = 0

    def add(self, row: ItemRow) -> None:
        """Take one row."""
        self._states[row.state] += 1
        if row.error_kind is not None:
            self._errors[row.error_kind] += 1
        self._look_at_hits(row)
        plain, places = plain_row(row), Places(row.labels)
        for column in self._deterministic:
            self._add_deterministic(column, row, plain, places)
        for column in self._judged:
            column.add_judged(plain, places)

    def _look_at_hits(self, row: ItemRow) -> None:
        if row.retrieved is None:
            return
        k = self._body.run.k
        if k is not None and len(row.retrieved) > k:
            self._over_k.append(row.item_id)
        self._duplicates += _has_duplicates(row.retrieved)

    def _add_deterministic(self, column: _Column, row: ItemRow, plain: Row, places: Places) -> None:
        failed, there = row.state in FAILED_STATES, column.name in row.metrics
        if failed is there:
            word = "failed and has" if failed else "did not fail and lacks"
            self._wrong_rows.append(f"{row.item_id}: it {word} {column.name}")
        if not there:
            column.tally.lost(places.under(column.dimensions))
            return
        value = row.metrics[column.name]
        if column.measure is not None:
            computed = column.measure.score(plain)
            if not _close(computed, value):
                self._wrong_rows.append(f"{row.item_id}: {column.name} is {computed}, not {value}")
        if value is None:
            column.tally.excluded += 1
        else:
            column.tally.scored(value, places.under(column.dimensions))

    def findings(self) -> Iterator[Finding]:
        """Everything that does not follow from the rows, or that all does; and what no row can show."""
        faults = list(self._faults())
        yield from faults or [ok("recompute", "every total follows from the rows")]
        if self._taken:
            yield skip("recompute", f"taken as the signer states it: {', '.join(self._taken)}")

    def _faults(self) -> Iterator[Finding]:
        for detail in _shortened(self._wrong_rows):
            yield fail("recompute", "score_mismatch", detail)
        yield from self._count_findings()
        for column in self._judged:
            column.settle()
        for column in (*self._deterministic, *self._judged):
            yield from _compare(column, self._body.counts.pending)

    def hit_findings(self) -> Iterator[Finding]:
        """What the lists of hits look like."""
        for detail in _shortened(self._over_k):
            yield fail("invariants", "invariant_over_k", f"more than k hits: {detail}")
        if self._duplicates:
            detail = f"{self._duplicates} items got the same id more than once"
            yield warn("invariants", "duplicate_retrieved", detail)

    def _count_findings(self) -> Iterator[Finding]:
        stated = {state: count for state, count in self._body.counts.by_state.of().items() if count}
        if stated != dict(self._states):
            yield fail("recompute", "count_mismatch", f"counts.byState: the rows give {dict(self._states)}")
        errors = {kind: count for kind, count in self._body.counts.error_kinds.items() if count}
        if errors != dict(self._errors):
            yield fail("recompute", "count_mismatch", f"counts.errorKinds: the rows give {dict(self._errors)}")


def rebuilt(name: str, score: Score) -> Measure | None:
    """The metric, where rows alone can give it again: retrieval, and what follows from states and verdicts."""
    definition = read_definition(score.definition)
    options: dict[str, object] = dict(definition.options)
    try:
        if registry().take_apart(name) is None:
            return None  # a plug-in: a receipt must not choose what code is loaded
        measure = registry().measure(name, options, default_k=definition.k)
    except ConfigError:
        return None
    from_hits = measure.category == "retrieval" and definition.base != "avg_retrieval_score"
    from_verdicts = definition.base.partition(".")[0] in FROM_VERDICTS and "threshold" not in options
    return measure if measure.definition == score.definition and (from_hits or from_verdicts) else None


def plain_row(row: ItemRow) -> Row:
    """The row in the form that metrics read."""
    return Row(
        benchmark="",
        corpus=row.corpus_id,
        item_id=row.item_id,
        epoch=row.epoch,
        state=State(row.state),
        labels=row.labels,
        retrieved=row.retrieved,
        relevant=row.gold,
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


def _compare(column: _Column, pending: int) -> Iterator[Finding]:
    name, score, tally = column.name, column.score, column.tally
    if column.measure is not None and column.measure.aggregation != score.aggregate:
        folds = f"{score.definition} folds by {column.measure.aggregation}"
        yield fail("recompute", "score_mismatch", f"{name}.aggregate is {score.aggregate}, {folds}")
    counted = (len(tally.values), tally.excluded, tally.failed + pending)
    if counted != (score.n, score.n_excluded, score.n_failed):
        yield fail("recompute", "count_mismatch", f"{name}: the rows give n, nExcluded, nFailed = {counted}")
    for field, stated, computed in _values(score, tally, pending):
        if stated != computed:
            yield fail("recompute", "score_mismatch", f"{name}.{field} is {stated}, the rows give {computed}")
    yield from _compare_labels(name, score, tally)


def _values(score: Score, tally: Tally, pending: int) -> Iterator[tuple[str, float | None, float | None]]:
    value, zero = tally.fold(score.aggregate, pending)
    if score.aggregate != "other":
        yield "value", score.value, value
    if score.aggregate == "mean" or (score.aggregate.startswith("macro:") and not pending):
        yield "valueFailuresAsZero", score.value_failures_as_zero, zero  # pending items' labels are not in the rows


def _compare_labels(name: str, score: Score, tally: Tally) -> Iterator[Finding]:
    for dimension, stated in score.breakdown.items():
        computed = tally.labels_of(dimension)
        told = {label: entry for label, entry in stated.items() if entry.n}
        if score.aggregate == "other":  # only the numbers of items follow from the rows
            told, computed = (
                {label: Label(value=None, n=one.n) for label, one in side.items()} for side in (told, computed)
            )
        if told != computed:
            wrong = sorted(label for label in told.keys() | computed.keys() if told.get(label) != computed.get(label))
            yield fail("recompute", "breakdown_mismatch", f"{name}.{dimension}: {', '.join(wrong[:SHOWN])}")


def _shortened(details: list[str]) -> Iterator[str]:
    yield from details[:SHOWN]
    if len(details) > SHOWN:
        yield f"and {len(details) - SHOWN} more"
