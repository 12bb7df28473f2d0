"""Remove the reasoning from a model's reply, and find replies that have no answer.

Example::

    strip_reasoning(completion).text         # without reasoning blocks; the raw text stays in `Completion.raw`
    missing_answer_error(completion)         # None, or the error for a reply without an answer
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bench.errors import CallError, NoAnswer, Truncated
from bench.model import Completion, Model, Prompt
from bench.models.faulty_answers import non_answer_reason, repeats_prompt
from bench.reasoning_blocks import without_reasoning
from bench.visible_text import counted, visible

CACHED = "cached"
"""flag of a reply that was taken from the call cache"""
PROMPT_CACHED = "prompt_cached"
"""flag of a reply whose prompt was read from, or written to, the vendor's prompt cache"""
BATCHED = "batched"
"""flag of a reply that came from a batch"""
UNSENT = "unsent_"
"""beginning of the flag of a reply to a request without a planned setting, such as ``unsent_temperature``"""
UNTIMED = frozenset({CACHED, BATCHED})
"""flags of replies whose duration says nothing about the model's speed"""
SHOWN = 80
"""maximum number of characters of a reply that an error message quotes"""
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
