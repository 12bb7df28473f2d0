"""The evaluate phase of one item of one job: run every evaluator, then set the state and the metric values.

Also in this module:

* Before the first item: calibrate the run's judges with probes whose right verdict is known.

Example::

    done = await run.attempt(lambda: evaluate(lane, job, ready, item, 1, found, said, memo), call_owner)
    journal.append(done.value.entry(key, done))
    await calibrate_judges(run, models)       # one event per judge and judge prompt, kind ``judge_calibration``

Without an answer, evaluators that need one do not run. The item then has the state from the other evaluators, or
``measured`` if there are none.

The calibration events are stored in the journal: ``bench describe`` shows them, and ``bench compare`` reads the judge
noise from them. A judge and prompt with an event are not calibrated again. A judge that cannot be called gives an
event, but does not stop the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from datetime import UTC, datetime
from decimal import Decimal

from bench.datasets.memories import contained_ids, evidence_sentences
from bench.engine.items.item_row import item_data, item_payload, row_of
from bench.engine.items.phase_results import AnswerResult, SearchResult, completion_without_secrets
from bench.engine.items.search import MISSING
from bench.engine.models import OpenModels
from bench.engine.open_lane import OpenLane, ReadyCorpus
from bench.engine.run_context import Attempt, CallOwner, RunContext
from bench.errors import EvaluatorFailed
from bench.evaluators import Evaluator, Judge, needs_answer, state_of, threshold_of
from bench.evaluators.calibration import WARN_ABOVE, Calibration, calibrate
from bench.evaluators.deterministic import NO_CHOICE
from bench.evaluators.graded import texts_by_call
from bench.evaluators.judged import JudgeEvaluator
from bench.evaluators.routed import distinct_evaluators, evaluator_for
from bench.http import recording
from bench.journal import Event, JournaledPhase, Key, Reader
from bench.metrics import values
from bench.model import Call, Completion, Hit, Item, Phase, Prompt, Row, ScoredItem, State, Verdict
from bench.models import strip_reasoning
from bench.models.reply import CACHED, UNTIMED
from bench.plan import NONE, Job, Lane
from bench.plan.model_settings import judge_tokens
from bench.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemEvaluation:
    """The result of one item in one job."""

    item: Item
    row: Row
    values: dict[str, float | None]
    not_sent: tuple[str, ...] = ()
    """evidence that no memory of the corpus holds"""
    corrected: dict[str, float | None] | None = None
    """metric values against the corrected answer of an overlay"""
    flags: tuple[str, ...] = ()
    """flags from the judges' endpoints, see `bench.model.Completion.flags`"""
    saved_usd: str | None = None
    """USD, summed over the judges; see `bench.model.Completion.saved_usd`"""
    judge_prompts: Sequence[SentPrompt] = ()
    """the prompts that were sent to the judges"""

    def entry(self, key: Key, done: Attempt[ItemEvaluation], generation: int = 0) -> JournaledPhase:
        """Return the journal row, with the judge's calls."""
        return JournaledPhase(
            key=key,
            data=item_data(self.row.relevant, self.row.reason, self.item, not_sent=self.not_sent)
            | ({} if self.corrected is None else {"corrected": self.corrected}),
            payloads={"item": item_payload(self.item)}
            if not self.judge_prompts
            else {
                "item": item_payload(self.item),
                JUDGE_PROMPTS: [
                    {"evaluator": name, "role": message.role, "content": message.content}
                    for name, prompt in self.judge_prompts
                    for message in prompt.messages
                ],
            },
            measured={"tokens": dict(self.row.tokens), "costs_usd": dict(self.row.costs_usd)}
            | ({"flags": list(self.flags)} if self.flags else {})
            | ({"saved_usd": self.saved_usd} if self.saved_usd is not None else {}),
            times_us=done.times_us if not self.flags or UNTIMED.isdisjoint(self.flags) else {},
            calls=done.calls,
            state=self.row.state,
            labels=self.row.labels,
            values=self.values,
            verdicts=self.row.verdicts,
            generation=generation,
        )


JUDGE_PROMPTS = "judge_prompts"
"""name of the payload with the prompts that were sent to judges for an item"""
SentPrompt = tuple[str, Prompt]
"""name of an evaluator, and its prompt"""


NEVER = datetime(1970, 1, 1, tzinfo=UTC)
Memo = list[tuple[str, Prompt, Completion]]
"""judge replies for one item and epoch, so that the same prompt is not paid twice"""


StoredReplies = Mapping[tuple[str, str], Completion]
"""(evaluator, digest of its prompt) -> earlier reply of the judge on the same answer"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoizedJudge:
    """A judge that is called only once per prompt, item and epoch, in all jobs and scorings."""

    judge: Judge
    memo: Memo
    stored: StoredReplies = field(default_factory=dict)
    evaluator: str = ""
    """the evaluator that calls the judge"""
    max_tokens: int | None = None
    """token limit of a reply, instead of the evaluator's"""
    epoch: int = 1
    prompts: list[SentPrompt] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.judge.name

    def for_evaluator(self, evaluator: Evaluator) -> MemoizedJudge:
        """Return a copy for one evaluator."""
        return MemoizedJudge(
            judge=self.judge,
            memo=self.memo,
            stored=self.stored,
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
        known = next((said for judge, asked, said in self.memo if judge == self.name and asked == prompt), None)
        if known is None:
            kept = self.stored.get((self.evaluator, prompt.template_sha256))
            known = completion_without_secrets(await self.judge.ask(prompt)) if kept is None else kept
            self.memo.append((self.name, prompt, known))
        return known


async def evaluate(
    lane: OpenLane,
    job: Job,
    ready: ReadyCorpus,
    item: Item,
    epoch: int,
    found: SearchResult,
    said: AnswerResult | None,
    memo: Memo,
    *,
    kept: StoredReplies | None = None,
) -> ItemEvaluation:
    """Run all evaluators and metrics, in a rescore also for the corrected answer; ``kept``: the judge's old replies."""
    judge = lane.models.judge(job.judge)
    better = lane.plan.benchmark.corrected_answer(item.id) if lane.run.scope.is_rescore and said is not None else None
    again = None if better is None else replace(item, answers=(better,))
    mine: Sequence[Evaluator] = lane.models.evaluators(lane.plan)
    if lane.plan.benchmark.config.evaluation.methods:
        mine = [evaluator_for(one, item) for one in mine]
    evaluators = [one for one in mine if said is not None or not needs_answer(one)]
    stored = kept or ({} if judge is None else await _stored(lane, job, item, epoch, evaluators))
    limit, earlier = judge_tokens(lane.plan.benchmark, lane.run.plan.request), len(memo)
    once = None
    if judge is not None:
        once = MemoizedJudge(judge=judge, memo=memo, stored=stored, max_tokens=limit, epoch=epoch, prompts=[])
    verdicts: list[Verdict] = []
    other: list[Verdict] = []
    with recording() as calls:
        try:
            if found.reason != MISSING:
                scored, text = scored_item(ready, item, found.stored), "" if said is None else said.text
                verdicts = [await _verdict(one, scored, text, found.hits, once) for one in evaluators]
                if again is not None:
                    scored = scored_item(ready, again, found.stored)
                    anew = None if once is None else replace(once, stored={}, prompts=[])
                    other = [await _verdict(one, scored, text, found.hits, anew) for one in evaluators]
        finally:
            spent = tuple(calls)
    replies = [reply for _, _, reply in memo[earlier:] if reply.flags] if len(memo) > earlier else []
    if replies:
        spent = (*spent, *_replayed(replies))
    state = _state(evaluators, verdicts, item, found)
    row = row_of(lane.plan, item, epoch, found, said, verdicts, state=state, judging=spent)
    metrics = lane.plan.benchmark.scoring.metrics
    corrected = None
    if again is not None and other:
        state = _state(evaluators, other, again, found)
        corrected = values(metrics, row_of(lane.plan, again, epoch, found, said, other, state=state, judging=()))
    return ItemEvaluation(
        item=item,
        row=row,
        corrected=corrected,
        values=values(metrics, row),
        flags=_flags(replies, verdicts),
        saved_usd=_saved(replies) if replies else None,
        judge_prompts=() if once is None else once.prompts,
        not_sent=_not_sent(lane, ready, item, row),
    )


def _not_sent(lane: OpenLane, ready: ReadyCorpus, item: Item, row: Row) -> tuple[str, ...]:
    """Return the evidence that no memory of the corpus holds."""
    anonymized = ready.content.anonymized
    if lane.plan.level != "text":
        return anonymized.missing(row.relevant, lane.plan.level)
    sentences = evidence_sentences(item, ready.content.turn_texts)
    sent = {name for memory in anonymized.memories for name in contained_ids(sentences, memory.content)}
    return tuple(name for name in row.relevant if name not in sent)


def _replayed(replies: Sequence[Completion]) -> list[Call]:
    """Return the usage of cached replies as calls without cost, because the call log has no row for a cached reply."""
    return [
        Call(
            endpoint="", role="judge", attempt=0, status=None, outcome="ok", started_at=NEVER,
            model=reply.model, usage=reply.usage, cost_usd="0",
        )
        for reply in replies
        if CACHED in reply.flags
    ]  # fmt: skip


def _flags(replies: Sequence[Completion], verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    unread = [NO_CHOICE] if any(one.reason == NO_CHOICE for one in verdicts) else []
    return tuple(dict.fromkeys([*(flag for reply in replies for flag in reply.flags), *unread]))


def _saved(replies: Sequence[Completion]) -> str | None:
    saved = [Decimal(reply.saved_usd) for reply in replies if reply.saved_usd is not None]
    return str(sum(saved, Decimal(0))) if saved else None


async def _verdict(
    evaluator: Evaluator, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: MemoizedJudge | None
) -> Verdict:
    """Return the verdict of one evaluator; raise EvaluatorFailed when it returns something else."""
    asked = None if judge is None else judge.for_evaluator(evaluator)
    verdict: object = await evaluator.evaluate(item, answer, hits, asked)
    if not isinstance(verdict, Verdict):
        raise EvaluatorFailed(f"{evaluator.name} returned {type(verdict).__name__}, not a Verdict")
    return verdict if answer.strip() or not needs_answer(evaluator) else _without_text(verdict)


def _without_text(verdict: Verdict) -> Verdict:
    """Return the verdict on an answer without text, which is always incorrect."""
    if verdict.value is None and verdict.correct is None:
        return verdict
    return replace(verdict, value=0.0, correct=False, abstained=False)


async def _stored(lane: OpenLane, job: Job, item: Item, epoch: int, evaluators: Sequence[Evaluator]) -> StoredReplies:
    """Return earlier replies of this judge on this answer; for equal prompts, the newest reply.

    Evaluators that share a name are left out, because their replies cannot be distinguished; they call the judge again.
    """
    if not lane.run.scope.is_rescore:
        return {}
    named = Counter(one.name for one in evaluators)
    key = Key(owner=job.key, phase=Phase.EVALUATE, corpus=item.corpus, unit=item.id, epoch=epoch)
    return stored_replies(one for one in await lane.run.journal.verdict_history(key) if named[one.evaluator] == 1)


def stored_replies(verdicts: Iterable[Verdict]) -> StoredReplies:
    """Return the judge's replies behind verdicts; the first reply per call is used."""
    found: dict[tuple[str, str], Completion] = {}
    for one in verdicts:
        if one.judged and one.value is not None:
            for call, text in texts_by_call(one).items():
                said = Completion(
                    text=text, model=one.model or "", fingerprint=one.fingerprint, ignored=one.ignored, attempts=0
                )
                found.setdefault((one.evaluator, call), strip_reasoning(said))
    return found


def scored_item(ready: ReadyCorpus, item: Item, stored: tuple[str, ...] | None = None) -> ScoredItem:
    """Return the part of an item that evaluators may see.

    ``stored`` has the texts that the provider lists. If it is given, the evidence texts are all turns of the evidence
    sessions, not only the evidence turns.
    """
    texts, turns = ready.content.turn_texts, item.evidence.turns
    if stored is not None:
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
        stored=stored,
        evidence_texts=tuple(texts[turn] for turn in turns if turn in texts),
        metadata=item.metadata,
        refusals=ready.lane.plan.benchmark.config.abstention.phrases,
    )


def _state(evaluators: Sequence[Evaluator], verdicts: Sequence[Verdict], item: Item, found: SearchResult) -> State:
    """Return the state from the verdict of the benchmark's first evaluator that could run."""
    if found.reason == MISSING:
        return State.UNSCORED
    if not verdicts:
        return State.MEASURED
    return state_of(verdicts[0], answerable=not item.abstention, threshold=threshold_of(evaluators[0]))


KIND = "judge_calibration"
FAILED = "judge_calibration_failed"
WARNING = "judge_warning"


async def calibrate_judges(run: RunContext, models: OpenModels) -> None:
    """Calibrate each judge with the prompts of each benchmark; warn about judges that accept wrong answers."""
    known = await _known(run)
    for lane, job, evaluator in _judged(run, models):
        if run.stopping.requested:
            break
        prompts = lane.benchmark.prompts.judges
        if {(job.judge, prompt.sha256) for prompt in prompts.all} <= known.keys():
            continue
        plain = models.unbatched_judge(job.judge)
        assert plain is not None
        judge = MemoizedJudge(judge=plain, memo=[], max_tokens=judge_tokens(lane.benchmark, run.plan.request))
        done = await run.attempt_and_journal(
            lambda: calibrate(judge, prompts, evaluator=evaluator),  # noqa: B023  awaited here
            CallOwner(job.key),
        )
        if done.failure is not None:
            run.journal.append(Event(kind=FAILED, scope=job.key, message=f"judge calibration: {done.failure.message}"))
        for found in done.value or ():
            known[job.judge, found.prompt_sha256] = found.fpr.value
            run.journal.append(Event(kind=KIND, data=_data(job.judge, found, done.calls)))
    for lane, job, _ in _judged(run, models):
        _warn(run, lane, job, known)
    await run.journal.flush()


def _judged(run: RunContext, models: OpenModels) -> Iterator[tuple[Lane, Job, JudgeEvaluator]]:
    """Yield the jobs with a judge that decides whether answers are right."""
    for lane in run.plan.running:
        opened = distinct_evaluators(models.evaluators(lane))
        evaluator = next((one for one in opened if isinstance(one, JudgeEvaluator)), None)
        for job in lane.jobs if evaluator is not None else ():
            if job.judge != NONE and evaluator is not None:
                yield lane, job, evaluator


async def _known(run: RunContext) -> dict[tuple[str, str], float | None]:
    """Return the false positive rates by (judge, prompt) from an earlier process of this run."""
    found: dict[tuple[str, str], float | None] = {}
    async with Reader.open(run.folder) as reader:
        for _, event in await reader.events():
            if event.kind == KIND:
                rate = event.data["fpr"]
                value = rate.get("value") if isinstance(rate, Mapping) else None
                found[str(event.data["judge"]), str(event.data["prompt_sha256"])] = value
    return found


def _data(judge: str, found: Calibration, calls: tuple[Call, ...]) -> dict[str, object]:
    costs = [call.cost_usd for call in calls if call.outcome == "ok"]
    total = None if None in costs else sum((Decimal(cost) for cost in costs if cost is not None), Decimal(0))
    return {
        "judge": judge,
        "prompt": found.prompt_name,
        "prompt_sha256": found.prompt_sha256,
        "fpr": asdict(found.fpr),
        "fnr": asdict(found.fnr),
        "by_kind": {kind: asdict(rate) for kind, rate in found.by_kind.items()},
        "unparsed": found.unparsed,
        "judge_noise": found.noise,
        "calls_of_all_prompts": len(calls),
        "cost_usd_of_all_prompts": None if total is None else str(total),
    }


def _warn(run: RunContext, lane: Lane, job: Job, known: Mapping[tuple[str, str], float | None]) -> None:
    rates = [known.get((job.judge, prompt.sha256)) for prompt in lane.benchmark.prompts.judges.all]
    worst = max((rate for rate in rates if rate is not None), default=0.0)
    if worst > WARN_ABOVE:
        text = f"{job.judge} judges {worst:.0%} of the wrong answers as right, so its scores are too high"
        run.journal.append(Event(kind=WARNING, scope=job.key, message=text))
        run.progress.events.append(f"{job.key}: {text}")
