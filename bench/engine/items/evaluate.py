"""Evaluate one item for one job: run the evaluators, and compute the state and the metric values.

Example::

    done = await run.attempt(lambda: evaluate_item(lane, job, ready, item, 1, search, answer, memo), call_owner)
    journal.append(done.value.journal_row(key, done))

If an item has no answer, evaluators that need an answer do not run. The other evaluators then decide the state. If no
evaluator is left, the state is ``measured``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from decimal import Decimal

from bench.datasets.memories import contained_ids, evidence_sentences
from bench.engine.items.deletion import MISSING
from bench.engine.items.item_row import item_data, item_payload, row_of
from bench.engine.items.phase_results import AnswerResult, SearchResult, completion_without_secrets, item_key
from bench.engine.open_lane import OpenLane, ReadyCorpus
from bench.engine.run_context import Attempt
from bench.errors import EvaluatorFailed
from bench.evaluators import Evaluator, Judge, needs_answer, state_of, threshold_of
from bench.evaluators.deterministic import NO_CHOICE
from bench.evaluators.graded import texts_by_call
from bench.evaluators.routed import evaluator_for
from bench.fast_dataclass import dataclass
from bench.http import recording
from bench.journal import JournaledPhase, Key
from bench.metrics import values
from bench.model import Call, Completion, Item, Phase, Prompt, Row, ScoredItem, State, Verdict
from bench.models import strip_reasoning
from bench.models.reply import CACHED, UNTIMED
from bench.plan import Job
from bench.plan.model_settings import judge_tokens

JUDGE_PROMPTS = "judge_prompts"
"""name of the payload with the prompts that were sent to judges for an item"""
SentPrompt = tuple[str, Prompt]
"""name of an evaluator, and the prompt that it sent to the judge"""


NEVER = datetime(1970, 1, 1, tzinfo=UTC)
Memo = list[tuple[str, Prompt, Completion]]
"""judge, prompt and reply of each judge call for one item and epoch, so that no prompt is paid twice"""


StoredReplies = Mapping[tuple[str, str], Completion]
"""(evaluator, digest of its prompt) -> earlier reply of the judge on the same answer"""


async def evaluate_item(
    lane: OpenLane,
    job: Job,
    ready: ReadyCorpus,
    item: Item,
    epoch: int,
    search: SearchResult,
    answer: AnswerResult | None,
    memo: Memo,
    *,
    known_replies: StoredReplies | None = None,
) -> ItemEvaluation:
    """Run the evaluators and compute the metrics for one item.

    ``memo`` has the judge calls for this item so far. ``known_replies`` has earlier replies of the judge. They are not
    requested again. If there are none, a rescore reads the replies from the journal. A rescore also evaluates against a
    corrected gold answer, if the benchmark has one.
    """
    benchmark, judge = lane.plan.benchmark, lane.models.judge(job.judge)
    configured: Sequence[Evaluator] = lane.models.evaluators(lane.plan)
    if benchmark.config.evaluation.methods:
        configured = [evaluator_for(one, item) for one in configured]
    evaluators = [one for one in configured if answer is not None or not needs_answer(one)]
    memoized_judge = None
    if judge is not None:
        limit = judge_tokens(benchmark, lane.run.plan.request)
        known = known_replies or await _earlier_replies(lane, job, item, epoch, evaluators)
        memoized_judge = MemoizedJudge(judge=judge, memo=memo, known_replies=known, max_tokens=limit, epoch=epoch)
    corrected_text = benchmark.corrected_answer(item.id) if lane.run.scope.is_rescore and answer is not None else None
    n_memo = len(memo)
    verdicts: list[Verdict] = []
    corrected: dict[str, float | None] | None = None
    with recording() as calls:
        if search.reason != MISSING:
            verdicts = await _verdicts(evaluators, ready, item, search, answer, memoized_judge)
            if corrected_text is not None:
                other_item = replace(item, answers=(corrected_text,))
                other_judge = None if memoized_judge is None else replace(memoized_judge, known_replies={}, prompts=[])
                others = await _verdicts(evaluators, ready, other_item, search, answer, other_judge)
                state = _state(evaluators, others, other_item, search)
                other_row = row_of(lane.plan, other_item, epoch, search, answer, others, state=state, judging=())
                corrected = values(benchmark.scoring.metrics, other_row) if others else None
    replies = [reply for _, _, reply in memo[n_memo:] if reply.flags]
    spent = (*calls, *[_replayed(reply) for reply in replies if CACHED in reply.flags])
    state = _state(evaluators, verdicts, item, search)
    row = row_of(lane.plan, item, epoch, search, answer, verdicts, state=state, judging=spent)
    return ItemEvaluation(
        item=item,
        row=row,
        corrected=corrected,
        values=values(benchmark.scoring.metrics, row),
        flags=_flags(replies, verdicts),
        saved_usd=_saved(replies),
        judge_prompts=() if memoized_judge is None else memoized_judge.prompts,
        not_sent=_not_sent(lane, ready, item, row),
    )


async def _verdicts(
    evaluators: Sequence[Evaluator],
    ready: ReadyCorpus,
    item: Item,
    search: SearchResult,
    answer: AnswerResult | None,
    judge: MemoizedJudge | None,
) -> list[Verdict]:
    """Return the verdict of each evaluator.

    If an evaluator needs an answer and the answer has no text, a verdict with a value becomes incorrect.

    Raises:
        EvaluatorFailed: an evaluator returned something other than a verdict.
    """
    scored, text = scored_item(ready, item, search.listed), "" if answer is None else answer.reply.text
    verdicts: list[Verdict] = []
    for evaluator in evaluators:
        own_judge = None if judge is None else judge.for_evaluator(evaluator)
        verdict: object = await evaluator.evaluate(scored, text, search.hits, own_judge)
        if not isinstance(verdict, Verdict):
            raise EvaluatorFailed(f"{evaluator.name} returned {type(verdict).__name__}, not a Verdict")
        decides = verdict.value is not None or verdict.correct is not None
        if decides and not text.strip() and needs_answer(evaluator):
            verdict = replace(verdict, value=0.0, correct=False, abstained=False)
        verdicts.append(verdict)
    return verdicts


def scored_item(ready: ReadyCorpus, item: Item, listed: tuple[str, ...] | None = None) -> ScoredItem:
    """Return the part of an item that evaluators may see.

    ``listed`` has all stored texts that the provider lists. If it is given, the evidence texts are all turns of the
    evidence sessions instead of only the evidence turns.
    """
    texts, turns = ready.content.turn_texts, item.evidence.turns
    if listed is not None:
        sessions = [one for one in ready.content.corpus.sessions if one.id in item.evidence.sessions]
        turns = tuple(turn.id for session in sessions for turn in session.turns)
    return ScoredItem(
        id=item.id,
        question=item.question,
        answers=item.answers,
        question_type=item.question_type,
        question_date=item.question_date,
        abstention=item.abstention,
        choices=item.choices,
        choice_answer=item.choice_answer,
        rubric=item.rubric,
        deletion=item.deletion,
        stored=listed,
        evidence_texts=tuple(texts[turn] for turn in turns if turn in texts),
        metadata=item.metadata,
        refusals=ready.lane.plan.benchmark.config.abstention.phrases,
    )


def _state(evaluators: Sequence[Evaluator], verdicts: Sequence[Verdict], item: Item, search: SearchResult) -> State:
    """Return the state of an item, from the verdict of the first evaluator that ran.

    If no evaluator ran, the state is ``measured``. If a deletion was not tested, the state is ``unscored``.
    """
    if search.reason == MISSING:
        return State.UNSCORED
    if not verdicts:
        return State.MEASURED
    return state_of(verdicts[0], answerable=not item.abstention, threshold=threshold_of(evaluators[0]))


def _not_sent(lane: OpenLane, ready: ReadyCorpus, item: Item, row: Row) -> tuple[str, ...]:
    """Return the ids of the evidence that is in no memory of the corpus, so that no search can find it."""
    anonymized = ready.content.anonymized
    if lane.plan.level != "text":
        return anonymized.missing(row.relevant, lane.plan.level)
    sentences = evidence_sentences(item, ready.content.turn_texts)
    sent = {name for memory in anonymized.memories for name in contained_ids(sentences, memory.content)}
    return tuple(name for name in row.relevant if name not in sent)


def _replayed(reply: Completion) -> Call:
    """Return a call without cost for a cached reply, so that the tokens of the reply count.

    The call log has no call for a cached reply.
    """
    return Call(
        endpoint="", role="judge", attempt=0, status=None, outcome="ok", started_at=NEVER,
        model=reply.model, usage=reply.usage, cost_usd="0",
    )  # fmt: skip


def _flags(replies: Sequence[Completion], verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    flags = [flag for reply in replies for flag in reply.flags]
    if NO_CHOICE in [one.reason for one in verdicts]:
        flags.append(NO_CHOICE)
    return tuple(dict.fromkeys(flags))


def _saved(replies: Sequence[Completion]) -> str | None:
    saved = [Decimal(reply.saved_usd) for reply in replies if reply.saved_usd is not None]
    return str(sum(saved, Decimal(0))) if saved else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemEvaluation:
    """The result of the evaluate phase of one item in one job."""

    item: Item
    row: Row
    values: dict[str, float | None]
    not_sent: tuple[str, ...] = ()
    """ids of the evidence that is in no memory of the corpus"""
    corrected: dict[str, float | None] | None = None
    """metric values with the corrected gold answer; None if the item has no correction"""
    flags: tuple[str, ...] = ()
    """flags from the judges' endpoints, see `bench.model.Completion.flags`"""
    saved_usd: str | None = None
    """sum of `bench.model.Completion.saved_usd` over the judge's replies; None if no reply has it"""
    judge_prompts: Sequence[SentPrompt] = ()
    """the prompts that were sent to the judges"""

    def journal_row(self, key: Key, done: Attempt[ItemEvaluation], generation: int = 0) -> JournaledPhase:
        """Return the journal row of this evaluation, with the times and calls of ``done``."""
        payloads: dict[str, object] = {"item": item_payload(self.item)}
        if self.judge_prompts:
            payloads[JUDGE_PROMPTS] = [
                {"evaluator": name, "role": message.role, "content": message.content}
                for name, prompt in self.judge_prompts
                for message in prompt.messages
            ]
        return JournaledPhase(
            key=key,
            data=item_data(self.row.relevant, self.row.reason, self.item, not_sent=self.not_sent)
            | ({} if self.corrected is None else {"corrected": self.corrected}),
            payloads=payloads,
            measured={"tokens": dict(self.row.tokens), "costs_usd": dict(self.row.costs_usd)}
            | ({"flags": list(self.flags)} if self.flags else {})
            | ({"saved_usd": self.saved_usd} if self.saved_usd is not None else {}),
            times_us=done.times_us if UNTIMED.isdisjoint(self.flags) else {},
            calls=done.calls,
            state=self.row.state,
            labels=self.row.labels,
            values=self.values,
            verdicts=self.row.verdicts,
            generation=generation,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoizedJudge:
    """A judge that answers a repeated prompt for the same item and epoch from memory, without another call."""

    judge: Judge
    memo: Memo
    known_replies: StoredReplies = field(default_factory=dict)
    evaluator: str = ""
    """name of the evaluator that calls the judge"""
    max_tokens: int | None = None
    """token limit of a reply; None = the limit that the evaluator sets"""
    epoch: int = 1
    prompts: list[SentPrompt] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.judge.name

    def for_evaluator(self, evaluator: Evaluator) -> MemoizedJudge:
        """Return a copy for use by one evaluator; the copy and the original share the replies."""
        return MemoizedJudge(
            judge=self.judge,
            memo=self.memo,
            known_replies=self.known_replies,
            evaluator=evaluator.name,
            max_tokens=self.max_tokens,
            epoch=self.epoch,
            prompts=self.prompts,
        )

    async def ask(self, prompt: Prompt) -> Completion:
        limit = prompt.max_tokens if self.max_tokens is None else self.max_tokens
        if (limit, self.epoch) != (prompt.max_tokens, prompt.epoch):
            prompt = replace(prompt, max_tokens=limit, epoch=self.epoch)
        self.prompts.append((self.evaluator, prompt))
        name = self.judge.name
        reply = next((known for judge, sent, known in self.memo if judge == name and sent == prompt), None)
        if reply is None:
            reply = self.known_replies.get((self.evaluator, prompt.template_sha256))
            reply = completion_without_secrets(await self.judge.ask(prompt)) if reply is None else reply
            self.memo.append((name, prompt, reply))
        return reply


async def _earlier_replies(
    lane: OpenLane, job: Job, item: Item, epoch: int, evaluators: Sequence[Evaluator]
) -> StoredReplies:
    """Return the judge's earlier replies on the item's answer in a rescore; in any other run, return an empty mapping.

    If the same prompt was sent twice, the newest reply is returned. If two evaluators have the same name, their replies
    are left out, because it is unknown to which evaluator they belong.
    """
    if not lane.run.scope.is_rescore:
        return {}
    named = Counter(one.name for one in evaluators)
    key = item_key(job.key, Phase.EVALUATE, item, epoch)
    return stored_replies(one for one in await lane.run.journal.verdict_history(key) if named[one.evaluator] == 1)


def stored_replies(verdicts: Iterable[Verdict]) -> StoredReplies:
    """Return the judge's replies that led to the verdicts; if a prompt occurs several times, return its first reply."""
    found: dict[tuple[str, str], Completion] = {}
    for one in verdicts:
        if one.judged and one.value is not None:
            for call, text in texts_by_call(one).items():
                reply = Completion(
                    text=text, model=one.model or "", fingerprint=one.fingerprint, ignored=one.ignored, attempts=0
                )
                found.setdefault((one.evaluator, call), strip_reasoning(reply))
    return found
