"""Read the data of one job for a report: metrics, values of items, times and costs.

``token_methods`` returns how tokens were counted: by the endpoint, or by bench. ``price_methods`` returns which price
tables were used. The keys of the results are roles of tokens, such as ``answer_in``, and roles of costs, such as
``answer``.

Example::

    metrics, notes = open_measures(record)
    counts, rows = await read_items(reader, record, metrics)
    fold(metrics, rows, job=await job_facts(reader, record, spent))
    token_methods(record, spent, ingested)      # {"answer_in": ("usage", False), "context": ("chars/4", True), ...}
    price_methods(meta, resumes, record, spent, ingested)      # {"answer": ("genai-prices 0.2.3",)}
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from bench.errors import ConfigError
from bench.journal import CorpusKind, Event, Reader, ResumeRow, RunMeta
from bench.journal.records import CorpusRecord as StoredCorpus
from bench.journal.records import UsageTotals, Values
from bench.metrics import FoldTable, item_metrics, open_metrics
from bench.metrics.fold_input import CorpusFacts, EndState, FoldRow, JobFacts, Labels, labels_of
from bench.metrics.latency import PARTS
from bench.metrics.pricing import TOTAL_COSTS, WHOLE_JOB
from bench.metrics.protocol import Arithmetic, Measure
from bench.model import State
from bench.plan.job_record import JobRecord, MetricRecord
from bench.plan.shared_builds import PROVIDER_VERSION
from bench.plan.stored_builds import BuildTotals
from bench.plan.validity import is_judged
from bench.tokens import TOKEN_METHOD
from bench.visible_text import counted

Method = tuple[str, bool]
"""(method by which tokens were counted, True if the count is an estimate)"""
SpentByOwner = Mapping[str, Mapping[str, UsageTotals]]
"""owner of journal rows (a lane, its answers, or a job) -> role -> totals of the calls"""

USAGE = "usage"
"""method of counting: the endpoint reported the tokens"""
OWN_PRICES = "prices"
"""source of a price: the run file or the provider's config"""
PRICE_TABLE = "genai-prices"
WITHOUT_CALLS: Mapping[str | None, Method] = {
    "builtin/extractive": (TOKEN_METHOD, True),
    "builtin/scripted": (USAGE, False),
}
"""method of counting for built-in models, which make no call and so are not in the call log"""
NO_CALLS = UsageTotals()


def token_methods(record: JobRecord, spent: SpentByOwner, ingested: Sequence[UsageTotals]) -> dict[str, Method]:
    """Return role -> method by which the tokens of this role were counted; unknown methods are left out."""
    answered = _token_method([spent[record.answer_owner].get("answering", NO_CALLS)])
    judged = _token_method([spent[record.key].get("judge", NO_CALLS)])
    answered = answered or WITHOUT_CALLS.get(record.models.answering)
    judged = judged or WITHOUT_CALLS.get(record.models.judge)
    found = {
        "ingest": _token_method(ingested),
        "context": (TOKEN_METHOD, True),
        "answer_in": answered,
        "answer_out": answered,
        "judge_in": judged,
        "judge_out": judged,
    }
    return {role: method for role, method in found.items() if method is not None}


def _token_method(spent: Iterable[UsageTotals]) -> Method | None:
    parts = list(spent)
    with_usage, estimated = sum(one.with_usage for one in parts), sum(one.estimated for one in parts)
    if not with_usage:
        return None
    if not estimated:
        return USAGE, False
    return (TOKEN_METHOD if estimated == with_usage else f"{USAGE} and {TOKEN_METHOD}"), True


def price_methods(
    meta: RunMeta,
    resumes: Sequence[ResumeRow],
    record: JobRecord,
    spent: SpentByOwner,
    ingested: Mapping[str, UsageTotals],
) -> dict[str, tuple[str, ...]]:
    """Return role -> sources of the prices that were used.

    ``ingested`` maps the roles of the call log to the calls of the ingest.
    """
    pricing = _Pricing.of(meta, resumes, record)
    own = {} if record.shares else ingested  # of a shared build the owner's lane has the calls
    searched = {role: _difference(one, own.get(role, NO_CALLS)) for role, one in spent[record.lane].items()}
    found = {
        "ingest": pricing.of_lane(ingested),
        "search": pricing.of_lane(searched),
        "answer": pricing.of_model(record.models.answering, spent[record.answer_owner].get("answering", NO_CALLS)),
        "judge": pricing.of_model(record.models.judge, spent[record.key].get("judge", NO_CALLS)),
    }
    return {role: tuple(sorted(methods)) for role, methods in found.items() if methods}


@dataclass(frozen=True, slots=True)
class _Pricing:
    """The sources of the prices that a run used."""

    own: frozenset[str]
    """names of the models and providers whose price the user set"""
    table: str
    record: JobRecord

    @classmethod
    def of(cls, meta: RunMeta, resumes: Sequence[ResumeRow], record: JobRecord) -> _Pricing:
        own = meta.request.get("prices")
        processes = [meta.versions, *(resume.data.get("versions") for resume in resumes)]
        tables = dict.fromkeys(name for one in processes if (name := _table_version(one)))
        return cls(
            frozenset(own) if isinstance(own, Mapping) else frozenset(), " and ".join(tables) or PRICE_TABLE, record
        )

    def of_model(self, name: str | None, spent: UsageTotals) -> set[str]:
        if not Decimal(spent.cost_usd):
            return set()
        return {OWN_PRICES if name in self.own else self.table}

    def of_lane(self, spent: Mapping[str, UsageTotals]) -> set[str]:
        """Return the sources of the prices for a lane's calls to the provider and to the embedding model."""
        found = self.of_model(self.record.models.embedding, spent.get("embedding", NO_CALLS))
        provider = spent.get("provider", NO_CALLS)
        if Decimal(provider.cost_usd):
            found |= {self.table} if provider.with_usage else set()
            found |= {OWN_PRICES} if self.own or not provider.with_usage else set()
        return found


def _difference(whole: UsageTotals, part: UsageTotals) -> UsageTotals:
    return UsageTotals(
        calls=whole.calls - part.calls,
        cost_usd=format(Decimal(whole.cost_usd) - Decimal(part.cost_usd), "f"),
        with_usage=whole.with_usage - part.with_usage,
        estimated=whole.estimated - part.estimated,
    )


def _table_version(versions: object) -> str | None:
    packages = versions.get("packages") if isinstance(versions, Mapping) else None
    version = packages.get(PRICE_TABLE) if isinstance(packages, Mapping) else None
    return None if version is None else f"{PRICE_TABLE} {version}"


Unit = tuple[str, str, int]
"""(corpus, item, epoch)"""
QUESTION_TYPE = "question_type"
SMALL_CORPUS_FACTOR = 2
"""a corpus is small if it has fewer than ``SMALL_CORPUS_FACTOR * k`` memories"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeCounts:
    """The number of items of a job in each state, and with each kind of error."""

    states: Mapping[State, int]
    error_kinds: Mapping[str, int]

    @classmethod
    def of(cls, ended: Counter[EndState]) -> OutcomeCounts:
        """Build the counts from (state, outcome) -> number of items."""
        states: Counter[State] = Counter()
        kinds: Counter[str] = Counter()
        for (state, outcome), count in sorted(ended.items()):
            states[State(state)] += count
            if state == State.ERROR:
                kinds[outcome] += count
        return cls(states=dict(states), error_kinds=dict(kinds))


async def read_items(
    reader: Reader, record: JobRecord, metrics: Sequence[Measure]
) -> tuple[OutcomeCounts, FoldTable | list[FoldRow]]:
    """Return the counts and the metric values of all items of a job; pending items are included.

    If there are several epochs, the values are a list with one row per repeat of an item.
    """
    read = _read_pool if record.epochs == 1 else _read_rows
    return await read(reader, record, item_metrics(metrics))


async def _read_pool(reader: Reader, record: JobRecord, columns: Sequence[Measure]) -> tuple[OutcomeCounts, FoldTable]:
    pool = FoldTable(len(columns), clustered=record.cluster_by is not None)
    ended: Counter[EndState] = Counter()
    types: Counter[str | None] = Counter()
    async for group in reader.score_groups(record.key):
        ended[group.state, group.outcome] += len(group)
        types[group.labels.get(QUESTION_TYPE)] += len(group)
        pool.add_group(
            labels=labels_of(group.labels),
            state=group.state,
            corpora=group.corpora,
            columns=[group.values.get(column.name) for column in columns],
        )
    place = _explained_position(columns)
    if place is not None and pool.lacks(place):
        async for one in reader.items_without_value(record.key, columns[place].name):
            if one.reason:
                pool.add_reason(labels_of(one.labels), one.state, one.reason)
    for labels, count in _pending(record, types):
        pool.add_pending(count, labels)
    return OutcomeCounts.of(ended), pool


async def _read_rows(
    reader: Reader, record: JobRecord, columns: Sequence[Measure]
) -> tuple[OutcomeCounts, list[FoldRow]]:
    reasons: dict[Unit, str] = {}
    place = _explained_position(columns)
    if place is not None:
        async for one in reader.items_without_value(record.key, columns[place].name):
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
    """Yield (labels, number of pending items with these labels).

    If the plan does not know the question type of a pending item, the item has no labels.
    """
    left = max(0, record.n_selected - sum(begun.values()))
    for kind, planned in record.selected_types.items():
        count = min(left, max(0, planned - begun.get(kind, 0)))
        left -= count
        group = next(({"group": name} for name, kinds in record.groups.items() if kind in kinds), {})
        yield labels_of({QUESTION_TYPE: kind, **group}), count
    yield (), left


def _explained_position(columns: Sequence[Measure]) -> int | None:
    """Return the position of the first metric for which the journal stores why a value is missing.

    Return None if there is no such metric. All such metrics have no value for the same items, so the first is enough.
    """
    return next((place for place, column in enumerate(columns) if column.explained_by_rows), None)


def fold_rows(batch: Values, names: Sequence[str], reasons: Mapping[Unit, str] | None = None) -> list[FoldRow]:
    """Convert a batch of columns to one row per item.

    ``reasons`` explains why a value is missing.
    """
    columns = [batch.values.get(name) for name in names]
    found = []
    for at, unit in enumerate(zip(batch.corpora, batch.items, batch.epochs, strict=True)):
        corpus, item, epoch = unit
        values = [None if column is None or column[at] != column[at] else column[at] for column in columns]
        reason = (reasons or {}).get(unit, "")
        found.append(FoldRow(item, corpus, epoch, batch.states[at], labels_of(batch.labels[at]), values, reason))
    return found


def open_measures(record: JobRecord) -> tuple[list[Measure], list[str]]:
    """Open the job's metrics again, so that values can be aggregated; return the metrics and notes.

    The metrics have the definitions by which the stored values were computed, also if bench has newer ones. If a
    plug-in metric cannot be loaded, its values are averaged, and a note reports this.
    """
    folder = Path(record.metric_folder or ".")
    stored = {metric.name: metric.definition for metric in record.metrics}
    try:
        found = open_metrics(record.metric_entries, k=record.k, folder=folder)
        return [replace(one, definition=stored.get(one.name, one.definition)) for one in found], []
    except ConfigError as error:
        note = f"a plug-in metric cannot be loaded, so it is aggregated as a mean ({error.message})"
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


def cutoff_notes(record: JobRecord, facts: JobFacts, metrics: Iterable[Measure]) -> list[str]:
    """Return notes if k is below the cutoff of a metric, or near the number of memories in the corpora."""
    found = []
    cuts = [(one.name, one.params.get("k")) for one in metrics if one.category == "retrieval"]
    if beyond := {name: cut for name, cut in cuts if isinstance(cut, int) and cut > record.k}:
        found.append(
            f"{', '.join(beyond)}: each search returns at most {counted(record.k, 'hit(|s)')}, because k is "
            f"{record.k}; to use more hits: -k {max(beyond.values())}"
        )
    held = {one.corpus: one.memories for one in facts.corpora if one.memories}  # each shard of a merged run has its own
    sizes = sorted(held.values())
    near = sum(size < SMALL_CORPUS_FACTOR * record.k for size in sizes)
    if cuts and sizes and (2 * near > len(sizes) or record.k >= sizes[0]):
        found.append(
            f"k = {record.k} is near the size of the corpora "
            f"({counted(near, f'of {len(sizes)} (contains|contain)')} fewer than "
            f"{SMALL_CORPUS_FACTOR * record.k} memories, the smallest {sizes[0]}), so recall is not informative"
        )
    return found


class IngestTime:
    """The total ingest time of a run; time between two processes of a resumed run does not count."""

    def __init__(self, resumes: Sequence[datetime]) -> None:
        self._resumes = sorted(resumes)
        self._spans: dict[int, tuple[datetime, datetime]] = {}

    def add(self, one: StoredCorpus) -> None:
        """Add the time until a corpus was completely ingested.

        A corpus that is reused or not completely ingested adds nothing.
        """
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
        """The total ingest time in microseconds; None if nothing was ingested."""
        spans = self._spans.values()
        return sum(round((last - first).total_seconds() * 1e6) for first, last in spans) if spans else None


async def job_facts(
    reader: Reader, record: JobRecord, spent: SpentByOwner, totals: BuildTotals | None = None
) -> JobFacts:
    """Return the data about a whole job that its metrics need.

    The data are the ingest time and cost per corpus, and how tokens and prices were counted. If ``totals`` is given,
    every corpus is also added to ``totals``.
    """
    corpora, sending = [], IngestTime([one.at for one in reader.resumes])
    took: dict[str, UsageTotals] = {}
    async for one in reader.corpora(record.build):
        corpora.append(_corpus_facts(one))
        if totals is not None:
            totals.add(one)
        for role, part in one.spent.items():
            took[role] = took.get(role, UsageTotals()) + part
        sending.add(one)
    uncounted, lacking = {}, {}
    if any(metric.definition.partition("/")[0] in TOTAL_COSTS for metric in record.metrics):
        costs = await reader.uncounted_costs(record.lane, record.answer_owner, record.key)
        roles = {record.lane: "search", record.answer_owner: "answer", record.key: "judge"}
        uncounted = {roles[owner]: (float(cost), unknown) for owner, (cost, unknown) in costs.items()}
        every_role = (part for owner in roles for part in spent.get(owner, {}).items())
        if any(one.unknown_costs for role, one in every_role if role != "provider"):
            every, judged = await reader.lacking_costs(record.lane, record.answer_owner, record.key)
            lacking = {**dict.fromkeys(WHOLE_JOB, float(every)), "cost_judge": float(judged)}
    concurrency = reader.meta.request.get("ingest_concurrency") or reader.meta.request.get("concurrency")
    return JobFacts(
        judged=is_judged(record),
        ingest_wall_us=sending.us,
        ingest_concurrency=concurrency if isinstance(concurrency, int) else None,
        corpora=tuple(corpora),
        uncounted=uncounted,
        lacking=lacking,
        token_methods=token_methods(record, spent, list(took.values())),
        price_methods=price_methods(reader.meta, reader.resumes, record, spent, took),
    )


def _corpus_facts(stored: StoredCorpus) -> CorpusFacts:
    times, sending = stored.times_us, stored.sending_us
    named = {"ingest": times.get("ingest"), "searchable": times.get("searchable")}
    if named["ingest"] is not None:
        named |= {f"ingest.{part}": sending.get(part) for part in PARTS}
    failed, ingested = stored.row(CorpusKind.FAILED), stored.row(CorpusKind.INGESTED)
    memories = ingested.data.get("memories") if ingested else None
    spent = [one for one in stored.spent.values() if one.calls]
    unknown = any(one.unknown_costs for one in spent)
    known_usd = sum((Decimal(one.cost_usd) for one in spent), Decimal(0))
    return CorpusFacts(
        corpus=stored.corpus,
        failed=failed is not None,
        times_us={name: us for name, us in named.items() if us is not None},
        memories=memories if isinstance(memories, int) else None,
        tokens=sum(one.usage.input_tokens for one in spent) or None,  # unknown if no call reports tokens
        cost_usd=None if unknown else str(known_usd),
        known_usd=float(known_usd) if unknown else 0.0,
        priced=bool(spent),
    )


def reported_versions(events: Sequence[Event], record: JobRecord) -> list[str]:
    """Return the versions that the memory system reported in the run, in order; [] if it reported none."""
    answered = [
        event.data.get("upstream") for event in events if event.kind == PROVIDER_VERSION and event.scope == record.build
    ]
    return list(dict.fromkeys(str(version) for version in answered if version is not None))


def version_notes(events: Sequence[Event], record: JobRecord) -> tuple[str, ...]:
    """Return a note if the memory system changed its version during the run, else ()."""
    versions = reported_versions(events, record)
    if len(versions) < 2:
        return ()
    return (f"several versions of {record.provider} answered in this run: {', then '.join(versions)}",)
