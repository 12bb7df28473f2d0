"""One side of a comparison: a job's values as columns, one place an item, read from its journal.

Example::

    async with Reader.open(folder) as reader:
        side = await load_side(reader, record)
    side.column("ndcg_at_10")[side.place["q17"]]
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, cast

from bench.journal import Reader, RunState
from bench.journal.records import Values
from bench.metrics import item_metrics
from bench.metrics.epochs import Ended, reduced
from bench.metrics.facts import NO_LABEL, FoldRow, Labels, all_labels_of
from bench.metrics.protocol import Measure
from bench.model import DATES_MISSING
from bench.plan.record import JobRecord
from bench.report.fold import repeats_of, whether_invalid
from bench.report.gathering import Counts, fold_rows, measures
from bench.report.load import load_of

NAN = math.nan
PENDING = "pending"
"""stands for the state of an item that has not ended"""
CALIBRATION = "judge_calibration"
"""kind of the event that holds what a judge got wrong of known answers"""


@dataclass(frozen=True, kw_only=True)
class Side:
    """A job as a comparison sees it; every list has one place an item."""

    run_id: str
    record: JobRecord
    status: RunState
    invalid: tuple[str, ...]
    n_planned: int
    n_ended: int
    """items; one of which a repeat is missing has not ended"""
    measures: Mapping[str, Measure]
    items: Sequence[str]
    corpora: Sequence[str]
    states: Sequence[str]
    labels: Sequence[Labels]
    columns: Mapping[str, Sequence[float]]
    """NaN = no value"""
    seed: int = 0
    judge_noise: float | None = None
    load: Mapping[str, object] = field(default_factory=dict)
    """concurrency and rate limits, as far as they were recorded"""
    lacks_dates: bool = False
    """the answering model does not see when hits were said"""
    named_model: bool = False
    """the answering model was asked for by name: it is what is being compared"""

    @property
    def who(self) -> str:
        """The provider, and the answering model where it was asked for."""
        record = self.record
        return f"{record.provider} with {record.models.answering}" if self.named_model else record.provider

    @property
    def name(self) -> str:
        """Who it is and in which run."""
        return f"{self.who} (run {self.run_id})"

    @property
    def partial(self) -> bool:
        """Items are still to come."""
        return self.status is not RunState.COMPLETE or self.n_ended < self.n_planned

    @cached_property
    def place(self) -> Mapping[str, int]:
        """Item id to its place."""
        return {item: at for at, item in enumerate(self.items)}

    def column(self, metric: str) -> Sequence[float]:
        """The values of one metric; NaN throughout where the job has none."""
        found = self.columns.get(metric)
        return found if found is not None else array("d", [NAN]) * len(self.items)

    def labels_in(self, dimension: str) -> list[str]:
        """Each item's label of one dimension."""
        known = {labels: dict(labels).get(dimension, NO_LABEL) for labels in set(self.labels)}
        return [known[labels] for labels in self.labels]


@dataclass(slots=True)
class _Filling:
    """Columns while they grow."""

    names: Sequence[str]
    items: list[str] = field(default_factory=list)
    corpora: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    labels: list[Labels] = field(default_factory=list)
    columns: list[array[float]] = field(default_factory=list)

    def take(self, batch: Values) -> None:
        self.items.extend(batch.items)
        self.corpora.extend(batch.corpora)
        self.states.extend(batch.states)
        self.labels.extend(all_labels_of(batch.labels))
        for name, column in zip(self.names, self.columns, strict=True):
            found = batch.values.get(name)
            column.extend(found if found is not None else [NAN] * len(batch))

    def take_row(self, row: FoldRow) -> None:
        self.items.append(row.item_id)
        self.corpora.append(row.corpus)
        self.states.append(row.state or PENDING)
        self.labels.append(row.labels)
        for column, value in zip(self.columns, row.values, strict=True):
            column.append(NAN if value is None else value)


async def load_side(reader: Reader, record: JobRecord, *, named_model: bool = False) -> Side:
    """Read a job; repeats of an item are reduced as its benchmark says."""
    metrics, _ = measures(record)
    names = [metric.name for metric in item_metrics(metrics)]
    filling = _Filling(names, columns=[array("d") for _ in names])
    ended: Counter[Ended] = Counter()
    rows: list[FoldRow] = []
    async for batch in reader.values(record.key):
        if record.epochs == 1:
            ended.update(zip(batch.states, batch.outcomes, strict=True))
            filling.take(batch)
        else:
            rows.extend(fold_rows(batch, names))
    if record.epochs > 1:
        ended = await reader.settled(record.key, record.epochs)
    reducer = cast("Literal['mean', 'mode', 'max']", record.epochs_reducer)
    for row in reduced(rows, names, reducer, epochs=record.epochs)[0]:
        filling.take_row(row)
    counts, probes = Counts.of(ended), await reader.probes(record.lane)
    reasons = await whether_invalid(reader, record, counts, probes, await repeats_of(reader, record, counts))
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
        lacks_dates=any(
            event.kind == DATES_MISSING and event.scope == record.lane for _, event in await reader.events()
        ),
        named_model=named_model,
    )


async def judge_noise(reader: Reader, record: JobRecord) -> float | None:
    """max(FPR, FNR) of the job's judge over its prompts; None where it was not calibrated."""
    if record.models.judge is None:
        return None
    rates = []
    for _, event in await reader.events():
        if event.kind == CALIBRATION and event.data.get("judge") == record.models.judge:
            found = [event.data.get(name) for name in ("fpr", "fnr")]
            rates += [one.get("value") for one in found if isinstance(one, Mapping)]
    return max((float(rate) for rate in rates if isinstance(rate, int | float)), default=None)
