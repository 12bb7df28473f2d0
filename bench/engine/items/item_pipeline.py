"""Run one item: search, answer, evaluate, in every epoch. Phases in the journal are not repeated.

Also in this module:

* The answer phase of one item: context within the budget, prompt, model.
* Build the prompt of the answering model from hits: the same text, k and budget for every provider.

Example::

    good = await run_item(lane, ready, ref)      # True when no phase failed and none is missing
    said = await answer(lane, "openai/gpt-4o-mini", ready.content.corpus, item, found)     # an AnswerResult
    context = fill_context(hits, budget_tokens=4000, dated=True)
    context.text, context.kept, context.tokens       # the context for the model; number of hits used

A failed phase ends the item as ``error(kind)`` for every job that depends on it, and later phases do not run. A run
that was asked to stop ends between two phases, and the item stays pending.

A refusal of the model is an answer. A reply without text is a failure (`AnswerResult.failure`) if it was truncated or
did not end with a normal stop.

Hits are used in rank order while they fit; only a first hit that is longer than the whole budget is truncated. Tokens
are counted by :mod:`bench.tokens`, a rule without a tokenizer that is the same for every model.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TypeVar

import anyio

from bench.config.file import fold
from bench.config.template import Markers
from bench.datasets import ItemRef
from bench.engine.items.evaluate import Memo, evaluate
from bench.engine.items.item_row import failed_row
from bench.engine.items.phase_results import AnswerResult, SearchResult, completion_without_secrets, flags_of
from bench.engine.items.search import search
from bench.engine.open_lane import OpenLane, ReadyCorpus
from bench.engine.outcome import Failure
from bench.engine.run_context import Attempt, CallOwner
from bench.events import bind
from bench.journal import JournaledPhase, Key
from bench.metrics.answers.choices import listed
from bench.model import Call, ChatMessage, Corpus, Hit, Item, Memory, Phase, Prompt
from bench.models import missing_answer_error, non_answer_error
from bench.plan import NONE, Job
from bench.plan.model_settings import answer_tokens
from bench.plan.prompts import ChosenPrompt
from bench.tokens import CHARS_PER_TOKEN, count_tokens, cut_to_quarters, token_quarters
from bench.values import dataclass

SEPARATOR = "\n\n"
DATE_CHARS = len("[2024-01-31 12:00] ")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerContext:
    """The hits that fit into an answer prompt."""

    texts: tuple[str, ...]
    kept: int
    """number of hits used, from the front"""
    tokens: int

    @property
    def text(self) -> str:
        return SEPARATOR.join(self.texts)


def fill_context(hits: Sequence[Hit], *, budget_tokens: int | None, dated: bool) -> AnswerContext:
    """Take hits from the front while they fit into ``budget_tokens`` (None = all).

    If the first hit alone is too long, its beginning is used.
    """
    texts: list[str] = []
    room = None if budget_tokens is None else budget_tokens * CHARS_PER_TOKEN
    for hit in hits:
        text = _hit_text(hit, dated=dated) if hit.chunks or hit.when is not None else hit.content
        if room is not None:
            size = token_quarters(text)
            if size > room:
                if texts:
                    break
                text, size = cut_to_quarters(text, room), room
            room -= size + len(SEPARATOR)
        texts.append(text)
        if room is not None and room <= 0:
            break
    return AnswerContext(texts=tuple(texts), kept=len(texts), tokens=count_tokens(SEPARATOR.join(texts)))


def full_context_tokens(memories: Sequence[Memory], *, dated: bool) -> int:
    """Return the number of tokens of a context that contains every memory of a corpus."""
    size = sum(token_quarters(one.content) + (DATE_CHARS if dated and one.when is not None else 0) for one in memories)
    return -(-(size + len(SEPARATOR) * max(0, len(memories) - 1)) // CHARS_PER_TOKEN)


def _hit_text(hit: Hit, *, dated: bool) -> str:
    """Return the text of a hit; with ``dated``, its date is added because the text has none."""
    body = "\n".join(hit.chunks) if hit.chunks else hit.content
    return f"[{hit.when:%Y-%m-%d %H:%M}] {body}" if dated and hit.when is not None else body


async def answer(
    lane: OpenLane, model: str, corpus: Corpus, item: Item, found: SearchResult, *, epoch: int = 1
) -> AnswerResult:
    """Generate the answer of one model from the search result."""
    benchmark = lane.plan.benchmark
    chosen = benchmark.prompts.answer(item.question_type, choices=bool(item.choices))
    limit = answer_tokens(benchmark, lane.run.plan.request)
    budget = _budget(lane, model, chosen, corpus, item, limit)
    context = fill_context(found.hits, budget_tokens=budget, dated=lane.plan.unit != "session")
    text = chosen.template.render(_prompt_values(chosen, corpus, item, context))
    prompt = Prompt(
        messages=(ChatMessage(role="user", content=text),),
        max_tokens=limit,
        temperature=benchmark.config.evaluation.answering_model.temperature,
        seed=lane.run.plan.request.seed,
        question=item.question,
        context=context.texts,
        stable=_shared_prefix_chars(lane, corpus, context, text),
        epoch=epoch,
    )
    said = completion_without_secrets(await lane.models.model(model).complete(prompt))
    usage, error = (
        said.usage,
        missing_answer_error(said) or non_answer_error(said, prompt=text, accepted=(*item.answers, *item.choices)),
    )
    reported = usage is not None and not usage.estimated
    return AnswerResult(
        text=said.text,
        finish=said.finish,
        failure=None if error is None else Failure.of(error),
        native_finish=said.native_finish,
        raw=said.raw,
        reasoning=said.reasoning,
        reasoning_tokens=usage.reasoning_tokens if usage is not None and reported else None,
        sent_tokens=said.sent_tokens,
        context_hits=context.kept,
        prompt=chosen.name,
        prompt_sha256=chosen.sha256,
        model=said.model,
        fingerprint=said.fingerprint,
        context_tokens=context.tokens,
        tokens_in=usage.input_tokens if usage else None,
        tokens_out=usage.output_tokens if usage else None,
        cost_usd=said.cost_usd,
        saved_usd=said.saved_usd,
        ignored=said.ignored,
        flags=flags_of(
            said,
            item,
            prompt=text,
            most=prompt.max_tokens,
            context=context.texts,
            exact=benchmark.scoring.compares_whole,
        ),
        messages=tuple((message.role, message.content) for message in prompt.messages),
    )


def _shared_prefix_chars(lane: OpenLane, corpus: Corpus, context: AnswerContext, text: str) -> int:
    """Return the length, in characters, of the prompt prefix that other calls share, for the vendor's prompt cache."""
    if lane.plan.benchmark.epochs > 1:
        return len(text)
    shown = context.text
    if (digest := hash((corpus.id, shown))) not in lane.contexts:
        lane.contexts.add(digest)
        return 0
    start = text.find(shown) if shown else -1
    return start + len(shown) if start >= 0 else 0


def _budget(
    lane: OpenLane, model: str, chosen: ChosenPrompt, corpus: Corpus, item: Item, max_tokens: int
) -> int | None:
    """Return the token budget of the context: the benchmark's, or less if the model's context is smaller."""
    own = lane.plan.benchmark.context_budget
    prefix, _, name = model.partition("/")
    file = lane.run.plan.model_files.get(prefix)
    settings = file.models.get(name) if file is not None else None
    if settings is None or settings.context is None:
        return own
    rest = chosen.template.render(_prompt_values(chosen, corpus, item, AnswerContext(texts=(), kept=0, tokens=0)))
    room = max(0, settings.context - max_tokens - count_tokens(rest))
    return room if own is None else min(own, room)


def _prompt_values(chosen: ChosenPrompt, corpus: Corpus, item: Item, context: AnswerContext) -> dict[str, object]:
    """Return the template values of the prompt; unknown names are looked up in item and corpus metadata.

    Tags of the prompt are escaped in the values.
    """
    texts = {"question": item.question, "retrievedContext": context.text}
    if item.choices:
        texts["choices"] = "\n".join(listed(item.choices))
    ours: dict[str, object] = {
        "questionDate": f"{item.question_date:%Y-%m-%d %H:%M}" if item.question_date else None,
        "choices": None,
        **Markers.of(chosen.template.text).defused(texts),
    }
    names = chosen.template.names
    if names <= ours.keys():
        return ours
    metadata = {fold(name): value for name, value in {**corpus.metadata, **item.metadata}.items()}
    return {name: ours[name] if name in ours else metadata.get(fold(name)) for name in names}


T = TypeVar("T")


async def run_item(lane: OpenLane, ready: ReadyCorpus, ref: ItemRef) -> bool:
    """Run one item in every epoch; return True when no phase failed or is missing."""
    item = lane.plan.benchmark.dataset.item(ref)
    timeout_s = lane.run.plan.request.item_timeout
    good = True
    with bind(corpus=ref.corpus, item=item.id):
        if lane.run.plan.request.batch:
            every = [ItemEpoch(lane=lane, ready=ready, item=item, epoch=one) for one in lane.pending.epochs(item.id)]
            return await _together([one.run for one in every])
        for epoch in lane.pending.epochs(item.id):
            if lane.is_stopped:
                return False
            deadline = None if timeout_s is None else anyio.current_time() + timeout_s
            good &= await ItemEpoch(lane=lane, ready=ready, item=item, epoch=epoch, deadline=deadline).run()
    return good


async def _together(acts: Sequence[Callable[[], Awaitable[bool]]]) -> bool:
    """Run actions concurrently, so that they share a batch; return True when all succeed."""
    found: list[bool] = []

    async def do(act: Callable[[], Awaitable[bool]]) -> None:
        found.append(await act())

    async with anyio.create_task_group() as tasks:
        for act in acts:
            tasks.start_soon(do, act)
    return all(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemEpoch:
    """One item in one epoch."""

    lane: OpenLane
    ready: ReadyCorpus
    item: Item
    epoch: int
    deadline: float | None = None
    """time of the event loop's clock at which the item's phases must end"""
    memo: Memo = field(default_factory=list)

    async def run(self) -> bool:
        """Run the missing phases; return True when all are done and none failed."""
        found = await self._search()
        if not isinstance(found, SearchResult):
            return self._record_failure(found, self.lane.plan.jobs, concerns=self.lane.plan.jobs)
        if self.lane.last is Phase.SEARCH:
            return False
        models = self.lane.plan.answering_models
        if self.lane.run.plan.request.batch:
            return await _together([partial(self._answer_and_judge, model, found) for model in models])
        good = True
        for model in models:
            good &= await self._answer_and_judge(model, found)
        return good

    async def _answer_and_judge(self, model: str, found: SearchResult) -> bool:
        """Generate the answer of one model and run all its judges."""
        open_jobs = [job for job in self.lane.plan.jobs_of(model) if not self._is_evaluated(job)]
        jobs = [job for job in open_jobs if job.key not in self.lane.breaker.jobs]
        if not jobs:
            return not open_jobs
        said: AnswerResult | None = None
        if model != NONE:
            answered = await self._answer(model, jobs[0].answer_owner, found)
            if not isinstance(answered, AnswerResult):
                return self._record_failure(answered, jobs, concerns=self.lane.plan.jobs_of(model))
            said = answered
        if self.lane.last is Phase.ANSWER:
            return False
        good = len(jobs) == len(open_jobs)
        for job in jobs:
            if self.lane.is_stopped:
                return False
            good &= await self._evaluate(job, found, said)
        return good

    # ---- the phases

    async def _search(self) -> SearchResult | Failure | None:
        key = self._key(self.lane.key, Phase.SEARCH)
        if (self.item.id, self.epoch) in self.lane.pending.searched:
            entry = await self._load(key)
            known = SearchResult.of(entry) if entry is not None else None
            if known is not None:
                return known
            if not self.ready.prepared:
                return Failure(kind="dropped", message="the texts of this search are no longer in the journal")
        done = await self._attempt(self.lane.key, Phase.SEARCH, lambda: search(self.lane, self.ready, self.item))
        if done is None:
            return None
        result = done.value
        if result is not None:
            result = result.timed(done.times_us).billed(done.calls)
            self.lane.count_search(empty=not result.hits)
        self.lane.breaker.count_outcome("search", lambda: self.lane.plan.jobs, done.failure)
        self._append(key, done, result, done.failure)
        return result if result is not None else done.failure

    async def _answer(self, model: str, owner: str, found: SearchResult) -> AnswerResult | Failure | None:
        key = self._key(owner, Phase.ANSWER)
        if (self.item.id, self.epoch) in self.lane.pending.answered[owner]:
            entry = await self._load(key)
            if entry is not None:
                known = AnswerResult.of(entry)
                return known if known.failure is None else known.failure
        done = await self._attempt(
            owner,
            Phase.ANSWER,
            lambda: answer(self.lane, model, self.ready.content.corpus, self.item, found, epoch=self.epoch),
        )
        if done is None:
            return None
        result = done.value.timed(done.times_us) if done.value is not None else None
        failure = done.failure if result is None else result.failure
        self.lane.breaker.count_outcome(f"answer of {model}", lambda: self.lane.plan.jobs_of(model), failure)
        self._append(key, done, result, failure)
        return result if failure is None else failure

    async def _evaluate(self, job: Job, found: SearchResult, said: AnswerResult | None) -> bool:
        if job.key in self.lane.breaker.jobs:
            return False
        done = await self._attempt(
            job.key,
            Phase.EVALUATE,
            lambda: evaluate(self.lane, job, self.ready, self.item, self.epoch, found, said, self.memo),
        )
        if done is None:
            return False

        def same_judge() -> list[Job]:
            return [one for one in self.lane.plan.jobs if one.judge == job.judge]

        self.lane.breaker.count_outcome(f"evaluation by {job.judge}", same_judge, done.failure)
        if done.value is None:
            return self._record_failure(done.failure, [job], concerns=same_judge(), calls=done.calls)
        key = self._key(job.key, Phase.EVALUATE)
        self.lane.run.journal.append(done.value.entry(key, done, self.lane.run.scope.generation))
        return True

    # ---- inside

    async def _attempt(self, owner: str, phase: Phase, act: Callable[[], Awaitable[T]]) -> Attempt[T] | None:
        """Run a phase within the item's deadline; return None without running it when the lane is stopped."""
        if self.lane.is_stopped:
            return None
        with bind(phase=phase):
            timed = act if self.deadline is None else self._in_time(act)
            call_owner = CallOwner(owner, self.item.corpus, self.ready.space.attempt)
            return await self.lane.run.attempt(timed, call_owner, measures_work=phase is Phase.SEARCH)

    def _in_time(self, act: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
        assert self.deadline is not None
        left_s = max(0.0, self.deadline - anyio.current_time())

        async def in_time() -> T:
            with anyio.fail_after(left_s):
                return await act()

        return in_time

    async def _load(self, key: Key) -> JournaledPhase | None:
        return (await self.lane.run.journal.load([key])).get(key)

    def _append(
        self,
        key: Key,
        done: Attempt[SearchResult] | Attempt[AnswerResult],
        result: SearchResult | AnswerResult | None,
        failure: Failure | None,
    ) -> None:
        self.lane.run.journal.append(
            JournaledPhase(
                key=key,
                outcome="ok" if failure is None else failure.kind,
                message="" if failure is None else failure.message,
                data=result.data if result else {},
                measured=result.measured if result else {},
                payloads=result.payloads if result else {},
                times_us=done.times_us if result is None else result.times_us,
                calls=done.calls,
            )
        )

    def _record_failure(
        self, failure: Failure | None, jobs: Sequence[Job], *, concerns: Sequence[Job], calls: Sequence[Call] = ()
    ) -> bool:
        """Record the item as failed for these jobs; without a failure (the run stops) it stays pending. Return False.

        A refusal stops the jobs that it ``concerns``.
        """
        if failure is not None:
            for job in jobs:
                if not self._is_evaluated(job):
                    key = self._key(job.key, Phase.EVALUATE)
                    row = failed_row(self.lane.plan, key, self.item, failure)
                    self.lane.run.journal.append(replace(row, calls=tuple(calls)))
            if failure.stops_lane:
                self.lane.breaker.stop(concerns, failure)
        return False

    def _is_evaluated(self, job: Job) -> bool:
        return (self.item.id, self.epoch) in self.lane.pending.evaluated[job.key]

    def _key(self, owner: str, phase: Phase) -> Key:
        return Key(owner=owner, phase=phase, corpus=self.item.corpus, unit=self.item.id, epoch=self.epoch)


async def record_failed_item(lane: OpenLane, ref: ItemRef, failure: Failure) -> None:
    """Record an item whose corpus could not be prepared as failed, in every job without a result for it."""
    item = lane.plan.benchmark.dataset.item(ref)
    for job in lane.plan.jobs:
        for epoch in range(1, lane.plan.benchmark.epochs + 1):
            if lane.run.stopping.requested:
                return
            await lane.run.journal.wait_for_room()
            if (item.id, epoch) not in lane.pending.evaluated[job.key]:
                key = Key(owner=job.key, phase=Phase.EVALUATE, corpus=item.corpus, unit=item.id, epoch=epoch)
                lane.run.journal.append(failed_row(lane.plan, key, item, failure))
