"""Find the reason why each item was lost. Each lost item has exactly one reason.

`bench.metrics.failure_reason` decides the reason, from data that this module reads in the journal.

Example::

    found = await lost_items(reader, kinds=["not_retrieved"])
    found.jobs[0].counts                # {"not_retrieved": 41, "answer_wrong": 7}
    found.jobs[0].reasons[0].text       # the most common error
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import bench.errors as bench_errors
from bench.errors import CallError, UsageError
from bench.journal import JournaledPhase, Reader
from bench.journal.records import ItemRecord, cause_texts
from bench.journal.rows import OK
from bench.metrics.failure_reason import Loss, LossFacts, LossKind, count_losses, loss_of
from bench.metrics.fold_input import item_outcome
from bench.model import Phase, Verdict
from bench.plan.job_record import JobRecord, jobs_matching, read_jobs
from bench.report.exports.export import ITEM_PAYLOAD, payload
from bench.untyped_values import list_texts, whole_number

VerdictsByItem = Mapping[tuple[str, str], tuple[Verdict, ...]]
"""(corpus, item) -> the verdicts of all judges on this item, in all epochs"""


class LostItem(TypedDict):
    """One repeat of a lost item, as in the JSON document."""

    item_id: str
    corpus: str
    epoch: int
    question_type: str | None
    state: str
    loss: str
    partial_evidence: bool
    reason: str | None
    """message of the error, or reason why the item has no score; None if the answer is only wrong"""
    error: Mapping[str, str] | None
    """kind, message and perhaps hint of the error that ended the item; None if no error ended it"""
    question: str | None
    expected: object
    answer: object
    evidence: list[str]
    retrieved: list[list[str]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LossReason:
    """One cause, with the items that were lost for this reason."""

    loss: str
    error: str | None
    text: str
    hint: str
    """advice on how to fix the error; empty if there is none"""
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLosses:
    """The lost items of one job."""

    record: JobRecord
    counts: Mapping[LossKind, int]
    """kind of loss -> number of items, for all kinds; an item counts once, even if it has several repeats"""
    items: tuple[LostItem, ...]
    """the lost items of the requested kinds of loss; each lost repeat is an entry"""

    @property
    def reasons(self) -> list[LossReason]:
        """The distinct causes, each with the items that were lost for this cause; the most common cause is first."""
        causes = cause_texts((one["reason"] or "", one["corpus"], one["item_id"]) for one in self.items)
        groups: dict[tuple[str, str | None, str], list[str]] = {}
        hints: dict[tuple[str, str | None, str], str] = {}
        for item in self.items:
            error, reason = item["error"], item["reason"]
            if reason:
                key = (item["loss"], error["kind"] if error else None, causes[reason])
                groups.setdefault(key, []).append(item["item_id"])
                hints.setdefault(key, (error or {}).get("hint", ""))
        found = [
            LossReason(loss=key[0], error=key[1], text=key[2], hint=hints[key], items=tuple(names))
            for key, names in groups.items()
        ]
        return sorted(found, key=lambda one: -len(one.items))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLosses:
    """The lost items of a run."""

    run_id: str
    jobs: tuple[JobLosses, ...]


async def lost_items(
    reader: Reader,
    *,
    benchmark: str | None = None,
    provider: str | None = None,
    kinds: Sequence[str] | None = None,
) -> RunLosses:
    """Return the lost items of each job in a run, with the reason why each was lost.

    ``kinds`` restricts the items to these kinds of loss, or kinds of error such as ``timeout``.

    Raises:
        UsageError: a kind of loss, benchmark or provider is unknown.
    """
    wanted = _kinds(kinds)
    records = read_jobs(reader.meta.extra)
    chosen = jobs_matching(reader.meta.run_id, records, benchmark=benchmark, provider=provider)
    jobs = [await _job_losses(reader, record, records, wanted) for record in chosen]
    return RunLosses(run_id=reader.meta.run_id, jobs=tuple(jobs))


def _kinds(names: Sequence[str] | None) -> frozenset[str]:
    requested = [name for text in names or () for name in text.split(",") if name]
    known = [str(kind) for kind in LossKind]
    errors = {"timeout", *(one.kind for one in vars(bench_errors).values() if _is_call_error(one))}
    unknown = next((name for name in requested if name not in known and name not in errors), None)
    if unknown is not None:
        raise UsageError(
            f'"{unknown}" is not a reason why items are lost', hint=f"use {', '.join(known)}, or a kind of error"
        )
    return frozenset(requested or known)


def _is_call_error(one: object) -> bool:
    return isinstance(one, type) and issubclass(one, CallError)


async def _job_losses(
    reader: Reader, record: JobRecord, records: Sequence[JobRecord], wanted: frozenset[str]
) -> JobLosses:
    by_item = await verdicts_by_item(reader, record, records)
    suspects = record.suspects
    losses: list[Loss | None] = []
    items: list[LostItem] = []
    repeats: list[tuple[ItemRecord, Loss | None]] = []
    async for item in reader.items(record.chain):
        verdicts = by_item.get((item.corpus, item.item), item.verdicts)
        loss = loss_of(loss_facts(item, verdicts, gold_suspect=item.item in suspects))
        if repeats and (item.corpus, item.item) != (repeats[0][0].corpus, repeats[0][0].item):
            losses.append(loss_of_item(repeats, record.epochs))
            repeats = []
        repeats.append((item, loss))
        if loss is not None and not wanted.isdisjoint((str(loss.kind), item.outcome)):
            items.append(await _lost_item(reader, item, loss))
    losses.append(loss_of_item(repeats, record.epochs))
    return JobLosses(record=record, counts=count_losses(losses), items=tuple(items))


def loss_of_item(repeats: Sequence[tuple[ItemRecord, Loss | None]], epochs: int) -> Loss | None:
    """Return why an item was lost: the most common loss of its repeats.

    Repeats that ended in another state than the whole item are ignored. The result is None if the item is right or
    pending.
    """
    ended = item_outcome([(one.state, one.outcome or OK) for one, _ in repeats if one.state is not None], epochs)
    losses = [loss for one, loss in repeats if loss is not None and ended is not None and one.state == ended[0]]
    if not losses:
        return None
    kinds = count_losses(losses)  # in the order of the kinds, and of a tie the first is the maximum
    commonest = max(kinds, key=lambda kind: kinds[kind])
    return next(loss for loss in losses if loss.kind is commonest)


async def verdicts_by_item(reader: Reader, record: JobRecord, records: Sequence[JobRecord]) -> VerdictsByItem:
    """Return the verdicts of all judges on the answers of a job, in all epochs.

    If there are one judge and one epoch, the result is empty, because the job's items already contain the verdicts.
    """
    judges = judges_of(record, records)
    if len(judges) == 1 and record.epochs == 1:
        return {}
    found: dict[tuple[str, str], tuple[Verdict, ...]] = {}
    for judge in judges:
        async for item in reader.items(judge.chain):
            key = (item.corpus, item.item)
            found[key] = (*found.get(key, ()), *item.verdicts)
    return found


def judges_of(record: JobRecord, records: Sequence[JobRecord]) -> list[JobRecord]:
    """Return the jobs that judge the same answers as ``record``, including ``record`` itself."""
    return [one for one in records if one.answer_owner == record.answer_owner]


async def verdicts_on_item(
    reader: Reader, record: JobRecord, records: Sequence[JobRecord], item: str, *, corpus: str | None
) -> list[Verdict]:
    """Return the verdicts of all judges on one item, in all epochs."""
    judges = judges_of(record, records)
    found = [one for judge in judges for one in await reader.item(judge.chain, item, corpus=corpus)]
    return [verdict for one in found for verdict in one.verdicts]


def loss_facts(item: ItemRecord, verdicts: Sequence[Verdict], *, gold_suspect: bool) -> LossFacts:
    """Return the data of an item that decides why the item was lost."""
    search, answer = _successful_phase(item, Phase.SEARCH), _successful_phase(item, Phase.ANSWER)
    scored = item.phases.get(Phase.EVALUATE)
    evidence = _ids(scored, "gold")
    absent = set(_ids(scored, "not_ingested"))
    kept, beyond = _ids_by_hit(search, "retrieved"), _ids_by_hit(search, "beyond")
    return LossFacts(
        state=item.state,
        answerable=scored is None or scored.data.get("answerable") is not False,
        gold_suspect=gold_suspect,
        verdicts=verdicts,
        # a system without ids cannot say what it found
        evidence=() if search is not None and search.data.get("retrieved") is None else evidence,
        ingested=tuple(name for name in evidence if name not in absent) if absent else None,
        returned=(*kept, *beyond),
        kept=kept,
        in_context=None if answer is None else _context_ids(answer, (*kept, *beyond)),
    )


def _context_ids(answer: JournaledPhase, slots: Sequence[Sequence[str]]) -> list[str]:
    """Return the evidence ids of the hits that were in the prompt.

    The journal stores for each answer how many of the first hits were in the prompt (``context_hits``).
    """
    fitted = whole_number(answer.data.get("context_hits")) or 0
    return [name for slot in slots[:fitted] for name in slot]


def _successful_phase(item: ItemRecord, phase: Phase) -> JournaledPhase | None:
    entry = item.phases.get(phase)
    return entry if entry is not None and entry.ok else None


def _ids(entry: JournaledPhase | None, name: str) -> tuple[str, ...]:
    return () if entry is None else list_texts(entry.data.get(name))


def _ids_by_hit(entry: JournaledPhase | None, name: str) -> tuple[tuple[str, ...], ...]:
    found = None if entry is None else entry.data.get(name)
    return tuple(map(list_texts, found)) if isinstance(found, list) else ()


async def _lost_item(reader: Reader, item: ItemRecord, loss: Loss) -> LostItem:
    scored, answer = item.phases.get(Phase.EVALUATE), _successful_phase(item, Phase.ANSWER)
    shown = await payload(reader, scored, ITEM_PAYLOAD)
    about: Mapping[str, object] = shown if isinstance(shown, Mapping) else {}
    search = _successful_phase(item, Phase.SEARCH)
    unmapped = search is None or search.data.get("retrieved") is None
    unscored = dict.fromkeys(one.reason for one in item.verdicts if one.value is None and one.reason)
    reason = item.message or "; ".join(unscored)
    return {
        "item_id": item.item,
        "corpus": item.corpus,
        "epoch": item.epoch,
        "question_type": item.labels.get("question_type"),
        "state": str(item.state),
        "loss": str(loss.kind),
        "partial_evidence": loss.partial_evidence,
        "reason": reason or None,
        "error": None
        if item.outcome in (None, OK)
        else {"kind": item.outcome, "message": reason, **({"hint": item.hint} if item.hint else {})},
        "question": None if (question := about.get("question")) is None else str(question),
        "expected": about.get("answers"),
        "answer": answer.data.get("answer") if answer else None,
        "evidence": list(_ids(scored, "gold")),
        "retrieved": None if unmapped else [list(slot) for slot in _ids_by_hit(search, "retrieved")],
    }
