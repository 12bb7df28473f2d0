"""Create the input of the metrics for one item, and the values that the journal stores for the item.

Example::

    row = row_of(lane, item, epoch, search, answer, verdicts, state=state, judging=calls)
    entry = failed_row(lane.plan, key, item, failure)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from bench.datasets import gold_ids
from bench.datasets.rows.row_values import scalar_text
from bench.engine.items.phase_results import AnswerResult, SearchResult, item_key, total_usd
from bench.engine.outcome import Failure
from bench.journal import JournaledPhase, Key
from bench.metrics.latency import UNTIMED_PART
from bench.model import Call, Item, Phase, Row, State, Verdict
from bench.plan import Lane

ADVERSARIAL = "adversarial"
LONGEST_LABEL = 100


def row_of(
    lane: Lane,
    item: Item,
    epoch: int,
    search: SearchResult,
    answer: AnswerResult | None,
    verdicts: Sequence[Verdict],
    *,
    state: State,
    judging: Sequence[Call],
) -> Row:
    """Return the input of the metrics for one item; ``judging`` has the judge calls for this item."""
    relevant, no_gold = gold(lane, item)
    return Row(
        benchmark=lane.benchmark.name,
        corpus=item.corpus,
        item_id=item.id,
        epoch=epoch,
        state=state,
        labels=labels(lane, item),
        answerable=not item.abstention,
        adversarial=item.question_type == ADVERSARIAL,
        abstained=any(verdict.abstained for verdict in verdicts),
        retrieved=search.retrieved,
        returned_scores=tuple([hit.score for hit in search.hits[: lane.benchmark.k]]),
        relevant=relevant,
        grades=grades_of(item, relevant) if item.evidence.grades else (),
        prediction=None if answer is None else answer.reply.text,
        references=item.answers,
        verdicts=tuple(verdicts),
        category=_text(item.metadata.get("category")),
        times_us=_times(search, answer),
        tokens={**_tokens(answer), **_judge_tokens(judging)},
        costs_usd={**_costs(search, answer), **_judge_costs(judging)},
        reason=search.reason or no_gold,
    )


def gold(lane: Lane, item: Item) -> tuple[tuple[str, ...], str]:
    """Return the ids of an item's evidence, and the reason why retrieval metrics do not apply; "" if they apply.

    The ids are those of sessions, turns or sentences, depending on the lane.
    """
    scored = lane.benchmark.config.abstention.score_retrieval
    ids = gold_ids(item, lane.level, score_retrieval=scored)
    return ids, "" if ids else "abstention" if item.abstention and not scored else "no_evidence"


def grades_of(item: Item, relevant: Sequence[str]) -> tuple[float, ...]:
    """Return the relevance grade of each id; 1.0 for an id without a grade."""
    return tuple(item.evidence.grades.get(name, 1.0) for name in relevant)


def labels(lane: Lane, item: Item) -> dict[str, str]:
    """Return the labels of an item, such as its question type, by name; reports group items by these labels."""
    found = {} if item.question_type is None else {"question_type": item.question_type}
    for name, types in lane.benchmark.config.groups.items():
        if item.question_type in types:
            found.setdefault("group", name)
    for dimension in lane.benchmark.dimensions:
        text = scalar_text(item.metadata.get(dimension))
        if text is not None:
            found.setdefault(dimension, text[:LONGEST_LABEL])
    return found


def failed_row(lane: Lane, key: Key, item: Item, failure: Failure) -> JournaledPhase:
    """Return the evaluate row of an item that failed in an earlier phase or in its evaluation."""
    states = {"not_ready": State.NOT_READY, "unsupported": State.UNSUPPORTED}
    state = states.get(failure.kind, State.ERROR)
    outcome = "ok" if state is State.UNSUPPORTED else failure.kind
    relevant, reason = gold(lane, item)
    return JournaledPhase(
        key=key,
        outcome=outcome,
        message=failure.message,
        data=item_data(relevant, reason, item),
        measured={"hint": failure.hint} if failure.hint else {},
        payloads={"item": item_payload(item)},
        state=state,
        labels=labels(lane, item),
    )


def unsupported_rows(lane: Lane) -> Iterator[JournaledPhase]:
    """Yield an ``unsupported`` row for each item of a lane whose provider cannot run the benchmark."""
    failure = Failure(kind="unsupported", message=lane.skipped or "")
    dataset = lane.benchmark.dataset
    for ref in dataset.items(lane.benchmark.selection):
        item = dataset.item(ref)
        for job in lane.jobs:
            for epoch in range(1, lane.benchmark.epochs + 1):
                key = item_key(job.key, Phase.EVALUATE, item, epoch)
                yield failed_row(lane, key, item, failure)


def item_payload(item: Item) -> dict[str, object]:
    """Return the question, answers and evidence of an item, as pages and exports show them."""
    return {
        "question": item.question,
        "answers": list(item.answers),
        "question_date": None if item.question_date is None else item.question_date.isoformat(),
        "evidence": {"sessions": list(item.evidence.sessions), "turns": list(item.evidence.turns)},
        "metadata": dict(item.metadata),
        "flags": list(item.flags),
    }


def item_data(relevant: Sequence[str], reason: str, item: Item, *, not_sent: Sequence[str] = ()) -> dict[str, object]:
    """Return the data of an item that reports and the items file show next to its metric values."""
    return {
        **({"not_ingested": list(not_sent)} if not_sent else {}),
        "gold": list(relevant),
        **({"grades": list(grades_of(item, relevant))} if item.evidence.grades else {}),
        "reason": reason,
        "answerable": not item.abstention,
        "adversarial": item.question_type == ADVERSARIAL,
    }


def _times(search: SearchResult, answer: AnswerResult | None) -> dict[str, int]:
    phases: dict[str, Mapping[str, int]] = {"search": search.times_us}
    if answer is not None:
        phases["answer"] = {UNTIMED_PART: 1} if answer.untimed else answer.times_us
    return {_spent_in(phase, part): spent for phase, parts in phases.items() for part, spent in parts.items()}


@cache
def _spent_in(phase: str, part: str) -> str:
    """Return the name under which a part of a phase's time is stored, such as ``search.network``."""
    return phase if part == "total" else f"{phase}.{part}"


def _tokens(answer: AnswerResult | None) -> dict[str, int | None]:
    if answer is None:
        return {}
    return {"context": answer.context_tokens, "answer_in": answer.tokens_in, "answer_out": answer.tokens_out}


def _costs(search: SearchResult, answer: AnswerResult | None) -> dict[str, str | None]:
    costs = {"search": search.cost_usd} if search.priced else {}
    return costs if answer is None else {**costs, "answer": answer.reply.cost_usd}


def _judge_tokens(calls: Sequence[Call]) -> dict[str, int | None]:
    """Return the total input tokens and output tokens of the judge's calls.

    Both are None if no call reported its usage. The map is empty if there was no call.
    """
    if not calls:
        return {}
    known = [call.usage for call in calls if call.usage is not None]
    return {
        "judge_in": sum(usage.input_tokens for usage in known) if known else None,
        "judge_out": sum(usage.output_tokens for usage in known) if known else None,
    }


def _judge_costs(calls: Sequence[Call]) -> dict[str, str | None]:
    if not calls:
        return {}
    return {"judge": total_usd(calls)}


def _text(value: object) -> str | None:
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
