"""Compute the totals of a receipt: states, scores, times and cost, while the items file of a job is written.

Totals are computed from the rows of the items file, so that verification can compute them again. ``item_rows`` makes
these rows from the journal. Rows contain ids, states and numbers, and hashes instead of texts.

Example::

    totals = JobTotals.of(job)
    async for row in item_rows(reader, record, deterministic=totals.row_metrics, with_answers=False):
        totals.add(row)
        writer.add(row.item)
    totals.scores(corpora), totals.counts()          # ``corpora`` are the CorpusTimes of the job

Rows are not validated here, because every new receipt is verified after signing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal
from math import isclose

from bench.canonical import sha256_hex
from bench.journal import Reader
from bench.journal.pages import EndedItem, EndedPhase, ended_items
from bench.journal.records import UsageTotals
from bench.metrics.latency import attempt_us
from bench.metrics.protocol import Measure
from bench.model import FAILED_STATES, JUDGED, SCORED_STATES, Phase, State, Verdict
from bench.plan.job_record import JobRecord
from bench.plan.validity import is_judged
from bench.receipt import schema_results
from bench.receipt.items_file import RowValue
from bench.receipt.verification.recompute import LabelKey, RecomputedTally, RowLabels, dimensions
from bench.report import JobReport
from bench.report.job_data import open_measures
from bench.stats import percentile
from bench.untyped_values import Json

MICROS = Decimal(1_000_000)
FREE = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsFileRow:
    """A row of the items file, with further values that only the totals need."""

    item: RowValue
    failed: bool
    values: Mapping[str, float | None]
    """metric name -> value of the item, including judged metrics; empty if the item failed"""
    retries: int
    answered_by: str | None
    verdicts: Sequence[Verdict] = ()


async def item_rows(
    reader: Reader, record: JobRecord, *, deterministic: frozenset[str], with_answers: bool
) -> AsyncIterator[ItemsFileRow]:
    """Yield one row for each ended item of a job.

    ``deterministic`` has the names of the metrics to include. ``with_answers`` also includes the text of answers.
    """
    chain = record.chain
    names = sorted(deterministic)
    async for ended in ended_items(reader, chain):
        raws = [await _raw_sha256(reader, verdict) for verdict in ended.verdicts]
        yield _row(ended, record.k, names, raws, with_answers=with_answers)


def _row(
    ended: EndedItem, k: int, deterministic: Sequence[str], raws: Sequence[str | None], *, with_answers: bool
) -> ItemsFileRow:
    answer, judged = ended.phases.get(Phase.ANSWER), ended.phases.get(Phase.EVALUATE)
    measured_values = answer.measured if answer is not None else {}
    failed = ended.state in FAILED_STATES
    text = _answer(answer)
    values: Mapping[str, float | None] = {} if failed else ended.values
    retrieved, returned = _hits(ended.phases.get(Phase.SEARCH), k)
    attempts = [phase.attempts for phase in ended.phases.values()]
    gold = _gold(judged)
    item: RowValue = {
        "itemId": ended.item,
        "epoch": ended.epoch,
        "corpusId": ended.corpus,
        "state": ended.state,
        "errorKind": (ended.outcome or "error") if ended.state == "error" else None,
        "attempts": max(attempts, default=0),
        "labels": ended.labels,
        "gold": list(gold),
        "retrieved": retrieved,
        "returned": returned,
        "metrics": {} if failed else {name: values.get(name) for name in deterministic},
        "verdicts": [_verdict(verdict, raw) for verdict, raw in zip(ended.verdicts, raws, strict=True)],
        "answerSha256": None if text is None else sha256_hex(text.encode("utf-8", "backslashreplace")),
        "tokens": _tokens(measured_values) if answer is not None and answer.ok else None,
        "latencyUs": _latency(ended.phases),
        "costUsdMicros": _micro_usd(ended.costs_usd),
    }
    if any(grade is not None for grade in gold.values()):
        item["grades"] = [grade or 1.0 for grade in gold.values()]
    if with_answers and text is not None:
        item["answer"] = text
    model = measured_values.get("model")
    return ItemsFileRow(
        item=item,
        failed=failed,
        values=values,
        retries=sum(attempts) - len(attempts),
        answered_by=model if isinstance(model, str) and model else None,
        verdicts=ended.verdicts,
    )


def _gold(judged: EndedPhase | None) -> dict[str, float | None]:
    """Return evidence id -> relevance grade, sorted by id; None = the grade is not known."""
    stored, grades = (judged.data.get("gold"), judged.data.get("grades")) if judged is not None else (None, None)
    if not isinstance(stored, list):
        return {}
    given = grades if isinstance(grades, list) else [None] * len(stored)
    return dict(sorted(zip(map(str, stored), given, strict=True)))


def _hits(search: EndedPhase | None, k: int) -> tuple[list[list[str]] | None, int]:
    """Return the ids of the first k hits, and the number of all returned hits.

    The ids are None if the search failed or has no result.
    """
    data = search.data if search is not None else {}
    stored, returned = data.get("retrieved"), data.get("returned")
    if search is None or not isinstance(stored, list):
        return None, 0
    if not search.ok:
        return None, len(stored)
    return stored[:k], max(returned, len(stored)) if isinstance(returned, int) else len(stored)


def _answer(answer: EndedPhase | None) -> str | None:
    text = answer.data.get("answer") if answer is not None and answer.ok else None
    return text if isinstance(text, str) else None


def _tokens(measured_values: Mapping[str, object]) -> Json:
    context, prompt, completion = (
        value if isinstance(value := measured_values.get(name), int) else None
        for name in ("context_tokens", "tokens_in", "tokens_out")
    )
    return {"context": context, "prompt": prompt, "completion": completion}


def _latency(phases: Mapping[Phase, EndedPhase]) -> dict[str, int]:
    """Return phase -> microseconds of the phase's last attempt, for phases that succeeded.

    The times of the network and of the provider count. The waiting time in bench does not count.
    """
    spent = {phase.value: attempt_us(last.times_us) for phase, last in phases.items() if last.ok}
    return {phase: us for phase, us in spent.items() if us is not None}


def _verdict(verdict: Verdict, raw_sha256: str | None) -> Json:
    return {
        "evaluator": verdict.evaluator,
        "class": "judged" if verdict.judged else "deterministic",
        "value": verdict.value,
        "correct": verdict.correct,
        "model": verdict.model,
        "promptSha256": verdict.prompt_sha256,
        "rawSha256": raw_sha256,
    }


async def _raw_sha256(reader: Reader, verdict: Verdict) -> str | None:
    raw = await reader.payload(verdict.raw) if verdict.raw is not None else None
    return sha256_hex(raw.encode("utf-8", "backslashreplace")) if isinstance(raw, str) else None


def _micro_usd(costs_usd: Sequence[str | None]) -> int | None:
    """Return the sum of the costs of an item's calls in micro-USD; None if any cost is not known."""
    known = [Decimal(cost) for cost in costs_usd if cost is not None]
    return in_micros(known) if len(known) == len(costs_usd) else None


def in_micros(costs_usd: Iterable[Decimal]) -> int:
    """Return the sum of amounts in USD as a whole number of micro-USD."""
    return int((sum(costs_usd, FREE) * MICROS).to_integral_value(ROUND_HALF_EVEN))


FROM_VERDICTS = ("accuracy", "correctness", "faithfulness", "abstention_accuracy", "over_abstention_rate")
"""metrics that count as judged if a model gives the verdicts of the benchmark's first evaluator"""
JUDGING = JUDGED | {"custom"}
"""evaluators whose verdicts can come from a model"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusTimes:
    """Durations of ingest and indexing, in microseconds, for the corpora that a job ingested."""

    ingest_us: tuple[int, ...]
    searchable_us: tuple[int, ...]
    memories: int
    wall_us: int

    def pace(self) -> schema_results.Pace:
        """Return the ingested memories per second of elapsed time. The field ``value`` is None if no time is known."""
        n = len(self.ingest_us)
        return schema_results.Pace(n=n, value=self.memories * 1_000_000 / self.wall_us if n and self.wall_us else None)


@dataclass(slots=True, kw_only=True)
class JobTotals:
    """Adds up the rows of a job, and returns the counts and scores of its receipt."""

    job: JobReport
    metrics: tuple[Measure, ...]
    row_metrics: frozenset[str]
    """metrics whose values are written into rows, because they do not depend on a model"""
    tallies: dict[str, RecomputedTally]
    places_of: dict[str, tuple[str, ...]]
    """metric name -> names of the labels by which the metric groups its items"""
    needs_verdict: frozenset[str] = frozenset()
    """metrics that count an item as failed if the judge gave no verdict for this item"""
    states: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    retries: int = 0
    search_us: list[int] = field(default_factory=list)
    models: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, job: JobReport) -> JobTotals:
        known = {metric.name for metric in job.record.metrics if metric.is_score}
        found = tuple(metric for metric in open_measures(job.record)[0] if metric.name in known)
        first_judged = job.record.models.judge not in (None, "none") and _judges(job.record.evaluators[:1])
        return cls(
            job=job,
            metrics=found,
            row_metrics=frozenset(one.name for one in found if not _is_judged(one, first_judged=first_judged)),
            needs_verdict=frozenset(one.name for one in found if one.needs_verdict and is_judged(job.record)),
            tallies={metric.name: RecomputedTally() for metric in found},
            places_of={metric.name: dimensions(_breakdown(job, metric.name), metric.aggregation) for metric in found},
        )

    def add(self, row: ItemsFileRow) -> None:
        """Add one row to all totals."""
        item = row.item
        self.states[item["state"]] += 1
        if item["errorKind"] is not None:
            self.errors[item["errorKind"]] += 1
        self.retries += row.retries
        if "search" in item["latencyUs"]:
            self.search_us.append(item["latencyUs"]["search"])
        if row.answered_by is not None:
            self.models.setdefault("answering", set()).add(row.answered_by)
        for verdict in row.verdicts:
            if verdict.judged and verdict.model:
                self.models.setdefault("judge", set()).add(verdict.model)
        places = RowLabels(item["labels"])
        for name, wanted in self.places_of.items():
            self._tally(name, row, places.under(wanted))

    def _tally(self, name: str, row: ItemsFileRow, where: list[LabelKey]) -> None:
        tally, value = self.tallies[name], row.values.get(name)
        if row.failed or (value is None and row.item["state"] == State.UNSCORED and name in self.needs_verdict):
            tally.lost(where)
        elif value is None:
            tally.excluded += 1
        else:
            tally.scored(value, where)

    @property
    def pending(self) -> int:
        """Return the number of planned rows that have not ended. Each repeat of an item is one row."""
        return self.job.record.n_repeats - sum(self.states.values())

    def counts(self) -> schema_results.ReceiptCounts:
        """Return the section ``counts``: numbers of rows by state and by kind of error, and the number of retries."""
        scored = sum(self.states[state] for state in SCORED_STATES)
        return schema_results.ReceiptCounts(
            planned=self.job.record.n_repeats,
            pending=self.pending,
            scored=scored,
            by_state=schema_results.ByState.model_validate({str(state): self.states[state] for state in State}),
            error_kinds=dict(sorted(self.errors.items())),
            retries=self.retries,
        )

    def scores(self, corpora: CorpusTimes) -> schema_results.Scores:
        """Return the section ``scores``: deterministic scores, judged scores, measured times and cost."""
        made = {metric.name: self._score(metric) for metric in self.metrics}
        plain = self.row_metrics
        return schema_results.Scores(
            deterministic={name: score for name, score in made.items() if name in plain},
            judged={name: score for name, score in made.items() if name not in plain},
            measured={
                "ingest_us": times(corpora.ingest_us),
                "search_us": times(self.search_us),
                "ingest_to_searchable_us": times(corpora.searchable_us),
                "ingest_memories_per_s": corpora.pace(),
            },
            cost=_cost(self.job.usage),
        )

    def _score(self, metric: Measure) -> schema_results.ReceiptScore:
        tally, report = self.tallies[metric.name], self.job.metrics.get(metric.name)
        value, zero = tally.fold(metric.aggregation, self.pending)
        if metric.aggregation == "other" and report is not None:
            value, zero = report.value, report.value_failures_as_zero
        found = report.interval if report is not None and _is_about(report.value, value) else None
        return schema_results.ReceiptScore(
            definition=metric.definition,
            value=value,
            value_failures_as_zero=zero,
            n=len(tally.values),
            n_excluded=tally.excluded,
            n_failed=tally.failed + self.pending,
            aggregate=metric.aggregation,
            interval=None
            if found is None
            else schema_results.ReceiptInterval(low=found.low, high=found.high, level=found.level, method=found.method),
            breakdown={} if report is None else {name: tally.labels_of(name) for name in report.breakdown},
        )


def _is_about(reported: float | None, value: float | None) -> bool:
    """Return True if both values are equal, so that the interval of ``reported`` is also the interval of ``value``.

    ``reported`` is the value in the report. The values differ if the report does not use the mean of an item's repeats.
    """
    return reported is not None and value is not None and isclose(reported, value, rel_tol=1e-9, abs_tol=1e-9)


def _breakdown(job: JobReport, name: str) -> Iterable[str]:
    return job.metrics[name].breakdown if name in job.metrics else ()


def _is_judged(metric: Measure, *, first_judged: bool) -> bool:
    """Return True if the values of a metric depend on a model.

    ``first_judged`` is true if a model gives the verdicts of the benchmark's first evaluator.
    """
    base = metric.definition.partition("/")[0].partition("[")[0].partition("@")[0]
    if base.partition(".")[0] == "semantic_similarity":
        return True  # an embedding model gave it
    if metric.evaluators:
        return _judges(metric.evaluators)
    if base.startswith(FROM_VERDICTS):
        return first_judged or base == "faithfulness"
    return metric.category == "custom" and first_judged


def _judges(evaluators: Iterable[str]) -> bool:
    """Return True if the verdicts of at least one of these evaluators can come from a model."""
    return not JUDGING.isdisjoint(evaluators)


def times(values: Iterable[int]) -> schema_results.Times:
    """Return the number, minimum, maximum and percentiles of durations in microseconds."""
    found = sorted(values)
    values_at = [percentile(found, p) for p in (0, 50, 95, 99, 100)]
    least, p50, p95, p99, most = (None if value is None else int(value) for value in values_at)
    return schema_results.Times(n=len(found), min=least, p50=p50, p95=p95, p99=p99, max=most)


def _cost(usage: Mapping[str, UsageTotals]) -> schema_results.Cost:
    by_role = {
        role: schema_results.ReceiptUsage(
            calls=one.calls,
            prompt_tokens=one.usage.input_tokens,
            completion_tokens=one.usage.output_tokens,
            usd_micros=_usd_micros([one]),
        )
        for role, one in sorted(usage.items())
    }
    priced = any(one.usd_micros for one in by_role.values())
    return schema_results.Cost(
        calls=sum(one.calls for one in by_role.values()),
        prompt_tokens=sum(one.prompt_tokens for one in by_role.values()),
        completion_tokens=sum(one.completion_tokens for one in by_role.values()),
        usd_micros=_usd_micros(usage.values()),
        price_table=_price_table() if priced else None,
        by_role=by_role,
    )


def _usd_micros(spent: Iterable[UsageTotals]) -> int | None:
    """Return the total cost in micro-USD; None if the cost of any call is not known."""
    parts = [one for one in spent if one.calls]
    if any(one.unknown_costs for one in parts):
        return None
    return in_micros(Decimal(one.cost_usd) for one in parts)


def _price_table() -> str | None:
    from bench.metrics import price_table

    return price_table()
