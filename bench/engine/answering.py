"""The answer phase of one item: context within the budget, prompt, model.

Example::

    said = await answer(lane, "openai/gpt-4o-mini", ready.content.corpus, item, found)     # an AnswerResult

The same prompt, k and context budget for every provider. A refusal of the model is an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.config.source import fold
from bench.engine.context import Context, fill
from bench.engine.records import AnswerResult, SearchResult
from bench.model import ChatMessage, Corpus, Item, Prompt
from bench.plan.asking import MAX_ANSWER_TOKENS
from bench.plan.prompts import ChosenPrompt

if TYPE_CHECKING:
    from bench.engine.lane import OpenLane


async def answer(lane: OpenLane, model: str, corpus: Corpus, item: Item, found: SearchResult) -> AnswerResult:
    """Let one model answer from what was found."""
    benchmark = lane.plan.benchmark
    chosen = benchmark.prompts.answer(item.question_type)
    context = fill(found.hits, budget_tokens=benchmark.context_budget, dated=lane.plan.unit != "session")
    text = chosen.template.render(_values(chosen, corpus, item, context))
    prompt = Prompt(
        messages=(ChatMessage(role="user", content=text),),
        max_tokens=MAX_ANSWER_TOKENS,
        temperature=benchmark.config.evaluation.answering_model.temperature,
        seed=lane.live.plan.request.seed,
        question=item.question,
        context=context.texts,
    )
    said = await lane.readers.model(model).complete(prompt)
    usage = said.usage
    return AnswerResult(
        text=said.text,
        finish=said.finish,
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
        messages=tuple((message.role, message.content) for message in prompt.messages),
    )


def _values(chosen: ChosenPrompt, corpus: Corpus, item: Item, context: Context) -> dict[str, object]:
    """Fill the names that the prompt uses; a name that is not ours is looked up in item and corpus metadata."""
    ours: dict[str, object] = {
        "question": item.question,
        "questionDate": f"{item.question_date:%Y-%m-%d %H:%M}" if item.question_date else None,
        "retrievedContext": context.text,
        "choices": "\n".join(item.choices) or None,
    }
    names = chosen.template.names
    if names <= ours.keys():
        return ours
    metadata = {fold(name): value for name, value in {**corpus.metadata, **item.metadata}.items()}
    return {name: ours[name] if name in ours else metadata.get(fold(name)) for name in names}
