"""What both the writer (on resume) and readers ask a journal, over any open connection."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple, cast

import aiosqlite

from bench.journal.assembly import VerdictRow
from bench.journal.codec import PHASE_OF, PHASES, clean, decode, decompress, from_json, instant, to_json
from bench.journal.holder import Holder
from bench.journal.rows import CorpusKind, CorpusRow, Entry, Finished, JournalRow, Key, Resume, RunMeta
from bench.journal.sql import blocks
from bench.model import Phase, Verdict

READ = blocks("read")

STEP_PHASE = {
    CorpusKind.INGESTED: Phase.INGEST,
    CorpusKind.READY: Phase.INDEX,
    CorpusKind.FAILED: Phase.INDEX,
}
"""which steps of a corpus count as an ended phase; FAILED is counted under index whatever failed"""


class Held(NamedTuple):
    """The holder row of a journal."""

    holder: Holder
    since_us: int
    heartbeat_us: int


async def read_meta(connection: aiosqlite.Connection) -> dict[str, object]:
    """Load every meta value by key."""
    return {key: json.loads(value) for key, value in await connection.execute_fetchall(READ["meta"])}


def run_meta(values: Mapping[str, object]) -> RunMeta:
    """Rebuild what ``create`` was given, with later amendments."""
    known = {name: values[name] for name in RunMeta.__dataclass_fields__ if name in values}
    ranges = values["ranges"]
    created_us = values["created_us"]
    assert isinstance(ranges, list)
    assert isinstance(created_us, int)
    known["ranges"] = tuple((start, end) for start, end in ranges)
    known["created_at"] = instant(created_us)
    return RunMeta(**known)  # type: ignore[arg-type]


async def read_resumes(connection: aiosqlite.Connection) -> tuple[Resume, ...]:
    """Load the later processes of this run, oldest first."""
    rows = await connection.execute_fetchall(READ["resumes"])
    return tuple(Resume(at=instant(at_us), data=json.loads(data)) for at_us, data in rows)


async def read_holder(connection: aiosqlite.Connection) -> Held | None:
    """Load who holds the journal, dead or alive."""
    for pid, host, boot, started, token, since_us, heartbeat_us in await connection.execute_fetchall(READ["holder"]):
        holder = Holder(pid=pid, host=host, boot=boot, started=started, token=token)
        return Held(holder, since_us, heartbeat_us)
    return None


async def read_finished(connection: aiosqlite.Connection, owner: str, phase: Phase) -> Finished:
    """Load the units with an ok row; unit ids come back as SQLite holds them."""
    rows = await connection.execute_fetchall(READ["finished"], (clean(owner), PHASES[phase]))
    first, others = next(iter(rows))
    later: dict[int, list[str]] = {}
    for unit, epoch in json.loads(others):
        later.setdefault(epoch, []).append(unit)
    return Finished({1: frozenset(json.loads(first)), **{epoch: frozenset(found) for epoch, found in later.items()}})


async def read_latest(connection: aiosqlite.Connection, keys: Iterable[Key], *, payloads: bool) -> dict[Key, Entry]:
    """Load the latest attempt of each key that has one."""
    asked = list(keys)
    question = to_json([[clean(k.owner), PHASES[k.phase], clean(k.corpus), clean(k.unit), k.epoch] for k in asked])
    found: dict[Key, Entry] = {}
    for place, attempt, outcome, *rest, _ in await connection.execute_fetchall(READ["load"], (question,)):
        entry = entry_of(asked[place], attempt, outcome, EntryColumns(*rest))
        found[asked[place]] = await _with_payloads(connection, entry) if payloads and entry.payloads else entry
    return found


class EntryColumns(NamedTuple):
    """An entry row as SQLite gives it, without its id."""

    started_us: int
    generation: int
    message: str | None
    times: str | None
    data: str | bytes | None
    measured: str | bytes | None
    payloads: str | None


def entry_of(key: Key, attempt: int, outcome: str, columns: EntryColumns) -> Entry:
    """Rebuild an entry without its calls; payloads are references."""
    return Entry(
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


async def _with_payloads(connection: aiosqlite.Connection, entry: Entry) -> Entry:
    values = {name: await read_payload(connection, str(ref)) for name, ref in entry.payloads.items()}
    return replace(entry, payloads=values)


async def read_payload(connection: aiosqlite.Connection, reference: str) -> object:
    """Give the JSON value behind a reference; None when it was dropped."""
    if reference.startswith("="):
        return json.loads(reference[1:])
    for (body,) in await connection.execute_fetchall(READ["payload"], (bytes.fromhex(reference[1:]),)):
        return None if body is None else json.loads(decompress(body))
    return None


async def read_said(connection: aiosqlite.Connection, key: Key) -> list[Verdict]:
    """Load the verdicts of every attempt of an evaluate phase with their texts, the newest attempt first."""
    place = (clean(key.owner), PHASES[key.phase], clean(key.corpus), clean(key.unit), key.epoch)
    found = [VerdictRow._make(row).verdict() for row in await connection.execute_fetchall(READ["said"], place)]
    return [
        replace(one, raw=cast("str | None", await read_payload(connection, one.raw))) if one.raw else one
        for one in found
    ]


async def read_corpus(connection: aiosqlite.Connection, lane: str, corpus: str) -> list[CorpusRow]:
    """Load what this journal's own process(es) did with a corpus, in the order written."""
    rows = await connection.execute_fetchall(READ["corpus"], (clean(lane), clean(corpus)))
    return [corpus_row_of(StepColumns(*row)) for row in rows]


class StepColumns(NamedTuple):
    """A corpus row as SQLite gives it."""

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
    """Rebuild a corpus row without its calls."""
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
    """Count item phases and ended corpus steps by (phase, outcome), every attempt."""
    counts: dict[tuple[Phase, str], int] = {}
    for number, outcome, count in await connection.execute_fetchall(READ["counts"]):
        counts[PHASE_OF[number], outcome] = count
    for kind, outcome, count in await connection.execute_fetchall(READ["corpus_counts"]):
        key = (STEP_PHASE[kind], outcome)
        counts[key] = counts.get(key, 0) + count
    return counts


def ended(row: JournalRow) -> tuple[Phase, str] | None:
    """The phase that a row ends, and how; None for a row that ends none."""
    if isinstance(row, Entry):
        return row.key.phase, row.outcome
    if isinstance(row, CorpusRow) and (phase := STEP_PHASE.get(row.kind)) is not None:
        return phase, row.outcome
    return None


async def read_spending(connection: aiosqlite.Connection) -> tuple[Decimal, int]:
    """Add up the ledger in USD, and count the successful calls whose cost is not known."""
    rows = list(await connection.execute_fetchall(READ["spending"]))
    known = sum((Decimal(cost) * count for cost, _, count in rows if cost is not None), Decimal(0))
    return known, sum(count for cost, ok, count in rows if cost is None and ok)
