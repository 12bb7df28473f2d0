"""The answer phase of one item: context within the budget, prompt, model.

Example::

    said = await answer(lane, "openai/gpt-4o-mini", ready.content.corpus, item, found)     # an AnswerResult

The same prompt, k and context budget for every provider. A refusal of the model is an answer; a reply without text that
was cut, or that ended in any other way than by itself, is none (`AnswerResult.failure`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.config.markers import Markers
from bench.config.source import fold
from bench.engine.context import Context, fill
from bench.engine.incoming import completion_without_secrets
from bench.engine.live import Failure
from bench.engine.records import AnswerResult, SearchResult, flags_of
from bench.metrics.choices import listed
from bench.model import ChatMessage, Corpus, Item, Prompt, count_tokens
from bench.models import no_answer
from bench.plan.asking import answer_tokens
from bench.plan.prompts import ChosenPrompt

if TYPE_CHECKING:
    from bench.engine.lane import OpenLane


async def answer(lane: OpenLane, model: str, corpus: Corpus, item: Item, found: SearchResult) -> AnswerResult:
    """Let one model answer from what was found."""
    benchmark = lane.plan.benchmark
    chosen = benchmark.prompts.answer(item.question_type)
    limit = answer_tokens(benchmark, lane.live.plan.request)
    budget = _budget(lane, model, chosen, corpus, item, limit)
    context = fill(found.hits, budget_tokens=budget, dated=lane.plan.unit != "session")
    text = chosen.template.render(_values(chosen, corpus, item, context))
    prompt = Prompt(
        messages=(ChatMessage(role="user", content=text),),
        max_tokens=limit,
        temperature=benchmark.config.evaluation.answering_model.temperature,
        seed=lane.live.plan.request.seed,
        question=item.question,
        context=context.texts,
    )
    said = completion_without_secrets(await lane.readers.model(model).complete(prompt))
    usage, error = said.usage, no_answer(said)
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
        ignored=said.ignored,
        flags=flags_of(said.text, said.finish, said.flags),
        messages=tuple((message.role, message.content) for message in prompt.messages),
    )


def _budget(
    lane: OpenLane, model: str, chosen: ChosenPrompt, corpus: Corpus, item: Item, max_tokens: int
) -> int | None:
    """Return how many tokens of context fit: the benchmark's budget, less where the model's own context is smaller."""
    own = lane.plan.benchmark.context_budget
    prefix, _, name = model.partition("/")
    file = lane.live.plan.model_files.get(prefix)
    settings = file.models.get(name) if file is not None else None
    if settings is None or settings.context is None:
        return own
    rest = chosen.template.render(_values(chosen, corpus, item, Context(texts=(), kept=0, tokens=0)))
    room = max(0, settings.context - max_tokens - count_tokens(rest))
    return room if own is None else min(own, room)


def _values(chosen: ChosenPrompt, corpus: Corpus, item: Item, context: Context) -> dict[str, object]:
    """Fill the names that the prompt uses; a name that is not ours is looked up in item and corpus metadata.

    No text closes the tags that the prompt puts around it.
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
