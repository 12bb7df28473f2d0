"""How search and answer results are written to the journal, and read back on resume.

Here too:

* From phase results to the one row that metrics read, and to the journal's evaluate row.
* What providers and models send back, without the secrets of the run, before anything is made of it.

Example::

    search  data      retrieved: [[ids at the evidence level], ...] or null, requested, returned, unmapped,
                      flags, reason, beyond (only where hits are not cut at k)
            measured  scores: [number or null, ...]
            payloads  hits: [{id, content, when, score, chunks, metadata}, ...]
    answer  data      answer, finish, context_hits, prompt, prompt_sha256
            measured  model, fingerprint, context_tokens, tokens_in, tokens_out, cost_usd, ignored; where there is any:
                      native_finish, reasoning_tokens, sent_tokens, flags
            payloads  prompt: [{role, content}, ...]; where reasoning was sent: raw, reasoning
    row = row_of(lane, item, epoch, found, said, verdicts, state=state, judging=calls)
    entry = failed_row(lane.plan, key, item, failure)

What two runs of one plan must agree on goes into ``data``, what is measured into ``measured``, large text into
``payloads``.

Hits are mapped to memories first, so retrieval counts as before; prompts, answers, verdicts and the journal all see
the redacted text, in this process and whenever the stored texts are used again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from decimal import Decimal
from functools import cache
from operator import attrgetter
from typing import cast

from bench.datasets import gold_ids
from bench.datasets.row import scalar_text
from bench.engine.outcome import Failure
from bench.events import redactor
from bench.journal import JournaledPhase, Key
from bench.journal.rows import OK
from bench.metrics.latency import UNTIMED_PART
from bench.model import Call, Completion, Hit, Item, Phase, Row, State, Verdict
from bench.models import cleaned, no_answer
from bench.models.answer_text import signs
from bench.models.dialect import Finish
from bench.models.reply import UNTIMED
from bench.plan import Lane
from bench.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of one search."""

    hits: tuple[Hit, ...]
    """all that may go into an answer, in the provider's order"""
    retrieved: tuple[tuple[str, ...], ...] | None
    """per hit, at most k, the ids it represents at the evidence level; None = no way back to ids"""
    requested: int
    returned: int
    unmapped: int = 0
    beyond: tuple[tuple[str, ...], ...] = ()
    """ids of hits after the k-th, of a provider whose hits are not cut"""
    flags: tuple[str, ...] = ()
    reason: str = ""
    """why retrieval metrics do not apply, or how a deletion went; empty = nothing to say"""
    cost_usd: str | None = None
    """decimal text; None = unknown"""
    priced: bool = False
    """someone bills for this search"""
    times_us: Mapping[str, int] = field(default_factory=dict)

    def timed(self, times_us: Mapping[str, int]) -> SearchResult:
        """Return a copy with timings."""
        return replace(self, times_us=times_us)

    def billed(self, calls: Sequence[Call]) -> SearchResult:
        """The same with what its calls to models cost, such as the vector of the question."""
        costs = [call.cost_usd for call in calls if call.role != "provider" and call.outcome == OK]
        if not costs:
            return self
        costs += [self.cost_usd] if self.priced else []
        known = [Decimal(cost) for cost in costs if cost is not None]
        return replace(self, priced=True, cost_usd=str(sum(known, Decimal(0))) if len(known) == len(costs) else None)

    @property
    def data(self) -> dict[str, object]:
        return {
            "retrieved": None if self.retrieved is None else [list(ids) for ids in self.retrieved],
            "requested": self.requested,
            "returned": self.returned,
            "unmapped": self.unmapped,
            "flags": list(self.flags),
            "reason": self.reason,
            **({"beyond": [list(ids) for ids in self.beyond]} if self.beyond else {}),
        }

    @property
    def measured(self) -> dict[str, object]:
        return {"scores": [hit.score for hit in self.hits], "cost_usd": self.cost_usd, "priced": self.priced}

    @property
    def payloads(self) -> dict[str, object]:
        return {"hits": [_shown(hit) for hit in self.hits]}

    @classmethod
    def of(cls, entry: JournaledPhase) -> SearchResult | None:
        """Read a stored search; None when its texts were dropped from the journal."""
        hits = entry.payloads.get("hits")
        if hits is None:
            return None
        data = entry.data
        retrieved = cast("Sequence[Sequence[str]] | None", data["retrieved"])
        return cls(
            hits=tuple(_hit(one) for one in cast("Sequence[Mapping[str, object]]", hits)),
            retrieved=None if retrieved is None else tuple(tuple(ids) for ids in retrieved),
            requested=cast("int", data["requested"]),
            returned=cast("int", data["returned"]),
            unmapped=cast("int", data["unmapped"]),
            beyond=tuple(tuple(ids) for ids in cast("Sequence[Sequence[str]]", data.get("beyond", ()))),
            flags=tuple(cast("Sequence[str]", data["flags"])),
            reason=cast("str", data["reason"]),
            times_us=entry.times_us,
            cost_usd=cast("str | None", entry.measured.get("cost_usd")),
            priced=bool(entry.measured.get("priced")),
        )


CUT, REFUSED, EMPTY = "cut", "refused", "empty"
"""flags of an answer by its finish: at the token limit, by a filter, without text although it ended by itself"""


def flags_of(said: Completion, item: Item, prompt: str) -> tuple[str, ...]:
    """Return what a report counts of an answer: how it ended, what its text looks like, what its endpoint reported."""
    ended = {"length": CUT, "refusal": REFUSED}.get(said.finish)
    own = ended or (EMPTY if not said.text.strip() and said.finish == "stop" else None)
    seen = signs(said.text, question=item.question, prompt=prompt, accepted=(*item.answers, *item.choices))
    return (*([] if own is None else [own]), *seen, *said.flags)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerResult:
    """The answer of a model, and its input."""

    text: str
    """without reasoning"""
    finish: str
    context_hits: int
    prompt: str
    """name of the prompt: default, or a question type"""
    prompt_sha256: str
    model: str
    """as the endpoint returned it"""
    fingerprint: str | None = None
    context_tokens: int = 0
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: str | None = None
    ignored: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    """see `flags_of`"""
    failure: Failure | None = None
    """why the reply is not an answer"""
    native_finish: str = ""
    raw: str | None = None
    """the text as it was sent, where it held reasoning; not read back"""
    reasoning: str = ""
    """what was sent as reasoning, apart from the text; not read back"""
    reasoning_tokens: int | None = None
    sent_tokens: int | None = None
    """our own estimate of the prompt"""
    messages: tuple[tuple[str, str], ...] = ()
    """role and content of what was sent; not read back"""
    saved_usd: str | None = None
    """see `bench.model.Completion.saved_usd`"""
    times_us: Mapping[str, int] = field(default_factory=dict)

    def timed(self, times_us: Mapping[str, int]) -> AnswerResult:
        """Return a copy with timings; a reply that no call of its own brought has none."""
        return replace(self, times_us={} if self.flags and self.untimed else times_us)

    @property
    def untimed(self) -> bool:
        """The time that it took is not that of a call."""
        return not UNTIMED.isdisjoint(self.flags)

    @property
    def data(self) -> dict[str, object]:
        return {
            "answer": self.text,
            "finish": self.finish,
            "context_hits": self.context_hits,
            "prompt": self.prompt,
            "prompt_sha256": self.prompt_sha256,
        }

    @property
    def measured(self) -> dict[str, object]:
        return {
            "model": self.model,
            "fingerprint": self.fingerprint,
            "context_tokens": self.context_tokens,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "cost_usd": self.cost_usd,
            "ignored": list(self.ignored),
            **({"native_finish": self.native_finish} if self.native_finish not in ("", self.finish) else {}),
            **({"reasoning_tokens": self.reasoning_tokens} if self.reasoning_tokens is not None else {}),
            **({"sent_tokens": self.sent_tokens} if self.sent_tokens is not None else {}),
            **({"saved_usd": self.saved_usd} if self.saved_usd is not None else {}),
            **({"flags": list(self.flags)} if self.flags else {}),
        }

    @property
    def payloads(self) -> dict[str, object]:
        return {
            "prompt": [{"role": role, "content": content} for role, content in self.messages],
            **({"raw": self.raw} if self.raw is not None else {}),
            **({"reasoning": self.reasoning} if self.reasoning else {}),
        }

    @classmethod
    def of(cls, entry: JournaledPhase) -> AnswerResult:
        """Read a stored answer; one of an earlier version may still hold its reasoning, or be none."""
        data, measured = entry.data, entry.measured
        said = cleaned(Completion(text=cast("str", data["answer"]), model="", finish=cast("Finish", data["finish"])))
        error = no_answer(said)
        return cls(
            text=said.text,
            finish=said.finish,
            failure=None if error is None else Failure.of(error),
            context_hits=cast("int", data["context_hits"]),
            prompt=cast("str", data["prompt"]),
            prompt_sha256=cast("str", data["prompt_sha256"]),
            model=cast("str", measured.get("model", "")),
            fingerprint=cast("str | None", measured.get("fingerprint")),
            context_tokens=cast("int", measured.get("context_tokens", 0)),
            tokens_in=cast("int | None", measured.get("tokens_in")),
            tokens_out=cast("int | None", measured.get("tokens_out")),
            cost_usd=cast("str | None", measured.get("cost_usd")),
            ignored=tuple(cast("Sequence[str]", measured.get("ignored", ()))),
            flags=tuple(cast("Sequence[str]", measured.get("flags", ()))),
            times_us=entry.times_us,
        )


def _shown(hit: Hit) -> dict[str, object]:
    shown: dict[str, object] = {"id": hit.id, "content": hit.content}
    if hit.score is not None:
        shown["score"] = hit.score
    if hit.when is not None:
        shown["when"] = hit.when.isoformat()
    if hit.chunks:
        shown["chunks"] = list(hit.chunks)
    if hit.metadata:
        shown["metadata"] = dict(hit.metadata)
    return shown


def _hit(shown: Mapping[str, object]) -> Hit:
    when = shown.get("when")
    return Hit(
        id=cast("str", shown["id"]),
        content=cast("str", shown["content"]),
        score=cast("float | None", shown.get("score")),
        when=datetime.fromisoformat(cast("str", when)) if when else None,
        chunks=tuple(cast("Sequence[str]", shown.get("chunks", ()))),
        metadata=cast("Mapping[str, object]", shown.get("metadata", {})),
    )


ADVERSARIAL = "adversarial"
LONGEST_LABEL = 100


def row_of(
    lane: Lane,
    item: Item,
    epoch: int,
    found: SearchResult,
    said: AnswerResult | None,
    verdicts: Sequence[Verdict],
    *,
    state: State,
    judging: Sequence[Call],
) -> Row:
    """Everything a metric may know of one item; ``judging`` = the calls of its judge."""
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
        retrieved=found.retrieved,
        returned_scores=tuple([hit.score for hit in found.hits[: lane.benchmark.k]]),
        relevant=relevant,
        prediction=None if said is None else said.text,
        references=item.answers,
        verdicts=tuple(verdicts),
        category=_text(item.metadata.get("category")),
        times_us=_times(found, said),
        tokens={**_tokens(said), **_judge_tokens(judging)},
        costs_usd={**_costs(found, said), **_judge_costs(judging)},
        reason=found.reason or no_gold,
    )


def gold(lane: Lane, item: Item) -> tuple[tuple[str, ...], str]:
    """The evidence at the lane's level, or nothing and why retrieval metrics do not apply."""
    scored = lane.benchmark.config.abstention.score_retrieval
    ids = gold_ids(item, lane.level, score_retrieval=scored)
    return ids, "" if ids else "abstention" if item.abstention and not scored else "no_evidence"


def labels(lane: Lane, item: Item) -> dict[str, str]:
    """The dimensions by which reports break down: question type, group, and those that metrics ask for."""
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
    """The evaluate row of an item that ended before anything could be judged."""
    states = {"not_ready": State.NOT_READY, "unsupported": State.UNSUPPORTED}
    state = states.get(failure.kind, State.ERROR)
    outcome = "ok" if state is State.UNSUPPORTED else failure.kind
    relevant, reason = gold(lane, item)
    return JournaledPhase(
        key=key,
        outcome=outcome,
        message=failure.message,
        data=facts(relevant, reason, item),
        payloads={"item": shown(item)},
        state=state,
        labels=labels(lane, item),
    )


def unsupported_rows(lane: Lane) -> Iterator[JournaledPhase]:
    """The evaluate rows of a lane whose provider lacks what the benchmark needs."""
    failure = Failure(kind="unsupported", message=lane.skipped or "")
    dataset = lane.benchmark.dataset
    for ref in dataset.items(lane.benchmark.selection):
        item = dataset.item(ref)
        for job in lane.jobs:
            for epoch in range(1, lane.benchmark.epochs + 1):
                key = Key(owner=job.key, phase=Phase.EVALUATE, corpus=item.corpus, unit=item.id, epoch=epoch)
                yield failed_row(lane, key, item, failure)


def shown(item: Item) -> dict[str, object]:
    """The item as pages and exports show it, kept once for all jobs."""
    return {
        "question": item.question,
        "answers": list(item.answers),
        "question_date": None if item.question_date is None else item.question_date.isoformat(),
        "evidence": {"sessions": list(item.evidence.sessions), "turns": list(item.evidence.turns)},
        "metadata": dict(item.metadata),
        "flags": list(item.flags),
    }


def facts(relevant: Sequence[str], reason: str, item: Item, *, not_sent: Sequence[str] = ()) -> dict[str, object]:
    """What the report and the items file need of an item beside its values."""
    return {
        **({"not_ingested": list(not_sent)} if not_sent else {}),
        "gold": list(relevant),
        "reason": reason,
        "answerable": not item.abstention,
        "adversarial": item.question_type == ADVERSARIAL,
    }


def _times(found: SearchResult, said: AnswerResult | None) -> dict[str, int]:
    phases: dict[str, Mapping[str, int]] = {"search": found.times_us}
    if said is not None:
        phases["answer"] = {UNTIMED_PART: 1} if said.flags and said.untimed else said.times_us
    return {_spent_in(phase, part): spent for phase, parts in phases.items() for part, spent in parts.items()}


@cache
def _spent_in(phase: str, part: str) -> str:
    """How metrics name a part of a phase; there are ten names."""
    return phase if part == "total" else f"{phase}.{part}"


def _tokens(said: AnswerResult | None) -> dict[str, int | None]:
    if said is None:
        return {}
    return {"context": said.context_tokens, "answer_in": said.tokens_in, "answer_out": said.tokens_out}


def _costs(found: SearchResult, said: AnswerResult | None) -> dict[str, str | None]:
    costs = {"search": found.cost_usd} if found.priced else {}
    return costs if said is None else {**costs, "answer": said.cost_usd}


def _judge_tokens(calls: Sequence[Call]) -> dict[str, int | None]:
    """What the judge's calls used; a judge that was not called used nothing."""
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
    costs = [call.cost_usd for call in calls if call.outcome == "ok"]
    total = None if None in costs else str(sum((Decimal(cost) for cost in costs if cost is not None), Decimal(0)))
    return {"judge": total}


def _text(value: object) -> str | None:
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None


REDACTED_HITS = "hits_redacted"
"""flag of an item"""
TEXTS = ("text", "raw", "reasoning", "model", "fingerprint", "native_finish")
"""what an endpoint writes of a completion"""
_texts_of = attrgetter(*TEXTS)


def hits_without_secrets(hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
    """Redact every known secret; the same tuple where there is none."""
    if not redactor.knows_any:
        return hits
    texts = [f"{hit.id}\n{hit.content}\n{hit.chunks or ''}\n{hit.metadata or ''}" for hit in hits]
    if not redactor.holds_secret("\n".join(texts)):
        return hits
    return tuple(
        replace(
            hit,
            id=redactor.hide(hit.id),
            content=redactor.hide(hit.content),
            chunks=tuple(map(redactor.hide, hit.chunks)),
            metadata=cast("Mapping[str, object]", redactor.hide_in(hit.metadata)),
        )
        for hit in hits
    )


def completion_without_secrets(said: Completion) -> Completion:
    """Redact every known secret in a model's texts and in what its endpoint reports about itself."""
    if not redactor.knows_any:
        return said
    if not redactor.holds_secret("\n".join(map(str, _texts_of(said)))):
        return said
    texts = {name: text for name in TEXTS if isinstance(text := getattr(said, name), str)}
    return replace(said, **{name: redactor.hide(text) for name, text in texts.items()})  # type: ignore[arg-type]
