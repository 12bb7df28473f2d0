"""Do the totals follow from the rows? Every score folded anew, every retrieval value computed anew.

    check = Recompute(receipt)
    for row in rows: check.add(row)
    findings = check.findings()

Folds must agree to the last bit; a single row's value to 1e-12, since it may come from another machine's log2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from bench.errors import ConfigError
from bench.metrics.protocol import Measure
from bench.metrics.registry import registry
from bench.model import FAILED_STATES, Row, State, Verdict
from bench.receipt.definitions import read_definition
from bench.receipt.findings import Finding, fail
from bench.receipt.items import ItemRow
from bench.receipt.schema import Body, Label, Score
from bench.receipt.tally import Tally, places

ROW_TOLERANCE = 1e-12
SHOWN = 10
# Metrics of answers that follow from a row's state and verdicts; others need texts that no receipt carries.
FROM_VERDICTS = frozenset(
    {"accuracy", "accuracy_macro", "accuracy_by_question_type", "accuracy_by_category", "correctness"}
)


class Recompute:
    """Folds rows as they pass and compares with what the receipt says."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._deterministic = {name: Tally() for name in body.scores.deterministic}
        self._judged = {name: Tally() for name in body.scores.judged}
        self._rows = rebuilt(body.scores.deterministic)
        self._verdicts = rebuilt(body.scores.judged)
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
        plain = plain_row(row)
        for name, tally in self._deterministic.items():
            self._add_deterministic(name, tally, row, plain)
        for name, measure in self._verdicts.items():
            _add_value(self._judged[name], measure.score(plain), row, self._body.scores.judged[name])

    def _look_at_hits(self, row: ItemRow) -> None:
        if row.retrieved is None:
            return
        k = self._body.run.k
        if k is not None and len(row.retrieved) > k:
            self._over_k.append(row.item_id)
        self._duplicates += _has_duplicates(row.retrieved)

    def _add_deterministic(self, name: str, tally: Tally, row: ItemRow, plain: Row) -> None:
        score = self._body.scores.deterministic[name]
        if name not in row.metrics:
            tally.lost(_places(row, score))
            return
        value = row.metrics[name]
        measure = self._rows.get(name)
        if measure is not None and not _close(measure.score(plain), value):
            self._wrong_rows.append(f"{row.item_id}: {name} is {measure.score(plain)}, not {value}")
        if value is None:
            tally.excluded += 1
        else:
            tally.scored(value, _places(row, score))

    def findings(self) -> Iterator[Finding]:
        """Everything that does not follow from the rows."""
        for detail in _shortened(self._wrong_rows):
            yield fail("recompute", "score_mismatch", detail)
        yield from self._count_findings()
        for name, tally in self._deterministic.items():
            yield from _compare(name, self._body.scores.deterministic[name], tally, self._body.counts.pending)
        for name in self._verdicts:
            yield from _compare(name, self._body.scores.judged[name], self._judged[name], self._body.counts.pending)

    def hit_findings(self) -> Iterator[Finding]:
        """What the lists of hits look like."""
        for detail in _shortened(self._over_k):
            yield fail("invariants", "invariant_over_k", f"more than k hits: {detail}")
        if self._duplicates:
            yield Finding(
                check="invariants",
                status="warn",
                code="duplicate_retrieved",
                detail=f"{self._duplicates} items got the same id more than once",
            )

    def _count_findings(self) -> Iterator[Finding]:
        stated = {state: count for state, count in self._body.counts.by_state.of().items() if count}
        if stated != dict(self._states):
            yield fail("recompute", "count_mismatch", f"counts.byState: the rows give {dict(self._states)}")
        errors = {kind: count for kind, count in self._body.counts.error_kinds.items() if count}
        if errors != dict(self._errors):
            yield fail("recompute", "count_mismatch", f"counts.errorKinds: the rows give {dict(self._errors)}")


def rebuilt(scores: Mapping[str, Score]) -> dict[str, Measure]:
    """The metrics that rows alone can give again: retrieval, and those of states and verdicts."""
    found = {}
    for name, score in scores.items():
        definition = read_definition(score.definition)
        options: dict[str, object] = dict(definition.options)
        try:
            if registry().take_apart(name) is None:
                continue  # a plug-in: a receipt must not choose what code is loaded
            measure = registry().measure(name, options, default_k=definition.k)
        except ConfigError:
            continue
        from_rows = measure.category == "retrieval" and definition.base != "avg_retrieval_score"
        from_verdicts = definition.base.partition(".")[0] in FROM_VERDICTS and "threshold" not in options
        if measure.definition == score.definition and (from_rows or from_verdicts):
            found[name] = measure
    return found


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


def _add_value(tally: Tally, value: float | None, row: ItemRow, score: Score) -> None:
    if row.state in FAILED_STATES:
        tally.lost(_places(row, score))
    elif value is None:
        tally.excluded += 1
    else:
        tally.scored(value, _places(row, score))


def _places(row: ItemRow, score: Score) -> list[tuple[str, str]]:
    return places(row.labels, score.breakdown, score.aggregate)


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


def _compare(name: str, score: Score, tally: Tally, pending: int) -> Iterator[Finding]:
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
