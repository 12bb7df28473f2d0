"""Database queries that the reader of a journal and the writer of a resumed journal share.

SQLite rows are converted to records. The record of an item combines rows of several tables.
"""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, NamedTuple, cast

import aiosqlite

from bench.journal.codec import (
    PHASE_OF,
    PHASES,
    clean,
    decode,
    decompress,
    from_json,
    instant,
    to_json,
    unpack,
    usage_of,
)
from bench.journal.lease_holder import LeaseHolder
from bench.journal.records import ItemRecord, ScoreGroup, Values, totals_by_role
from bench.journal.rows import (
    CorpusKind,
    CorpusRow,
    Finished,
    JournaledPhase,
    JournalRow,
    Key,
    ResumeRow,
    RunMeta,
)
from bench.journal.sql import blocks
from bench.model import Call, Phase, State, Verdict
from bench.untyped_values import Json
from bench.visible_text import counted

Unit = tuple[str, str, int]
"""corpus, item, epoch"""


class PhaseRow(NamedTuple):
    """A row of the phase table; ``entry`` is the id of the row in the entry table that has the remaining columns."""

    corpus: str
    item: str
    epoch: int
    number: int
    attempt: int
    outcome: str
    entry: int

    @property
    def unit(self) -> Unit:
        return self.corpus, self.item, self.epoch

    @property
    def phase(self) -> Phase:
        return PHASE_OF[self.number]


class ScoreRow(NamedTuple):
    """The outcome of an item in one scoring; ``generation`` is 0 for the run itself, and each rescore adds one."""

    corpus: str
    item: str
    epoch: int
    entry: int
    state: str
    outcome: str
    label_set: str
    names: str
    packed: bytes
    generation: int

    @property
    def labels(self) -> dict[str, str]:
        labels: dict[str, str] = from_json(self.label_set)
        return labels

    @property
    def values(self) -> dict[str, float | None]:
        names: list[str] = from_json(self.names)
        return {name: None if value != value else value for name, value in zip(names, unpack(self.packed), strict=True)}


class CallRow(NamedTuple):
    """A row of the call log."""

    entry: int
    seq: int
    endpoint: str
    role: str
    attempt: int
    status: int | None
    outcome: str
    started_us: int
    queue_us: int
    limiter_us: int
    network_us: int
    provider_us: int
    request_bytes: int
    response_bytes: int
    model: str | None
    usage: str | None
    cost_usd: str | None

    def call(self) -> Call:
        """Return the row as a `Call`."""
        return Call(
            endpoint=self.endpoint,
            role=self.role,  # type: ignore[arg-type]
            attempt=self.attempt,
            status=self.status,
            outcome=self.outcome,
            started_at=instant(self.started_us),
            queue_us=self.queue_us,
            limiter_us=self.limiter_us,
            network_us=self.network_us,
            provider_us=self.provider_us,
            request_bytes=self.request_bytes,
            response_bytes=self.response_bytes,
            model=self.model,
            usage=usage_of(self.usage),
            cost_usd=self.cost_usd,
        )


class VerdictRow(NamedTuple):
    """A row of the verdicts table."""

    entry: int
    seq: int
    evaluator: str
    value: float | None
    correct: int | None
    reason: str
    judged: int
    abstained: int
    faithfulness: float | None
    model: str | None
    fingerprint: str | None
    prompt_name: str | None
    prompt_sha256: str | None
    raw: str | None
    ignored: str | None

    def verdict(self) -> Verdict:
        """Return the row as a `Verdict`, in which ``raw`` is a reference to the judge's text."""
        return Verdict(
            evaluator=self.evaluator,
            value=self.value,
            correct=None if self.correct is None else bool(self.correct),
            reason=self.reason,
            judged=bool(self.judged),
            abstained=bool(self.abstained),
            faithfulness=self.faithfulness,
            model=self.model,
            fingerprint=self.fingerprint,
            prompt_name=self.prompt_name,
            prompt_sha256=self.prompt_sha256,
            raw=self.raw,
            ignored=tuple(json.loads(self.ignored)) if self.ignored else (),
        )


class Parts(NamedTuple):
    """The rows of some items. The keys of scores are (corpus, item, epoch); all other keys are ids of entry rows."""

    entries: Mapping[int, JournaledPhase]
    scores: Mapping[Unit, ScoreRow]
    verdicts: Mapping[int, Sequence[Verdict]]
    calls: Mapping[int, Sequence[Call]]


def record_of(rows: Sequence[PhaseRow], parts: Parts) -> ItemRecord:
    """Return the record of one item; ``rows`` are its phase rows, sorted by phase and attempt."""
    first = rows[0]
    score = parts.scores.get(first.unit)
    shown = [row for row in rows if _belongs(row, parts, score)]
    attempts: dict[Phase, int] = {}
    for row in shown:
        attempts[row.phase] = attempts.get(row.phase, 0) + 1
    return ItemRecord(
        corpus=first.corpus,
        item=first.item,
        epoch=first.epoch,
        phases={row.phase: parts.entries[row.entry] for row in shown},
        attempts=attempts,
        state=State(score.state) if score else None,
        outcome=score.outcome if score else None,
        labels=score.labels if score else {},
        values=score.values if score else {},
        verdicts=tuple(parts.verdicts.get(score.entry, ())) if score else (),
        spent=totals_by_role(call for row in rows for call in parts.calls.get(row.entry, ())),
    )


def _belongs(row: PhaseRow, parts: Parts, score: ScoreRow | None) -> bool:
    """Return False if the row is an evaluation from another scoring than ``score``."""
    if row.phase is not Phase.EVALUATE:
        return True
    return parts.entries[row.entry].generation == (score.generation if score is not None else 0)


def columns_of(
    rows: Sequence[tuple[object, ...]], names: Sequence[str], labels: Mapping[int, Mapping[str, str]]
) -> Values:
    """Convert score rows to columns.

    All rows must have values of the same metrics. ``names`` are the names of these metrics.
    """
    corpora, items, epochs, states, outcomes, label_ids, _, packed, *_ = zip(*rows, strict=True)
    return Values(
        corpora=corpora,
        items=items,
        epochs=epochs,
        states=states,
        outcomes=outcomes,
        labels=tuple([labels[number] for number in label_ids]),
        values=_columns(packed, names),
    )


def group_scores(
    rows: Sequence[tuple[Any, ...]], shapes: Mapping[int, Sequence[str]], labels: Mapping[int, Mapping[str, str]]
) -> list[ScoreGroup]:
    """Group score rows by state, outcome, labels and list of metrics; inside a group, the order is kept."""
    kinds: defaultdict[tuple[str, str, int, int], list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        kinds[row[:4]].append(row)
    return [
        ScoreGroup(
            state=state,
            outcome=outcome,
            labels=labels[number],
            corpora=[row[4] for row in alike],
            values=_columns([row[5] for row in alike], shapes[shape]),
        )
        for (state, outcome, number, shape), alike in kinds.items()
    ]


def _columns(packed: Iterable[bytes], names: Sequence[str]) -> dict[str, array[float]]:
    doubles, width = unpack(b"".join(packed)), len(names)
    return {name: doubles[place::width] for place, name in enumerate(names)}


READ = blocks("read")

STEP_PHASE = {
    CorpusKind.INGESTED: Phase.INGEST,
    CorpusKind.READY: Phase.INDEX,
    CorpusKind.FAILED: Phase.INDEX,
}
"""kind of a corpus row -> the phase that this row ends; FAILED ends index even if the ingest failed"""


class LeaseRow(NamedTuple):
    """The lock row of a journal: the writing process and the times of its start and last heartbeat."""

    holder: LeaseHolder
    since_us: int
    heartbeat_us: int


async def read_meta(connection: aiosqlite.Connection) -> Json:
    """Return all rows of the meta table, as a mapping of key to value."""
    return meta_of(await connection.execute_fetchall(READ["meta"]))


def meta_of(rows: Iterable[Sequence[Any]]) -> Json:
    """Convert the rows of the meta table to a mapping of key to value."""
    return {key: json.loads(value) for key, value in rows}


def run_meta(values: Mapping[str, object]) -> RunMeta:
    """Return the metadata of a run; ``values`` is the content of the meta table, see ``read_meta``."""
    known = {name: values[name] for name in RunMeta.__dataclass_fields__ if name in values}
    ranges = values["ranges"]
    created_us = values["created_us"]
    assert isinstance(ranges, list)
    assert isinstance(created_us, int)
    known["ranges"] = tuple((start, end) for start, end in ranges)
    known["created_at"] = instant(created_us)
    return RunMeta(**known)  # type: ignore[arg-type]


def read_head(raw: sqlite3.Connection) -> tuple[RunMeta, tuple[ResumeRow, ...]]:
    """Return the metadata of a run, and a row for each time that it was resumed, oldest first."""
    resumes = raw.execute(READ["resumes"])
    later = tuple(ResumeRow(at=instant(at_us), data=json.loads(data)) for at_us, data in resumes)
    return run_meta(meta_of(raw.execute(READ["meta"]))), later


async def read_holder(connection: aiosqlite.Connection) -> LeaseRow | None:
    """Return the lock row of the journal, or None if there is none. The process that the row names may be dead."""
    return holder_of(await connection.execute_fetchall(READ["holder"]))


def holder_of(rows: Iterable[Sequence[Any]]) -> LeaseRow | None:
    """Convert the rows of the lock table, which has at most one row; return None if it is empty."""
    for pid, host, boot, started, token, since_us, heartbeat_us in rows:
        holder = LeaseHolder(pid=pid, host=host, boot=boot, started=started, token=token)
        return LeaseRow(holder, since_us, heartbeat_us)
    return None


async def read_finished(connection: aiosqlite.Connection, owner: str, phase: Phase) -> Finished:
    """Return the items for which a phase of an owner succeeded.

    Each id is in the form that ``clean`` returns.
    """
    rows = await connection.execute_fetchall(READ["finished"], (clean(owner), PHASES[phase]))
    first, others = next(iter(rows))
    later: dict[int, list[str]] = {}
    for unit, epoch in json.loads(others):
        later.setdefault(epoch, []).append(unit)
    return Finished({1: frozenset(json.loads(first)), **{epoch: frozenset(found) for epoch, found in later.items()}})


async def read_latest(connection: aiosqlite.Connection, key: Key) -> JournaledPhase | None:
    """Return the latest attempt of a key with its large values; None if the key has no attempt."""
    wanted = to_json([[clean(key.owner), PHASES[key.phase], clean(key.corpus), clean(key.unit), key.epoch]])
    row = next(iter(await connection.execute_fetchall(READ["load"], (wanted,))), None)
    if row is None:
        return None
    _, attempt, outcome, *columns, _ = row
    entry = entry_of(key, attempt, outcome, EntryColumns(*columns))
    values = {name: await read_payload(connection, str(ref)) for name, ref in entry.payloads.items()}
    return replace(entry, payloads=values)


class EntryColumns(NamedTuple):
    """The columns of a row of the entry table, without its id."""

    started_us: int
    generation: int
    message: str | None
    times: str | None
    data: str | bytes | None
    measured: str | bytes | None
    payloads: str | None


def entry_of(key: Key, attempt: int, outcome: str, columns: EntryColumns) -> JournaledPhase:
    """Return one attempt of a phase, without its calls; its ``payloads`` has references instead of values."""
    return JournaledPhase(
        key=key,
        attempt=attempt,
        outcome=outcome,
        message=columns.message or "",
        data=decode(columns.data),
        measured=decode(columns.measured),
        payloads=from_json(columns.payloads) if columns.payloads else {},
        times_us=from_json(columns.times) if columns.times else {},
        started_at=instant(columns.started_us),
        generation=columns.generation,
    )


async def read_payload(connection: aiosqlite.Connection, reference: str) -> object:
    """Load the JSON value that a reference names; None if the value was removed."""
    if reference.startswith("="):
        return json.loads(reference[1:])
    for (body,) in await connection.execute_fetchall(READ["payload"], (bytes.fromhex(reference[1:]),)):
        return None if body is None else json.loads(decompress(body))
    return None


async def read_verdict_history(connection: aiosqlite.Connection, key: Key) -> list[Verdict]:
    """Return the verdicts of every attempt of an evaluate phase, the newest attempt first.

    In each verdict, ``raw`` is the judge's full text instead of a reference to it.
    """
    place = (clean(key.owner), PHASES[key.phase], clean(key.corpus), clean(key.unit), key.epoch)
    found = [VerdictRow._make(row).verdict() for row in await connection.execute_fetchall(READ["said"], place)]
    return [
        replace(one, raw=cast("str | None", await read_payload(connection, one.raw))) if one.raw else one
        for one in found
    ]


async def read_corpus(connection: aiosqlite.Connection, lane: str, corpus: str) -> list[CorpusRow]:
    """Return the rows of a corpus in order, without the rows that a merge copied from other journals.

    Rows of the kind ``calls`` are left out.
    """
    rows = await connection.execute_fetchall(READ["corpus"], (clean(lane), clean(corpus)))
    return [corpus_row_of(StepColumns(*row)) for row in rows]


class StepColumns(NamedTuple):
    """The columns of a row of the corpus table."""

    id: int
    lane: str
    corpus: str
    origin: str
    attempt: int
    seq: int
    kind: str
    outcome: str
    message: str | None
    at_us: int
    times: str | None
    data: str | bytes | None


def corpus_row_of(columns: StepColumns) -> CorpusRow:
    """Convert SQLite columns to a `CorpusRow`, without the calls."""
    return CorpusRow(
        lane=columns.lane,
        corpus=columns.corpus,
        origin=columns.origin,
        attempt=columns.attempt,
        seq=columns.seq,
        kind=CorpusKind(columns.kind),
        outcome=columns.outcome,
        message=columns.message or "",
        at=instant(columns.at_us),
        times_us=json.loads(columns.times) if columns.times else {},
        data=decode(columns.data),
    )


async def read_counts(connection: aiosqlite.Connection) -> dict[tuple[Phase, str], int]:
    """Count phase rows and ended corpus steps by (phase, outcome)."""
    counts: dict[tuple[Phase, str], int] = {}
    for number, outcome, count in await connection.execute_fetchall(READ["counts"]):
        counts[PHASE_OF[number], outcome] = count
    for kind, outcome, count in await connection.execute_fetchall(READ["corpus_counts"]):
        key = (STEP_PHASE[kind], outcome)
        counts[key] = counts.get(key, 0) + count
    return counts


def disk_full_text(counts: Mapping[tuple[Phase, str], int]) -> str:
    """Return the message about a full disk, with the number of stored phases; ``counts`` is from `read_counts`."""
    return f"the disk is full; {counted(sum(counts.values()), 'phase(|s) (is|are) stored')}"


def phase_outcome(row: JournalRow) -> tuple[Phase, str] | None:
    """Return (phase, outcome) if a row ends a phase, otherwise None."""
    if isinstance(row, JournaledPhase):
        return row.key.phase, row.outcome
    if isinstance(row, CorpusRow) and (phase := STEP_PHASE.get(row.kind)) is not None:
        return phase, row.outcome
    return None


async def read_spending(connection: aiosqlite.Connection) -> tuple[Decimal, int]:
    """Return the total cost of all calls in USD, and the number of billed calls whose cost is unknown."""
    rows = list(await connection.execute_fetchall(READ["spending"]))
    known = sum((Decimal(cost) * count for cost, _, count in rows if cost is not None), Decimal(0))
    return known, sum(count for cost, billed, count in rows if cost is None and billed)
