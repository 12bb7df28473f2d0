"""Read token counts and the answer from a model's response.

Each token count has the same meaning for all vendors.

Example::

    read_usage("anthropic", {"usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 5}})
    # Usage(input_tokens=100, cache_read_tokens=90, output_tokens=5, total_tokens=105)
    strip_reasoning(completion).text         # without reasoning blocks; the raw text stays in `Completion.raw`
    missing_answer_error(completion)         # None, or the error for a reply without an answer

``input_tokens`` includes cache reads and writes, ``output_tokens`` includes reasoning, and ``total_tokens`` is their
sum.

If a response has no readable token counts, :mod:`bench.tokens` estimates them, and the usage is marked ``estimated``.
Unreadable token counts never invalidate an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, assert_never

from bench.errors import CallError, NoAnswer, Truncated
from bench.model import Completion, Model, Prompt, Usage
from bench.models.answer_text import non_answer_reason, repeats_prompt
from bench.reasoning import without_reasoning
from bench.tokens import count_tokens
from bench.visible import counted, visible

DialectName = Literal["openai", "anthropic", "google"]
CACHED = "cached"
"""flag of a reply that was taken from the call cache"""
PROMPT_CACHED = "prompt_cached"
"""flag of a reply whose prompt was read from, or written to, the vendor's prompt cache"""
BATCHED = "batched"
"""flag of a reply that came from a batch"""
UNTIMED = frozenset({CACHED, BATCHED})
"""flags of replies whose duration says nothing about the model's speed"""


MAX_TOKENS = 10**12
"""a token count above this limit counts as unreadable"""
SHOWN = 80
"""maximum number of characters of a reply that an error message quotes"""


class _UsageUnreadable(Exception):
    """Raised if a token count in a response is not a plausible whole number."""


def read_usage(dialect: DialectName, body: object, *, prompt: str = "", reply: str = "") -> Usage:
    """Return the usage that a response reports. If it cannot be read, estimate it from ``prompt`` and ``reply``.

    A count of 0 for a prompt or reply that is not empty counts as unreadable.
    """
    try:
        found = _parse_usage(dialect, body)
    except _UsageUnreadable:
        found = None
    if found is None or (prompt and not found.input_tokens) or (reply and not found.output_tokens):
        return estimate_usage(prompt=prompt, reply=reply)  # a zero for what was sent or replied is a placeholder
    return found


def is_usage_unreadable(dialect: DialectName, body: object) -> bool:
    """Return True if a response reports a usage that cannot be read. A response without usage gives False."""
    try:
        _parse_usage(dialect, body)
    except _UsageUnreadable:
        return True
    return False


def _parse_usage(dialect: DialectName, body: object) -> Usage | None:
    block = _child(body, "usageMetadata" if dialect == "google" else "usage")
    if not block:
        return None
    match dialect:
        case "openai":
            return _openai(block)
        case "anthropic":
            return _anthropic(block)
        case "google":
            return _google(block)
        case _:
            assert_never(dialect)


def estimate_usage(*, prompt: str, reply: str) -> Usage:
    """Estimate the usage of a call from its texts, with the token count of :mod:`bench.tokens`."""
    sent, received = count_tokens(prompt), count_tokens(reply)
    return Usage(input_tokens=sent, output_tokens=received, total_tokens=sent + received, estimated=True)


def add_usages(first: Usage, second: Usage) -> Usage:
    """Add two usages. The sum is marked as estimated if one of the two usages is estimated."""
    return Usage(
        input_tokens=first.input_tokens + second.input_tokens,
        cache_read_tokens=first.cache_read_tokens + second.cache_read_tokens,
        cache_write_tokens=first.cache_write_tokens + second.cache_write_tokens,
        output_tokens=first.output_tokens + second.output_tokens,
        reasoning_tokens=first.reasoning_tokens + second.reasoning_tokens,
        total_tokens=first.total_tokens + second.total_tokens,
        estimated=first.estimated or second.estimated,
    )


def _openai(block: Mapping[str, object]) -> Usage:
    sent, received = _count(block, "prompt_tokens"), _count(block, "completion_tokens")
    read, written = _child(block, "prompt_tokens_details"), _child(block, "completion_tokens_details")
    return _usage(
        sent=sent,
        received=received,
        cache_read=_count(read, "cached_tokens") if read else 0,
        cache_write=_count(read, "cache_write_tokens") if read else 0,
        reasoning=_count(written, "reasoning_tokens") if written else 0,
    )


def _anthropic(block: Mapping[str, object]) -> Usage:
    read, written = _count(block, "cache_read_input_tokens"), _count(block, "cache_creation_input_tokens")
    return _usage(
        sent=_count(block, "input_tokens") + read + written,
        received=_count(block, "output_tokens"),
        cache_read=read,
        cache_write=written,
        reasoning=_count(_child(block, "output_tokens_details"), "thinking_tokens"),
    )


def _google(block: Mapping[str, object]) -> Usage:
    thoughts = _count(block, "thoughtsTokenCount")
    return _usage(
        sent=_count(block, "promptTokenCount") + _count(block, "toolUsePromptTokenCount"),
        received=_count(block, "candidatesTokenCount") + thoughts,
        cache_read=_count(block, "cachedContentTokenCount"),
        reasoning=thoughts,
    )


def _usage(*, sent: int, received: int, cache_read: int = 0, cache_write: int = 0, reasoning: int = 0) -> Usage:
    return Usage(
        input_tokens=sent,
        cache_read_tokens=cache_read,
        cache_write_tokens=cache_write,
        output_tokens=received,
        reasoning_tokens=reasoning,
        total_tokens=sent + received,
    )


def _child(tree: object, key: str) -> Mapping[str, object]:
    value = tree.get(key) if isinstance(tree, dict) else None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _UsageUnreadable
    return value


def _count(block: Mapping[str, object], key: str) -> int:
    value = block.get(key)
    if value is None:
        return 0
    if type(value) is int and 0 <= value <= MAX_TOKENS:
        return value
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value <= MAX_TOKENS
        or value != int(value)
    ):
        raise _UsageUnreadable
    return int(value)


TOOL_CALL = "tool_calls"
"""finish reason of a reply that calls a tool, although the prompt offers no tool"""


def strip_reasoning(completion: Completion) -> Completion:
    """Remove the reasoning from the text of a reply. The text with reasoning is kept in ``raw``."""
    rest = without_reasoning(completion.text)
    if rest == completion.text:
        return completion
    return replace(
        completion, text=(rest or "").strip(), raw=completion.text if completion.raw is None else completion.raw
    )


def missing_answer_error(completion: Completion) -> CallError | None:
    """Return the error for a reply that has no answer; None if the reply has an answer.

    A refusal counts as an answer. So does an empty reply that has ended normally and has no reasoning.
    """
    if completion.text.strip():
        return None
    finish = completion.native_finish or completion.finish
    if completion.finish == "length":
        return Truncated(f'the reply was cut before its answer began (finish "{finish}"{_token_note(completion)})')
    if completion.raw is not None and without_reasoning(completion.raw) is None:
        return NoAnswer(
            f'the reply contains a reasoning block without an end (finish "{finish}"{_token_note(completion)})'
        )
    if completion.finish == "stop" and (completion.reasoning.strip() or completion.raw is not None):
        return NoAnswer(f'the reply contains reasoning, but no answer (finish "{finish}"{_token_note(completion)})')
    if completion.finish in ("stop", "refusal"):
        return None
    if finish == TOOL_CALL:
        return NoAnswer(f'the reply calls a tool that was not offered (finish "{finish}"{_token_note(completion)})')
    return NoAnswer(f'the reply has no text (finish "{finish}"{_token_note(completion)})')


def non_answer_error(completion: Completion, *, prompt: str, accepted: Sequence[str]) -> CallError | None:
    """Return the error for a reply whose text is not an answer but an error message, a null value or the prompt.

    Return None if the text is an answer, or resembles one of the ``accepted`` answers.
    """
    text = non_answer_reason(completion.text, accepted)
    if text is None and repeats_prompt(completion.text, prompt):
        text = "its own prompt: the endpoint returns the prompt before the answer"
    return None if text is None else NoAnswer(f'the reply is {text}: "{visible(completion.text[:SHOWN])}"')


def _token_note(completion: Completion) -> str:
    if completion.usage is None or completion.usage.estimated:
        return ""
    reasoning = f", {completion.usage.reasoning_tokens} of them reasoning" if completion.usage.reasoning_tokens else ""
    return f"; {counted(completion.usage.output_tokens, 'token(|s)')}{reasoning}"


class ReasoningStripper:
    """A model that calls another model and removes the reasoning from its replies."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    async def complete(self, prompt: Prompt) -> Completion:
        """Return the reply of the wrapped model without its reasoning."""
        return strip_reasoning(await self._model.complete(prompt))


class ProviderModel:
    """A model for use by providers: a reply without an answer is raised as an error."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    async def complete(self, prompt: Prompt) -> Completion:
        """Return the reply of the wrapped model.

        Raises:
            CallError: the call failed, or the reply has no answer.
        """
        completion = await self._model.complete(prompt)
        error = missing_answer_error(completion)
        if error is not None:
            error.hint = f"choose a model without reasoning instead of {self.name}"
            raise error
        return completion
