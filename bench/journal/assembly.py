"""Put one item's record together from the rows of several tables."""

from __future__ import annotations

import json
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bench.journal.codec import PHASE_OF, from_json, instant, unpack, usage_of
from bench.journal.records import Alike, ItemRecord, Values, spent_by_role
from bench.journal.rows import Entry
from bench.model import Call, Phase, State, Verdict

Unit = tuple[str, str, int]
"""corpus, item, epoch"""


class PhaseRow(NamedTuple):
    """A row of the slim table."""

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
    """How an item ended in one scoring generation."""

    corpus: str
    item: str
    epoch: int
    entry: int
    state: str
    outcome: str
    labels: str
    names: str
    packed: bytes
    generation: int

    @property
    def values(self) -> dict[str, float | None]:
        names: list[str] = from_json(self.names)
        return {name: None if value != value else value for name, value in zip(names, unpack(self.packed), strict=True)}


class CallRow(NamedTuple):
    """A row of the ledger."""

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
        """Give the ledger's value."""
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
    """A row of the verdicts."""

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
        """Give the evaluator's outcome; ``raw`` is a reference."""
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
    """What the rows of some items refer to, by row id or unit."""

    entries: Mapping[int, Entry]
    scores: Mapping[Unit, ScoreRow]
    verdicts: Mapping[int, Sequence[Verdict]]
    calls: Mapping[int, Sequence[Call]]


def record_of(rows: Sequence[PhaseRow], parts: Parts) -> ItemRecord:
    """Build the record of one item from its phase rows, which are in the order phase, attempt."""
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
        labels=from_json(score.labels) if score else {},
        values=score.values if score else {},
        verdicts=tuple(parts.verdicts.get(score.entry, ())) if score else (),
        spent=spent_by_role(call for row in rows for call in parts.calls.get(row.entry, ())),
    )


def _belongs(row: PhaseRow, parts: Parts, score: ScoreRow | None) -> bool:
    """Leave out scorings of older generations: they are no attempts of the one that is shown."""
    return row.phase is not Phase.EVALUATE or score is None or parts.entries[row.entry].generation == score.generation


def columns_of(
    rows: Sequence[tuple[object, ...]], names: Sequence[str], labels: Mapping[int, Mapping[str, str]]
) -> Values:
    """Turn score rows with one metric set into columns."""
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


def alike_of(
    rows: Sequence[tuple[Any, ...]], shapes: Mapping[int, Sequence[str]], labels: Mapping[int, Mapping[str, str]]
) -> list[Alike]:
    """Sort score rows by state, outcome and labels; inside each kind they keep their order."""
    kinds: defaultdict[tuple[str, str, int, int], list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        kinds[row[:4]].append(row)
    return [
        Alike(
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
