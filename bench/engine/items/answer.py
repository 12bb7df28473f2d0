"""Answer one item: insert hits into the prompt up to a token budget, and call the model.

Example::

    answer = await answer_item(lane, "openai/gpt-4o-mini", ready.content.corpus, item, search)     # an AnswerResult
    context = fill_context(hits, budget_tokens=4000, dated=True)
    context.text, len(context.texts), context.tokens       # the context for the model; number of hits used

Prompt, k and budget are equal for every provider. Hits are inserted in rank order until the next hit does not fit. A
hit is cut only if it is the first and is longer than the budget. :mod:`bench.tokens` estimates the number of tokens.

If the model declines to answer, the reply counts as an answer. A reply without text is a failure
(`AnswerResult.failure`) if the reply was cut off or did not end normally.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bench.config.file import fold_key
from bench.config.model import context_window
from bench.config.template import PromptTags
from bench.engine.items.phase_results import HIT_CUT, AnswerResult, SearchResult, completion_without_secrets, flags_of
from bench.engine.open_lane import OpenLane
from bench.engine.outcome import Failure
from bench.fast_dataclass import dataclass
from bench.metrics.answers.choices import lettered_options
from bench.model import ChatMessage, Corpus, Hit, Item, Memory, Prompt
from bench.models import missing_answer_error, non_answer_error
from bench.plan.model_settings import answer_tokens
from bench.plan.prompts import ChosenPrompt
from bench.tokens import CHARS_PER_TOKEN, count_tokens, cut_to_quarters, token_quarters

SEPARATOR = "\n\n"
DATE_CHARS = len("[2024-01-31 12:00] ")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerContext:
    """The part of the hits that fits into an answer prompt."""

    texts: tuple[str, ...]
    """the text of each hit that is used, beginning with the best"""
    tokens: int
    cut: bool = False
    """True if only the beginning of the first hit is used"""

    @property
    def text(self) -> str:
        return SEPARATOR.join(self.texts)


def fill_context(hits: Sequence[Hit], *, budget_tokens: int, dated: bool) -> AnswerContext:
    """Take the best hits, in order, while they fit into ``budget_tokens``.

    If the first hit is too long, only its beginning is taken. ``dated`` adds the date of each hit to its text.
    """
    texts: list[str] = []
    room = budget_tokens * CHARS_PER_TOKEN
    for hit in hits:
        text = _hit_text(hit, dated=dated) if hit.chunks or hit.when is not None else hit.content
        size = token_quarters(text)
        if size > room:
            if texts:
                break
            head = cut_to_quarters(text, room)
            return AnswerContext(texts=(head,) if head else (), tokens=count_tokens(head), cut=True)
        room -= size + len(SEPARATOR)
        texts.append(text)
        if room <= 0:
            break
    return AnswerContext(texts=tuple(texts), tokens=count_tokens(SEPARATOR.join(texts)))


def full_context_tokens(memories: Sequence[Memory], *, dated: bool) -> int:
    """Return the number of tokens that a context with every memory of a corpus would have."""
    size = sum(token_quarters(one.content) + (DATE_CHARS if dated and one.when is not None else 0) for one in memories)
    return -(-(size + len(SEPARATOR) * max(0, len(memories) - 1)) // CHARS_PER_TOKEN)


def _hit_text(hit: Hit, *, dated: bool) -> str:
    """Return the text of a hit; ``dated`` adds the date of the hit before the text."""
    body = "\n".join(hit.chunks) if hit.chunks else hit.content
    return f"[{hit.when:%Y-%m-%d %H:%M}] {body}" if dated and hit.when is not None else body


async def answer_item(
    lane: OpenLane, model: str, corpus: Corpus, item: Item, search: SearchResult, *, epoch: int = 1
) -> AnswerResult:
    """Let a model answer the question of an item from the hits of a search."""
    benchmark = lane.plan.benchmark
    chosen = benchmark.prompts.answer(item.question_type, choices=bool(item.choices))
    limit = answer_tokens(benchmark, lane.run.plan.request)
    budget = _budget(lane, model, chosen, corpus, item, limit)
    context = fill_context(search.hits, budget_tokens=budget, dated=lane.plan.unit != "session")
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
    reply = completion_without_secrets(await lane.models.model(model).complete(prompt))
    accepted = (*item.answers, *item.choices)
    error = missing_answer_error(reply) or non_answer_error(reply, prompt=text, accepted=accepted)
    whole = benchmark.scoring.compares_whole
    flags = flags_of(reply, item, prompt=text, most=prompt.max_tokens, context=context.texts, exact=whole)
    if context.cut:
        flags = (*flags, HIT_CUT)
    return AnswerResult(
        reply=replace(reply, flags=flags) if flags else reply,
        failure=None if error is None else Failure.of(error),
        context_hits=0 if context.cut else len(context.texts),
        prompt=chosen.name,
        prompt_sha256=chosen.sha256,
        context_tokens=context.tokens,
        messages=tuple((message.role, message.content) for message in prompt.messages),
    )


def _shared_prefix_chars(lane: OpenLane, corpus: Corpus, context: AnswerContext, text: str) -> int:
    """Return how many characters at the start of the prompt are also in the prompts of other calls.

    The vendor can cache this part of the prompt.
    """
    if lane.plan.benchmark.epochs > 1:
        return len(text)
    shown = context.text
    if (digest := hash((corpus.id, shown))) not in lane.contexts:
        lane.contexts.add(digest)
        return 0
    start = text.find(shown) if shown else -1
    return start + len(shown) if start >= 0 else 0


def _budget(lane: OpenLane, model: str, chosen: ChosenPrompt, corpus: Corpus, item: Item, max_tokens: int) -> int:
    """Return how many tokens the hits may have in the prompt.

    This is the budget of the benchmark, or less if the context window of the model is smaller.
    """
    own = lane.plan.benchmark.context_budget
    size = context_window(model, lane.run.plan.model_files)
    if size is None:
        return own
    rest = chosen.template.render(_prompt_values(chosen, corpus, item, AnswerContext(texts=(), tokens=0)))
    return min(own, max(0, size - max_tokens - count_tokens(rest)))


def _prompt_values(chosen: ChosenPrompt, corpus: Corpus, item: Item, context: AnswerContext) -> dict[str, object]:
    """Return the values of the names in a prompt template.

    Names that bench does not define are looked up in the metadata of the item and the corpus. Tags of the prompt that
    occur in the values are escaped.
    """
    texts = {"question": item.question, "retrievedContext": context.text}
    if item.choices:
        texts["choices"] = "\n".join(lettered_options(item.choices))
    ours: dict[str, object] = {
        "questionDate": f"{item.question_date:%Y-%m-%d %H:%M}" if item.question_date else None,
        "choices": None,
        **PromptTags.of(chosen.template.text).escaped(texts),
    }
    names = chosen.template.names
    if names <= ours.keys():
        return ours
    metadata = {fold_key(name): value for name, value in {**corpus.metadata, **item.metadata}.items()}
    return {name: ours[name] if name in ours else metadata.get(fold_key(name)) for name in names}
