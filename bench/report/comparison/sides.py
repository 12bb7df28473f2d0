"""Read the values of a job for a comparison: one column per metric, with one entry per item.

Each job in a comparison is a side. A side also has the concurrency and the rate limits of its run, because these change
times.

Example::

    async with Reader.open(folder) as reader:
        side = await load_side(reader, record)
    side.column("ndcg_at_10")[side.positions["q17"]]
    load_of(reader.meta, reader.resumes, "chroma")      # {"concurrency": 10, "rate": {"search": "5/s"}}
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from bench.journal import Reader, ResumeRow, RunMeta, RunState
from bench.journal.records import Values
from bench.metrics import item_metrics
from bench.metrics.fold_input import NO_LABEL, EndState, FoldRow, Labels, labels_of_each, reduce_repeats
from bench.metrics.protocol import Measure
from bench.model import DATES_MISSING
from bench.plan.job_record import JobRecord
from bench.plan.validity import CALIBRATION
from bench.report.fold import job_invalid_reasons, repeats_of
from bench.report.job_data import OutcomeCounts, fold_rows, open_measures, reported_versions
from bench.untyped_values import Json

LOAD_SETTINGS = ("concurrency", "ingest_concurrency", "rate")


def load_of(meta: RunMeta, resumes: Sequence[ResumeRow], provider: str) -> Json:
    """Return the concurrency and rate limits of a run. Settings that were not recorded are left out.

    If a setting changed when the run was resumed, the value is a list with one value for each process.
    """
    processes = [meta.extra.get("operation"), *(resume.data.get("operation") for resume in resumes)]
    known = [one for one in processes if isinstance(one, Mapping)]
    found: Json = {}
    for name in LOAD_SETTINGS:
        values: list[object] = []
        for one in known:
            value = _rate_limits(one.get(name), provider) if name == "rate" else one.get(name)
            if value not in values:
                values.append(value)
        found[name] = values[0] if len(values) == 1 else values
    return {name: value for name, value in found.items() if value not in (None, [], {})}


def _rate_limits(stored: object, provider: str) -> dict[str, str]:
    """Return endpoint -> rate limit, without the provider's name in the keys.

    So two providers with equal limits get equal results.
    """
    plain = provider.partition("@")[0]
    found = {}
    for name, rate in stored.items() if isinstance(stored, Mapping) else ():
        of, _, endpoint = str(name).partition(".")
        found[(endpoint or "all") if of in (plain, provider) else str(name)] = str(rate)
    return found


NAN = math.nan
PENDING = "pending"
"""state of an item that has not ended"""


@dataclass(frozen=True, kw_only=True)
class Side:
    """The data of one job in a comparison.

    The lists ``items``, ``corpora``, ``states``, ``labels`` and each column have one entry per item.
    """

    run_id: str
    record: JobRecord
    status: RunState
    invalid: tuple[str, ...]
    n_planned: int
    n_ended: int
    """number of ended items; an item has ended when all its repeats have ended"""
    measures: Mapping[str, Measure]
    items: Sequence[str]
    corpora: Sequence[str]
    states: Sequence[str]
    labels: Sequence[Labels]
    columns: Mapping[str, Sequence[float]]
    """metric -> value of each item; NaN if the item has no value"""
    seed: int = 0
    judge_noise: float | None = None
    load: Mapping[str, object] = field(default_factory=dict)
    """concurrency and rate limits; settings that were not recorded are left out"""
    lacks_dates: bool = False
    """True if the prompts of the answering model do not contain the dates of hits"""
    version: str | None = None
    """version that the memory system reported; None if it reported none"""
    named_model: bool = False
    """True if the user named the answering model of this side, because the comparison may be about models"""

    @property
    def system(self) -> str:
        """The name of the provider. If the user named the answering model, the name of this model is added."""
        record = self.record
        return f"{record.provider} with {record.models.answering}" if self.named_model else record.provider

    @property
    def name(self) -> str:
        """The name of the provider and the run id. If the user named the answering model, the name of this model is
        added.
        """
        return f"{self.system} (run {self.run_id})"

    @property
    def partial(self) -> bool:
        """True if the run is not complete or some items have not ended."""
        return self.status is not RunState.COMPLETE or self.n_ended < self.n_planned

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Item id -> index of the item in the lists."""
        return {item: at for at, item in enumerate(self.items)}

    def column(self, metric: str) -> Sequence[float]:
        """Return the value of a metric for each item. If the job does not have the metric, all values are NaN."""
        found = self.columns.get(metric)
        return found if found is not None else array("d", [NAN]) * len(self.items)

    def labels_in(self, dimension: str) -> list[str]:
        """Return the label of each item for one item property, such as ``question_type``."""
        known = {labels: dict(labels).get(dimension, NO_LABEL) for labels in set(self.labels)}
        return [known[labels] for labels in self.labels]


@dataclass(slots=True)
class _ColumnBuffer:
    """Lists that collect the items of a job while its journal is read."""

    names: Sequence[str]
    items: list[str] = field(default_factory=list)
    corpora: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    labels: list[Labels] = field(default_factory=list)
    columns: list[array[float]] = field(default_factory=list)

    def add_batch(self, batch: Values) -> None:
        self.items.extend(batch.items)
        self.corpora.extend(batch.corpora)
        self.states.extend(batch.states)
        self.labels.extend(labels_of_each(batch.labels))
        for name, column in zip(self.names, self.columns, strict=True):
            found = batch.values.get(name)
            column.extend(found if found is not None else [NAN] * len(batch))

    def add_row(self, row: FoldRow) -> None:
        self.items.append(row.item_id)
        self.corpora.append(row.corpus)
        self.states.append(row.state or PENDING)
        self.labels.append(row.labels)
        for column, value in zip(self.columns, row.values, strict=True):
            column.append(NAN if value is None else value)


async def load_side(reader: Reader, record: JobRecord, *, named_model: bool = False) -> Side:
    """Read the values of a job.

    The values of an item's repeats become one value, by the method that the benchmark sets.
    """
    metrics, _ = open_measures(record)
    names = [metric.name for metric in item_metrics(metrics)]
    filling = _ColumnBuffer(names, columns=[array("d") for _ in names])
    ended: Counter[EndState] = Counter()
    rows: list[FoldRow] = []
    async for batch in reader.values(record.key):
        if record.epochs == 1:
            ended.update(zip(batch.states, batch.outcomes, strict=True))
            filling.add_batch(batch)
        else:
            rows.extend(fold_rows(batch, names))
    if record.epochs > 1:
        ended = await reader.settled(record.key, record.epochs)
    for row in reduce_repeats(rows, names, record.epochs_reducer, epochs=record.epochs)[0]:
        filling.add_row(row)
    events = await reader.events()
    counts, probes = OutcomeCounts.of(ended), await reader.probes(record.build)
    reasons = await job_invalid_reasons(reader, record, counts, probes, await repeats_of(reader, record, counts))
    return Side(
        run_id=reader.meta.run_id,
        record=record,
        status=(await reader.status()).state,
        invalid=(*reasons, *([f"skipped: {record.skipped}"] if record.skipped else [])),
        n_planned=record.n_selected,
        n_ended=ended.total(),
        measures={metric.name: metric for metric in metrics},
        items=filling.items,
        corpora=filling.corpora,
        states=filling.states,
        labels=filling.labels,
        columns=dict(zip(names, filling.columns, strict=True)),
        seed=record.seed,
        judge_noise=await judge_noise(reader, record),
        load=load_of(reader.meta, reader.resumes, record.provider),
        lacks_dates=any(event.kind == DATES_MISSING and event.scope == record.lane for event in events),
        version=" and ".join(reported_versions(events, record)) or None,
        named_model=named_model,
    )


async def judge_noise(reader: Reader, record: JobRecord) -> float | None:
    """Return the highest error rate that was measured for the job's judge, with any prompt.

    An error rate is a false positive or false negative rate. The result is None if the judge was not calibrated.
    """
    if record.models.judge is None:
        return None
    rates = []
    for event in await reader.events(CALIBRATION):
        if event.data.get("judge") == record.models.judge:
            found = [event.data.get(name) for name in ("fpr", "fnr")]
            rates += [one.get("value") for one in found if isinstance(one, Mapping)]
    return max((float(rate) for rate in rates if isinstance(rate, int | float)), default=None)
