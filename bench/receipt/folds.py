"""What adds up over the rows of a job while its items file is written: states, scores, times, money.

Example::

    folds = Folds.of(job)
    for row in rows: folds.add(row)
    folds.scores(job, corpora), folds.counts(job.record.n_repeats)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from bench.journal.records import Spent
from bench.metrics.protocol import Measure
from bench.model import Measurement, State
from bench.plan.judges import is_judged
from bench.receipt import schema
from bench.receipt.facts import SCORE_CATEGORIES
from bench.receipt.rows import JournalRow, in_micros
from bench.receipt.tally import Place, Places, Tally, dimensions
from bench.report import JobReport
from bench.report.gathering import measures
from bench.stats import percentile

FROM_VERDICTS = ("accuracy", "correctness", "faithfulness", "abstention_accuracy", "over_abstention_rate")
"""metrics whose class is that of the benchmark's first evaluator"""
JUDGING = frozenset({"llm-judge", "rubric", "faithfulness", "custom"})
"""evaluators whose verdicts a model gives, or may give"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpora:
    """How ingest and indexing fared over the corpora of a lane."""

    ingest_us: tuple[int, ...]
    searchable_us: tuple[int, ...]
    memories: int
    wall_us: int

    def pace(self) -> schema.Pace:
        """Memories a second of wall time."""
        n = len(self.ingest_us)
        return schema.Pace(n=n, value=self.memories * 1_000_000 / self.wall_us if n and self.wall_us else None)


@dataclass(slots=True, kw_only=True)
class Folds:
    """What adds up over the rows of a job."""

    metrics: tuple[Measure, ...]
    measured: Mapping[str, Measurement]
    row_metrics: frozenset[str]
    """the names that go into rows: those that no model had a part in"""
    tallies: dict[str, Tally]
    places_of: dict[str, tuple[str, ...]]
    """the dimensions under which each metric counts"""
    owed: frozenset[str] = frozenset()
    """metrics to which an item without a verdict of the judge is lost"""
    states: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    retries: int = 0
    search_us: list[int] = field(default_factory=list)
    models: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, job: JobReport) -> Folds:
        known = {metric.name for metric in job.record.metrics if metric.category in SCORE_CATEGORIES}
        found = tuple(metric for metric in measures(job.record)[0] if metric.name in known)
        first_judged = job.record.models.judge not in (None, "none") and _judges(job.record.evaluators[:1])
        return cls(
            metrics=found,
            measured=job.metrics,
            row_metrics=frozenset(one.name for one in found if not _is_judged(one, first_judged=first_judged)),
            owed=frozenset(one.name for one in found if one.needs_verdict and is_judged(job.record)),
            tallies={metric.name: Tally() for metric in found},
            places_of={metric.name: dimensions(_breakdown(job, metric.name), metric.aggregation) for metric in found},
        )

    def add(self, row: JournalRow) -> None:
        """Count one row."""
        item = row.item
        self.states[item["state"]] += 1
        if item["errorKind"] is not None:
            self.errors[item["errorKind"]] += 1
        self.retries += row.retries
        if "search" in item["latencyUs"]:
            self.search_us.append(item["latencyUs"]["search"])
        if row.answered_by is not None:
            self.models.setdefault("answering", set()).add(row.answered_by)
        for verdict in item["verdicts"]:
            if verdict["class"] == "judged" and verdict["model"]:
                self.models.setdefault("judge", set()).add(verdict["model"])
        places = Places(item["labels"])
        for name, wanted in self.places_of.items():
            self._tally(name, row, places.under(wanted))

    def _tally(self, name: str, row: JournalRow, where: list[Place]) -> None:
        tally, value = self.tallies[name], row.values.get(name)
        if row.failed or (value is None and row.item["state"] == State.UNSCORED and name in self.owed):
            tally.lost(where)
        elif value is None:
            tally.excluded += 1
        else:
            tally.scored(value, where)

    def counts(self, planned: int) -> schema.Counts:
        """How the planned rows ended: with epochs, a row is a repeat of an item."""
        ended = sum(self.states.values())
        scored = sum(self.states[state] for state in ("correct", "incorrect", "partial", "abstained"))
        return schema.Counts(
            planned=planned,
            pending=planned - ended,
            scored=scored,
            by_state=schema.ByState.model_validate({str(state): self.states[state] for state in State}),
            error_kinds=dict(sorted(self.errors.items())),
            retries=self.retries,
        )

    def scores(self, job: JobReport, corpora: Corpora) -> schema.Scores:
        """Every score by its class."""
        pending = job.record.n_repeats - sum(self.states.values())
        made = {metric.name: self._score(metric, pending) for metric in self.metrics}
        plain = self.row_metrics
        return schema.Scores(
            deterministic={name: score for name, score in made.items() if name in plain},
            judged={name: score for name, score in made.items() if name not in plain},
            measured={
                "ingest_us": times(corpora.ingest_us),
                "search_us": times(self.search_us),
                "ingest_to_searchable_us": times(corpora.searchable_us),
                "ingest_memories_per_s": corpora.pace(),
            },
            cost=_cost(job.usage),
        )

    def _score(self, metric: Measure, pending: int) -> schema.Score:
        tally, report = self.tallies[metric.name], self.measured.get(metric.name)
        value, zero = tally.fold(metric.aggregation, pending)
        if metric.aggregation == "other" and report is not None:
            value, zero = report.value, report.value_failures_as_zero
        found = report.interval if report is not None else None
        return schema.Score(
            definition=metric.definition,
            value=value,
            value_failures_as_zero=zero,
            n=len(tally.values),
            n_excluded=tally.excluded,
            n_failed=tally.failed + pending,
            aggregate=metric.aggregation,
            interval=None
            if found is None
            else schema.Interval(low=found.low, high=found.high, level=found.level, method=found.method),
            breakdown={} if report is None else {name: tally.labels_of(name) for name in report.breakdown},
        )


def _breakdown(job: JobReport, name: str) -> Iterable[str]:
    return job.metrics[name].breakdown if name in job.metrics else ()


def _is_judged(metric: Measure, *, first_judged: bool) -> bool:
    """Whether a model had a part in the values of a metric."""
    base = metric.definition.partition("/")[0].partition("[")[0].partition("@")[0]
    if base.partition(".")[0] == "semantic_similarity":
        return True  # an embedding model gave it
    if metric.evaluators:
        return _judges(metric.evaluators)
    if base.startswith(FROM_VERDICTS):
        return first_judged or base == "faithfulness"
    return metric.category == "custom" and first_judged


def _judges(evaluators: Iterable[str]) -> bool:
    """Whether a model may have given the verdicts of any of these evaluators."""
    return not JUDGING.isdisjoint(evaluators)


def times(values: Iterable[int]) -> schema.Times:
    """Nearest-rank percentiles of integer microseconds."""
    found = sorted(values)
    least, p50, p95, p99, most = (_at(found, p) for p in (0, 50, 95, 99, 100))
    return schema.Times(n=len(found), min=least, p50=p50, p95=p95, p99=p99, max=most)


def _at(ordered: list[int], p: int) -> int | None:
    found = percentile(ordered, p)
    return None if found is None else int(found)


def _cost(usage: Mapping[str, Spent]) -> schema.Cost:
    by_role = {
        role: schema.Usage(
            calls=one.calls,
            prompt_tokens=one.usage.input_tokens,
            completion_tokens=one.usage.output_tokens,
            usd_micros=_usd_micros([one]),
        )
        for role, one in sorted(usage.items())
    }
    priced = any(one.usd_micros for one in by_role.values())
    return schema.Cost(
        calls=sum(one.calls for one in by_role.values()),
        prompt_tokens=sum(one.prompt_tokens for one in by_role.values()),
        completion_tokens=sum(one.completion_tokens for one in by_role.values()),
        usd_micros=_usd_micros(usage.values()),
        price_table=_price_table() if priced else None,
        by_role=by_role,
    )


def _usd_micros(spent: Iterable[Spent]) -> int | None:
    """Money as micro-USD; None when any call's cost is not known."""
    parts = [one for one in spent if one.calls]
    if any(one.unknown_costs for one in parts):
        return None
    return in_micros(Decimal(one.cost_usd) for one in parts)


def _price_table() -> str | None:
    from bench.metrics import price_table

    return price_table()
