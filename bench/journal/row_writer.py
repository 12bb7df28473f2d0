"""Write a batch of journal rows in one transaction.

This runs in SQLite's thread, so that encoding and compression do not block the event loop. Texts that occur in many
rows (owners, messages, labels, metric names) are stored once and referred to by number::

    rows = RowWriter(last_id)
    await run_in_thread(connection, lambda raw: rows.write(raw, [entry, corpus_row]))    # then: raw.commit()
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

from bench.events import redact, redactor
from bench.journal.codec import (
    INLINE_BYTES,
    PHASES,
    clean,
    compress,
    encode,
    micros,
    pack,
    reference,
    to_json,
    usage_column,
)
from bench.journal.rows import CorpusRow, Event, JournaledPhase, ProbeRow
from bench.journal.sql import blocks
from bench.model import Call

Column = str | bytes | int | float | None
Columns = tuple[Column, ...]
Part = TypeVar("Part")

REMEMBERED = 4096
LONGEST_MESSAGE = 20_000

_WRITE = blocks("write")


class Statement:
    """A statement of ``write.sql`` with its parameters.

    It is queued like a row, and changes the state of the journal.
    """

    __slots__ = ("columns", "name")

    def __init__(self, name: str, *columns: Column) -> None:
        self.name = name
        self.columns = columns


Writable = JournaledPhase | CorpusRow | ProbeRow | Event | Statement


class RowWriter:
    """Writer of batches. It remembers the last row id and which repeated texts are already in the file."""

    def __init__(self, last_id: int) -> None:
        self._last_id = last_id
        self._seen: dict[str, set[str]] = {"own": set(), "message": set(), "labels": set(), "shape": set()}
        self._references: dict[tuple[int, str], str] = {}

    def write(self, connection: sqlite3.Connection, rows: Sequence[Writable]) -> None:
        """Write a batch of rows; the caller commits the transaction."""
        entries = self._number([row for row in rows if isinstance(row, JournaledPhase)])
        steps = self._number([row for row in rows if isinstance(row, CorpusRow)])
        self._write_names(connection, entries, steps)
        self._write_entries(connection, entries)
        _write(connection, "corpus_row", steps, _corpus_rows)
        _write(connection, "call", _rows_with_calls(entries) + _rows_with_calls(steps), _calls)
        _write(connection, "probe", [row for row in rows if isinstance(row, ProbeRow)], _probes)
        _write(connection, "event", [row for row in rows if isinstance(row, Event)], _events)
        for row in rows:
            if isinstance(row, Statement):
                connection.execute(_WRITE[row.name], row.columns)

    def _number(self, rows: Sequence[Part]) -> list[tuple[int, Part]]:
        first = self._last_id + 1
        self._last_id += len(rows)
        return list(enumerate(rows, first))

    def _write_names(
        self,
        connection: sqlite3.Connection,
        entries: Sequence[tuple[int, JournaledPhase]],
        steps: Sequence[tuple[int, CorpusRow]],
    ) -> None:
        owners = {row.key.owner for _, row in entries} | {row.lane for _, row in steps}
        messages = {_message(row.message) for _, row in entries if row.message}
        messages |= {_message(row.message) for _, row in steps if row.message}
        scored = [row for _, row in entries if row.state is not None]
        self._intern(connection, "own", {clean(owner) for owner in owners})
        self._intern(connection, "message", messages)
        self._intern(connection, "labels", {_labels(row) for row in scored})
        self._intern(connection, "shape", {_shape(row) for row in scored})

    def _intern(self, connection: sqlite3.Connection, name: str, texts: Iterable[str]) -> None:
        seen = self._seen[name]
        if new := [text for text in texts if text not in seen]:
            connection.executemany(_WRITE[name], ((text,) for text in new))
            if len(seen) + len(new) > REMEMBERED:
                seen.clear()
            seen.update(new)

    def _write_entries(self, connection: sqlite3.Connection, entries: Sequence[tuple[int, JournaledPhase]]) -> None:
        judged = [pair for pair in entries if pair[1].verdicts]
        _write(
            connection, "payload", [pair for pair in entries if pair[1].payloads or pair[1].verdicts], self._payloads
        )
        _write(connection, "entry", entries, self._entries)
        _write(connection, "phase", entries, _phases)
        _write(connection, "verdict", judged, self._verdicts)
        _write(connection, "score", [pair for pair in entries if pair[1].state is not None], _scores)
        self._references.clear()

    def _payloads(self, entries: Sequence[tuple[int, JournaledPhase]]) -> Iterator[Columns]:
        for row_id, entry in entries:
            texts = dict(entry.payloads)
            texts.update({f"raw {n}": verdict.raw for n, verdict in enumerate(entry.verdicts) if verdict.raw})
            for name, value in texts.items():
                raw = to_json(value).encode("ascii")
                text = self._references[row_id, name] = reference(raw)
                if len(raw) > INLINE_BYTES:
                    yield bytes.fromhex(text[1:]), len(raw), compress(raw)

    def _entries(self, entries: Sequence[tuple[int, JournaledPhase]]) -> Iterator[Columns]:
        for row_id, entry in entries:
            references = {name: self._references[row_id, name] for name in entry.payloads}
            yield (
                row_id,
                micros(entry.started_at),
                entry.generation,
                _message(entry.message) or None,
                to_json(entry.times_us) if entry.times_us else None,
                encode(entry.data),
                encode(entry.measured),
                to_json(references) if references else None,
            )

    def _verdicts(self, entries: Sequence[tuple[int, JournaledPhase]]) -> Iterator[Columns]:
        for row_id, entry in entries:
            for n, verdict in enumerate(entry.verdicts):
                yield (
                    row_id,
                    n,
                    clean(verdict.evaluator),
                    verdict.value,
                    verdict.correct,
                    clean(verdict.reason),
                    verdict.judged,
                    verdict.abstained,
                    verdict.faithfulness,
                    verdict.model,
                    verdict.fingerprint,
                    verdict.prompt_name,
                    verdict.prompt_sha256,
                    self._references.get((row_id, f"raw {n}")),
                    to_json(verdict.ignored) if verdict.ignored else None,
                )


def _write(
    connection: sqlite3.Connection,
    name: str,
    parts: Sequence[Part],
    columns: Callable[[Sequence[Part]], Iterator[Columns]],
) -> None:
    if parts:
        connection.executemany(_WRITE[name], columns(parts))


def _message(text: str) -> str:
    return clean(redact(text[: LONGEST_MESSAGE * 2])[:LONGEST_MESSAGE]) if text else ""


def _labels(entry: JournaledPhase) -> str:
    return _labels_text(tuple(sorted(entry.labels.items())))


def _shape(entry: JournaledPhase) -> str:
    return _shape_text(tuple(sorted(entry.values)))


@lru_cache(REMEMBERED)
def _labels_text(labels: tuple[tuple[str, str], ...]) -> str:
    return to_json(dict(labels))


@lru_cache(REMEMBERED)
def _shape_text(names: tuple[str, ...]) -> str:
    return to_json(names)


def _phases(entries: Sequence[tuple[int, JournaledPhase]]) -> Iterator[Columns]:
    for row_id, entry in entries:
        key = entry.key
        owner, corpus, unit = clean(key.owner), clean(key.corpus), clean(key.unit)
        yield owner, PHASES[key.phase], corpus, unit, key.epoch, entry.attempt, entry.outcome, row_id


def _scores(entries: Sequence[tuple[int, JournaledPhase]]) -> Iterator[Columns]:
    for row_id, entry in entries:
        key = entry.key
        yield (
            clean(key.owner),
            clean(key.corpus),
            clean(key.unit),
            key.epoch,
            entry.generation,
            entry.state,
            entry.outcome,
            _labels(entry),
            _shape(entry),
            pack([entry.values[name] for name in sorted(entry.values)]),
            row_id,
        )


def _rows_with_calls(
    rows: Sequence[tuple[int, JournaledPhase]] | Sequence[tuple[int, CorpusRow]],
) -> list[tuple[int, tuple[Call, ...]]]:
    return [(row_id, row.calls) for row_id, row in rows if row.calls]


def _calls(call_rows: Sequence[tuple[int, tuple[Call, ...]]]) -> Iterator[Columns]:
    for row_id, calls in call_rows:
        for n, call in enumerate(calls):
            yield (
                row_id,
                n,
                call.endpoint,
                call.role,
                call.attempt,
                call.status,
                call.outcome,
                micros(call.started_at),
                call.queue_us,
                call.limiter_us,
                call.network_us,
                call.provider_us,
                call.request_bytes,
                call.response_bytes,
                call.model,
                usage_column(call.usage),
                call.cost_usd,
            )


def _corpus_rows(steps: Sequence[tuple[int, CorpusRow]]) -> Iterator[Columns]:
    for row_id, row in steps:
        yield (
            row_id,
            clean(row.lane),
            clean(row.corpus),
            row.attempt,
            row.kind,
            row.outcome,
            _message(row.message) or None,
            micros(row.at),
            to_json(row.times_us) if row.times_us else None,
            encode(row.data),
            row.origin,
        )


def _probes(rows: Sequence[ProbeRow]) -> Iterator[Columns]:
    for row in rows:
        lane, corpus = clean(row.lane), clean(row.corpus)
        yield lane, corpus, row.attempt, row.kind, row.passed, micros(row.at), encode(row.data)


def _events(rows: Sequence[Event]) -> Iterator[Columns]:
    for row in rows:
        yield row.kind, clean(row.scope), _message(row.message), micros(row.at), encode(redactor.hide_in(row.data))
