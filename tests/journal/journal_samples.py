"""Rows that the journal's tests write."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.journal import Chain, CorpusKind, CorpusRow, JournaledPhase, Key, Reader, RunMeta
from bench.journal.records import ItemRecord
from bench.model import Call, Phase, State, Usage, Verdict

LANE, ANSWERING, JOB = "lane", "lane + model", "lane + model + judge"
CHAIN = Chain(lane=LANE, answering=ANSWERING, job=JOB)
START = datetime(2026, 3, 1, 12, 0, 0, 250, tzinfo=UTC)


def meta(run_id: str = "run", **changes: object) -> RunMeta:
    """A run of 100 positions."""
    values: dict[str, object] = {
        "run_id": run_id,
        "plan_digest": "d1",
        "identity": {"seed": 1},
        "total": 100,
        **changes,
    }
    return RunMeta(**values)  # type: ignore[arg-type]


def call(**changes: object) -> Call:
    """One call that cost something."""
    values: dict[str, object] = {
        "endpoint": "p.search",
        "role": "provider",
        "attempt": 1,
        "status": 200,
        "outcome": "ok",
        "started_at": START,
        "network_us": 1500,
        "usage": Usage(input_tokens=10, output_tokens=5, total_tokens=15),
        "cost_usd": "0.0000015",
        **changes,
    }
    return Call(**values)  # type: ignore[arg-type]


def search(unit: str, *, corpus: str = "c1", epoch: int = 1, **changes: object) -> JournaledPhase:
    """A finished search."""
    values: dict[str, object] = {
        "key": Key(owner=LANE, phase=Phase.SEARCH, corpus=corpus, unit=unit, epoch=epoch),
        "data": {"retrieved": [[unit]], "returned": 1},
        "payloads": {"hits": [{"id": unit, "content": "text " * 400}]},
        "times_us": {"search": 1500},
        "started_at": START,
        **changes,
    }
    return JournaledPhase(**values)  # type: ignore[arg-type]


def scored(
    unit: str, value: float | None = 1.0, *, corpus: str = "c1", epoch: int = 1, **changes: object
) -> JournaledPhase:
    """An evaluated item."""
    values: dict[str, object] = {
        "key": Key(owner=JOB, phase=Phase.EVALUATE, corpus=corpus, unit=unit, epoch=epoch),
        "state": State.CORRECT if value == 1.0 else State.INCORRECT,
        "labels": {"question_type": "temporal"},
        "values": {"recall@5": value, "mrr": None},
        "verdicts": (Verdict(evaluator="exact", value=value, correct=value == 1.0, raw="the judge's words"),),
        "started_at": START + timedelta(seconds=1),
        **changes,
    }
    return JournaledPhase(**values)  # type: ignore[arg-type]


def failed(unit: str, kind: str = "timeout", *, corpus: str = "c1", **changes: object) -> JournaledPhase:
    """An item that ended as an error."""
    values: dict[str, object] = {
        "key": Key(owner=JOB, phase=Phase.EVALUATE, corpus=corpus, unit=unit),
        "outcome": kind,
        "message": "the provider did not answer",
        "state": State.ERROR,
        "labels": {"question_type": "temporal"},
        "started_at": START,
        **changes,
    }
    return JournaledPhase(**values)  # type: ignore[arg-type]


def step(kind: CorpusKind, *, corpus: str = "c1", attempt: int = 1, **changes: object) -> CorpusRow:
    """One step of a corpus."""
    values: dict[str, object] = {
        "lane": LANE,
        "corpus": corpus,
        "attempt": attempt,
        "kind": kind,
        "at": START,
        **changes,
    }
    return CorpusRow(**values)  # type: ignore[arg-type]


def units(count: int) -> Iterator[str]:
    """Item ids."""
    return (f"q{number:05d}" for number in range(count))


async def items_of(path: Path) -> list[ItemRecord]:
    """Return every item of the job."""
    async with Reader.open(path) as reader:
        return [record async for record in reader.items(CHAIN)]


def states_of(records: list[ItemRecord]) -> dict[str, State | None]:
    """Return the state of each item."""
    return {record.item: record.state for record in records}
