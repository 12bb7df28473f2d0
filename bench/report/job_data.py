"""The data of one job for its report: its metrics, its ended items, and times of its ingest.

Here too:

* Where tokens and money come from: what endpoints reported or what was counted here, and whose prices.

Example::

    metrics, notes = measures(record)
    counts, rows = await gathered(reader, record, metrics)
    fold(metrics, rows, job=await job_facts(reader, record, spent))
    token_methods(record, spent, ingested)      # {"answer_in": ("usage", False), "context": ("chars/4", True), ...}
    price_methods(meta, resumes, record, spent, ingested)      # {"answer": ("genai-prices 0.2.3",)}

A million items never are in memory as rows.

The keys are the roles of `bench.metrics.pricing`; a role of which nothing is known is left out.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from bench.errors import ConfigError
from bench.journal import CorpusKind, Event, Reader, ResumeRow, RunMeta
from bench.journal.records import CorpusRecord as StoredCorpus
from bench.journal.records import Spent, Values
from bench.metrics import Pool, item_metrics, open_metrics
from bench.metrics.fold_input import CorpusFacts, Ended, FoldRow, JobFacts, Labels, labels_of
from bench.metrics.protocol import Arithmetic, Measure
from bench.model import State
from bench.plan.builds import BuildTotals
from bench.plan.job_record import JobRecord, MetricRecord
from bench.plan.validity import is_judged
from bench.tokens import TOKEN_METHOD

Method = tuple[str, bool]
"""how it was counted, and whether that is an estimate"""
Owners = Mapping[str, Mapping[str, Spent]]
"""owner of rows -> role -> calls"""

USAGE = "usage"
"""the endpoint reported it"""
OWN = "prices"
"""the run file or the provider's config named the price"""
TABLE = "genai-prices"
WITHOUT_CALLS: Mapping[str | None, Method] = {
    "builtin/extractive": (TOKEN_METHOD, True),
    "builtin/scripted": (USAGE, False),
}
"""models that no one is called for, so that no ledger tells of them"""
NOTHING = Spent()


def token_methods(record: JobRecord, spent: Owners, ingested: Sequence[Spent]) -> dict[str, Method]:
    """Return the method by which the tokens of each role were counted."""
    answered = _counted([spent[record.answer_owner].get("answering", NOTHING)])
    judged = _counted([spent[record.key].get("judge", NOTHING)])
    answered = answered or WITHOUT_CALLS.get(record.models.answering)
    judged = judged or WITHOUT_CALLS.get(record.models.judge)
    found = {
        "ingest": _counted(ingested),
        "context": (TOKEN_METHOD, True),
        "answer_in": answered,
        "answer_out": answered,
        "judge_in": judged,
        "judge_out": judged,
    }
    return {role: method for role, method in found.items() if method is not None}


def _counted(spent: Iterable[Spent]) -> Method | None:
    parts = list(spent)
    told, estimated = sum(one.told for one in parts), sum(one.estimated for one in parts)
    if not told:
        return None
    if not estimated:
        return USAGE, False
    return (TOKEN_METHOD if estimated == told else f"{USAGE} and {TOKEN_METHOD}"), True


def price_methods(
    meta: RunMeta, resumes: Sequence[ResumeRow], record: JobRecord, spent: Owners, ingested: Mapping[str, Spent]
) -> dict[str, tuple[str, ...]]:
    """Whose prices the calls of each role were counted at; ``ingested`` is what the corpora took, by ledger role."""
    pricing = _Pricing.of(meta, resumes, record)
    own = {} if record.shares else ingested  # of a shared build the owner's lane has the calls
    searched = {role: _less(one, own.get(role, NOTHING)) for role, one in spent[record.lane].items()}
    found = {
        "ingest": pricing.of_lane(ingested),
        "search": pricing.of_lane(searched),
        "answer": pricing.of_model(record.models.answering, spent[record.answer_owner].get("answering", NOTHING)),
        "judge": pricing.of_model(record.models.judge, spent[record.key].get("judge", NOTHING)),
    }
    return {role: tuple(sorted(methods)) for role, methods in found.items() if methods}


@dataclass(frozen=True, slots=True)
class _Pricing:
    """What a run knew of prices."""

    own: frozenset[str]
    """models and providers with a price of their own"""
    table: str
    record: JobRecord

    @classmethod
    def of(cls, meta: RunMeta, resumes: Sequence[ResumeRow], record: JobRecord) -> _Pricing:
        own = meta.request.get("prices")
        processes = [meta.versions, *(resume.data.get("versions") for resume in resumes)]
        tables = dict.fromkeys(name for one in processes if (name := _table(one)))
        return cls(frozenset(own) if isinstance(own, Mapping) else frozenset(), " and ".join(tables) or TABLE, record)

    def of_model(self, name: str | None, spent: Spent) -> set[str]:
        if not Decimal(spent.cost_usd):
            return set()
        return {OWN if name in self.own else self.table}

    def of_lane(self, spent: Mapping[str, Spent]) -> set[str]:
        """A provider's own calls have a price each; the models inside it are priced like any other."""
        found = self.of_model(self.record.models.embedding, spent.get("embedding", NOTHING))
        provider = spent.get("provider", NOTHING)
        if Decimal(provider.cost_usd):
            found |= {self.table} if provider.told else set()
            found |= {OWN} if self.own or not provider.told else set()
        return found


def _less(whole: Spent, part: Spent) -> Spent:
    return Spent(
        calls=whole.calls - part.calls,
        cost_usd=format(Decimal(whole.cost_usd) - Decimal(part.cost_usd), "f"),
        told=whole.told - part.told,
        estimated=whole.estimated - part.estimated,
    )


def _table(versions: object) -> str | None:
    packages = versions.get("packages") if isinstance(versions, Mapping) else None
    version = packages.get(TABLE) if isinstance(packages, Mapping) else None
    return None if version is None else f"{TABLE} {version}"


Unit = tuple[str, str, int]
"""corpus, item, epoch"""
QUESTION_TYPE = "question_type"
NEAR = 2
"""a corpus of fewer than so many times k memories is small"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeCounts:
    """The number of items of a job by outcome."""

    states: Mapping[State, int]
    error_kinds: Mapping[str, int]

    @classmethod
    def of(cls, ended: Counter[Ended]) -> OutcomeCounts:
        """Read counts by (state, outcome)."""
        states: Counter[State] = Counter()
        kinds: Counter[str] = Counter()
        for (state, outcome), count in sorted(ended.items()):
            states[State(state)] += count
            if state == State.ERROR:
                kinds[outcome] += count
        return cls(states=dict(states), error_kinds=dict(kinds))


async def gathered(
    reader: Reader, record: JobRecord, metrics: Sequence[Measure]
) -> tuple[OutcomeCounts, Pool | list[FoldRow]]:
    """Every item of a job, those that have not ended too; as rows where repeats must be reduced first."""
    read = _pooled if record.epochs == 1 else _listed
    return await read(reader, record, item_metrics(metrics))


async def _pooled(reader: Reader, record: JobRecord, columns: Sequence[Measure]) -> tuple[OutcomeCounts, Pool]:
    pool = Pool(len(columns), clustered=record.cluster_by is not None)
    ended: Counter[Ended] = Counter()
    types: Counter[str | None] = Counter()
    async for group in reader.alike(record.key):
        ended[group.state, group.outcome] += len(group)
        types[group.labels.get(QUESTION_TYPE)] += len(group)
        pool.add_alike(
            labels=labels_of(group.labels),
            state=group.state,
            corpora=group.corpora,
            columns=[group.values.get(column.name) for column in columns],
        )
    place = _explained(columns)
    if place is not None and pool.lacks(place):
        async for one in reader.unvalued(record.key, columns[place].name):
            if one.reason:
                pool.explain(labels_of(one.labels), one.state, one.reason)
    for labels, count in _pending(record, types):
        pool.add_pending(count, labels)
    return OutcomeCounts.of(ended), pool


async def _listed(reader: Reader, record: JobRecord, columns: Sequence[Measure]) -> tuple[OutcomeCounts, list[FoldRow]]:
    reasons: dict[Unit, str] = {}
    place = _explained(columns)
    if place is not None:
        async for one in reader.unvalued(record.key, columns[place].name):
            reasons[one.corpus, one.item, one.epoch] = one.reason
    rows: list[FoldRow] = []
    async for batch in reader.values(record.key):
        rows.extend(fold_rows(batch, [column.name for column in columns], reasons))
    begun = {(row.corpus, row.item_id): row for row in rows}  # an item counts once, however many epochs it lacks
    types = Counter(dict(row.labels).get(QUESTION_TYPE) for row in begun.values())
    for labels, count in _pending(record, types):
        rows.extend(FoldRow(f"(pending {labels} {n})", "(none)", 1, None, labels, ()) for n in range(count))
    return OutcomeCounts.of(await reader.settled(record.key, record.epochs)), rows


def _pending(record: JobRecord, begun: Mapping[str | None, int]) -> Iterator[tuple[Labels, int]]:
    """Items of which nothing has ended, by question type as far as the plan counted those."""
    left = max(0, record.n_selected - sum(begun.values()))
    for kind, planned in record.selected_types.items():
        count = min(left, max(0, planned - begun.get(kind, 0)))
        left -= count
        yield labels_of({QUESTION_TYPE: kind, **_group_of(record, kind)}), count
    yield (), left


def _group_of(record: JobRecord, kind: str) -> dict[str, str]:
    return next(({"group": name} for name, kinds in record.groups.items() if kind in kinds), {})


def _explained(columns: Sequence[Measure]) -> int | None:
    """The first metric of which items themselves say why they have no value: all of its kind lack the same ones."""
    return next((place for place, column in enumerate(columns) if column.explained_by_rows), None)


def fold_rows(batch: Values, names: Sequence[str], reasons: Mapping[Unit, str] | None = None) -> list[FoldRow]:
    """A batch as rows, for repeats that must be reduced first."""
    columns = [batch.values.get(name) for name in names]
    found = []
    for at, unit in enumerate(zip(batch.corpora, batch.items, batch.epochs, strict=True)):
        corpus, item, epoch = unit
        values = [None if column is None or column[at] != column[at] else column[at] for column in columns]
        reason = (reasons or {}).get(unit, "")
        found.append(FoldRow(item, corpus, epoch, batch.states[at], labels_of(batch.labels[at]), values, reason))
    return found


def measures(record: JobRecord) -> tuple[list[Measure], list[str]]:
    """The job's metrics ready to fold; a plug-in that is gone is folded as a plain mean, with a note."""
    folder = Path(record.metric_folder or ".")
    try:
        return open_metrics(record.metric_entries, k=record.k, folder=folder), []
    except ConfigError as error:
        note = f"a plug-in metric cannot be loaded and is folded as a mean ({error.message})"
    opened: dict[str, Measure] = {}
    for entry in record.metric_entries:
        with contextlib.suppress(ConfigError):
            opened |= {metric.name: metric for metric in open_metrics([entry], k=record.k, folder=folder)}
    return [opened.get(metric.name) or _plain_mean(metric) for metric in record.metrics], [note]


def _plain_mean(metric: MetricRecord) -> Measure:
    return Measure(
        name=metric.name,
        definition=metric.definition,
        category=metric.category,
        unit=metric.unit,
        lower_is_better=metric.lower_is_better,
        params={},
        arithmetic=Arithmetic(of_row=lambda row: None),
        breakdown=metric.breakdown,
    )


def size_notes(record: JobRecord, facts: JobFacts) -> list[str]:
    """A warning where k is near the number of memories that there are: recall states little then."""
    held = {one.corpus: one.memories for one in facts.corpora if one.memories}  # each shard of a merged run has its own
    sizes = sorted(held.values())
    near = sum(size < NEAR * record.k for size in sizes)
    retrieves = any(metric.category == "retrieval" for metric in record.metrics)
    if not retrieves or not sizes or (2 * near <= len(sizes) and record.k < sizes[0]):
        return []
    return [
        f"k = {record.k} is near the size of the corpora ({near} of {len(sizes)} hold fewer than "
        f"{NEAR * record.k} memories, the smallest {sizes[0]}): recall means little"
    ]


class IngestTime:
    """The time spent sending corpora; gaps between a run's processes (stop to resume) are not counted."""

    def __init__(self, resumes: Sequence[datetime]) -> None:
        self._resumes = sorted(resumes)
        self._spans: dict[int, tuple[datetime, datetime]] = {}

    def add(self, one: StoredCorpus) -> None:
        """Count the rows of a corpus up to the last that was sent."""
        ingested = one.row(CorpusKind.INGESTED)
        if ingested is None or one.is_reused:
            return
        for row in one.last:
            if row.kind is not CorpusKind.CALLS and row.seq <= ingested.seq:
                part = bisect_right(self._resumes, row.at)
                first, last = self._spans.get(part, (row.at, row.at))
                self._spans[part] = (min(first, row.at), max(last, row.at))

    @property
    def us(self) -> int | None:
        """Microseconds; None where nothing was sent."""
        spans = self._spans.values()
        return sum(round((last - first).total_seconds() * 1e6) for first, last in spans) if spans else None


async def job_facts(reader: Reader, record: JobRecord, spent: Owners, totals: BuildTotals | None = None) -> JobFacts:
    """What belongs to a job as a whole: what ingesting its corpora took, how its tokens and money were counted.

    ``totals`` takes every corpus that is read.
    """
    corpora, sending = [], IngestTime([one.at for one in reader.resumes])
    took: dict[str, Spent] = {}
    async for one in reader.corpora(record.build):
        corpora.append(_corpus_facts(one))
        if totals is not None:
            totals.add(one)
        for role, part in one.spent.items():
            took[role] = took.get(role, Spent()) + part
        sending.add(one)
    concurrency = reader.meta.request.get("ingest_concurrency") or reader.meta.request.get("concurrency")
    return JobFacts(
        judged=is_judged(record),
        ingest_wall_us=sending.us,
        ingest_concurrency=concurrency if isinstance(concurrency, int) else None,
        corpora=tuple(corpora),
        token_methods=token_methods(record, spent, list(took.values())),
        price_methods=price_methods(reader.meta, reader.resumes, record, spent, took),
    )


def _corpus_facts(stored: StoredCorpus) -> CorpusFacts:
    times = stored.times_us
    named = {"ingest": times.get("ingest"), "searchable": times.get("searchable")}
    failed, ingested = stored.row(CorpusKind.FAILED), stored.row(CorpusKind.INGESTED)
    memories = ingested.data.get("memories") if ingested else None
    spent = [one for one in stored.spent.values() if one.calls]
    unknown = any(one.unknown_costs for one in spent)
    return CorpusFacts(
        corpus=stored.corpus,
        failed=failed is not None,
        times_us={name: us for name, us in named.items() if us is not None},
        memories=memories if isinstance(memories, int) else None,
        tokens=sum(one.usage.input_tokens for one in spent) or None,  # calls that tell no tokens leave them unknown
        cost_usd=None if unknown else str(sum((Decimal(one.cost_usd) for one in spent), Decimal(0))),
        priced=bool(spent),
    )


def version_notes(events: Sequence[Event], record: JobRecord) -> tuple[str, ...]:
    """A note where the memory system was replaced between two starts of the run."""
    answered = [
        event.data.get("upstream")
        for event in events
        if event.kind == "provider_version" and event.scope == record.build
    ]
    versions = list(dict.fromkeys(str(version) for version in answered if version is not None))
    if len(versions) < 2:
        return ()
    return (f"several versions of {record.provider} answered in this run: {', then '.join(versions)}",)
