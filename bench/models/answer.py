"""What of a model's reply is its answer: the text without reasoning, and whether there is an answer at all.

Example::

    cleaned(completion).text          # without reasoning blocks; the raw text stays in `Completion.raw`
    no_answer(completion)             # None, or the error that the reply is
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from bench.errors import CallError, NoAnswer, Truncated
from bench.model import Completion, Model, Prompt
from bench.reasoning import without_reasoning

TOOL_CALL = "tool_calls"
"""the native finish of a reply that calls a tool that was not offered"""


def cleaned(said: Completion) -> Completion:
    """Take the reasoning out of a reply; the raw text is kept beside it."""
    rest = without_reasoning(said.text)
    if rest == said.text:
        return said
    return replace(said, text=(rest or "").strip(), raw=said.text if said.raw is None else said.raw)


def no_answer(said: Completion) -> CallError | None:
    """Return the error that a reply without text is; one that ended on its own, or a refusal, is an answer."""
    if said.text.strip():
        return None
    finish = said.native_finish or said.finish
    if said.finish == "length":
        return Truncated(f'the reply was cut before its answer began (finish "{finish}"{_spent(said)})')
    if said.raw is not None and without_reasoning(said.raw) is None:
        return NoAnswer(f'the reply holds a reasoning block that is never closed (finish "{finish}"{_spent(said)})')
    if said.finish in ("stop", "refusal"):
        return None
    if finish == TOOL_CALL:
        return NoAnswer(f'the reply calls a tool that was not offered (finish "{finish}"{_spent(said)})')
    return NoAnswer(f'the reply has no text (finish "{finish}"{_spent(said)})')


def _spent(said: Completion) -> str:
    if said.usage is None or said.usage.estimated:
        return ""
    reasoning = f", {said.usage.reasoning_tokens} of them reasoning" if said.usage.reasoning_tokens else ""
    return f"; {said.usage.output_tokens} tokens{reasoning}"


class Spoken:
    """A model whose replies are read as answers; one that a provider uses fails where there is none."""

    def __init__(self, model: Model, role: Literal["answering", "judge", "provider"]) -> None:
        self._model = model
        self._role = role

    @property
    def name(self) -> str:
        return self._model.name

    async def complete(self, prompt: Prompt) -> Completion:
        """Return the reply without its reasoning.

        Raises:
            CallError: the call failed, or a provider's model gave no answer.
        """
        said = cleaned(await self._model.complete(prompt))
        error = no_answer(said) if self._role == "provider" else None
        if error is not None:
            error.hint = f"choose a model without reasoning instead of {self.name}"
            raise error
        return said
