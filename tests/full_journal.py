"""Journals with all data of each item: question, hits, answer, verdicts, times and cost.

Example::

    items = [ItemData(item="q1", answer="Oslo", hits=["It was Oslo"])]
    folder = await write_run(tmp_path, "r1", [(record("bm25"), items)])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from bench.journal import Journal, JournaledPhase, JournalRow, Key, RunMeta, RunState
from bench.model import Call, Phase, State, Usage, Verdict
from bench.plan.job_record import JobRecord, dump_jobs

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RIGHT = Verdict(evaluator="exact-match", value=1.0, correct=True)
WRONG = Verdict(evaluator="exact-match", value=0.0, correct=False, reason="not the same text")
FAILED = frozenset({State.ERROR, State.NOT_READY, State.UNSUPPORTED})

Role = Literal["provider", "answering", "judge", "embedding"]


@dataclass(frozen=True, kw_only=True)
class ItemData:
    """One item of one job in one epoch."""

    item: str
    corpus: str = "c"
    epoch: int = 1
    state: State | None = State.CORRECT
    """None = the item was searched and answered but has not ended"""
    outcome: str = "ok"
    message: str = ""
    question: str = "Where?"
    expected: tuple[str, ...] = ("Oslo",)
    metadata: Mapping[str, object] = field(default_factory=dict)
    answer: str | None = "Oslo"
    hits: Sequence[str] = ("It was Oslo",)
    """contents of the hits"""
    retrieved: Sequence[Sequence[str]] | None = (("s1",),)
    beyond: Sequence[Sequence[str]] = ()
    context_hits: int = 99
    gold: tuple[str, ...] = ("s1",)
    answerable: bool = True
    not_ingested: tuple[str, ...] = ()
    reason: str = ""
    verdicts: tuple[Verdict, ...] = (RIGHT,)
    values: Mapping[str, float | None] = field(default_factory=lambda: {"accuracy": 1.0})
    labels: Mapping[str, str] = field(default_factory=lambda: {"question_type": "one"})
    corrected: Mapping[str, float] | None = None
    calls: Mapping[Phase, tuple[Call, ...]] = field(default_factory=dict)
    generation: int = 0
    provider_us: int = 700
    """provider time of the search"""


def call(role: Role, *, cost: str | None = None, tokens: int = 0, **more: object) -> Call:
    """Return one call of the call log."""
    usage = Usage(input_tokens=tokens, output_tokens=1, total_tokens=tokens + 1) if tokens else None
    plain = Call(
        endpoint=f"acme.{role}",
        role=role,
        attempt=1,
        status=200,
        outcome="ok",
        started_at=AT,
        queue_us=1,
        limiter_us=2,
        network_us=300,
        provider_us=700,
        usage=usage,
        cost_usd=cost,
    )
    return replace(plain, **more)  # type: ignore[arg-type]


def rows_of(record: JobRecord, one: ItemData) -> Iterator[JournaledPhase]:
    """Yield the rows that the engine writes for an item."""
    chain = record.chain

    def key(owner: str, phase: Phase) -> Key:
        return Key(owner=owner, phase=phase, corpus=one.corpus, unit=one.item, epoch=one.epoch)

    took = {"total": 1003, "queue": 1, "limiter": 2, "network": 300, "provider": 700}
    if one.outcome == "ok":
        retrieved = None if one.retrieved is None else [list(ids) for ids in one.retrieved]
        beyond = {"beyond": [list(ids) for ids in one.beyond]} if one.beyond else {}
        yield JournaledPhase(
            key=key(chain.lane, Phase.SEARCH),
            data={"retrieved": retrieved, "requested": 10, "returned": len(one.hits), "unmapped": 0, **beyond},
            payloads={"hits": [{"id": f"m{at}", "content": text, "score": 0.5} for at, text in enumerate(one.hits)]},
            times_us={**took, "provider": one.provider_us},
            calls=one.calls.get(Phase.SEARCH, ()),
        )
        if one.answer is not None:
            yield JournaledPhase(
                key=key(chain.answering, Phase.ANSWER),
                data={"answer": one.answer, "context_hits": one.context_hits, "prompt": "default"},
                measured={"model": "acme/m1-2026"},
                payloads={"prompt": [{"role": "user", "content": f"{one.question} Say so."}]},
                times_us=took,
                calls=one.calls.get(Phase.ANSWER, ()),
            )
    if one.state is None:
        return
    absent = {"not_ingested": list(one.not_ingested)} if one.not_ingested else {}
    corrected = {} if one.corrected is None else {"corrected": dict(one.corrected)}
    yield JournaledPhase(
        key=key(chain.job, Phase.EVALUATE),
        outcome=one.outcome,
        message=one.message,
        data={"gold": list(one.gold), "reason": one.reason, "answerable": one.answerable, **absent, **corrected},
        payloads={
            "item": {
                "question": one.question, "answers": list(one.expected), "evidence": {"sessions": list(one.gold)},
                "metadata": dict(one.metadata),
            }
        },
        times_us=took,
        state=one.state,
        labels=one.labels,
        values={} if one.state in FAILED else one.values,
        verdicts=() if one.state in FAILED else one.verdicts,
        calls=one.calls.get(Phase.EVALUATE, ()),
        generation=one.generation,
    )  # fmt: skip


async def write_run(
    workspace: Path,
    run_id: str,
    jobs: Sequence[tuple[JobRecord, Sequence[ItemData]]],
    *,
    state: RunState = RunState.COMPLETE,
    more: Sequence[JournalRow] = (),
    planned: int | None = None,
    extra: Mapping[str, object] | None = None,
    **meta: object,
) -> Path:
    """Write the journal of a run and return its folder; by default ``planned`` is the number of given items."""
    records = [
        replace(one, n_selected=len({one.item for one in items}) if planned is None else planned) for one, items in jobs
    ]
    folder = workspace / "checkpoints" / run_id
    plain = RunMeta(
        run_id=run_id,
        plan_digest="d" * 64,
        identity={},
        created_at=AT,
        extra={"jobs": dump_jobs(records), **(extra or {})},
    )
    async with Journal.create(folder, replace(plain, **meta)) as journal:  # type: ignore[arg-type]
        for made, (_, items) in zip(records, jobs, strict=True):
            for one in items:
                for row in rows_of(made, one):
                    await journal.wait_for_room()
                    journal.append(row)
        for other in more:
            journal.append(other)
        await journal.set_state(state)
    return folder
