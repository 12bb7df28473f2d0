"""Read the outcome of every item in each job, such as its state and the rank of its first evidence.

Example::

    found = await item_outcomes(reader)
    found["jobs"][0]["losses"]["not_retrieved"]      # 41
    found["units"][7], found["jobs"][0]["states"][7]  # ("c1", "q8"), "incorrect"

The result is plain JSON, so that another process can compute it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from bench.journal import Reader
from bench.journal.records import ItemRecord
from bench.metrics.failure_reason import Loss, LossFacts, count_losses, loss_of
from bench.metrics.latency import attempt_us
from bench.model import Phase
from bench.plan.job_record import JobRecord, read_jobs
from bench.report.failures import loss_facts, loss_of_item, verdicts_by_item

Unit = tuple[str, str]
"""(corpus, item)"""
CUTS = (1, 2, 3, 5, 10, 20, 50)
"""values of k for which a page shows the share of items with evidence in the first k hits"""


@dataclass(frozen=True, slots=True)
class UnitOutcome:
    """The outcome of one item in one job."""

    state: str
    error: str | None
    loss: Loss | None
    rank: int | None
    """rank of the first hit with evidence; 0 if no hit has evidence; None if no evidence is known for the item"""
    value: float | None
    """value of the first metric of the job; None if the item has none"""
    search_us: int | None
    tokens: int | None
    """number of tokens of retrieved context in the prompt; None if unknown"""


class JobOutcomes(TypedDict):
    """The outcomes of one job: totals, and lists with one entry per item of the run."""

    job: str
    provider: str
    benchmark: str
    right: int
    losses: dict[str, int]
    context_tokens: float | None
    found_within: list[tuple[int, float]]
    states: list[str | None]
    errors: list[str | None]
    item_losses: list[str | None]
    ranks: list[int | None]
    values: list[float | None]
    search_us: list[int | None]
    tokens: list[int | None]


class RunOutcomes(TypedDict):
    """The outcomes of a run: its items as (corpus, item), the question types of the items, and the jobs."""

    units: list[Unit]
    types: list[str | None]
    jobs: list[JobOutcomes]


@dataclass(slots=True)
class _OutcomeBuffer:
    units: dict[Unit, UnitOutcome] = field(default_factory=dict)
    context_tokens: int = 0
    contexts: int = 0


async def item_outcomes(reader: Reader) -> RunOutcomes:
    """Return the outcomes of all items of a run.

    Each list of a job has one entry per item, in the order of ``units``.
    """
    records = read_jobs(reader.meta.extra)
    types: dict[Unit, str | None] = {}
    found = [await _job(reader, record, records, types) for record in records]
    units = sorted(types, key=lambda unit: (unit[0].encode(), unit[1].encode()))
    return {
        "units": units,
        "types": [types[unit] for unit in units],
        "jobs": [_job_json(record, job, units) for record, job in zip(records, found, strict=True)],
    }


async def _job(
    reader: Reader, record: JobRecord, records: Sequence[JobRecord], types: dict[Unit, str | None]
) -> _OutcomeBuffer:
    job, verdicts, suspects = _OutcomeBuffer(), await verdicts_by_item(reader, record, records), record.suspects
    headline = record.metrics[0].name if record.metrics else ""
    repeats: list[tuple[ItemRecord, Loss | None]] = []
    ranks: list[int | None] = []

    def settle() -> None:
        ended = [one for one, _ in repeats if one.state is not None]
        if ended:
            first = ended[0]
            error = first.outcome if first.outcome not in (None, "ok") else None
            loss = loss_of_item(repeats, record.epochs)
            search = first.phases.get(Phase.SEARCH)
            job.units[first.corpus, first.item] = UnitOutcome(
                state=str(first.state),
                error=error,
                loss=loss,
                rank=ranks[0],
                value=first.values.get(headline),
                search_us=attempt_us(search.times_us) if search is not None and search.ok else None,
                tokens=context_tokens(first),
            )
            types.setdefault((first.corpus, first.item), first.labels.get("question_type"))

    async for item in reader.items(record.chain):
        if repeats and (item.corpus, item.item) != (repeats[0][0].corpus, repeats[0][0].item):
            settle()
            repeats, ranks = [], []
        facts = loss_facts(
            item, verdicts.get((item.corpus, item.item), item.verdicts), gold_suspect=item.item in suspects
        )
        repeats.append((item, loss_of(facts)))
        ranks.append(first_rank(facts))
        tokens = context_tokens(item)
        job.context_tokens += tokens or 0
        job.contexts += tokens is not None
    settle()
    return job


def first_rank(facts: LossFacts) -> int | None:
    """Return the rank of the first hit with evidence.

    0 means that no hit has evidence. None means that no evidence is known for the item.
    """
    wanted = set(facts.evidence)
    if not wanted:
        return None
    return next((at for at, slot in enumerate(facts.returned, start=1) if wanted.intersection(slot)), 0)


def context_tokens(item: ItemRecord) -> int | None:
    """Return the number of tokens of retrieved context in the prompt of an answer; None if it is unknown."""
    answer = item.phases.get(Phase.ANSWER)
    tokens = answer.measured.get("context_tokens") if answer is not None and answer.ok else None
    return tokens if isinstance(tokens, int) else None


def _job_json(record: JobRecord, job: _OutcomeBuffer, units: Sequence[Unit]) -> JobOutcomes:
    found = [job.units.get(unit) for unit in units]
    ended = [one for one in found if one is not None]
    losses = count_losses(one.loss for one in ended)
    ranked = [one.rank for one in ended if one.rank is not None]
    counts = Counter(rank for rank in ranked if rank)
    return {
        "job": record.key,
        "provider": record.provider,
        "benchmark": record.benchmark,
        "right": len(ended) - sum(losses.values()),
        "losses": {str(kind): count for kind, count in losses.items()},
        "context_tokens": job.context_tokens / job.contexts if job.contexts else None,
        "found_within": [
            (cut, sum(count for rank, count in counts.items() if rank <= cut) / len(ranked))
            for cut in CUTS
            if ranked and cut <= record.k
        ],
        "states": [None if one is None else one.state for one in found],
        "errors": [None if one is None else one.error for one in found],
        "item_losses": [None if one is None or one.loss is None else str(one.loss.kind) for one in found],
        "ranks": [None if one is None else one.rank for one in found],
        "values": [None if one is None else one.value for one in found],
        "search_us": [None if one is None else one.search_us for one in found],
        "tokens": [None if one is None else one.tokens for one in found],
    }
